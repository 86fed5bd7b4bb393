//! What a user should know before the first round.

use fedback_theory::stable::{Stability, stable_points};

use crate::plan::Plan;
use crate::words;

/// What is said of a plan that can be run and may disappoint.
pub fn warnings(plan: &Plan) -> Vec<String> {
    if !plan.spec.measure.distance {
        return Vec::new();
    }
    let report = || stable_points(&plan.federation, &plan.start);
    match &plan.stable_point {
        None => {
            let why = words::stable(&report());
            let why = why.unwrap_or_else(|| "no stable point was found".into());
            vec![format!("{why}; the distance to it is not recorded")]
        }
        Some(_) if plan.federation.is_affine() => {
            let report = report();
            let repels = report.stability() == Stability::Repelling;
            words::stable(&report).filter(|_| repels).into_iter().collect()
        }
        Some(_) => Vec::new(),
    }
}

//! Exact curves of a plan.

use std::time::Instant;

use fedback_theory::exact::ExactCurve;

use crate::dynamics::Dynamics;
use crate::error::Error;
use crate::measure::Measurement;
use crate::outcome::{Curve, Outcome};
use crate::plan::Plan;

/// Exact expectations at every round that the plan records. Not available, with the reason, where
/// the problem is not affine or the algorithm is one that theory does not know.
pub fn exact(plan: &Plan) -> Result<Outcome, Error> {
    let began = Instant::now();
    let columns: Vec<Measurement> = Measurement::of(plan)
        .into_iter()
        .filter(|column| {
            matches!(column, Measurement::Distance | Measurement::Risk | Measurement::Consensus)
        })
        .collect();
    let stable = plan.stable_point.as_deref();
    // Who arrives together with whom is asked only where the answer is of use.
    let affine = plan.federation.is_affine();
    let dynamics = affine.then(|| Dynamics::of(plan)).transpose()?;
    let own = plan.p_fedavg()?;
    if let Some(why) = dynamics.as_ref().and_then(|dynamics| dynamics.unknown.as_ref()) {
        let why = format!("exact moments need the law of first arrivals: {why}");
        return Err(Error::input("algorithm.scheme", why));
    }
    let protocol = dynamics.as_ref().map_or(&own, |dynamics| &dynamics.protocol);
    let choice = dynamics.as_ref().and_then(|dynamics| dynamics.choice.as_ref());
    let mut moments =
        ExactCurve::of_choice(&plan.federation, protocol, choice, &plan.start, stable)
            .map_err(|error| Error::input("problem.loss.kind", error.0))?;
    let mut curve = Curve::new(plan, &columns);
    curve.add_exact(&moments.moments());
    for round in 1..=plan.spec.rounds.0 {
        moments.advance();
        if plan.is_due(round) {
            let now = moments.moments();
            if !now.is_finite() {
                return Err(Error::Failed(format!(
                    "the exact moments stop being finite by round {round}: the run diverges; \
                     choose smaller steps (`fedback solve` says whether any are small enough)"
                )));
            }
            curve.add_exact(&now);
        }
    }
    Ok(Outcome::of_exact(plan, curve, began.elapsed().as_secs_f64()))
}

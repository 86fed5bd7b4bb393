//! The planned setting, simulated by the engine for twice as long as planned.

use std::sync::atomic::AtomicBool;

use fedback_core::protocol::Scheme;

use super::Advice;
use crate::error::Error;
use crate::event::{Ending, Sink};
use crate::experiment::run_unrecorded;
use crate::measure::Measurement;
use crate::plan::Plan;
use crate::spec::{Count, Measure};

/// What simulation says.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// The mean of |θ − θ^PS|² at the planned step.
    pub distance_sq: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Repetitions.
    pub repetitions: u64,
    /// The largest mean at the planned step and after it, up to twice the planned steps.
    pub worst_after: f64,
    /// The step from which on the mean is at most A, as far as was recorded.
    pub reached_step: Option<u64>,
    /// Whether no mean from the planned step on is above A by more than two standard errors.
    pub holds: bool,
}

/// Numbers that the clients of a few seconds' simulation work through.
const AFFORDABLE: f64 = 6e8;
const FEWEST: u64 = 100;
const MOST: u64 = 4000;
/// Records up to the planned step.
const RECORDS: u64 = 500;

pub(super) fn verify(
    planned: &Plan,
    advice: &Advice,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Verified, Error> {
    let rounds = planned.spec.rounds.0;
    let mut plan = planned.clone();
    plan.spec.rounds = Count(2 * rounds);
    plan.spec.repetitions = Count(advice.question.repetitions.unwrap_or(affordable(planned)));
    // A record at the planned step itself.
    let every = (rounds.div_ceil(RECORDS)..=rounds).find(|every| rounds % every == 0);
    plan.spec.measure = Measure {
        every: Count(every.unwrap_or(rounds)),
        distance: true,
        risk: false,
        consensus: false,
        accuracy: false,
        auc: false,
        client_risk: false,
    };
    let outcome = run_unrecorded(&plan, listener, stop)?;
    if outcome.ending == Ending::Interrupted {
        return Err(Error::Interrupted("interrupted; nothing was written".into()));
    }
    let accuracy = advice.question.accuracy;
    let steps = rounds * planned.protocol.local_steps as u64;
    let root = (outcome.repetitions as f64).sqrt();
    let (mut at, mut error, mut worst) = (f64::NAN, f64::NAN, f64::NEG_INFINITY);
    let (mut reached_step, mut holds) = (None, outcome.ending == Ending::Done);
    for (step, statistic) in outcome.curve.column(Measurement::Distance) {
        let standard_error = statistic.sd.unwrap_or(0.0) / root;
        reached_step = match statistic.mean <= accuracy {
            true => reached_step.or(Some(step)),
            false => None,
        };
        if step == steps {
            (at, error) = (statistic.mean, standard_error);
        }
        if step >= steps {
            worst = worst.max(statistic.mean);
            holds &= statistic.mean - 2.0 * standard_error <= accuracy;
        }
    }
    Ok(Verified {
        distance_sq: at,
        standard_error: error,
        repetitions: outcome.repetitions,
        worst_after: worst,
        reached_step,
        holds,
    })
}

fn affordable(planned: &Plan) -> u64 {
    let protocol = &planned.protocol;
    let cohort = match protocol.scheme {
        Scheme::Full => planned.federation.clients(),
        Scheme::WithReplacement { cohort } | Scheme::WithoutReplacement { cohort } => cohort,
    };
    let draws = (2 * planned.spec.rounds.0 * protocol.local_steps as u64) as f64
        * (cohort * protocol.batch) as f64;
    let each = draws * (1.0 + planned.federation.dim() as f64);
    ((AFFORDABLE / each) as u64).clamp(FEWEST, MOST)
}

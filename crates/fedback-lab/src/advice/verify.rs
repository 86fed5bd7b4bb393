//! The planned setting, simulated by the engine: to the planned step, and on until everything has
//! settled or, where that is too long, to twice the planned steps. Where even that is, it is not simulated.

use std::sync::atomic::AtomicBool;

use serde::Serialize;

use super::Advice;
use crate::check::trial::observations_a_step;
use crate::error::Error;
use crate::event::{Ending, Sink};
use crate::measure::Measurement;
use crate::plan::Plan;
use crate::runner;
use crate::spec::Count;

/// What simulation says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verified {
    /// The mean of |θ − θ^PS|² at the planned step.
    pub distance_sq: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Repetitions.
    pub repetitions: u64,
    /// The largest mean at the planned step and after it.
    pub worst_after: f64,
    /// Steps that were simulated.
    pub simulated_steps: u64,
    /// The step from which on the mean is at most A, as far as was recorded.
    pub reached_step: Option<u64>,
    /// Whether no mean from the planned step on is above A by more than two standard errors.
    pub holds: bool,
}

/// Numbers that the clients of a few seconds' simulation work through.
const AFFORDABLE: f64 = 6e8;
/// How many times as long it may take to have more repetitions than the fewest.
const PATIENCE: f64 = 3.0;
/// Repetitions: at least, as many as may take longer, enough to shorten the simulation for, at most.
const FEWEST: u64 = 10;
const SOME: u64 = 100;
const ENOUGH: u64 = 1000;
const MOST: u64 = 4000;
/// Records up to the planned step.
const RECORDS: u64 = 500;

/// None where it would take too long, unless repetitions are asked for.
pub(super) fn verify(
    planned: &Plan,
    watched: u64,
    advice: &Advice,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Option<Verified>, Error> {
    let rounds = planned.spec.rounds.0;
    let each = numbers_a_round(planned);
    let asked = advice.question.repetitions;
    let affordable = AFFORDABLE / (each * asked.unwrap_or(ENOUGH) as f64);
    let all = watched.min(affordable as u64).max(2 * rounds);
    let quick = (AFFORDABLE / (each * all as f64)) as u64;
    let patient = (PATIENCE * AFFORDABLE / (each * all as f64)) as u64;
    let affordable = quick.clamp(patient.min(SOME), MOST);
    if asked.is_none() && affordable < FEWEST {
        return Ok(None);
    }
    // A record at the planned step itself.
    let every = (rounds.div_ceil(RECORDS)..=rounds).find(|every| rounds.is_multiple_of(*every));
    let plan = planned.with(|spec| {
        spec.rounds = Count(all);
        spec.repetitions = Count(asked.unwrap_or(affordable));
        spec.measure.every = Count(every.unwrap_or(rounds));
    })?;
    let outcome = runner::run(&plan, None, &mut [listener], stop)?;
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
    Ok(Some(Verified {
        distance_sq: at,
        standard_error: error,
        repetitions: outcome.repetitions,
        worst_after: worst,
        simulated_steps: all * planned.protocol.local_steps as u64,
        reached_step,
        holds,
    }))
}

/// Numbers that the clients of one round work through.
fn numbers_a_round(planned: &Plan) -> f64 {
    let protocol = &planned.protocol;
    let cohort = protocol.scheme.cohort().unwrap_or(planned.federation().clients());
    let each = observations_a_step(planned.federation(), protocol);
    let draws = protocol.local_steps as f64 * each * cohort as f64;
    draws * (1.0 + planned.federation().dim() as f64)
}

//! A run tried out: a few seeded repetitions, as long as a second or so allows.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Batch, Protocol, Round, StepSize};
use fedback_engine::backend::{Course, assemble};
use fedback_theory::certificate::{Case, Certificate};
use fedback_theory::stable::Stability;
use serde::Serialize;

use super::SmallSteps;
use crate::dynamics::Dynamics;
use crate::plan::Plan;
use crate::words::short;

/// Repetitions.
pub(super) const REPETITIONS: u64 = 32;
/// Numbers that a trial touches.
const EFFORT: f64 = 2e8;
/// Rounds beyond which a trial shows nothing new.
const MOST_ROUNDS: f64 = 20_000.0;

/// What repetitions of the run did.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// Seeded repeats.
    pub repetitions: u64,
    /// Rounds that were run.
    pub rounds: u64,
    /// √ of the mean squared distance to the stable point at the end; none where one failed.
    pub distance: Option<f64>,
    /// Repetitions that ended nearer to another stable point.
    pub astray: usize,
    /// What speaks against settling.
    pub objection: Option<String>,
}

/// How often named steps are halved before they are given up.
const HALVINGS: usize = 6;

/// Tries the constant step size that a certificate names, and halves what it names while that does not
/// settle in a trial, or theory is not sure of it; whether something is left that is named.
pub fn of_named_steps(
    plan: &Plan,
    dynamics: &Dynamics<'_>,
    certificate: &Certificate,
    small: &mut SmallSteps,
) -> bool {
    let Some(truth) = certificate.point() else { return true };
    let (points, scale) = (points(certificate), certificate.judgement.own_steps.scale);
    let margin = truth.gradient_margin.unwrap_or(f64::NAN);
    let sure = |step_size: StepSize| {
        let Dynamics { federation, protocol, arrived, .. } = dynamics;
        let case = Case::new(federation, arrived.as_ref(), &plan.start, &certificate.stable);
        case.outlook(&Protocol { step_size, ..*protocol }).answer.settles == Some(true)
    };
    for halving in 0..HALVINGS {
        let Some(size) = small.constant else { return true };
        let protocol = Protocol { step_size: StepSize::Constant(size), ..plan.protocol };
        let affordable = EFFORT / cost_of_round(plan.federation(), &protocol);
        let expected = 4.0 / (size * margin * protocol.local_steps as f64);
        let rounds = (2.0 * expected + 200.0).min(MOST_ROUNDS).min(affordable).max(10.0);
        let trial = run(plan, &protocol, &points, rounds as u64);
        let allowed = if rounds >= expected { 0.75 * scale } else { 4.0 * scale };
        let settles = trial.astray == 0 && trial.distance.is_some_and(|far| far <= allowed);
        if settles && (halving == 0 || sure(StepSize::Constant(size))) {
            let decaying = small.beta.zip(small.gamma);
            let kept = |(beta, gamma)| halving == 0 || sure(StepSize::Decaying { beta, gamma });
            (small.beta, small.gamma) = decaying.filter(|steps| kept(*steps)).unzip();
            return true;
        }
        small.constant = Some(0.5 * size);
        small.gamma = small.gamma.map(|gamma| 2.0 * gamma);
    }
    (small.constant, small.beta, small.gamma) = (None, None, None);
    false
}

/// Tries the run of a plan whose certificate says that it settles at its first stable point.
pub fn of(plan: &Plan, certificate: &Certificate) -> Option<Trial> {
    let outlook = &certificate.judgement.own_steps;
    certificate.point()?;
    let (federation, protocol) = (plan.federation(), &plan.protocol);
    let affordable = EFFORT / cost_of_round(federation, protocol);
    let expected = outlook.rounds.unwrap_or(0.0);
    let rounds = (2.0 * expected + 200.0).min(MOST_ROUNDS).min(affordable).max(10.0);
    let points = points(certificate);
    let mut trial = run(plan, protocol, &points, rounds as u64);
    // Halfway out again is too far; before the run is expected to be near, four scales are.
    let allowed = if rounds >= expected { 0.75 * outlook.scale } else { 4.0 * outlook.scale };
    trial.objection = match trial.distance {
        None => Some(format!("a model stopped being finite within {} rounds", trial.rounds)),
        Some(_) if trial.astray > 0 => Some(format!(
            "{} of {} repetitions ended at another stable point",
            trial.astray, trial.repetitions
        )),
        Some(far) if far > allowed => {
            let squared = short(far * far);
            Some(format!("after {} rounds the mean squared error is {squared}", trial.rounds))
        }
        Some(_) => None,
    };
    Some(trial)
}

/// The stable point that the run is about, and the others that attract.
fn points(certificate: &Certificate) -> Vec<Vec<f64>> {
    let (first, others) = certificate.points.split_at(1.min(certificate.points.len()));
    let others = others.iter().filter(|truth| truth.stability == Stability::Attracting);
    first.iter().chain(others).map(|truth| truth.theta.clone()).collect()
}

/// Repetitions of a plan under a protocol, and how far from the first of `points` they end.
fn run(plan: &Plan, protocol: &Protocol, points: &[Vec<f64>], rounds: u64) -> Trial {
    let state = plan.beginning_of(protocol, REPETITIONS);
    let course = Course { protocol: *protocol, ..plan.course(state, &[]) };
    let backend = assemble(plan.federation(), course);
    let tried = backend.map_err(|error| error.to_string()).and_then(|mut backend| {
        let worked = backend.advance(Round(rounds), false);
        worked.map(|()| backend.state().clone()).map_err(|error| error.to_string())
    });
    let Ok(state) = tried else {
        let (distance, objection) = (None, None);
        return Trial { repetitions: REPETITIONS, rounds, distance, astray: 0, objection };
    };
    let square = |theta: &[f64], point: &[f64]| {
        theta.iter().zip(point).map(|(a, b)| (a - b) * (a - b)).sum::<f64>()
    };
    let (own, others) = (&points[0], &points[1..]);
    let mut total = 0.0;
    let mut astray = 0;
    for repetition in &state.repetitions {
        let far = square(repetition.theta(), own);
        total += far;
        let strays = others.iter().any(|other| square(repetition.theta(), other) < far);
        astray += usize::from(strays);
    }
    let distance = (total / REPETITIONS as f64).sqrt();
    Trial {
        repetitions: REPETITIONS,
        rounds,
        distance: (state.failed().is_empty() && distance.is_finite()).then_some(distance),
        astray,
        objection: None,
    }
}

/// Numbers that one round of all repetitions touches.
pub(super) fn cost_of_round(federation: &Federation, protocol: &Protocol) -> f64 {
    let working = protocol.scheme.cohort().unwrap_or(federation.clients());
    let steps = (working * protocol.local_steps) as f64 * REPETITIONS as f64;
    steps * observations_a_step(federation, protocol) * (federation.dim() as f64 + 10.0)
}

/// Observations that a client's local step reads, on average.
pub(crate) fn observations_a_step(federation: &Federation, protocol: &Protocol) -> f64 {
    match (federation.base(), protocol.batch) {
        // The mean of a normal batch is drawn as such.
        (Base::Gaussian(_), _) => 1.0,
        (Base::Table(_), Batch::Sampled(size)) => size as f64,
        (Base::Table(table), Batch::All) => table.len() as f64 / table.clients() as f64,
    }
}

//! Which local steps, cohort, scheme and step sizes reach an accuracy at the least cost.
//!
//! First arrivals are not planned for; where one asks for them they are taken for equally fast ones,
//! which is sampling without replacement.
//!
//! A run of T local steps, E a round, costs (T/E)(E + C[(1−s) + s h]): every local step costs one,
//! a communication C, of which the share s is waiting for the slowest client of the cohort (h, see
//! [`Latency`]). "Least cost such that E|θ − θ^PS|² ≤ A" alone is ill-posed: a mean path that crosses
//! θ^PS touches any accuracy by accident, and one step of Newton's length wins. So the error must
//! be at most A at an aggregation *and at every later one*, the first step is at most 1/L, and the
//! first round must not enlarge errors in mean square.
//!
//! E|θ − θ^PS|² is exact where the problem is affine ([`crate::exact`]). Otherwise it is the square of
//! the noise-free path of the mean field plus the trace of the covariance linearised at θ^PS.

mod choices;
mod coordinates;
mod coupled;
mod crowd;
mod dynamics;
mod explore;
mod guide;
mod horizon;
mod latency;
mod leap;
mod minimum;
mod rows;
mod sample;
mod schedule;
mod search;
mod sweep;

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Scheme, StepSize};

use coordinates::Coordinates;
use coupled::Coupled;
use dynamics::{Dynamics, Sampling};
pub use guide::{noise_limited_local_steps, noise_limited_steps};
use horizon::{Aim, PRECISE, follow};
pub use latency::Latency;
use rows::Detail;
pub use search::{Found, search};

/// A problem to plan for, seen from its stable point.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The problem.
    pub federation: &'a Federation,
    /// What is not planned: batch, deployment, aggregation, scaling of objectives.
    pub protocol: &'a PFedAvg,
    /// θ⁰.
    pub start: &'a [f64],
    /// θ^PS.
    pub stable_point: &'a [f64],
    /// The smallest real part of an eigenvalue of H + J, above zero.
    pub margin: f64,
    /// L: the first step is at most 1/L.
    pub smoothness: f64,
}

/// What a run costs, in local steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// C, of a communication.
    pub communication: f64,
    /// s, the share of it that is waiting for the slowest client.
    pub straggler: f64,
    /// How long clients take.
    pub latency: Latency,
}

impl Prices {
    /// What the communication of one round costs.
    pub fn communication_of(&self, scheme: Scheme, weights: &[f64]) -> f64 {
        let Prices { communication, straggler, latency } = *self;
        if communication * straggler == 0.0 {
            return communication * (1.0 - straggler);
        }
        let wait = latency.of_round(scheme, weights);
        communication * ((1.0 - straggler) + straggler * wait)
    }
}

/// What is wanted and what may be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// E|θ − θ^PS|² to plan for.
    pub target: f64,
    /// What a run costs.
    pub prices: Prices,
    /// The most local steps.
    pub budget: u64,
    /// The local steps to choose from; none: any.
    pub local_steps: Option<Vec<usize>>,
    /// Whether every client may be asked every round.
    pub full: bool,
    /// Whether cohorts may be drawn by weight.
    pub with_replacement: bool,
    /// Whether cohorts of different clients may be drawn.
    pub without_replacement: bool,
    /// The largest cohort.
    pub largest_cohort: usize,
}

/// One way to reach the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// How cohorts are drawn.
    pub scheme: Scheme,
    /// E.
    pub local_steps: usize,
    /// η_t.
    pub step_size: StepSize,
    /// Rounds after which the target is met for good.
    pub rounds: u64,
    /// The same between rounds, where the logarithm of the error crosses the target's.
    pub crossing: f64,
    /// E|θ − θ^PS|² after them.
    pub distance_sq: f64,
    /// The largest E|θ − θ^PS|² foreseen then and later.
    pub worst_after: f64,
    /// Rounds that were looked ahead, until everything had settled.
    pub watched: u64,
    /// What the communication of one round costs.
    pub communication: f64,
}

impl Proposal {
    /// T.
    pub fn steps(&self) -> u64 {
        self.rounds * self.local_steps as u64
    }

    /// What all of it costs.
    pub fn total(&self) -> f64 {
        self.rounds as f64 * (self.local_steps as f64 + self.communication)
    }
}

impl Task<'_> {
    /// θ⁰ − θ^PS.
    fn error(&self) -> Vec<f64> {
        self.start.iter().zip(self.stable_point).map(|(start, stable)| start - stable).collect()
    }

    /// Whether coordinates are affine and do not mix, so that rounds are cheap.
    fn is_simple(&self) -> bool {
        let response = self.federation.response();
        self.federation.is_affine() && (response.is_diagonal() || self.federation.dim() == 1)
    }

    /// The rounds of the task's problem; `scaled` where objectives are.
    fn dynamics(&self, scaled: bool, detail: Detail) -> Box<dyn Dynamics + '_> {
        let protocol = PFedAvg { scale_objectives: scaled, ..*self.protocol };
        let Task { federation, stable_point, start, .. } = *self;
        match self.is_simple() {
            true => Box::new(Coordinates::new(federation, &protocol, stable_point, detail)),
            false => Box::new(Coupled::new(federation, &protocol, stable_point, start, detail)),
        }
    }

    /// Whether objectives are scaled under a scheme.
    fn scales(&self, scheme: Scheme) -> bool {
        self.protocol.scale_objectives && matches!(scheme, Scheme::WithoutReplacement { .. })
    }
}

/// The first rounds of the task's own protocol, each worked out by itself.
const OWN_ROUNDS: u64 = 1000;

/// When the task's own protocol meets the target for good, if it does so within `budget` steps. Its
/// first step may be longer, and its first round less stable, than a plan's may be.
pub fn own(task: &Task<'_>, target: f64, prices: &Prices, budget: u64) -> Option<Proposal> {
    let PFedAvg { scheme, local_steps, step_size, .. } = *task.protocol;
    let mut dynamics = task.dynamics(task.scales(scheme), Detail::Full);
    let error = task.error();
    let aim = Aim {
        start: &error,
        target,
        margin: task.margin,
        stable_first_round: false,
        apart: OWN_ROUNDS,
        change: PRECISE,
        patience: 1.0,
    };
    let sampling = Sampling::of(scheme, task.federation.clients());
    let way = [(sampling, budget / local_steps as u64)];
    let reach = follow(&mut *dynamics, local_steps, step_size, &aim, &way, &mut 0.0)[0].reach?;
    Some(Proposal {
        scheme,
        local_steps,
        step_size,
        rounds: reach.rounds,
        crossing: reach.crossing,
        distance_sq: reach.distance_sq,
        worst_after: reach.worst_after,
        watched: reach.watched,
        communication: prices.communication_of(scheme, task.federation.weights()),
    })
}

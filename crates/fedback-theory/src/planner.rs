//! Which local steps, cohort, scheme and step sizes reach an accuracy at the least cost.
//!
//! First arrivals are not planned for: who is fast is not for a plan to choose.
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
mod explore;
mod guide;
mod horizon;
mod latency;
mod minimum;
mod paths;
mod rows;
mod sample;
mod schedule;
mod search;
mod sweep;

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Scheme, StepSize};

pub use guide::{noise_limited_local_steps, noise_limited_steps};
use horizon::{Aim, PRECISE, follow};
pub use latency::Latency;
use paths::Paths;
use rows::Detail;
pub use search::{Found, search};

use crate::cohort;
use crate::round;

/// A problem to plan for, seen from its stable point.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The problem.
    pub federation: &'a Federation,
    /// What is not planned: rules, batch, deployment, aggregation, scaling of objectives.
    pub protocol: &'a Protocol,
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
    /// The schemes to choose from, whatever their cohorts.
    pub schemes: Vec<Scheme>,
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

    /// Whether rounds are those of numbers, so that they are cheap.
    fn is_simple(&self) -> bool {
        let plain = self.protocol.server.vectors() == 0 && !self.protocol.local.keeps();
        plain && round::is_split(self.federation)
    }

    /// What small steps move by, in units of P-FedAvg's, times the margin.
    fn pace(&self) -> f64 {
        self.margin * round::speed(self.protocol)
    }

    /// Whether objectives are scaled under a scheme.
    fn scales(&self, scheme: Scheme) -> bool {
        self.protocol.scale_objectives && cohort::may_scale(scheme)
    }

    /// The task's protocol under another scheme.
    fn under(&self, scheme: Scheme) -> Protocol {
        Protocol { scheme, scale_objectives: self.scales(scheme), ..*self.protocol }
    }
}

/// The first rounds of the task's own protocol, each worked out by itself.
const OWN_ROUNDS: u64 = 1000;
/// Numbers that following it may touch.
const OWN_WORK: f64 = 2e9;

/// When the task's own protocol meets the target for good, if it does so within `budget` steps. Its
/// first step may be longer, and its first round less stable, than a plan's may be.
pub fn own(task: &Task<'_>, target: f64, prices: &Prices, budget: u64) -> Option<Proposal> {
    let Protocol { scheme, local_steps, step_size, .. } = *task.protocol;
    let protocol = task.under(scheme);
    let cohorts = paths::cohorts(task.federation.weights(), &protocol, &[scheme]);
    let chance = cohorts.schemes[0];
    let mut paths = Paths::new(task, &protocol, cohorts, Detail::Full)?;
    let error = task.error();
    let aim = Aim {
        start: &error,
        target,
        stable_first_round: false,
        apart: OWN_ROUNDS,
        change: PRECISE,
        patience: 1.0,
        promise: true,
        most: OWN_WORK,
    };
    let way = [(chance, budget / local_steps as u64)];
    let reach = follow(&mut paths, local_steps, step_size, &aim, &way, &mut 0.0)[0].reach?;
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

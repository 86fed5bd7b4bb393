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
mod schedule;
mod search;
mod sweep;

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Scheme, StepSize};

pub use guide::{noise_limited_local_steps, noise_limited_steps};
pub use horizon::Reach;
use horizon::{Aim, PRECISE, follow};
pub use latency::Latency;
use paths::Paths;
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
    /// When the target is met for good.
    pub reach: Reach,
    /// What the communication of one round costs.
    pub communication: f64,
}

impl Proposal {
    /// T.
    pub fn steps(&self) -> u64 {
        self.reach.rounds * self.local_steps as u64
    }

    /// What all of it costs.
    pub fn total(&self) -> f64 {
        self.reach.rounds as f64 * (self.local_steps as f64 + self.communication)
    }
}

impl Task<'_> {
    /// Whether rounds are those of numbers, so that they are cheap.
    fn is_simple(&self) -> bool {
        let Task { federation, protocol, .. } = *self;
        let alone = protocol.server.vectors() == 0 && !protocol.local.keeps();
        alone && federation.memory().is_none() && round::is_split(self.federation)
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

    /// When a protocol meets its aim within some rounds; `work` grows by the numbers that were touched.
    fn forecast(
        &self,
        protocol: &Protocol,
        limit: u64,
        aim: &Aim,
        work: &mut f64,
    ) -> Option<Reach> {
        let Protocol { scheme, local_steps, step_size, .. } = *protocol;
        let cohorts = paths::cohorts(self.federation, protocol, &[scheme]);
        let ways = [(cohorts.schemes[0], limit)];
        let mut paths = Paths::new(self, protocol, cohorts, rows::FULL)?;
        let reach = follow(&mut paths, local_steps, step_size, aim, &ways)[0].reach;
        *work += paths.worked();
        reach
    }
}

/// When the task's own protocol meets the target for good, if it does so within `budget` steps. Its
/// first step may be longer, and its first round less stable, than a plan's may be.
pub fn own(task: &Task<'_>, target: f64, prices: &Prices, budget: u64) -> Option<Proposal> {
    let Protocol { scheme, local_steps, step_size, .. } = *task.protocol;
    let aim = Aim { stable_first_round: false, ..Aim::promised(target, PRECISE) };
    let limit = budget / local_steps as u64;
    let reach = task.forecast(&task.under(scheme), limit, &aim, &mut 0.0)?;
    let communication = prices.communication_of(scheme, task.federation.weights());
    Some(Proposal { scheme, local_steps, step_size, reach, communication })
}

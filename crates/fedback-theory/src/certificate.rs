//! A stability certificate: will retraining settle, where, how bad is that place, and who drives it?
//!
//! [`Certificate::of`] puts together what the other modules know of one problem under one protocol, and
//! judges it. The verdict is about two ways of retraining: repeated minimisation, θ ← argmin f(·; θ), and
//! the protocol's algorithm with its own step sizes from its own start. *Settles* is never said on a local
//! condition alone: squared errors must be bounded along the whole way, get near the stable point
//! and stay there ([`Outlook`] says what near is). Affine problems are judged by exact moments and are
//! free of approximation. Otherwise the noise-free path is followed from the start, and noise is
//! linearised where the path ends, the growth of batch noise with the error included; what is neglected
//! there is noise on the way, and anything that noise does beyond four standard deviations.

mod approximation;
mod assumptions;
mod clients;
mod elsewhere;
mod local;
mod mean_path;
mod outlook;
mod small_steps;
mod verdict;
mod why;

use fedback_core::federation::Federation;
use fedback_core::protocol::Protocol;

pub use approximation::{Approximation, Inapplicable};
pub use assumptions::{Assumptions, Reach};
pub use clients::{ClientPart, Clients, Tips, Without};
pub use local::{Bias, LocalTruth};
pub use outlook::{Case, Outlook};
pub use small_steps::SmallSteps;
pub use verdict::{Judgement, Verdict};
pub use why::{Answer, Why};

use crate::cohort::Arrived;
use crate::constants::Constants;
use crate::degeneracy::{Degeneracy, degeneracy};
use crate::optimal::{OptimalPoint, optimal_point};
use crate::stable::{StablePoint, StableReport, stable_points};

/// All that is certified of one problem under one protocol.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The verdict and the answers it rests on.
    pub judgement: Judgement,
    /// The stable points, the one that the run is about first.
    pub stable: StableReport,
    /// The local truth at each of them, in the same order.
    pub points: Vec<LocalTruth>,
    /// The optimal point.
    pub optimal: Option<OptimalPoint>,
    /// The constants of the paper's condition ε̄ < μ/L.
    pub constants: Constants,
    /// Where the assumptions behind it hold.
    pub assumptions: Assumptions,
    /// How far the stable point is from the optimal one.
    pub approximation: Approximation,
    /// Every client's part.
    pub clients: Clients,
    /// Whether the reaction matters at all.
    pub degeneracy: Degeneracy,
}

impl Certificate {
    /// Certifies a problem. `rounds` are those of the run; `stage` is told what is being done. Where it is
    /// given who arrives first, the federation has the weights that count, and all that is certified is
    /// about them.
    pub fn of(
        federation: &Federation,
        protocol: &Protocol,
        arrived: Option<&Arrived>,
        start: &[f64],
        rounds: u64,
        stage: &mut dyn FnMut(&'static str),
    ) -> Self {
        stage("looking for stable points");
        let mut stable = stable_points(federation, start);
        stage("judging");
        let judgement = Case::new(federation, arrived, start, &stable).judge(protocol);
        // The run is about the point that its path leads to.
        let small = &judgement.small_steps;
        let target = judgement.own_steps.point.or(small.point).unwrap_or(0);
        if target > 0 {
            stable.points.swap(0, target);
        }
        stage("looking for the optimal point");
        let mut starts: Vec<&[f64]> = stable.points.iter().map(|p| p.theta.as_slice()).collect();
        starts.push(start);
        let optimal = optimal_point(federation, &starts);
        stage("linearising rounds");
        let case = Case::new(federation, arrived, start, &stable);
        let truth = |(index, point): (usize, &StablePoint)| {
            let known = (index == 0 && small.point == Some(target))
                .then_some((small.largest_step_in_mean, small.largest_step));
            LocalTruth::of(&case, protocol, point, optimal.as_ref(), rounds, known)
        };
        let points = stable.points.iter().enumerate().map(truth).collect();
        let first = stable.points.first();
        let theta = first.map(|point| point.theta.as_slice());
        let optimum = optimal.as_ref().map(|point| point.theta.as_slice());
        let constants = Constants::of(federation, protocol, start, theta);
        let average = constants.average_sensitivity.value.unwrap_or(f64::NAN);
        stage("leaving clients out");
        let clients =
            clients::clients(federation, protocol, start, first, judgement.verdict(), &constants);
        Certificate {
            assumptions: assumptions::assumptions(federation, start, theta),
            approximation: approximation::approximation(federation, average, theta, optimum),
            degeneracy: degeneracy(federation, theta, optimum),
            judgement,
            points,
            optimal,
            constants,
            clients,
            stable,
        }
    }

    /// The stable point that the run is about.
    pub fn point(&self) -> Option<&LocalTruth> {
        self.points.first()
    }

    /// μ/L, which the paper wants ε̄ below; none where a term does not exist.
    pub fn threshold(&self) -> Option<f64> {
        Some(self.constants.mu.value? / self.constants.smoothness.value?)
    }

    /// Whether the paper's condition ε̄ < μ/L is met, with the constants it was read at.
    pub fn condition(&self) -> Option<bool> {
        Some(self.constants.average_sensitivity.value? < self.threshold()?)
    }
}

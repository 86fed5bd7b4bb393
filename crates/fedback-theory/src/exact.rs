//! Exact moments on affine problems: no sampling, no bound.
//!
//! Where every client's gradient is affine with noise that does not depend on θ, the mean and the
//! covariance of everything that lives between rounds follow a closed recursion, that of
//! [`round`](mod@crate::round). P-FedAvg and FedProx carry the model alone, a server with momentum its
//! velocity as well, SCAFFOLD what every client keeps.

use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::misfit::Unsupported;
use fedback_core::protocol::{Protocol, Round, StepSize};
use fedback_core::risk::Quadratic;

use crate::cohort::{self, Arrived, Cohorts};
use crate::round::{self, System};

/// Exact expectations after a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Rounds closed.
    pub round: Round,
    /// E|θ − θ^PS|², where there is a stable point.
    pub distance_sq: Option<f64>,
    /// E f(θ; θ).
    pub risk: f64,
    /// E Σ p_i |w_i − w̄|² just before the aggregation that closed the round; 0 at round 0.
    pub consensus: f64,
}

impl Moments {
    /// Whether every number is finite.
    pub fn is_finite(&self) -> bool {
        let Moments { distance_sq, risk, consensus, .. } = *self;
        [distance_sq.unwrap_or(0.0), risk, consensus].iter().all(|number| number.is_finite())
    }
}

/// Why there are no exact moments.
#[derive(Clone, Debug, PartialEq)]
pub enum NoMoments {
    /// Gradients of this loss are not affine.
    Loss(Loss),
    /// Data do not move by a linear map of what is deployed.
    Response,
    /// It is not known who arrives first.
    Latency,
    /// The algorithm's rounds are not affine.
    Algorithm(Unsupported),
    /// The state has this many numbers, more than a covariance is kept of.
    TooLarge(usize),
}

/// Numbers of a state whose covariance is carried along.
const MOST_NUMBERS: usize = 1200;
/// Numbers that the maps of all clients of a round may have.
const MOST_ENTRIES: f64 = 3e7;

/// The recursion, advanced round by round.
pub struct ExactCurve<'a> {
    protocol: &'a Protocol,
    weights: &'a [f64],
    quadratic: Quadratic,
    system: System,
    /// What errors are measured from: the stable point where there is one.
    centre: Vec<f64>,
    has_stable_point: bool,
    round: Round,
    consensus: f64,
    mean: Vec<f64>,
    spread: Vec<f64>,
}

impl<'a> ExactCurve<'a> {
    /// The curve of a problem started at `start`; `stable_point` where there is one. First arrivals
    /// need to be told who they are.
    pub fn new(
        federation: &'a Federation,
        protocol: &'a Protocol,
        arrived: Option<&Arrived>,
        start: &[f64],
        stable_point: Option<&[f64]>,
    ) -> Result<Self, NoMoments> {
        if federation.loss() == Loss::Mean && !federation.is_affine() {
            return Err(NoMoments::Response);
        }
        if !federation.is_affine() {
            return Err(NoMoments::Loss(federation.loss()));
        }
        if arrived.is_none() && cohort::by_speed(protocol.scheme) {
            return Err(NoMoments::Latency);
        }
        round::supported(federation, protocol).map_err(NoMoments::Algorithm)?;
        let weights: &[f64] = federation.weights();
        let centre = stable_point.map_or_else(|| vec![0.0; federation.dim()], <[f64]>::to_vec);
        let width = round::width(federation, protocol);
        let entries = (federation.clients() * width) as f64 * width as f64;
        let more = cohort::keeps(federation, protocol) || federation.memory().is_some();
        if more && (width > MOST_NUMBERS || entries > MOST_ENTRIES) {
            return Err(NoMoments::TooLarge(width));
        }
        let cohorts = Cohorts::of(federation, protocol, arrived);
        let system = System::new(federation, protocol, cohorts, &centre);
        let system = system.map_err(NoMoments::Algorithm)?;
        let error: Vec<f64> = start.iter().zip(&centre).map(|(s, c)| s - c).collect();
        Ok(ExactCurve {
            protocol,
            weights,
            quadratic: Quadratic::new(federation),
            mean: system.state_of(&error),
            spread: vec![0.0; system.spread_width()],
            system,
            centre,
            has_stable_point: stable_point.is_some(),
            round: Round(0),
            consensus: 0.0,
        })
    }

    /// The step sizes of the next round.
    fn sizes(&self) -> Vec<f64> {
        self.protocol.sizes(self.round).collect()
    }

    /// Closes one more round.
    pub fn advance(&mut self) {
        self.system.prepare(&self.sizes(), true);
        self.consensus = self.system.consensus(self.weights, (&self.mean, &self.spread));
        let (mut mean, mut spread) = (self.mean.clone(), self.spread.clone());
        self.system.spread(self.system.chance, (&self.mean, &self.spread), None, &mut spread);
        self.system.mean(&self.mean, &mut mean);
        (self.mean, self.spread) = (mean, spread);
        self.round.0 += 1;
    }

    /// A bound on E|θ − θ^PS|² now and after every later round; none where none was found.
    pub fn ceiling(&mut self) -> Option<f64> {
        let decay = matches!(self.protocol.step_size, StepSize::Decaying { .. });
        self.system.prepare(&self.sizes(), true);
        self.system.ceiling(self.system.chance, (&self.mean, &self.spread), decay)
    }

    /// Numbers that a round touches, roughly.
    pub fn work_of_round(&self) -> f64 {
        self.system.work(&self.sizes())
    }

    /// Closes one more round of P-FedAvg and returns the largest E|∇ℓ|² that a client met in it.
    pub fn advance_watching_gradients(&mut self) -> f64 {
        let (mean, spread) = (self.mean.clone(), self.spread.clone());
        self.advance();
        self.system.largest_gradient((&mean, &spread))
    }

    /// The moments after the last closed round.
    pub fn moments(&self) -> Moments {
        let covariance = self.system.covariance_of(&self.spread);
        // Rounding may leave less than nothing.
        let variance = covariance.trace().clamp(0.0, f64::INFINITY);
        let distance = self.system.square_of(&self.mean) + variance;
        let mean = self.system.error_of(&self.mean).zip(&self.centre);
        let theta: Vec<f64> = mean.map(|(u, c)| u + c).collect();
        let spread = self.quadratic.cost_of_variance(|j, k| covariance[(j, k)]);
        Moments {
            round: self.round,
            distance_sq: self.has_stable_point.then_some(distance),
            risk: self.quadratic.at(&theta) + spread,
            consensus: self.consensus,
        }
    }
}

//! The paper's guarantees as numbers: E|θ^t − θ^PS|² ≤ υ/(γ + t), Theorems 3.1 to 3.3.
//!
//! Every constant comes in two versions. [`Version::Printed`] is what the paper prints.
//! [`Version::Corrected`] is what its derivation gives once the slips are removed (docs/errata.md):
//!
//! with α = 2δε̄/(1+ε_max), or any α > 0 where ε̄ = 0, D = max(Δ₀, 1) and κ = (2E²−E) log E,
//!
//! μ̃ = μ − Lε̄ − (α/2) L (1+ε_max),  c1 = L (1+ε_max)/α,  B(η) = 2σ² + (c1 η + c2 η²) κ c5 + ρ c6 c5,
//!
//! and γ is the smallest number with γ ≥ E, η₀ = β/γ ≤ μ̃/c2, η₀² ≤ 1/(2 c3 n (2n+1)) for n = E − 1
//! (full participation) or E, and η₀ B(η₀) ≤ μ̃ D. Then Δ_{t+1} ≤ (1 − μ̃η_t) Δ_t + B η_t², the last
//! condition keeps Δ_t ≤ D, and β = 2/μ̃ gives υ = max(4B/μ̃², γΔ₀). ρ is 0, 1/K or
//! (N−K)/(K(N−1)) by scheme. A constant that does not exist is answered in words.

mod setting;

use fedback_core::federation::Federation;
use fedback_core::protocol::{LocalRule, Protocol, ServerRule, StepSize};

use crate::alternative::{Alternative, trajectory};
use crate::constants::{Constants, How};
pub(crate) use setting::Setting;

/// A number, or why it does not exist.
pub type Value = Result<f64, Undefined>;

/// Two numbers, or why they do not exist.
pub type Pair = Result<(f64, f64), Undefined>;

/// Why a constant of the theorems does not exist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Undefined {
    /// A constant of the assumptions is not known.
    NotKnown(Term, How),
    /// The theorems are about cohorts drawn by chance, not by speed.
    FirstArrivals,
    /// The theorems are about models deployed at every local step.
    DeployedOnce,
    /// The theorems are about populations that answer to the model deployed last.
    Remembered,
    /// Sampling without replacement needs equal weights, or scaled objectives.
    UnequalWeights,
    /// The average sensitivity is 0, so that δ has no effect.
    DeltaWithoutReaction,
    /// The average sensitivity is 0, and c1 divides by it.
    C1WithoutReaction,
    /// No δ is valid: the average sensitivity is not below μ/L.
    NoDelta {
        /// ε̄.
        average: f64,
        /// μ/L.
        threshold: f64,
    },
    /// μ̃, which is this, is not positive.
    NotConvex(f64),
    /// The run starts at the stable point, and c4 divides by Δ₀ = 0.
    AtStablePoint,
    /// Without noise and heterogeneity there is no cap on the first step.
    NoCap,
    /// The theorems are about step sizes β/(t + γ).
    ConstantStep,
    /// β is not above 1/μ̃, which is this.
    SmallBeta(f64),
    /// β is not above this, which the alternative theorem needs.
    SmallBetaOfAlternative(f64),
    /// γ is below E.
    SmallGamma,
    /// The first step is longer than the proof allows.
    LongFirstStep {
        /// β/γ.
        first: f64,
        /// The longest.
        most: f64,
    },
    /// The constant belongs to sampling with replacement, or without.
    OtherScheme {
        /// With.
        with_replacement: bool,
    },
    /// There is no stable point.
    NoStablePoint,
    /// The trajectory is too long to be followed.
    LongTrajectory,
    /// Gradients are bounded along exact trajectories only.
    NotExact,
    /// Gradients along the trajectory do not stay finite.
    Unbounded,
    /// It is too large to be represented.
    TooLarge,
}

/// A constant of the assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// μ.
    Mu,
    /// L.
    Smoothness,
    /// σ.
    Sigma,
    /// ς.
    Varsigma,
    /// Δ₀.
    Delta0,
}

/// Which text of the theorems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// As the paper prints them.
    Printed,
    /// With the slips of the derivation removed.
    Corrected,
}

/// The constants of one version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// μ̃.
    pub mu_tilde: Value,
    /// c1 to c9, the last three of the alternative theorems.
    pub c: [Value; 9],
    /// Printed: the cap η̂₀ (full participation) or η̃₀ on the first step. Corrected: the first step
    /// β/γ itself.
    pub eta0: Value,
    /// B, B1 or B2, by scheme.
    pub b: Value,
    /// β = 2/μ̃ of the step size β/(t + γ) that the theorem takes.
    pub beta: Value,
    /// Its γ.
    pub gamma: Value,
    /// υ of the bound υ/(γ + t).
    pub upsilon: Value,
}

impl Bound {
    /// The bound on E|θ^t − θ^PS|² under the theorem's step size.
    pub fn at(&self, step: f64) -> Option<f64> {
        Some(self.upsilon.ok()? / (self.gamma.ok()? + step))
    }

    /// The theorem's own step size.
    pub fn step_size(&self) -> Option<StepSize> {
        Some(StepSize::Decaying { beta: self.beta.ok()?, gamma: self.gamma.ok()? })
    }

    /// T_ε = υ/ε − γ: local steps after which the bound is at most `accuracy`.
    pub fn steps_to(&self, accuracy: f64) -> Option<f64> {
        Some((self.upsilon.ok()? / accuracy - self.gamma.ok()?).max(0.0))
    }

    /// What the accuracy costs where a communication costs so many local steps.
    pub fn cost(&self, accuracy: f64, communication: f64, local_steps: usize) -> Option<Cost> {
        let (steps, e) = (self.steps_to(accuracy)?, local_steps as f64);
        Some(Cost {
            steps,
            communications: 2.0 * (steps / e).floor(),
            total_time: steps + communication * steps / e,
        })
    }
}

/// What reaching an accuracy costs by a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// T_ε.
    pub steps: f64,
    /// 2⌊T_ε/E⌋: up and down.
    pub communications: f64,
    /// T_ε + C · T_ε/E, in local steps.
    pub total_time: f64,
}

/// Whether the theorems are about an algorithm: P-FedAvg.
pub fn are_about(protocol: &Protocol) -> bool {
    protocol.local == LocalRule::Descent && protocol.server == ServerRule::Average
}

/// Both versions for one problem under one protocol.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// δ; none where no value is valid or none is needed.
    pub delta: Option<f64>,
    /// As printed.
    pub printed: Bound,
    /// As corrected.
    pub corrected: Bound,
    /// The theorems under the alternative assumption |∇ℓ|² ≤ G².
    pub alternative: Alternative,
    /// Whether the step size of the protocol itself is covered by the corrected theorem, and its υ.
    pub own_step: Value,
}

impl Bounds {
    /// The bounds of a problem; `rounds` is how far the alternative theorems look.
    pub fn new(
        federation: &Federation,
        protocol: &Protocol,
        start: &[f64],
        stable_point: Option<&[f64]>,
        constants: &Constants,
        delta: Option<f64>,
        rounds: u64,
    ) -> Self {
        let setting = |version| Setting::new(federation, protocol, constants, version);
        let (as_printed, as_corrected) = (setting(Version::Printed), setting(Version::Corrected));
        let delta = as_corrected.delta(delta);
        let (mut printed, mut corrected) = (as_printed.bound(delta), as_corrected.bound(delta));
        let own_step = as_corrected.own_step(protocol, &corrected);
        let step = as_corrected.free_step(protocol, &corrected);
        let path = step.and_then(|(beta, gamma)| {
            let step_size = StepSize::Decaying { beta, gamma };
            let protocol = Protocol { step_size, ..*protocol };
            trajectory(federation, &protocol, start, stable_point, rounds)
        });
        let alternative = Alternative {
            step,
            gradient_bound: path.map(|(gradient, _)| gradient.sqrt()),
            printed: as_printed.alternative(&mut printed, step, path),
            corrected: as_corrected.alternative(&mut corrected, step, path),
        };
        Bounds { delta: delta.ok(), printed, corrected, alternative, own_step }
    }
}

/// A number, unless it is too large to be one.
pub(crate) fn finite(number: f64) -> Value {
    match number.is_finite() {
        true => Ok(number),
        false => Err(Undefined::TooLarge),
    }
}

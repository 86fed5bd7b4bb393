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
use fedback_core::protocol::{Protocol, StepSize};

use crate::alternative::{self, Alternative};
use crate::constants::{Constants, How};
pub(crate) use setting::Setting;

/// A number, or why it does not exist.
pub type Value = Result<f64, Undefined>;

/// Why a constant of the theorems does not exist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Undefined {
    /// A constant of the assumptions is not known.
    NotKnown(Term, How),
    /// The theorems are about cohorts drawn by chance, not by speed.
    FirstArrivals,
    /// The theorems are about models deployed at every local step.
    DeployedOnce,
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
    /// μ̃ is not positive.
    NotConvex {
        /// μ̃.
        mu_tilde: f64,
    },
    /// The run starts at the stable point, and c4 divides by Δ₀ = 0.
    AtStablePoint,
    /// Without noise and heterogeneity there is no cap on the first step.
    NoCap,
    /// The theorems are about step sizes β/(t + γ).
    ConstantStep,
    /// β is not above 1/μ̃.
    SmallBeta {
        /// 1/μ̃.
        least: f64,
    },
    /// β is not above what the alternative theorem needs.
    SmallBetaOfAlternative {
        /// What it needs.
        least: f64,
    },
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
    /// c1 to c6.
    pub c: [Value; 6],
    /// c7 to c9, of the alternative theorems.
    pub alternative_c: [Value; 3],
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
    /// Every constant under its key.
    pub fn entries(&self) -> [(&'static str, Value); 15] {
        let ([c1, c2, c3, c4, c5, c6], [c7, c8, c9]) = (self.c, self.alternative_c);
        [
            ("mu_tilde", self.mu_tilde),
            ("c1", c1),
            ("c2", c2),
            ("c3", c3),
            ("c4", c4),
            ("c5", c5),
            ("c6", c6),
            ("c7", c7),
            ("c8", c8),
            ("c9", c9),
            ("eta0", self.eta0),
            ("B", self.b),
            ("beta", self.beta),
            ("gamma", self.gamma),
            ("upsilon", self.upsilon),
        ]
    }

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
        let setting = Setting::new(federation, protocol, constants);
        let delta = setting.delta(delta);
        let mut printed = setting.printed(delta);
        let mut corrected = setting.corrected(delta);
        let own_step = setting.own_step(&corrected, delta);
        let alternative = alternative::of(
            federation,
            protocol,
            start,
            stable_point,
            rounds,
            &setting,
            (&printed, &corrected),
        );
        printed.alternative_c = alternative.c(&setting, Version::Printed);
        corrected.alternative_c = alternative.c(&setting, Version::Corrected);
        Bounds { delta: delta.ok(), printed, corrected, alternative, own_step }
    }
}

impl Bound {
    /// Says so where a number is too large to be one.
    fn finite(mut self) -> Self {
        let values = self.c.iter_mut().chain([
            &mut self.mu_tilde,
            &mut self.eta0,
            &mut self.b,
            &mut self.beta,
            &mut self.gamma,
            &mut self.upsilon,
        ]);
        for value in values {
            *value = value.and_then(finite);
        }
        self
    }
}

/// A number, unless it is too large to be one.
pub(crate) fn finite(number: f64) -> Value {
    match number.is_finite() {
        true => Ok(number),
        false => Err(Undefined::TooLarge),
    }
}

/// c7 to c9 before the trajectory is known that they depend on.
const UNKNOWN: [Value; 3] = [Err(Undefined::NotExact); 3];

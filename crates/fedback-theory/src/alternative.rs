//! The theorems under the alternative assumption E|∇ℓ|² ≤ G².
//!
//! On all of Rᵐ that assumption contradicts A1 to A3, because |∇f(θ; θ)| ≥ (μ − Lε̄)|θ − θ^PS| has no
//! upper bound. The proofs only use G along the trajectory, so that G² = max E|∇ℓ|² over clients and
//! steps is enough; on affine problems the exact recursion gives it for as many steps as it runs, and
//! the bound holds that long. The step size β/(t + γ) is free in these theorems: the protocol's own is
//! taken where it meets the corrected conditions βμ̃ > 1, γ ≥ E and β/γ ≤ μ̃/c2, and the smallest
//! β = 2/μ̃, γ = max(E, 2c2/μ̃²) otherwise.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Scheme, StepSize};

use crate::bounds::{Bound, Pair, Setting, Undefined, Value, Version, finite};
use crate::cohort::Theorem;
use crate::exact::ExactCurve;

/// The alternative theorems for one problem.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// β and γ that the theorem is read at.
    pub step: Pair,
    /// G along the trajectory.
    pub gradient_bound: Value,
    /// υ as printed.
    pub printed: Value,
    /// υ as corrected.
    pub corrected: Value,
}

/// Numbers that following the trajectory may touch.
const MOST_WORK: f64 = 3e9;

impl Setting {
    /// β and γ that the theorems are read at, in the corrected setting.
    pub(crate) fn free_step(&self, protocol: &Protocol, corrected: &Bound) -> Pair {
        self.covered?;
        let (mu_tilde, smallest) = (corrected.mu_tilde?, corrected.beta?);
        let (c2, e) = (corrected.c[1]?, self.local_steps);
        if let StepSize::Decaying { beta, gamma } = protocol.step_size
            && beta * mu_tilde > 1.0
            && gamma >= e
            && beta / gamma <= mu_tilde / c2
        {
            return Ok((beta, gamma));
        }
        Ok((smallest, e.max(smallest * c2 / mu_tilde)))
    }

    /// Puts c7 to c9 into the bound, and returns υ; `path` is G² and Δ₁.
    pub(crate) fn alternative(&self, bound: &mut Bound, step: Pair, path: Pair) -> Value {
        let e = self.local_steps;
        let apart = match self.version {
            Version::Printed => e - 1.0,
            Version::Corrected => (e - 1.0).powi(2),
        };
        let c7 = path.map(|(gradient, _)| 4.0 * apart * gradient);
        let noise =
            self.sigma.and_then(|s| Ok(2.0 * s * s + 4.0 * self.sampling * e * e * path?.0));
        let of = |theorem: Theorem, with_replacement: bool| match self.theorem == theorem {
            true => noise,
            false => Err(Undefined::OtherScheme { with_replacement }),
        };
        bound.c[6..].copy_from_slice(&[c7, of(Theorem::With, true), of(Theorem::Without, false)]);
        let ((beta, gamma), c1, c2) = (step?, bound.c[0]?, bound.c[1]?);
        let (noise, c7) = (noise?, c7?);
        let source = c2 * c7 * beta.powi(4) / (gamma * gamma)
            + c1 * c7 * beta.powi(3) / gamma
            + noise * beta * beta;
        let (rate, first) = match self.version {
            Version::Printed => (self.mu?, (gamma + 1.0) * path?.1),
            Version::Corrected => (bound.mu_tilde?, gamma * self.delta_0?),
        };
        if beta * rate <= 1.0 {
            return Err(Undefined::SmallBetaOfAlternative(1.0 / rate));
        }
        finite(finite(source / (beta * rate - 1.0))?.max(first))
    }
}

/// G² along the trajectory of a protocol, and Δ₁.
pub(crate) fn trajectory(
    federation: &Federation,
    protocol: &Protocol,
    start: &[f64],
    stable_point: Option<&[f64]>,
    rounds: u64,
) -> Pair {
    let point = stable_point.ok_or(Undefined::NoStablePoint)?;
    // Before an aggregation the average of all clients is what full participation makes of it, and
    // that of scaled steps is the average of unscaled ones with the clients' weights.
    let mut before = *protocol;
    if protocol.local_steps > 1 {
        before =
            Protocol { local_steps: 1, scheme: Scheme::Full, scale_objectives: false, ..before };
    }
    let curve = |protocol| {
        ExactCurve::new(federation, protocol, None, start, Some(point))
            .map_err(|_| Undefined::NotExact)
    };
    let (mut first, mut curve) = (curve(&before)?, curve(protocol)?);
    // The clients' own gradients are as much work again.
    if 2.0 * rounds as f64 * curve.work_of_round() > MOST_WORK {
        return Err(Undefined::LongTrajectory);
    }
    first.advance();
    let gradients = (0..rounds).map(|_| curve.advance_watching_gradients());
    let largest = gradients.fold(0.0, f64::max);
    match largest.is_finite() {
        true => Ok((largest, first.moments().distance_sq.unwrap_or(f64::NAN))),
        false => Err(Undefined::Unbounded),
    }
}

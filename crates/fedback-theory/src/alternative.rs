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

use crate::bounds::{Bound, Setting, Undefined, Value, Version, finite};
use crate::cohort::Theorem;
use crate::exact::ExactCurve;

/// The alternative theorems for one problem.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// β and γ that the theorem is read at.
    pub step: Result<(f64, f64), Undefined>,
    /// G along the trajectory.
    pub gradient_bound: Value,
    /// υ as printed.
    pub printed: Value,
    /// υ as corrected.
    pub corrected: Value,
}

/// Numbers that following the trajectory may touch.
const MOST_WORK: f64 = 3e8;

pub(crate) fn of(
    federation: &Federation,
    protocol: &Protocol,
    start: &[f64],
    stable_point: Option<&[f64]>,
    rounds: u64,
    setting: &Setting,
    (printed, corrected): (&Bound, &Bound),
) -> Alternative {
    let step = step(protocol, setting, corrected);
    let path = step.and_then(|(beta, gamma)| {
        let step_size = StepSize::Decaying { beta, gamma };
        let protocol = Protocol { step_size, ..*protocol };
        trajectory(federation, &protocol, start, stable_point, rounds)
    });
    let mut alternative = Alternative {
        gradient_bound: path.map(|(gradient, _)| gradient.sqrt()),
        printed: Err(Undefined::NotExact),
        corrected: Err(Undefined::NotExact),
        step,
    };
    let upsilon = |version: Version, bound: &Bound| -> Value {
        let (beta, gamma) = alternative.step?;
        let (c1, c2) = (bound.c[0]?, bound.c[1]?);
        let [c7, c8, c9] = alternative.c(setting, version);
        let noise = match setting.theorem {
            Theorem::Full => 2.0 * setting.sigma(version)?.powi(2),
            Theorem::With => c8?,
            Theorem::Without => c9?,
        };
        let c7 = c7?;
        let source = c2 * c7 * beta.powi(4) / (gamma * gamma)
            + c1 * c7 * beta.powi(3) / gamma
            + noise * beta * beta;
        let (rate, first) = match version {
            Version::Printed => (setting.mu(version)?, (gamma + 1.0) * path?.1),
            Version::Corrected => (bound.mu_tilde?, gamma * setting.delta_0?),
        };
        if beta * rate <= 1.0 {
            return Err(Undefined::SmallBetaOfAlternative { least: 1.0 / rate });
        }
        finite(finite(source / (beta * rate - 1.0))?.max(first))
    };
    let (printed, corrected) =
        (upsilon(Version::Printed, printed), upsilon(Version::Corrected, corrected));
    alternative.printed = printed;
    alternative.corrected = corrected;
    alternative
}

impl Alternative {
    /// c7, c8 and c9.
    pub(crate) fn c(&self, setting: &Setting, version: Version) -> [Value; 3] {
        let e = setting.local_steps;
        let c7 = self.gradient_bound.map(|g| match version {
            Version::Printed => 4.0 * (e - 1.0) * g * g,
            Version::Corrected => 4.0 * (e - 1.0).powi(2) * g * g,
        });
        let sampled = || -> Value {
            let (s, g) = (setting.sigma(version)?, self.gradient_bound?);
            Ok(2.0 * s * s + 4.0 * setting.sampling * e * e * g * g)
        };
        let other = |with_replacement| Err(Undefined::OtherScheme { with_replacement });
        let (c8, c9) = match setting.theorem {
            Theorem::Full => (other(true), other(false)),
            Theorem::With => (sampled(), other(false)),
            Theorem::Without => (other(true), sampled()),
        };
        [c7, c8, c9]
    }
}

fn step(
    protocol: &Protocol,
    setting: &Setting,
    corrected: &Bound,
) -> Result<(f64, f64), Undefined> {
    setting.covered?;
    let (mu_tilde, smallest) = (corrected.mu_tilde?, corrected.beta?);
    let (c2, e) = (corrected.c[1]?, setting.local_steps);
    if let StepSize::Decaying { beta, gamma } = protocol.step_size
        && beta * mu_tilde > 1.0
        && gamma >= e
        && beta / gamma <= mu_tilde / c2
    {
        return Ok((beta, gamma));
    }
    Ok((smallest, e.max(smallest * c2 / mu_tilde)))
}

/// G² along the trajectory, and Δ₁.
fn trajectory(
    federation: &Federation,
    protocol: &Protocol,
    start: &[f64],
    stable_point: Option<&[f64]>,
    rounds: u64,
) -> Result<(f64, f64), Undefined> {
    let point = stable_point.ok_or(Undefined::NoStablePoint)?;
    let dim = federation.dim() as f64;
    let each = if federation.response().is_diagonal() { dim } else { 4.0 * dim.powi(3) };
    let steps = rounds as f64 * protocol.local_steps as f64;
    if steps * each * federation.clients() as f64 > MOST_WORK {
        return Err(Undefined::LongTrajectory);
    }
    let curve = |protocol: &Protocol| -> Value {
        let mut curve = ExactCurve::new(federation, protocol, None, start, Some(point))
            .map_err(|_| Undefined::NotExact)?;
        curve.advance();
        Ok(curve.moments().distance_sq.unwrap_or(f64::NAN))
    };
    // Before an aggregation the average of all clients is what full participation makes of it.
    let first = match protocol.local_steps {
        1 => curve(protocol)?,
        _ => curve(&Protocol { local_steps: 1, scheme: Scheme::Full, ..unscaled(protocol) })?,
    };
    let mut largest: f64 = 0.0;
    let mut curve = ExactCurve::new(federation, protocol, None, start, Some(point))
        .map_err(|_| Undefined::NotExact)?;
    for _ in 0..rounds {
        largest = largest.max(curve.advance_watching_gradients());
    }
    match largest.is_finite() {
        true => Ok((largest, first)),
        false => Err(Undefined::Unbounded),
    }
}

/// The average of scaled steps is the average of unscaled ones with the clients' weights.
fn unscaled(protocol: &Protocol) -> Protocol {
    Protocol { scale_objectives: false, ..*protocol }
}

//! The formulas of the theorems, in both versions.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Deploy, Protocol, StepSize};

use super::{Bound, Term, UNKNOWN, Undefined, Value, Version, finite};
use crate::cohort::{self, Theorem};
use crate::constants::{Constant, Constants};

/// What the theorems are about, as numbers.
pub(crate) struct Setting {
    pub(crate) mu: Value,
    pub(crate) smoothness: Value,
    average: f64,
    largest: f64,
    /// Σ ε_i / N.
    plain_average: f64,
    pub(crate) sigma: Value,
    varsigma: Value,
    pub(crate) delta_0: Value,
    pub(crate) local_steps: f64,
    pub(crate) theorem: Theorem,
    /// ρ: what multiplies the pre-aggregation consensus error.
    pub(crate) sampling: f64,
    step_size: StepSize,
    scaled: bool,
    /// N times the largest and smallest weight.
    extremes: (f64, f64),
    /// Whether the theorems are about this protocol.
    pub(crate) covered: Result<(), Undefined>,
}

/// The numbers that enter the formulas, after scaling where objectives are scaled.
struct Inputs {
    mu: Value,
    smoothness: Value,
    average: f64,
    sigma: Value,
    varsigma: Value,
    /// q_max where it multiplies c1.
    c1_factor: f64,
}

/// Divisions by 1024 after which nothing is left of any number.
const SHRINKINGS: usize = 220;

impl Setting {
    pub(super) fn new(federation: &Federation, protocol: &Protocol, constants: &Constants) -> Self {
        let n = federation.clients() as f64;
        let known = |term: Term, constant: &Constant| {
            constant.value.ok_or(Undefined::NotKnown(term, constant.how))
        };
        let q = federation.weights().iter().map(|p| n * p);
        let (most, least) = (q.clone().fold(0.0, f64::max), q.fold(f64::INFINITY, f64::min));
        let uneven = most - least > 1e-9;
        let (theorem, sampling) = cohort::theorem(protocol.scheme, federation.clients());
        let covered = if cohort::by_speed(protocol.scheme) {
            Err(Undefined::FirstArrivals)
        } else if protocol.deploy == Deploy::Round {
            Err(Undefined::DeployedOnce)
        } else if theorem == Theorem::Without && uneven && !protocol.scale_objectives {
            Err(Undefined::UnequalWeights)
        } else {
            Ok(())
        };
        Setting {
            mu: known(Term::Mu, &constants.mu),
            smoothness: known(Term::Smoothness, &constants.smoothness),
            average: constants.average_sensitivity.value.unwrap_or(0.0),
            largest: constants.largest_sensitivity.value.unwrap_or(0.0),
            plain_average: constants.sensitivities.iter().sum::<f64>() / n,
            sigma: known(Term::Sigma, &constants.sigma),
            varsigma: known(Term::Varsigma, &constants.varsigma),
            delta_0: known(Term::Delta0, &constants.delta_0),
            local_steps: protocol.local_steps as f64,
            theorem,
            sampling,
            step_size: protocol.step_size,
            scaled: protocol.scale_objectives,
            extremes: (most, least),
            covered,
        }
    }

    /// σ after scaling.
    pub(crate) fn sigma(&self, version: Version) -> Value {
        self.inputs(version).sigma
    }

    /// μ after scaling.
    pub(crate) fn mu(&self, version: Version) -> Value {
        self.inputs(version).mu
    }

    fn inputs(&self, version: Version) -> Inputs {
        let (most, least) = self.extremes;
        let times = |value: Value, factor: f64| value.map(|v| v * factor);
        if !self.scaled {
            return Inputs {
                mu: self.mu,
                smoothness: self.smoothness,
                average: self.average,
                sigma: self.sigma,
                varsigma: self.varsigma,
                c1_factor: 1.0,
            };
        }
        match version {
            Version::Printed => Inputs {
                mu: times(self.mu, least),
                smoothness: times(self.smoothness, most),
                average: self.plain_average,
                sigma: times(self.sigma, most.sqrt()),
                varsigma: times(self.varsigma, most.sqrt()),
                c1_factor: 1.0,
            },
            Version::Corrected => {
                let away = (most - 1.0).abs().max((1.0 - least).abs());
                let varsigma = self.varsigma.and_then(|v| {
                    let slope = away * self.smoothness? * (1.0 + self.average);
                    Ok((2.0 * (most * v).powi(2) + 2.0 * slope * slope).sqrt())
                });
                Inputs {
                    // f is unchanged, and so is μ̃; the factor of c1 is in L and divided out there.
                    mu: self.mu,
                    smoothness: times(self.smoothness, most),
                    average: self.average,
                    sigma: times(self.sigma, most),
                    varsigma,
                    c1_factor: most,
                }
            }
        }
    }

    /// δ: what was asked for, or half of the largest valid one.
    pub(super) fn delta(&self, asked: Option<f64>) -> Value {
        if let Some(delta) = asked {
            return Ok(delta);
        }
        let (mu, smoothness) = (self.mu?, self.smoothness?);
        if self.average == 0.0 {
            return Err(Undefined::DeltaWithoutReaction);
        }
        let largest = mu / (smoothness * self.average) - 1.0;
        match largest > 0.0 {
            true => Ok(largest / 2.0),
            false => Err(Undefined::NoDelta { average: self.average, threshold: mu / smoothness }),
        }
    }

    /// μ̃, which must be positive for anything that follows.
    fn positive(mu_tilde: Value) -> Value {
        match mu_tilde? {
            value if value > 0.0 => Ok(value),
            mu_tilde => Err(Undefined::NotConvex { mu_tilde }),
        }
    }

    /// c2, c3 and c5, and c4 by what replaces Δ₀ in it.
    fn common(&self, inputs: &Inputs, far: Value) -> [Value; 4] {
        let reach = |l: f64| l * l * (1.0 + self.largest).powi(2);
        let square = |value: Value| value.map(|v| v * v);
        let (s, v) = (square(inputs.sigma), square(inputs.varsigma));
        let with = |a: f64, b: f64| -> Value { Ok(a * s? + b * reach(inputs.smoothness?)) };
        let spread = |a: f64, b: f64| -> Value { Ok(a * s? + b * v?) };
        let c4 = far.and_then(|far| match far > 0.0 {
            true => Ok(spread(16.0, 12.0)? + spread(8.0, 12.0)? / far),
            false => Err(Undefined::AtStablePoint),
        });
        let c5 = far.and_then(|far| Ok(spread(48.0, 36.0)? * far + spread(24.0, 36.0)?));
        [with(4.0, 4.0), with(12.0, 18.0), c4, c5]
    }

    fn kappa(&self) -> f64 {
        let e = self.local_steps;
        (2.0 * e * e - e) * e.ln()
    }

    fn c6(&self) -> f64 {
        let e = self.local_steps;
        (2.0 * e * e + 3.0 * e + 1.0) * (e + 1.0).ln()
    }

    pub(super) fn printed(&self, delta: Value) -> Bound {
        let inputs = self.inputs(Version::Printed);
        let (average, e) = (inputs.average, self.local_steps);
        let own_delta = if average == 0.0 { Ok(0.0) } else { delta };
        let mu_tilde: Value = own_delta
            .and_then(|delta| Ok(inputs.mu? - (1.0 + delta) * average * inputs.smoothness?));
        let c1: Value = match average > 0.0 {
            true => delta.and_then(|delta| {
                let l = inputs.smoothness?;
                Ok(l * (1.0 + self.largest).powi(2) / (2.0 * delta * average))
            }),
            false => Err(Undefined::C1WithoutReaction),
        };
        let [c2, c3, c4, c5] = self.common(&inputs, self.delta_0);
        let c6 = self.c6();
        let full = self.theorem == Theorem::Full;
        let growth = if full { self.kappa() } else { c6 };
        let noise: Value = inputs.sigma.map(|s| 2.0 * s * s);
        // A term without local steps to come from is nothing, whatever its factors are.
        let drift = |of: &dyn Fn() -> Value| if growth == 0.0 { Ok(0.0) } else { of() };
        let cap: Value = Self::positive(mu_tilde).and_then(|mu_tilde| {
            let steep = drift(&|| Ok((c1? * c3? + c2? / 6.0) * c4? * growth))?;
            Ok(mu_tilde / (noise? + steep))
        });
        let b: Value = cap.and_then(|cap| {
            self.covered?;
            let spread = c5? * growth;
            let steps = drift(&|| match spread == 0.0 {
                true => Ok(0.0),
                false => Ok(4.0 * cap * (c1? + c2? * cap) * spread),
            })?;
            let sampled = if full { 0.0 } else { self.sampling * c5? * c6 };
            Ok(noise? + steps + sampled)
        });
        let beta = Self::positive(mu_tilde).map(|mu_tilde| 2.0 / mu_tilde);
        let gamma: Value = cap.and_then(|cap| {
            self.covered?;
            let beta = beta?;
            let (polynomial, c) = match self.theorem {
                Theorem::Full => (4.0 * e * e + 2.0 * e, c3?),
                Theorem::With => (4.0 * e * e + 10.0 * e + 6.0, c3?),
                // Theorem 3.3 prints c5 where its proof has c3.
                Theorem::Without => (4.0 * e * e + 10.0 * e + 6.0, c5?),
            };
            Ok((beta / cap).max(e).max(beta * (polynomial * c).sqrt()))
        });
        let upsilon = self.upsilon(mu_tilde, b, gamma);
        let eta0 = cap.and_then(|cap| finite(cap).map_err(|_| Undefined::NoCap));
        let c = [c1, c2, c3, c4, c5, Ok(c6)];
        Bound { mu_tilde, c, alternative_c: UNKNOWN, eta0, b, beta, gamma, upsilon }.finite()
    }

    pub(super) fn corrected(&self, delta: Value) -> Bound {
        let inputs = self.inputs(Version::Corrected);
        let alpha: Value = match self.average > 0.0 {
            true => delta.map(|d| 2.0 * d * self.average / (1.0 + self.largest)),
            // Free where ε̄ = 0: the one that leaves half of μ, as the default δ does.
            false => self.mu.and_then(|mu| Ok(mu / (self.smoothness? * (1.0 + self.largest)))),
        };
        let mu_tilde: Value = alpha.and_then(|alpha| {
            let l = self.smoothness?;
            Ok(self.mu? - l * self.average - 0.5 * alpha * l * (1.0 + self.largest))
        });
        let c1 = alpha.and_then(|alpha| {
            Ok(inputs.c1_factor * self.smoothness? * (1.0 + self.largest) / alpha)
        });
        let far = self.delta_0.map(|delta_0| delta_0.max(1.0));
        let [c2, c3, c4, c5] = self.common(&inputs, far);
        let c = [c1, c2, c3, c4, c5, Ok(self.c6())];
        let beta = Self::positive(mu_tilde).map(|mu_tilde| 2.0 / mu_tilde);
        let gamma: Value = self.covered.and_then(|()| {
            let (mu_tilde, beta) = (Self::positive(mu_tilde)?, beta?);
            let step = self.largest_step(&c, mu_tilde, far?)?;
            Ok((beta / step).max(self.local_steps))
        });
        let eta0: Value = gamma.and_then(|gamma| Ok(beta? / gamma));
        let b = eta0.and_then(|eta0| self.growth(&c, eta0));
        let upsilon = self.upsilon(mu_tilde, b, gamma);
        Bound { mu_tilde, c, alternative_c: UNKNOWN, eta0, b, beta, gamma, upsilon }.finite()
    }

    /// B(η) of the corrected theorem.
    fn growth(&self, c: &[Value; 6], step: f64) -> Value {
        let s = self.sigma(Version::Corrected)?;
        let (c1, c2, c5) = (c[0]?, c[1]?, c[4]?);
        let local = (c1 * step + c2 * step * step) * self.kappa() * c5;
        Ok(2.0 * s * s + local + self.sampling * self.c6() * c5)
    }

    /// The largest first step that the corrected theorem allows, but for γ ≥ E.
    fn largest_step(&self, c: &[Value; 6], mu_tilde: f64, far: f64) -> Value {
        let n = self.local_steps - if self.theorem == Theorem::Full { 1.0 } else { 0.0 };
        let (c2, c3) = (c[1]?, c[2]?);
        let mut most = mu_tilde / c2;
        if n > 0.0 {
            most = most.min((2.0 * c3 * n * (2.0 * n + 1.0)).sqrt().recip());
        }
        let keeps = |step: f64| -> Result<bool, Undefined> {
            Ok(step * self.growth(c, step)? <= mu_tilde * far)
        };
        if keeps(most)? {
            return Ok(most);
        }
        // η B(η) grows with η: bisect on a logarithmic scale until neighbours are reached.
        let (mut below, mut above) = (most, most);
        for _ in 0..SHRINKINGS {
            if keeps(below)? {
                break;
            }
            (below, above) = (below / 1024.0, below);
        }
        if !keeps(below)? {
            return Err(Undefined::TooLarge);
        }
        for _ in 0..100 {
            let middle = (below * above).sqrt();
            if keeps(middle)? { below = middle } else { above = middle }
        }
        Ok(below)
    }

    fn upsilon(&self, mu_tilde: Value, b: Value, gamma: Value) -> Value {
        let mu_tilde = Self::positive(mu_tilde)?;
        let settled = finite(4.0 * b? / (mu_tilde * mu_tilde))?;
        Ok(settled.max(gamma? * self.delta_0?))
    }

    /// υ of the corrected theorem at the protocol's own β and γ, or which condition they break.
    pub(super) fn own_step(&self, corrected: &Bound, delta: Value) -> Value {
        self.covered?;
        let StepSize::Decaying { beta, gamma } = self.step_size else {
            return Err(Undefined::ConstantStep);
        };
        if self.average > 0.0 {
            delta?;
        }
        let mu_tilde = Self::positive(corrected.mu_tilde)?;
        if beta * mu_tilde <= 1.0 {
            return Err(Undefined::SmallBeta { least: 1.0 / mu_tilde });
        }
        if gamma < self.local_steps {
            return Err(Undefined::SmallGamma);
        }
        let far = self.delta_0?.max(1.0);
        let most = self.largest_step(&corrected.c, mu_tilde, far)?;
        if beta / gamma > most * (1.0 + 1e-12) {
            return Err(Undefined::LongFirstStep { first: beta / gamma, most });
        }
        let growth = self.growth(&corrected.c, beta / gamma)?;
        let settled = finite(beta * beta * growth / (beta * mu_tilde - 1.0))?;
        finite(settled.max(gamma * self.delta_0?))
    }
}

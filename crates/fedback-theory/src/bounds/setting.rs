//! The formulas of the theorems, in both versions.

use std::iter::successors;

use fedback_core::federation::Federation;
use fedback_core::protocol::{Deploy, Protocol, StepSize};

use super::{Bound, Term, Undefined, Value, Version, finite};
use crate::cohort::{self, Theorem};
use crate::constants::{Constant, Constants};

/// What one version of the theorems is about, as numbers: scaled where objectives are scaled.
pub(crate) struct Setting {
    pub(crate) version: Version,
    pub(crate) mu: Value,
    /// L of f.
    smoothness: Value,
    /// L of what clients minimise.
    steepest: Value,
    average: f64,
    /// 1 + ε_max.
    reach: f64,
    pub(crate) sigma: Value,
    varsigma: Value,
    pub(crate) delta_0: Value,
    /// Δ₀ as printed, D as corrected.
    far: Value,
    pub(crate) local_steps: f64,
    pub(crate) theorem: Theorem,
    /// ρ: what multiplies the pre-aggregation consensus error.
    pub(crate) sampling: f64,
    /// Whether the theorems are about this protocol.
    pub(crate) covered: Result<(), Undefined>,
}

/// Divisions by 1024 after which nothing is left of any number.
const SHRINKINGS: usize = 220;

impl Setting {
    pub(super) fn new(
        federation: &Federation,
        protocol: &Protocol,
        constants: &Constants,
        version: Version,
    ) -> Self {
        let n = federation.clients() as f64;
        let q = federation.weights().iter().map(|p| n * p);
        let (most, least) = (q.clone().fold(0.0, f64::max), q.fold(f64::INFINITY, f64::min));
        let (theorem, sampling) = cohort::theorem(protocol.scheme, federation.clients());
        let covered = if cohort::by_speed(protocol.scheme) {
            Err(Undefined::FirstArrivals)
        } else if protocol.deploy == Deploy::Round {
            Err(Undefined::DeployedOnce)
        } else if federation.memory().is_some() {
            Err(Undefined::Remembered)
        } else if theorem == Theorem::Without && most - least > 1e-9 && !protocol.scale_objectives {
            Err(Undefined::UnequalWeights)
        } else {
            Ok(())
        };
        let scaled = protocol.scale_objectives;
        // f is unchanged by scaling, and so are μ and L in μ̃.
        let [convex, smooth, steep, noisy, apart] = match version {
            _ if !scaled => [1.0; 5],
            Version::Printed => [least, most, most, most.sqrt(), most.sqrt()],
            Version::Corrected => [1.0, 1.0, most, most, most],
        };
        let known = |term: Term, constant: &Constant, factor: f64| {
            constant.value.map(|v| v * factor).ok_or(Undefined::NotKnown(term, constant.how))
        };
        let mu = known(Term::Mu, &constants.mu, convex);
        let smoothness = known(Term::Smoothness, &constants.smoothness, smooth);
        let steepest = known(Term::Smoothness, &constants.smoothness, steep);
        let sigma = known(Term::Sigma, &constants.sigma, noisy);
        let varsigma = known(Term::Varsigma, &constants.varsigma, apart);
        let delta_0 = known(Term::Delta0, &constants.delta_0, 1.0);
        let average = constants.average_sensitivity.value.unwrap_or(0.0);
        let plain_average = constants.sensitivities.iter().sum::<f64>() / n;
        // |∇f − q_i ∇f_i| ≤ q_i |∇f − ∇f_i| + |1 − q_i| |∇f|.
        let rescaled = |v: f64| -> Value {
            let away = (most - 1.0).abs().max((1.0 - least).abs());
            let slope = away * smoothness? * (1.0 + average);
            Ok((2.0 * v * v + 2.0 * slope * slope).sqrt())
        };
        let (average, varsigma, far) = match version {
            Version::Printed => (if scaled { plain_average } else { average }, varsigma, delta_0),
            Version::Corrected => {
                let varsigma = if scaled { varsigma.and_then(rescaled) } else { varsigma };
                (average, varsigma, delta_0.map(|delta_0| delta_0.max(1.0)))
            }
        };
        Setting {
            version,
            mu,
            smoothness,
            steepest,
            average,
            reach: 1.0 + constants.largest_sensitivity.value.unwrap_or(0.0),
            sigma,
            varsigma,
            delta_0,
            far,
            local_steps: protocol.local_steps as f64,
            theorem,
            sampling,
            covered,
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

    /// The constants of the theorem, but for those of the alternative ones.
    pub(super) fn bound(&self, delta: Value) -> Bound {
        let [mu_tilde, c1] = self.convexity(delta);
        let [c2, c3, c4, c5] = self.common();
        let unknown = Err(Undefined::NotExact);
        let c6 = Ok(kappa(self.local_steps + 1.0));
        let c = [c1, c2, c3, c4, c5, c6, unknown, unknown, unknown];
        let positive = positive(mu_tilde);
        let [eta0, b, gamma] = match self.version {
            Version::Printed => self.printed(positive, &c),
            Version::Corrected => self.corrected(positive, &c),
        };
        let upsilon = positive.and_then(|mu_tilde| {
            let settled = finite(4.0 * b? / (mu_tilde * mu_tilde))?;
            Ok(settled.max(gamma? * self.delta_0?))
        });
        let finite = |value: Value| value.and_then(finite);
        Bound {
            mu_tilde: finite(mu_tilde),
            c: c.map(finite),
            eta0: finite(eta0),
            b: finite(b),
            beta: finite(positive.map(|mu_tilde| 2.0 / mu_tilde)),
            gamma: finite(gamma),
            upsilon: finite(upsilon),
        }
    }

    /// μ̃ and c1.
    fn convexity(&self, delta: Value) -> [Value; 2] {
        let (average, reach, reacts) = (self.average, self.reach, self.average > 0.0);
        let l = self.smoothness;
        match self.version {
            Version::Printed => {
                let delta = if reacts { delta } else { Ok(0.0) };
                let mu_tilde = delta.and_then(|delta| Ok(self.mu? - (1.0 + delta) * average * l?));
                let c1 = delta.and_then(|delta| match reacts {
                    true => Ok(l? * reach.powi(2) / (2.0 * delta * average)),
                    false => Err(Undefined::C1WithoutReaction),
                });
                [mu_tilde, c1]
            }
            Version::Corrected => {
                let alpha: Value = match reacts {
                    true => delta.map(|delta| 2.0 * delta * average / reach),
                    // Free where ε̄ = 0: the one that leaves half of μ, as the default δ does.
                    false => self.mu.and_then(|mu| Ok(mu / (l? * reach))),
                };
                let mu_tilde = alpha.and_then(|alpha| {
                    let l = l?;
                    Ok(self.mu? - l * average - 0.5 * alpha * l * reach)
                });
                [mu_tilde, alpha.and_then(|alpha| Ok(self.steepest? * reach / alpha))]
            }
        }
    }

    /// c2 to c5.
    fn common(&self) -> [Value; 4] {
        let square = |value: Value| value.map(|v| v * v);
        let (s, v, l) = (square(self.sigma), square(self.varsigma), square(self.steepest));
        let with = |a: f64, b: f64| -> Value { Ok(a * s? + b * (l? * self.reach.powi(2))) };
        let spread = |a: f64, b: f64| -> Value { Ok(a * s? + b * v?) };
        let c4 = self.far.and_then(|far| match far > 0.0 {
            true => Ok(spread(16.0, 12.0)? + spread(8.0, 12.0)? / far),
            false => Err(Undefined::AtStablePoint),
        });
        let c5 = self.far.and_then(|far| Ok(spread(48.0, 36.0)? * far + spread(24.0, 36.0)?));
        [with(4.0, 4.0), with(12.0, 18.0), c4, c5]
    }

    /// The local steps that clients may be apart by as printed: E, or one more where they are sampled.
    fn apart(&self) -> f64 {
        self.local_steps + if self.theorem == Theorem::Full { 0.0 } else { 1.0 }
    }

    /// The cap on the first step, B and γ as printed.
    fn printed(&self, mu_tilde: Value, &[c1, c2, c3, c4, c5, c6, ..]: &[Value; 9]) -> [Value; 3] {
        let (n, noise) = (self.apart(), self.sigma.map(|s| 2.0 * s * s));
        let growth = kappa(n);
        // A term without local steps to come from is nothing, whatever its factors are.
        let alone = growth == 0.0;
        let cap: Value = mu_tilde.and_then(|mu_tilde| {
            let steep = if alone { 0.0 } else { (c1? * c3? + c2? / 6.0) * c4? * growth };
            Ok(mu_tilde / (noise? + steep))
        });
        let b = cap.and_then(|cap| {
            self.covered?;
            let spread = c5? * growth;
            let still = alone || spread == 0.0;
            let steps = if still { 0.0 } else { 4.0 * cap * (c1? + c2? * cap) * spread };
            let full = self.theorem == Theorem::Full;
            let sampled = if full { 0.0 } else { self.sampling * c5? * c6? };
            Ok(noise? + steps + sampled)
        });
        let gamma = cap.and_then(|cap| {
            self.covered?;
            let beta = 2.0 / mu_tilde?;
            // Theorem 3.3 prints c5 where its proof has c3.
            let c = if self.theorem == Theorem::Without { c5? } else { c3? };
            let least = beta * (2.0 * n * (2.0 * n + 1.0) * c).sqrt();
            Ok((beta / cap).max(self.local_steps).max(least))
        });
        [cap.and_then(|cap| finite(cap).map_err(|_| Undefined::NoCap)), b, gamma]
    }

    /// The first step, B and γ as corrected.
    fn corrected(&self, mu_tilde: Value, c: &[Value; 9]) -> [Value; 3] {
        let gamma: Value = self.covered.and_then(|()| {
            let mu_tilde = mu_tilde?;
            Ok((2.0 / mu_tilde / self.largest_step(mu_tilde, c)?).max(self.local_steps))
        });
        let eta0 = gamma.and_then(|gamma| Ok(2.0 / mu_tilde? / gamma));
        [eta0, eta0.and_then(|eta0| Ok(self.growth(c)?(eta0))), gamma]
    }

    /// B(η) of the corrected theorem.
    fn growth(&self, c: &[Value; 9]) -> Result<impl Fn(f64) -> f64 + use<>, Undefined> {
        let (s, c1, c2, c5, c6) = (self.sigma?, c[0]?, c[1]?, c[4]?, c[5]?);
        let (kappa, sampling) = (kappa(self.local_steps), self.sampling);
        Ok(move |step| {
            let local = (c1 * step + c2 * step * step) * kappa * c5;
            2.0 * s * s + local + sampling * c6 * c5
        })
    }

    /// The largest first step that the corrected theorem allows, but for γ ≥ E.
    fn largest_step(&self, mu_tilde: f64, c: &[Value; 9]) -> Value {
        let (far, c2, c3, n) = (self.far?, c[1]?, c[2]?, self.apart() - 1.0);
        let growth = self.growth(c)?;
        let mut most = mu_tilde / c2;
        if n > 0.0 {
            most = most.min((2.0 * c3 * n * (2.0 * n + 1.0)).sqrt().recip());
        }
        // η B(η) grows with η: bisect on a logarithmic scale until neighbours are reached.
        let keeps = |step: &f64| step * growth(*step) <= mu_tilde * far;
        let mut shorter = successors(Some(most), |step| Some(step / 1024.0)).take(SHRINKINGS + 1);
        let mut below = shorter.find(keeps).ok_or(Undefined::TooLarge)?;
        if below < most {
            let mut above = 1024.0 * below;
            for _ in 0..100 {
                let middle = (below * above).sqrt();
                if keeps(&middle) { below = middle } else { above = middle }
            }
        }
        Ok(below)
    }

    /// υ of the corrected theorem at the protocol's own β and γ, or which condition they break.
    pub(super) fn own_step(&self, protocol: &Protocol, corrected: &Bound) -> Value {
        self.covered?;
        let StepSize::Decaying { beta, gamma } = protocol.step_size else {
            return Err(Undefined::ConstantStep);
        };
        let mu_tilde = positive(corrected.mu_tilde)?;
        if beta * mu_tilde <= 1.0 {
            return Err(Undefined::SmallBeta(1.0 / mu_tilde));
        }
        if gamma < self.local_steps {
            return Err(Undefined::SmallGamma);
        }
        let (first, most) = (beta / gamma, self.largest_step(mu_tilde, &corrected.c)?);
        if first > most * (1.0 + 1e-12) {
            return Err(Undefined::LongFirstStep { first, most });
        }
        let growth = self.growth(&corrected.c)?(first);
        let settled = finite(beta * beta * growth / (beta * mu_tilde - 1.0))?;
        finite(settled.max(gamma * self.delta_0?))
    }
}

/// μ̃, which must be positive for anything that follows.
fn positive(mu_tilde: Value) -> Value {
    match mu_tilde? {
        value if value > 0.0 => Ok(value),
        mu_tilde => Err(Undefined::NotConvex(mu_tilde)),
    }
}

/// (2n² − n) log n: κ of E, and c6 of E + 1.
fn kappa(n: f64) -> f64 {
    (2.0 * n * n - n) * n.ln()
}

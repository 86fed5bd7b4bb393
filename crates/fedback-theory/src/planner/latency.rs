//! How long a round waits for the slowest client of its cohort, in units of a mean latency.
//!
//! Clients are chosen before they answer, so a round waits for the largest of their independent
//! latencies: h(k) = E max of k. With replacement a client drawn twice answers once, so a round waits
//! for the distinct clients of its cohort, Σ 1 − (1 − p_i)^K of them on average; h is read there,
//! between whole numbers on a straight line. (h is concave, and the number of distinct clients hardly
//! varies: the error is about one percent at most.)

use fedback_core::protocol::Scheme;

use crate::cohort;

/// The distribution of a client's latency, of mean one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// Everybody takes the same time.
    Constant,
    /// Exponential: h(k) = 1 + 1/2 + … + 1/k.
    Exponential,
    /// Log-normal: exp(σ Z − σ²/2).
    Lognormal {
        /// σ, the standard deviation of the logarithm.
        sigma: f64,
    },
}

impl Latency {
    /// What a round of this scheme waits for: h of its cohort.
    pub fn of_round(self, scheme: Scheme, weights: &[f64]) -> f64 {
        let distinct = cohort::distinct(scheme, weights).max(1.0);
        let (low, between) = (distinct as usize, distinct.fract());
        (1.0 - between) * self.largest(low) + between * self.largest(low + 1)
    }

    /// h(k), the mean of the largest of k latencies.
    pub fn largest(self, count: usize) -> f64 {
        match self {
            Latency::Constant => 1.0,
            Latency::Exponential => (1..=count).map(|k| 1.0 / k as f64).sum(),
            Latency::Lognormal { sigma } => {
                // ∫ exp(σz − σ²/2) k Φ(z)^{k−1} φ(z) dz by the trapezoidal rule, which converges
                // faster than any power of the spacing for an integrand that is zero at both ends.
                const SPACING: f64 = 0.01;
                let nodes = ((20.0 + sigma) / SPACING) as usize;
                let density = |node: usize| {
                    let z = -10.0 + SPACING * node as f64;
                    let below = 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
                    let bell = libm::exp(sigma * z - 0.5 * sigma * sigma - 0.5 * z * z);
                    bell * libm::pow(below, count as f64 - 1.0)
                };
                let unit = SPACING * count as f64 / (2.0 * std::f64::consts::PI).sqrt();
                (0..=nodes).map(density).sum::<f64>() * unit
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_maxima() {
        assert!((Latency::Exponential.largest(4) - 25.0 / 12.0).abs() < 1e-15);
        assert_eq!(Latency::Constant.largest(9), 1.0);
        // One latency has mean one, whatever σ; of two, E max = 2 Φ(σ/√2).
        for sigma in [0.2, 1.0, 2.0] {
            let latency = Latency::Lognormal { sigma };
            assert!((latency.largest(1) - 1.0).abs() < 1e-12, "{sigma}");
            let two = libm::erfc(-sigma / 2.0);
            assert!((latency.largest(2) - two).abs() < 1e-12, "{sigma}");
        }
    }

    /// Against the exact distribution of the number of distinct clients: 3 draws from 4 equal ones
    /// are all the same with 1/16, two different ones with 9/16, three with 6/16.
    #[test]
    fn a_client_drawn_twice_is_waited_for_once() {
        let scheme = Scheme::WithReplacement { cohort: 3 };
        let h = Latency::Exponential.of_round(scheme, &[0.25; 4]);
        let exact = (1.0 + 9.0 * 1.5 + 6.0 * (11.0 / 6.0)) / 16.0;
        assert!((h / exact - 1.0).abs() < 0.01, "{h} {exact}");
        let all = Latency::Exponential.of_round(Scheme::Full, &[0.25; 4]);
        assert!((all - 25.0 / 12.0).abs() < 1e-15);
    }
}

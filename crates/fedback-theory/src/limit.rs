//! Up to which step size a round shrinks errors on average.
//!
//! Near a point the mean error of a noise-free round is multiplied by Σ g_i B_i(η), where client i's
//! E local steps multiply by B_i = (I − η G_i)^E with G_i = H_i + J_i; with the model deployed once a
//! round, by (I − η H_i)^E − η Σ_{k<E} (I − η H_i)^k J_i. Errors shrink while the spectral radius is
//! below one.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Deploy, Protocol};
use nalgebra::DMatrix;

use crate::spectrum;

/// The round map of a problem near one point.
pub struct RoundMap {
    /// (E[coefficient], gradient scale, H_i, J_i) of every client.
    clients: Vec<(f64, f64, DMatrix<f64>, DMatrix<f64>)>,
    local_steps: usize,
    deploy: Deploy,
    dim: usize,
}

impl RoundMap {
    /// Linearises the rounds of a protocol at `theta`.
    pub fn new(federation: &Federation, protocol: &Protocol, theta: &[f64]) -> Self {
        let count = federation.clients() as f64;
        let clients = federation
            .weights
            .iter()
            .enumerate()
            .filter(|(_, p)| **p > 0.0)
            .map(|(i, &p)| {
                let expansion = federation.population(i).expand(theta, theta);
                let (weight, scale) = match protocol.scale_objectives {
                    true => (1.0 / count, count * p),
                    false => (p, 1.0),
                };
                (weight, scale, expansion.curvature, expansion.reaction)
            })
            .collect();
        let (local_steps, deploy) = (protocol.local_steps, protocol.deploy);
        RoundMap { clients, local_steps, deploy, dim: theta.len() }
    }

    /// The spectral radius of the round at step size η.
    pub fn radius(&self, size: f64) -> Option<f64> {
        let identity = DMatrix::identity(self.dim, self.dim);
        let mut sum = DMatrix::zeros(self.dim, self.dim);
        for (weight, scale, curvature, reaction) in &self.clients {
            let size = size * scale;
            let mut map = identity.clone();
            for _ in 0..self.local_steps {
                map = match self.deploy {
                    Deploy::Step => &map - (curvature + reaction) * &map * size,
                    Deploy::Round => &map - curvature * &map * size - reaction * size,
                };
            }
            sum += map * *weight;
        }
        spectrum::radius(&sum)
    }

    /// The largest η such that every smaller one shrinks errors: the first crossing of radius one on
    /// a geometric scan, refined by bisection. None where even tiny steps do not shrink them, or
    /// no step within the scan fails to.
    pub fn largest_step(&self) -> Option<f64> {
        let steepest = self
            .clients
            .iter()
            .map(|(_, scale, h, j)| scale * (h + j).norm().max(h.norm()))
            .fold(f64::MIN_POSITIVE, f64::max);
        let shrinks = |size: f64| self.radius(size).is_some_and(|radius| radius < 1.0);
        let mut below = 1e-4 / (steepest * self.local_steps as f64);
        if !shrinks(below) {
            return None;
        }
        for _ in 0..600 {
            let mut above = below * 1.05;
            if shrinks(above) {
                below = above;
                continue;
            }
            for _ in 0..50 {
                let middle = 0.5 * (below + above);
                if shrinks(middle) { below = middle } else { above = middle }
            }
            return Some(below);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedback_core::base::{Base, Gaussian};
    use fedback_core::loss::Loss;
    use fedback_core::protocol::{Aggregate, Scheme, StepSize};
    use fedback_core::response::{Sensitivity, location};

    fn limit(sensitivity: &[f64], local_steps: usize, deploy: Deploy) -> Option<f64> {
        let n = sensitivity.len();
        let federation = Federation {
            weights: vec![1.0 / n as f64; n],
            base: Base::Gaussian(Gaussian { dim: 1, mean: vec![1.0; n], noise: 1.0 }),
            response: location(&Sensitivity::Scalar(sensitivity.to_vec()), 1, false),
            loss: Loss::Mean,
        };
        let protocol = Protocol {
            scheme: Scheme::Full,
            local_steps,
            batch: 1,
            step_size: StepSize::Constant(1.0),
            deploy,
            aggregate: Aggregate::Deltas,
            scale_objectives: false,
        };
        RoundMap::new(&federation, &protocol, &[0.0]).largest_step()
    }

    #[test]
    fn closed_forms() {
        // One step: |1 − η(1 − ε)| < 1.
        assert!((limit(&[0.2, 0.4], 1, Deploy::Step).unwrap() - 2.0 / 0.7).abs() < 1e-9);
        // One client, two steps deployed at once: (1−η)² + η(2−η)ε with ε = −2 reaches −1 where
        // 3η² − 6η + 2 = 0.
        let expected = 1.0 - (1.0f64 / 3.0).sqrt();
        assert!((limit(&[-2.0], 2, Deploy::Round).unwrap() - expected).abs() < 1e-9);
        // A repelling stable point has no limit to speak of.
        assert_eq!(limit(&[1.5], 1, Deploy::Step), None);
    }
}

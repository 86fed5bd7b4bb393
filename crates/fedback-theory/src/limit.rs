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
    clients: Vec<LocalMap>,
    local_steps: usize,
    deploy: Deploy,
    dim: usize,
}

struct LocalMap {
    weight: f64,
    scale: f64,
    curvature: DMatrix<f64>,
    reaction: DMatrix<f64>,
}

/// Multiplications that one radius may cost: a scan asks for a few hundred.
const BUDGET: f64 = 4e6;

impl RoundMap {
    /// Linearises the rounds of a protocol at `theta`. Where clients are too many for a scan, evenly
    /// spaced ones stand for all; none where the dimension alone is too high.
    pub fn new(federation: &Federation, protocol: &Protocol, theta: &[f64]) -> Option<Self> {
        let count = federation.clients() as f64;
        let relevant: Vec<usize> =
            (0..federation.clients()).filter(|&i| federation.weights[i] > 0.0).collect();
        let (dim, local_steps) = (theta.len(), protocol.local_steps);
        let each = (2.0 * dim as f64).powi(3) * (2.0 + (local_steps as f64).log2());
        let affordable = (BUDGET / each).floor() as usize;
        if affordable == 0 {
            return None;
        }
        let every = relevant.len().div_ceil(affordable);
        let chosen: Vec<usize> = relevant.into_iter().step_by(every).collect();
        let total: f64 = match protocol.scale_objectives {
            true => chosen.len() as f64 / count,
            false => chosen.iter().map(|&i| federation.weights[i]).sum(),
        };
        let clients = chosen
            .into_iter()
            .map(|i| {
                let p = federation.weights[i];
                let expansion = federation.population(i).expand(theta, theta);
                let (weight, scale) = match protocol.scale_objectives {
                    true => (1.0 / count, count * p),
                    false => (p, 1.0),
                };
                LocalMap {
                    weight: weight / total,
                    scale,
                    curvature: expansion.curvature,
                    reaction: expansion.reaction,
                }
            })
            .collect();
        Some(RoundMap { clients, local_steps, deploy: protocol.deploy, dim })
    }

    /// The spectral radius of the round at step size η.
    pub fn radius(&self, size: f64) -> Option<f64> {
        let mut sum = DMatrix::zeros(self.dim, self.dim);
        for client in &self.clients {
            sum += self.local(client, size * client.scale) * client.weight;
        }
        spectrum::radius(&sum)
    }

    /// What E local steps multiply an error with: a power of the step acting on (local, broadcast).
    fn local(&self, client: &LocalMap, size: f64) -> DMatrix<f64> {
        let dim = self.dim;
        let (curvature, reaction) = (&client.curvature * size, &client.reaction * size);
        let mut step = DMatrix::identity(2 * dim, 2 * dim);
        let mut kept = step.view_mut((0, 0), (dim, dim));
        kept -= curvature;
        match self.deploy {
            Deploy::Step => kept -= reaction,
            Deploy::Round => step.view_mut((0, dim), (dim, dim)).copy_from(&-reaction),
        }
        let steps = step.pow(self.local_steps as u32);
        steps.view((0, 0), (dim, dim)) + steps.view((0, dim), (dim, dim))
    }

    /// The largest η such that every smaller one shrinks errors: the first crossing of radius one on
    /// a geometric scan, refined by bisection. None where even tiny steps do not shrink them, or
    /// no step within the scan fails to.
    pub fn largest_step(&self) -> Option<f64> {
        let steepest = self
            .clients
            .iter()
            .map(|client| {
                let (h, j) = (&client.curvature, &client.reaction);
                client.scale * (h + j).norm().max(h.norm())
            })
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
        RoundMap::new(&federation, &protocol, &[0.0]).unwrap().largest_step()
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

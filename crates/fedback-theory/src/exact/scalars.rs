//! The recursion where coordinates do not mix: three numbers for every client and coordinate.

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Aggregate, Deploy, Scheme};

use super::Aggregation;
use crate::choice::Choice;

/// One recursion for every client and coordinate, client after client.
pub(super) struct Scalars {
    dim: usize,
    scale: Vec<f64>,
    sensitivity: Vec<f64>,
    drive: Vec<f64>,
    noise: Vec<f64>,
    u: Vec<f64>,
    a: Vec<f64>,
    q: Vec<f64>,
    /// Mean and variance of each coordinate of the θ last broadcast.
    pub(super) shared_mean: Vec<f64>,
    pub(super) shared: Vec<f64>,
}

impl Scalars {
    pub(super) fn new(
        federation: &Federation,
        protocol: &PFedAvg,
        scale: Vec<f64>,
        start: &[f64],
        centre: &[f64],
    ) -> Self {
        let (dim, clients) = (federation.dim(), federation.clients());
        let (mut sensitivity, mut drive, mut noise) = (Vec::new(), Vec::new(), Vec::new());
        for client in 0..clients {
            let population = federation.population(client);
            let (mean, variance) = (population.base_mean(), population.base_variance());
            for j in 0..dim {
                let epsilon = federation.response().diagonal(client, j);
                sensitivity.push(epsilon);
                drive.push(mean[j] + epsilon * centre[j] - centre[j]);
                noise.push(variance[j] / protocol.batch.size());
            }
        }
        let shared_mean: Vec<f64> = start.iter().zip(centre).map(|(s, c)| s - c).collect();
        Scalars {
            dim,
            scale,
            sensitivity,
            drive,
            noise,
            u: shared_mean.repeat(clients),
            a: vec![1.0; clients * dim],
            q: vec![0.0; clients * dim],
            shared: vec![0.0; dim],
            shared_mean,
        }
    }

    pub(super) fn step(&mut self, size: f64, deploy: Deploy) {
        let dim = self.dim;
        for k in 0..self.u.len() {
            let size = size * self.scale[k / dim];
            let epsilon = self.sensitivity[k];
            let (keep, reaction) = match deploy {
                Deploy::Step => (1.0 - size * (1.0 - epsilon), 0.0),
                Deploy::Round => (1.0 - size, size * epsilon),
            };
            self.u[k] =
                keep * self.u[k] + size * self.drive[k] + reaction * self.shared_mean[k % dim];
            self.a[k] = keep * self.a[k] + reaction;
            self.q[k] = keep * keep * self.q[k] + size * size * self.noise[k];
        }
    }

    /// max E|∇ℓ_i|² at the clients' own θ, batches and scales included.
    pub(super) fn largest_gradient(&self) -> f64 {
        let square = |k: usize| {
            let stay = 1.0 - self.sensitivity[k];
            let variance = self.a[k] * self.a[k] * self.shared[k % self.dim] + self.q[k];
            let mean = stay * self.u[k] - self.drive[k];
            mean * mean + stay * stay * variance + self.noise[k]
        };
        (0..self.scale.len())
            .map(|i| {
                let own: f64 = (i * self.dim..(i + 1) * self.dim).map(square).sum();
                self.scale[i] * self.scale[i] * own
            })
            .fold(0.0, f64::max)
    }

    /// Folds the round and returns the consensus error just before.
    pub(super) fn aggregate(&mut self, how: &Aggregation<'_>, centre: &[f64]) -> f64 {
        let mut consensus = 0.0;
        for j in 0..self.dim {
            let column = Column { scalars: self, j, p: how.weights };
            consensus += column.spread();
            let kept = how.kept();
            let mean = column.mean(&how.expected, |k| self.u[k]) + kept * self.shared_mean[j];
            let gain = column.mean(&how.expected, |k| self.a[k]) + kept;
            let noise = column.sum(|i, k| how.expected[i] * how.expected[i] * self.q[k]);
            let variance = self.shared[j] * gain * gain
                + noise
                + column.sampling_variance(how, centre[j], noise);
            self.shared_mean[j] = mean;
            self.shared[j] = variance;
        }
        for client in self.u.chunks_exact_mut(self.dim) {
            client.copy_from_slice(&self.shared_mean);
        }
        self.a.fill(1.0);
        self.q.fill(0.0);
        consensus
    }
}

/// One coordinate of all clients.
struct Column<'a> {
    scalars: &'a Scalars,
    j: usize,
    p: &'a [f64],
}

impl Column<'_> {
    /// Σ over clients of a function of client and place.
    fn sum(&self, of: impl Fn(usize, usize) -> f64) -> f64 {
        (0..self.p.len()).map(|i| of(i, i * self.scalars.dim + self.j)).sum()
    }

    fn mean(&self, weights: &[f64], of: impl Fn(usize) -> f64) -> f64 {
        self.sum(|i, k| weights[i] * of(k))
    }

    /// E Σ p_i (w_i − w̄)².
    fn spread(&self) -> f64 {
        let Scalars { u, a, q, shared, .. } = self.scalars;
        let (mean, gain) = (self.mean(self.p, |k| u[k]), self.mean(self.p, |k| a[k]));
        self.sum(|i, k| {
            let p = self.p[i];
            p * ((u[k] - mean).powi(2) + shared[self.j] * (a[k] - gain).powi(2) + (1.0 - p) * q[k])
        })
    }

    /// The variance that the choice of the cohort adds. Without replacement the aggregate is a mean
    /// of K of the N values N g_k y_k, where y is what is aggregated: iterates or deltas.
    fn sampling_variance(&self, how: &Aggregation<'_>, centre: f64, noise: f64) -> f64 {
        let Scalars { u, a, shared, shared_mean, .. } = self.scalars;
        let cohort = match how.scheme {
            Scheme::Full => return 0.0,
            Scheme::WithReplacement { cohort } => return self.spread() / cohort as f64,
            Scheme::WithoutReplacement { cohort } => cohort,
            Scheme::FirstArrivals { .. } => {
                return how.choice.map_or(f64::NAN, |choice| self.arrival_variance(choice));
            }
        };
        let (origin, own) = match how.aggregate {
            Aggregate::Iterates if !how.sums_to_one() => (-centre, 0.0),
            Aggregate::Iterates | Aggregate::Deltas => (shared_mean[self.j], 1.0),
        };
        let (y, b) = (|k: usize| u[k] - origin, |k: usize| a[k] - own);
        let (mean, gain) = (self.mean(&how.expected, y), self.mean(&how.expected, b));
        let n = self.p.len() as f64;
        let values = self.sum(|i, k| {
            let g = n * how.expected[i];
            (g * y(k) - mean).powi(2) + shared[self.j] * (g * b(k) - gain).powi(2)
        });
        how.finite_population(cohort) * (values / n + (n - 1.0) * noise)
    }

    /// Σ Cov(c_k, c_l) E δ_k δ_l with the updates δ of all clients.
    fn arrival_variance(&self, choice: &Choice) -> f64 {
        let Scalars { u, a, q, shared, shared_mean, .. } = self.scalars;
        let (origin, shared) = (shared_mean[self.j], shared[self.j]);
        self.sum(|i, k| {
            let column = choice.covariance.column(i);
            let pairs = self.sum(|m, l| {
                column[m]
                    * ((u[k] - origin) * (u[l] - origin) + shared * (a[k] - 1.0) * (a[l] - 1.0))
            });
            pairs + column[i] * q[k]
        })
    }
}

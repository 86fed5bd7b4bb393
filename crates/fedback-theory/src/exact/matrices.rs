//! The recursion where the response mixes coordinates: a vector and two matrices for every client.

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Aggregate, Deploy, Scheme};
use nalgebra::{DMatrix, DVector};

use super::Aggregation;
use crate::choice::Choice;

/// Full matrices for every client.
pub(super) struct Matrices {
    scale: Vec<f64>,
    shift: Vec<DMatrix<f64>>,
    drive: Vec<DVector<f64>>,
    noise: Vec<DMatrix<f64>>,
    u: Vec<DVector<f64>>,
    a: Vec<DMatrix<f64>>,
    q: Vec<DMatrix<f64>>,
    pub(super) shared_mean: DVector<f64>,
    pub(super) shared: DMatrix<f64>,
}

impl Matrices {
    pub(super) fn new(
        federation: &Federation,
        protocol: &PFedAvg,
        scale: Vec<f64>,
        start: &[f64],
        centre: &[f64],
    ) -> Self {
        let (dim, clients) = (federation.dim(), federation.clients());
        let centre = DVector::from_column_slice(centre);
        let (mut shift, mut drive, mut noise) = (Vec::new(), Vec::new(), Vec::new());
        for client in 0..clients {
            let population = federation.population(client);
            let (mean, covariance) = population.base_moments();
            let matrix = population.shift_matrix();
            drive.push(mean + &matrix * &centre - &centre);
            shift.push(matrix);
            noise.push(covariance / protocol.batch.size());
        }
        let shared_mean = DVector::from_column_slice(start) - centre;
        Matrices {
            scale,
            shift,
            drive,
            noise,
            u: vec![shared_mean.clone(); clients],
            a: vec![DMatrix::identity(dim, dim); clients],
            q: vec![DMatrix::zeros(dim, dim); clients],
            shared: DMatrix::zeros(dim, dim),
            shared_mean,
        }
    }

    pub(super) fn step(&mut self, size: f64, deploy: Deploy) {
        let dim = self.shared_mean.len();
        let identity = DMatrix::identity(dim, dim);
        for i in 0..self.u.len() {
            let size = size * self.scale[i];
            let shift = &self.shift[i];
            let (keep, reaction) = match deploy {
                Deploy::Step => (&identity * (1.0 - size) + shift * size, DMatrix::zeros(dim, dim)),
                Deploy::Round => (&identity * (1.0 - size), shift * size),
            };
            self.u[i] = &keep * &self.u[i] + &self.drive[i] * size + &reaction * &self.shared_mean;
            self.a[i] = &keep * &self.a[i] + &reaction;
            self.q[i] = &keep * &self.q[i] * keep.transpose() + &self.noise[i] * (size * size);
        }
    }

    /// max E|∇ℓ_i|² at the clients' own θ, batches and scales included.
    pub(super) fn largest_gradient(&self) -> f64 {
        let square = |i: usize| {
            let stay = DMatrix::identity(self.shared.nrows(), self.shared.nrows()) - &self.shift[i];
            let covariance = &self.a[i] * &self.shared * self.a[i].transpose() + &self.q[i];
            let mean = &stay * &self.u[i] - &self.drive[i];
            let spread = &stay * covariance * stay.transpose() + &self.noise[i];
            self.scale[i] * self.scale[i] * (mean.norm_squared() + spread.trace())
        };
        (0..self.u.len()).map(square).fold(0.0, f64::max)
    }

    pub(super) fn aggregate(&mut self, how: &Aggregation<'_>, centre: &[f64]) -> f64 {
        let clients = self.u.len();
        let dim = centre.len();
        let g = &how.expected;
        let mut mean: DVector<f64> = (0..clients).map(|i| &self.u[i] * g[i]).sum();
        let mut gain: DMatrix<f64> = (0..clients).map(|i| &self.a[i] * g[i]).sum();
        if how.choice.is_some() {
            mean += &self.shared_mean * how.kept();
            gain += DMatrix::identity(dim, dim) * how.kept();
        }
        let noise: DMatrix<f64> = (0..clients).map(|i| &self.q[i] * (g[i] * g[i])).sum();
        let spread = self.spread(how.weights);
        let consensus = spread.trace();
        let sampling = match how.scheme {
            Scheme::Full => DMatrix::zeros(dim, dim),
            Scheme::WithReplacement { cohort } => spread / cohort as f64,
            Scheme::WithoutReplacement { cohort } => {
                self.without_replacement(how, centre, &noise) * how.finite_population(cohort)
            }
            Scheme::FirstArrivals { .. } => match how.choice {
                Some(choice) => self.arrival_variance(choice),
                None => DMatrix::from_element(dim, dim, f64::NAN),
            },
        };
        self.shared = &gain * &self.shared * gain.transpose() + noise + sampling;
        self.shared_mean = mean;
        self.u.fill(self.shared_mean.clone());
        self.a.fill(DMatrix::identity(dim, dim));
        self.q.fill(DMatrix::zeros(dim, dim));
        consensus
    }

    /// E Σ p_i (w_i − w̄)(w_i − w̄)ᵀ.
    fn spread(&self, p: &[f64]) -> DMatrix<f64> {
        let clients = 0..self.u.len();
        let mean: DVector<f64> = clients.clone().map(|i| &self.u[i] * p[i]).sum();
        let gain: DMatrix<f64> = clients.clone().map(|i| &self.a[i] * p[i]).sum();
        clients
            .map(|i| {
                let (y, b) = (&self.u[i] - &mean, &self.a[i] - &gain);
                let shared = &b * &self.shared * b.transpose();
                (&y * y.transpose() + shared + &self.q[i] * (1.0 - p[i])) * p[i]
            })
            .sum()
    }

    /// Σ Cov(c_k, c_l) E δ_k δ_lᵀ with the updates δ of all clients.
    fn arrival_variance(&self, choice: &Choice) -> DMatrix<f64> {
        let clients = 0..self.u.len();
        let dim = self.shared_mean.len();
        let identity = DMatrix::identity(dim, dim);
        let pull = |i: usize| &self.u[i] - &self.shared_mean;
        let own = |i: usize| &self.a[i] - &identity;
        clients
            .clone()
            .map(|i| {
                let column = choice.covariance.column(i);
                let others: DVector<f64> = clients.clone().map(|l| pull(l) * column[l]).sum();
                let gains: DMatrix<f64> = clients.clone().map(|l| own(l) * column[l]).sum();
                pull(i) * others.transpose()
                    + own(i) * &self.shared * gains.transpose()
                    + &self.q[i] * column[i]
            })
            .sum()
    }

    fn without_replacement(
        &self,
        how: &Aggregation<'_>,
        centre: &[f64],
        noise: &DMatrix<f64>,
    ) -> DMatrix<f64> {
        let clients = 0..self.u.len();
        let dim = centre.len();
        let n = self.u.len() as f64;
        let (origin, own) = match how.aggregate {
            Aggregate::Iterates if !how.sums_to_one() => {
                (-DVector::from_column_slice(centre), DMatrix::zeros(dim, dim))
            }
            Aggregate::Iterates | Aggregate::Deltas => {
                (self.shared_mean.clone(), DMatrix::identity(dim, dim))
            }
        };
        let y = |i: usize| (&self.u[i] - &origin) * (n * how.expected[i]);
        let b = |i: usize| (&self.a[i] - &own) * (n * how.expected[i]);
        let mean = clients.clone().map(y).sum::<DVector<f64>>() / n;
        let gain = clients.clone().map(b).sum::<DMatrix<f64>>() / n;
        let values: DMatrix<f64> = clients
            .map(|i| {
                let (y, b) = (y(i) - &mean, b(i) - &gain);
                &y * y.transpose() + &b * &self.shared * b.transpose()
            })
            .sum();
        values / n + noise * (n - 1.0)
    }
}

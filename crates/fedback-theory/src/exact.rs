//! Exact moments of P-FedAvg on affine problems: no sampling, no bound.
//!
//! Where every client's gradient is affine with noise that does not depend on θ, the iterates have
//! a mean and a covariance that follow a closed recursion. After a broadcast all clients share one
//! random θ and their noises are independent, hence at every step, with x_i the error of client i,
//!
//! E x_i = u_i,  Cov(x_i, x_j) = A_i V A_jᵀ + δ_ij Q_i:
//!
//! the mean, the response to the shared value, and the noise collected since. A step costs O(N). An
//! aggregation folds them: with weights g_i = E[coefficient_i], the new mean is Σ g_i u_i and the
//! new V = (Σ g A) V (Σ g A)ᵀ + Σ g² Q + the variance of the choice of the cohort, for which
//! `sampling_variance` has the formula of each scheme. Coordinates that do not mix are recursions
//! of their own; matrix responses carry full matrices.

use std::borrow::Cow;

use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Aggregate, Deploy, Protocol, Round, Scheme, Step};
use fedback_core::risk::PerformativeRisk;
use nalgebra::{DMatrix, DVector};

/// Exact expectations after a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Rounds closed.
    pub round: Round,
    /// E|θ − θ^PS|², where there is a stable point.
    pub distance_sq: Option<f64>,
    /// E f(θ; θ).
    pub risk: f64,
    /// E Σ p_i |w_i − w̄|² just before the aggregation that closed the round; 0 at round 0.
    pub consensus: f64,
}

impl Moments {
    /// Whether every number is finite.
    pub fn is_finite(&self) -> bool {
        self.distance_sq.unwrap_or(0.0).is_finite()
            && self.risk.is_finite()
            && self.consensus.is_finite()
    }
}

/// Why there are no exact moments, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAffine(pub String);

/// The recursion, advanced round by round.
pub struct ExactCurve<'a> {
    protocol: &'a Protocol,
    risk: PerformativeRisk<'a>,
    aggregation: Aggregation<'a>,
    /// What errors are measured from: the stable point where there is one.
    centre: Vec<f64>,
    has_stable_point: bool,
    round: Round,
    consensus: f64,
    state: State,
}

enum State {
    Scalars(Scalars),
    Matrices(Matrices),
}

/// The weights and the scheme, as the aggregation sees them.
struct Aggregation<'a> {
    scheme: Scheme,
    aggregate: Aggregate,
    scaled: bool,
    weights: &'a [f64],
    /// E[coefficient_i].
    expected: Cow<'a, [f64]>,
}

impl<'a> ExactCurve<'a> {
    /// The curve of a problem started at `start`; `stable_point` where there is one.
    pub fn new(
        federation: &'a Federation,
        protocol: &'a Protocol,
        start: &[f64],
        stable_point: Option<&[f64]>,
    ) -> Result<Self, NotAffine> {
        if !federation.is_affine() {
            let name = match federation.loss {
                Loss::Mean => "mean",
                Loss::Squared { .. } => "squared",
                Loss::Logistic { .. } => "logistic",
            };
            return Err(NotAffine(format!(
                "found \"{name}\", but exact moments need the loss \"mean\": affine gradients with \
                 noise that does not depend on the model"
            )));
        }
        let clients = federation.clients();
        let centre = stable_point.map_or_else(|| vec![0.0; federation.dim()], <[f64]>::to_vec);
        let scale: Vec<f64> = match protocol.scale_objectives {
            true => federation.weights.iter().map(|p| clients as f64 * p).collect(),
            false => vec![1.0; clients],
        };
        let state = match federation.response.is_diagonal() {
            true => State::Scalars(Scalars::new(federation, protocol, scale, start, &centre)),
            false => State::Matrices(Matrices::new(federation, protocol, scale, start, &centre)),
        };
        let expected = match protocol.scale_objectives {
            true => Cow::Owned(vec![1.0 / clients as f64; clients]),
            false => Cow::Borrowed(federation.weights.as_slice()),
        };
        let aggregation = Aggregation {
            scheme: protocol.scheme,
            aggregate: protocol.aggregate,
            scaled: protocol.scale_objectives,
            weights: &federation.weights,
            expected,
        };
        Ok(ExactCurve {
            protocol,
            risk: PerformativeRisk::new(federation),
            aggregation,
            centre,
            has_stable_point: stable_point.is_some(),
            round: Round(0),
            consensus: 0.0,
            state,
        })
    }

    /// Closes one more round.
    pub fn advance(&mut self) {
        let first = self.protocol.first_step(self.round).0;
        for step in first..first + self.protocol.local_steps as u64 {
            let size = self.protocol.step_size.at(Step(step));
            match &mut self.state {
                State::Scalars(scalars) => scalars.step(size, self.protocol.deploy),
                State::Matrices(matrices) => matrices.step(size, self.protocol.deploy),
            }
        }
        self.consensus = match &mut self.state {
            State::Scalars(scalars) => scalars.aggregate(&self.aggregation, &self.centre),
            State::Matrices(matrices) => matrices.aggregate(&self.aggregation, &self.centre),
        };
        self.round.0 += 1;
    }

    /// The moments after the last closed round.
    pub fn moments(&self) -> Moments {
        let (mean, variance) = match &self.state {
            State::Scalars(s) => (s.shared_mean.clone(), DVector::from_column_slice(&s.shared)),
            State::Matrices(m) => (m.shared_mean.as_slice().to_vec(), m.shared.diagonal()),
        };
        let distance: f64 = mean.iter().map(|u| u * u).sum::<f64>() + variance.sum();
        let theta: Vec<f64> = mean.iter().zip(&self.centre).map(|(u, c)| u + c).collect();
        let spread = match (&self.risk, &self.state) {
            (PerformativeRisk::Quadratic { hessian, .. }, State::Matrices(m)) => {
                0.5 * (hessian * &m.shared).trace()
            }
            (PerformativeRisk::Quadratic { hessian, .. }, State::Scalars(_)) => {
                0.5 * hessian.diagonal().dot(&variance)
            }
            (PerformativeRisk::Rows(_), _) => 0.0,
        };
        Moments {
            round: self.round,
            distance_sq: self.has_stable_point.then_some(distance),
            risk: self.risk.at(&theta) + spread,
            consensus: self.consensus,
        }
    }
}

impl Aggregation<'_> {
    /// (N−K)/(K(N−1)), the variance of a mean of K of N values without replacement in units of
    /// theirs.
    fn finite_population(&self, cohort: usize) -> f64 {
        let (n, k) = (self.weights.len() as f64, cohort as f64);
        if n > 1.0 { (n - k) / (k * (n - 1.0)) } else { 0.0 }
    }

    /// Whether the coefficients of every cohort sum to one, so that it does not matter what the
    /// aggregated values are measured from.
    fn sums_to_one(&self) -> bool {
        self.scaled || !matches!(self.scheme, Scheme::WithoutReplacement { .. })
    }
}

/// One recursion for every client and coordinate, client after client.
struct Scalars {
    dim: usize,
    scale: Vec<f64>,
    sensitivity: Vec<f64>,
    drive: Vec<f64>,
    noise: Vec<f64>,
    u: Vec<f64>,
    a: Vec<f64>,
    q: Vec<f64>,
    /// Mean and variance of each coordinate of the θ last broadcast.
    shared_mean: Vec<f64>,
    shared: Vec<f64>,
}

impl Scalars {
    fn new(
        federation: &Federation,
        protocol: &Protocol,
        scale: Vec<f64>,
        start: &[f64],
        centre: &[f64],
    ) -> Self {
        let (dim, clients) = (federation.dim(), federation.clients());
        let (mut sensitivity, mut drive, mut noise) = (Vec::new(), Vec::new(), Vec::new());
        for client in 0..clients {
            let (mean, covariance) = federation.population(client).base_moments();
            for j in 0..dim {
                let epsilon = federation.response.diagonal(client, j);
                sensitivity.push(epsilon);
                drive.push(mean[j] + epsilon * centre[j] - centre[j]);
                noise.push(covariance[(j, j)] / protocol.batch as f64);
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

    fn step(&mut self, size: f64, deploy: Deploy) {
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

    /// Folds the round and returns the consensus error just before.
    fn aggregate(&mut self, how: &Aggregation<'_>, centre: &[f64]) -> f64 {
        let mut consensus = 0.0;
        for j in 0..self.dim {
            let column = Column { scalars: self, j, p: how.weights };
            consensus += column.spread();
            let mean = column.mean(&how.expected, |k| self.u[k]);
            let gain = column.mean(&how.expected, |k| self.a[k]);
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
        };
        let (origin, own) = match how.aggregate {
            Aggregate::Iterates if !how.sums_to_one() => (-centre, 0.0),
            _ => (shared_mean[self.j], 1.0),
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
}

/// Full matrices for every client.
struct Matrices {
    scale: Vec<f64>,
    shift: Vec<DMatrix<f64>>,
    drive: Vec<DVector<f64>>,
    noise: Vec<DMatrix<f64>>,
    u: Vec<DVector<f64>>,
    a: Vec<DMatrix<f64>>,
    q: Vec<DMatrix<f64>>,
    shared_mean: DVector<f64>,
    shared: DMatrix<f64>,
}

impl Matrices {
    fn new(
        federation: &Federation,
        protocol: &Protocol,
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
            noise.push(covariance / protocol.batch as f64);
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

    fn step(&mut self, size: f64, deploy: Deploy) {
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

    fn aggregate(&mut self, how: &Aggregation<'_>, centre: &[f64]) -> f64 {
        let clients = self.u.len();
        let dim = centre.len();
        let g = &how.expected;
        let mean: DVector<f64> = (0..clients).map(|i| &self.u[i] * g[i]).sum();
        let gain: DMatrix<f64> = (0..clients).map(|i| &self.a[i] * g[i]).sum();
        let noise: DMatrix<f64> = (0..clients).map(|i| &self.q[i] * (g[i] * g[i])).sum();
        let spread = self.spread(how.weights);
        let consensus = spread.trace();
        let sampling = match how.scheme {
            Scheme::Full => DMatrix::zeros(dim, dim),
            Scheme::WithReplacement { cohort } => spread / cohort as f64,
            Scheme::WithoutReplacement { cohort } => {
                self.without_replacement(how, centre, &noise) * how.finite_population(cohort)
            }
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
            _ => (self.shared_mean.clone(), DMatrix::identity(dim, dim)),
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

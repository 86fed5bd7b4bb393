//! A client's D_i, seen through expectations.
//!
//! [`Population`] is base × response × loss for one client: the expected loss f_i(θ; φ) of a
//! decision θ on data that react to a deployed φ, and its derivatives, exact for every built-in
//! member. Sampling from it is the engine's affair.

mod fates;

use std::borrow::Cow;

use nalgebra::{DMatrix, DVector};

use crate::base::{Base, Table};
use crate::federation::Federation;
use crate::loss::{Logistic, Loss, MarginLoss, Squared};
use crate::response::Shift;
use crate::simd::{self, Kernel, LANES, Path};

/// One client's population and loss.
#[derive(Clone, Copy, Debug)]
pub struct Population<'a> {
    federation: &'a Federation,
    client: usize,
}

/// f_i(θ; φ) and its derivatives at one (θ, φ).
#[derive(Clone, Debug)]
pub struct Expansion {
    /// f_i(θ; φ).
    pub risk: f64,
    /// ∇f_i, the derivative in θ.
    pub gradient: DVector<f64>,
    /// H_i, the derivative of the gradient in θ.
    pub curvature: DMatrix<f64>,
    /// J_i, the derivative of the gradient in φ.
    pub reaction: DMatrix<f64>,
    /// c_i, the derivative of f_i in φ.
    pub cost: DVector<f64>,
}

/// The performative risk f_i(θ; θ) with its gradient and Hessian as a function of θ alone.
#[derive(Clone, Debug)]
pub struct Performative {
    /// f_i(θ; θ).
    pub risk: f64,
    /// Its gradient, the reaction of the population included.
    pub gradient: DVector<f64>,
    /// Its Hessian.
    pub hessian: DMatrix<f64>,
}

/// Averages over a client's shifted rows x, with ℓ′ and ℓ″ the slope and curvature of the margin.
struct RowMoments {
    value: f64,
    slope: f64,
    curvature: f64,
    /// E[ℓ′ x]
    slope_row: DVector<f64>,
    /// E[ℓ″ x]
    curvature_row: DVector<f64>,
    /// E[ℓ″ x xᵀ]
    curvature_square: DMatrix<f64>,
}

impl<'a> Population<'a> {
    pub(crate) fn new(federation: &'a Federation, client: usize) -> Self {
        Population { federation, client }
    }

    /// Whose it is.
    pub fn client(&self) -> usize {
        self.client
    }

    /// The derivative of how a deployed φ moves all observations; none where these react one by one.
    pub fn shift_matrix(&self, deployed: &[f64]) -> Option<DMatrix<f64>> {
        Some(self.federation.shift()?.derivative(self.client, deployed))
    }

    /// The declared sensitivity ε_i; infinite where there is none.
    pub fn sensitivity(&self) -> f64 {
        let (base, dim) = (self.federation.base(), self.federation.dim());
        self.federation.response().sensitivity(self.client, base, dim)
    }

    /// How far a deployed φ moves all observations. Rows that react one by one are not asked here.
    fn moved(&self, deployed: &[f64]) -> Vec<f64> {
        let mut moved = vec![0.0; self.federation.width()];
        let shift = self.federation.shift().unwrap_or(&Shift::None);
        shift.apply(self.client, deployed, &mut moved);
        moved
    }

    /// The mean of the base observations.
    pub fn base_mean(&self) -> Cow<'a, [f64]> {
        match self.federation.base() {
            Base::Gaussian(base) => Cow::Borrowed(base.mean(self.client)),
            Base::Table(table) => Cow::Owned(row_average(table, self.client, |x, j| x[j])),
        }
    }

    /// The variance of each coordinate of the base observations.
    pub fn base_variance(&self) -> Vec<f64> {
        match self.federation.base() {
            Base::Gaussian(base) => vec![base.noise * base.noise; base.dim],
            Base::Table(table) => {
                let mean = self.base_mean();
                row_average(table, self.client, |x, j| (x[j] - mean[j]) * (x[j] - mean[j]))
            }
        }
    }

    /// The mean and covariance of the base observations.
    pub fn base_moments(&self) -> (DVector<f64>, DMatrix<f64>) {
        match self.federation.base() {
            Base::Gaussian(base) => (
                DVector::from_column_slice(base.mean(self.client)),
                DMatrix::identity(base.dim, base.dim) * (base.noise * base.noise),
            ),
            Base::Table(table) => {
                let rows: Vec<_> = table
                    .rows_of(self.client)
                    .map(|(x, _)| DVector::from_column_slice(x))
                    .collect();
                let count = rows.len() as f64;
                let mean = rows.iter().sum::<DVector<f64>>() / count;
                let covariance = rows
                    .iter()
                    .map(|x| (x - &mean) * (x - &mean).transpose())
                    .sum::<DMatrix<f64>>()
                    / count;
                (mean, covariance)
            }
        }
    }

    /// f_i(θ; φ).
    pub fn risk(&self, theta: &[f64], deployed: &[f64]) -> f64 {
        if let Some(rows) = self.reacting() {
            return self.risk_of_fates(&rows, theta, deployed);
        }
        let (base, loss) = (self.federation.base(), self.federation.loss());
        let shift = self.moved(deployed);
        match (base, loss) {
            (Base::Table(table), Loss::Squared { .. }) => {
                self.row_risk(table, Squared, theta, &shift)
            }
            (Base::Table(table), Loss::Logistic { .. }) => {
                self.row_risk(table, Logistic, theta, &shift)
            }
            // Normal data go with no other loss.
            (Base::Gaussian(base), Loss::Mean | Loss::Squared { .. } | Loss::Logistic { .. }) => {
                let spread = base.dim as f64 * base.noise * base.noise;
                let centre = base.mean(self.client);
                0.5 * (square_distance(theta, centre, &shift) + spread)
            }
            (Base::Table(table), Loss::Mean) => {
                let rows = table.rows_of(self.client);
                let sum: f64 = rows.map(|(x, _)| square_distance(theta, x, &shift)).sum();
                0.5 * sum / table.block(self.client).1.len() as f64
            }
        }
    }

    fn row_risk(&self, table: &Table, loss: impl MarginLoss, theta: &[f64], shift: &[f64]) -> f64 {
        let moved = dot(shift, theta);
        let sum: f64 = table
            .rows_of(self.client)
            .map(|(x, label)| loss.value(dot(x, theta) + moved, label))
            .sum();
        sum / table.block(self.client).1.len() as f64 + self.federation.penalty(theta)
    }

    /// Writes ∇f_i(θ; φ) to `out`, without the matrices of [`Population::expand`].
    pub fn gradient(&self, theta: &[f64], deployed: &[f64], out: &mut [f64]) {
        if let Some(rows) = self.reacting() {
            return self.gradient_of_fates(&rows, theta, deployed, out);
        }
        let federation = self.federation;
        match (federation.base(), federation.loss()) {
            (Base::Table(table), Loss::Squared { .. }) => {
                self.row_gradient(table, Squared, theta, deployed, out);
            }
            (Base::Table(table), Loss::Logistic { .. }) => {
                self.row_gradient(table, Logistic, theta, deployed, out);
            }
            (Base::Table(_), Loss::Mean)
            | (Base::Gaussian(_), Loss::Mean | Loss::Squared { .. } | Loss::Logistic { .. }) => {
                let (mean, moved) = (self.base_mean(), self.moved(deployed));
                for j in 0..out.len() {
                    out[j] = theta[j] - mean[j] - moved[j];
                }
            }
        }
    }

    fn row_gradient(
        &self,
        table: &Table,
        loss: impl MarginLoss,
        theta: &[f64],
        deployed: &[f64],
        out: &mut [f64],
    ) {
        let shift = self.moved(deployed);
        let moved = dot(&shift, theta);
        let share = 1.0 / table.block(self.client).1.len() as f64;
        let (rows, labels) = table.block(self.client);
        out.fill(0.0);
        let total = simd::run(Slopes { rows, labels, loss, theta, moved, sums: out });
        let regularised = theta.len() - usize::from(self.federation.has_intercept());
        for j in 0..out.len() {
            let ridge = if j < regularised { self.federation.loss().l2() * theta[j] } else { 0.0 };
            out[j] = (out[j] + total * shift[j]) * share + ridge;
        }
    }

    /// The covariance of one observation's gradient where `theta` is deployed.
    pub fn gradient_covariance(&self, theta: &[f64]) -> DMatrix<f64> {
        if let Some(rows) = self.reacting() {
            return self.covariance_of_fates(&rows, theta);
        }
        match (self.federation.base(), self.federation.loss()) {
            (Base::Table(table), Loss::Squared { .. }) => {
                self.row_covariance(table, Squared, theta)
            }
            (Base::Table(table), Loss::Logistic { .. }) => {
                self.row_covariance(table, Logistic, theta)
            }
            (Base::Table(_), Loss::Mean)
            | (Base::Gaussian(_), Loss::Mean | Loss::Squared { .. } | Loss::Logistic { .. }) => {
                self.base_moments().1
            }
        }
    }

    fn row_covariance(&self, table: &Table, loss: impl MarginLoss, theta: &[f64]) -> DMatrix<f64> {
        let dim = theta.len();
        let shift = self.moved(theta);
        let (shift, theta) = (DVector::from_vec(shift), DVector::from_column_slice(theta));
        let (mut mean, mut square) = (DVector::zeros(dim), DMatrix::zeros(dim, dim));
        for (row, label) in table.rows_of(self.client) {
            let x = DVector::from_column_slice(row) + &shift;
            let gradient = &x * loss.slope(x.dot(&theta), label);
            square.ger(1.0, &gradient, &gradient, 1.0);
            mean += gradient;
        }
        let count = table.block(self.client).1.len() as f64;
        mean /= count;
        square / count - &mean * mean.transpose()
    }

    /// f_i and its derivatives at (θ, φ).
    pub fn expand(&self, theta: &[f64], deployed: &[f64]) -> Expansion {
        if let Some(rows) = self.reacting() {
            return self.expand_fates(&rows, theta, deployed);
        }
        let dim = theta.len();
        let shift = self.federation.shift().unwrap_or(&Shift::None);
        let m = shift.derivative(self.client, deployed);
        let theta_v = DVector::from_column_slice(theta);
        let Some(rows) = self.row_moments(theta, deployed) else {
            let (mean, covariance) = self.base_moments();
            let moved = match shift.is_linear() {
                true => &m * DVector::from_column_slice(deployed),
                false => DVector::from_vec(self.moved(deployed)),
            };
            let gradient = &theta_v - mean - moved;
            let risk = 0.5 * (gradient.norm_squared() + covariance.trace());
            return Expansion {
                risk,
                cost: -m.tr_mul(&gradient),
                gradient,
                curvature: DMatrix::identity(dim, dim),
                reaction: -m,
            };
        };
        let ridge = self.federation.ridge();
        let score = m.tr_mul(&theta_v);
        Expansion {
            risk: rows.value + self.federation.penalty(theta),
            gradient: &rows.slope_row + ridge.component_mul(&theta_v),
            curvature: rows.curvature_square + DMatrix::from_diagonal(&ridge),
            reaction: &rows.curvature_row * score.transpose() + m * rows.slope,
            cost: score * rows.slope,
        }
    }

    /// f_i(θ; θ) and its derivatives, where data move by a linear map of θ.
    pub(crate) fn performative(&self, theta: &[f64]) -> Performative {
        let dim = theta.len();
        let shift = self.federation.shift().unwrap_or(&Shift::None);
        let m = shift.derivative(self.client, theta);
        let theta_v = DVector::from_column_slice(theta);
        let Some(rows) = self.row_moments(theta, theta) else {
            let (mean, covariance) = self.base_moments();
            let stay = DMatrix::identity(dim, dim) - m;
            let error = &stay * theta_v - mean;
            return Performative {
                risk: 0.5 * (error.norm_squared() + covariance.trace()),
                gradient: stay.tr_mul(&error),
                hessian: stay.tr_mul(&stay),
            };
        };
        let ridge = self.federation.ridge();
        // The margin (x + Mθ)·θ has the gradient x + Mθ + Mᵀθ and the Hessian M + Mᵀ.
        let own = m.tr_mul(&theta_v);
        let cross = &rows.curvature_row * own.transpose();
        Performative {
            risk: rows.value + self.federation.penalty(theta),
            gradient: rows.slope_row + &own * rows.slope + ridge.component_mul(&theta_v),
            hessian: rows.curvature_square
                + &cross
                + cross.transpose()
                + &own * own.transpose() * rows.curvature
                + (&m + m.transpose()) * rows.slope
                + DMatrix::from_diagonal(&ridge),
        }
    }

    /// The row averages of a margin loss, or none where the loss is about the whole observation.
    fn row_moments(&self, theta: &[f64], deployed: &[f64]) -> Option<RowMoments> {
        let Base::Table(table) = self.federation.base() else { return None };
        match self.federation.loss() {
            Loss::Mean => None,
            Loss::Squared { .. } => Some(self.average(table, Squared, theta, deployed)),
            Loss::Logistic { .. } => Some(self.average(table, Logistic, theta, deployed)),
        }
    }

    fn average(
        &self,
        table: &Table,
        loss: impl MarginLoss,
        theta: &[f64],
        deployed: &[f64],
    ) -> RowMoments {
        let dim = theta.len();
        let shift = self.moved(deployed);
        let mut sum = RowMoments {
            value: 0.0,
            slope: 0.0,
            curvature: 0.0,
            slope_row: DVector::zeros(dim),
            curvature_row: DVector::zeros(dim),
            curvature_square: DMatrix::zeros(dim, dim),
        };
        let mut x = DVector::zeros(dim);
        for (row, label) in table.rows_of(self.client) {
            for ((x, row), shift) in x.iter_mut().zip(row).zip(&shift) {
                *x = row + shift;
            }
            let margin = dot(x.as_slice(), theta);
            let (slope, curvature) = (loss.slope(margin, label), loss.curvature(margin, label));
            sum.value += loss.value(margin, label);
            sum.slope += slope;
            sum.curvature += curvature;
            sum.slope_row.axpy(slope, &x, 1.0);
            sum.curvature_row.axpy(curvature, &x, 1.0);
            sum.curvature_square.ger(curvature, &x, &x, 1.0);
        }
        let share = 1.0 / table.block(self.client).1.len() as f64;
        RowMoments {
            value: sum.value * share,
            slope: sum.slope * share,
            curvature: sum.curvature * share,
            slope_row: sum.slope_row * share,
            curvature_row: sum.curvature_row * share,
            curvature_square: sum.curvature_square * share,
        }
    }
}

/// Adds ℓ′ x of rows x with margins ⟨x, θ⟩ + `moved` to `sums`, and returns the sum of ℓ′: row after row,
/// slopes side by side.
struct Slopes<'a, L> {
    rows: &'a [f64],
    labels: &'a [f64],
    loss: L,
    theta: &'a [f64],
    moved: f64,
    sums: &'a mut [f64],
}

impl<L: MarginLoss> Kernel for Slopes<'_, L> {
    type Output = f64;

    #[inline(always)]
    fn run<P: Path>(self, _path: P) -> f64 {
        let Slopes { rows, labels, loss, theta, moved, sums } = self;
        let (dim, mut total) = (theta.len(), 0.0);
        for (rows, labels) in rows.chunks(LANES * dim).zip(labels.chunks(LANES)) {
            let (mut slopes, mut known) = ([0.0; LANES], [0.0; LANES]);
            known[..labels.len()].copy_from_slice(labels);
            for (slope, row) in slopes.iter_mut().zip(rows.chunks_exact(dim)) {
                *slope = dot(row, theta) + moved;
            }
            for lane in 0..LANES {
                slopes[lane] = loss.slope(slopes[lane], known[lane]);
            }
            for (slope, row) in slopes.iter().zip(rows.chunks_exact(dim)) {
                total += slope;
                sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += slope * x);
            }
        }
        total
    }
}

/// The average over a client's rows of something that each coordinate of a row has.
fn row_average(table: &Table, client: usize, of: impl Fn(&[f64], usize) -> f64) -> Vec<f64> {
    let count = table.block(client).1.len() as f64;
    let sum = |j| table.rows_of(client).map(|(x, _)| of(x, j)).sum::<f64>();
    (0..table.dim).map(|j| sum(j) / count).collect()
}

#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// |θ − z − shift|².
fn square_distance(theta: &[f64], z: &[f64], shift: &[f64]) -> f64 {
    theta.iter().zip(z).zip(shift).map(|((t, z), s)| (t - z - s) * (t - z - s)).sum()
}

//! The performative risk f(θ; θ) as a measurement taken again and again.
//!
//! Where the loss is `mean` the risk is a quadratic form of θ, found once and then evaluated at a
//! cost that does not depend on the number of clients. Otherwise it is an average over all rows.

use nalgebra::{Cholesky, DMatrix, DVector};

use crate::federation::Federation;
use crate::response::Shift;

/// f(θ; θ), prepared.
#[derive(Clone, Debug)]
pub enum PerformativeRisk<'a> {
    /// A quadratic form.
    Quadratic(Quadratic),
    /// An average over rows.
    Rows(&'a Federation),
}

/// R(c) + h·(θ − c) + (θ − c)ᵀ P (θ − c) / 2; c is the minimiser where there is one, so that nothing
/// cancels.
#[derive(Clone, Debug)]
pub struct Quadratic {
    /// c.
    pub centre: DVector<f64>,
    /// Whether c is the only minimiser.
    pub is_minimum: bool,
    /// R(c).
    pub value: f64,
    gradient: DVector<f64>,
    hessian: Hessian,
}

#[derive(Clone, Debug)]
enum Hessian {
    Diagonal(DVector<f64>),
    Full(DMatrix<f64>),
}

/// A curvature this small against the largest, or against one, is none.
const FLAT: f64 = 1e-13;

impl<'a> PerformativeRisk<'a> {
    /// Prepares the risk of a problem.
    pub fn new(federation: &'a Federation) -> Self {
        match federation.is_affine() {
            true => PerformativeRisk::Quadratic(Quadratic::new(federation)),
            false => PerformativeRisk::Rows(federation),
        }
    }

    /// f(θ; θ).
    pub fn at(&self, theta: &[f64]) -> f64 {
        match self {
            PerformativeRisk::Rows(federation) => federation.risk(theta, theta),
            PerformativeRisk::Quadratic(quadratic) => quadratic.at(theta),
        }
    }
}

impl Quadratic {
    /// The risk of a problem whose loss is `mean`.
    pub fn new(federation: &Federation) -> Self {
        match federation.shift().is_some_and(Shift::is_diagonal) {
            true => Quadratic::by_coordinate(federation),
            false => Quadratic::full(federation),
        }
    }

    fn by_coordinate(federation: &Federation) -> Self {
        let dim = federation.dim();
        let mut hessian = DVector::<f64>::zeros(dim);
        let mut pull = DVector::<f64>::zeros(dim);
        let shift = federation.shift().unwrap_or(&Shift::None);
        for (client, &p) in federation.weights().iter().enumerate() {
            let mean = federation.population(client).base_mean();
            for j in 0..dim {
                let stay = 1.0 - shift.diagonal(client, j);
                hessian[j] += p * stay * stay;
                pull[j] += p * stay * mean[j];
            }
        }
        let flat = FLAT * hessian.amax().max(1.0);
        let is_minimum = hessian.iter().all(|curvature| *curvature > flat);
        let centre = DVector::from_fn(dim, |j, _| match hessian[j] > flat {
            true => pull[j] / hessian[j],
            false => 0.0,
        });
        let gradient = hessian.component_mul(&centre) - pull;
        let value = federation.risk(centre.as_slice(), centre.as_slice());
        Quadratic { centre, is_minimum, value, gradient, hessian: Hessian::Diagonal(hessian) }
    }

    fn full(federation: &Federation) -> Self {
        let at_zero = federation.performative(&vec![0.0; federation.dim()]);
        let flat = FLAT * at_zero.hessian.amax().max(1.0);
        let is_minimum = at_zero.hessian.symmetric_eigenvalues().min() > flat;
        let centre = Cholesky::new(at_zero.hessian.clone())
            .filter(|_| is_minimum)
            .map_or_else(|| DVector::zeros(federation.dim()), |f| -f.solve(&at_zero.gradient));
        let there = federation.performative(centre.as_slice());
        Quadratic {
            centre,
            is_minimum,
            value: there.risk,
            gradient: there.gradient,
            hessian: Hessian::Full(there.hessian),
        }
    }

    /// The risk at θ.
    pub fn at(&self, theta: &[f64]) -> f64 {
        let away = |j: usize| theta[j] - self.centre[j];
        let (mut linear, mut square) = (0.0, 0.0);
        for j in 0..theta.len() {
            linear += self.gradient[j] * away(j);
            square += away(j)
                * match &self.hessian {
                    Hessian::Diagonal(diagonal) => diagonal[j] * away(j),
                    Hessian::Full(matrix) => {
                        (0..theta.len()).map(|k| matrix[(j, k)] * away(k)).sum::<f64>()
                    }
                };
        }
        self.value + linear + 0.5 * square
    }

    /// What a θ that varies costs more than its mean: tr(P V) / 2, where `covariance(j, k)` is V.
    pub fn cost_of_variance(&self, covariance: impl Fn(usize, usize) -> f64) -> f64 {
        let trace: f64 = match &self.hessian {
            Hessian::Diagonal(diagonal) => {
                diagonal.iter().enumerate().map(|(j, p)| p * covariance(j, j)).sum()
            }
            Hessian::Full(matrix) => {
                let dim = matrix.nrows();
                let row = |j| (0..dim).map(move |k| (j, k));
                (0..dim).flat_map(row).map(|(j, k)| matrix[(j, k)] * covariance(k, j)).sum()
            }
        };
        0.5 * trace
    }
}

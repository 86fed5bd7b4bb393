//! The performative risk f(θ; θ) as a measurement taken again and again.
//!
//! Where the loss is `mean` the risk is a quadratic form of θ, found once and then evaluated at a
//! cost that does not depend on the number of clients. Otherwise it is an average over all rows.

use nalgebra::{Cholesky, DMatrix, DVector};

use crate::federation::Federation;

/// f(θ; θ), prepared.
#[derive(Clone, Debug)]
pub enum PerformativeRisk<'a> {
    /// R(c) + h·(θ − c) + (θ − c)ᵀ P (θ − c) / 2; c is the minimiser where there is one, so that
    /// nothing cancels.
    Quadratic {
        /// c.
        centre: DVector<f64>,
        /// R(c).
        value: f64,
        /// h.
        gradient: DVector<f64>,
        /// P.
        hessian: DMatrix<f64>,
    },
    /// An average over rows.
    Rows(&'a Federation),
}

impl<'a> PerformativeRisk<'a> {
    /// Prepares the risk of a problem.
    pub fn new(federation: &'a Federation) -> Self {
        if !federation.is_affine() {
            return PerformativeRisk::Rows(federation);
        }
        let at_zero = federation.performative(&vec![0.0; federation.dim()]);
        let centre = Cholesky::new(at_zero.hessian.clone())
            .map(|factor| -factor.solve(&at_zero.gradient))
            .filter(|centre| centre.iter().all(|c| c.is_finite()))
            .unwrap_or_else(|| DVector::zeros(federation.dim()));
        let there = federation.performative(centre.as_slice());
        PerformativeRisk::Quadratic {
            centre,
            value: there.risk,
            gradient: there.gradient,
            hessian: there.hessian,
        }
    }

    /// f(θ; θ).
    pub fn at(&self, theta: &[f64]) -> f64 {
        match self {
            PerformativeRisk::Rows(federation) => federation.risk(theta, theta),
            PerformativeRisk::Quadratic { centre, value, gradient, hessian } => {
                let mut linear = 0.0;
                let mut quadratic = 0.0;
                for j in 0..theta.len() {
                    let away = theta[j] - centre[j];
                    let row: f64 =
                        (0..theta.len()).map(|k| hessian[(j, k)] * (theta[k] - centre[k])).sum();
                    linear += gradient[j] * away;
                    quadratic += away * row;
                }
                value + linear + 0.5 * quadratic
            }
        }
    }
}

//! How the gradient of a batch varies around its mean near one point.
//!
//! A row x with label y, moved by M φ, has the gradient ℓ′ x̃ + ridge with x̃ = x + M φ, and its own
//! derivative R = [∂/∂w, ∂/∂φ] with ∂/∂w = ℓ″ x̃ x̃ᵀ and ∂/∂φ = ℓ′ M + ℓ″ x̃ (Mᵀθ)ᵀ. Rows differ, so the
//! noise of a batch grows with the error z = (w, φ) that it meets: its covariance is S at the point
//! and S + E(R̂ z zᵀ R̂ᵀ)/batch away from it, R̂ = R − E R. The loss `mean` has constant derivatives and
//! only S.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::{Logistic, Loss, MarginLoss, Squared};
use fedback_core::protocol::{Deploy, Protocol};
use nalgebra::{DMatrix, DVector};

use super::client;

/// Up to this many entries of R its Kronecker square is averaged over rows.
const MOST_ENTRIES: usize = 256;

/// The part of a client's gradient noise that grows with the error.
#[derive(Clone)]
pub(crate) enum Grows {
    /// E(R̂ ⊗ R̂)/batch, exactly.
    Exact(DMatrix<f64>),
    /// W with E(R̂ Y R̂ᵀ)/batch ≤ W · trace Y, where the exact one is too large, and the length of z.
    Bound(DMatrix<f64>, usize),
}

impl Grows {
    /// The noise of one client near `theta`; none where gradients have constant derivatives.
    pub(crate) fn of(
        federation: &Federation,
        protocol: &Protocol,
        client: usize,
        theta: &[f64],
    ) -> Option<Self> {
        let (dim, theta) = (theta.len(), DVector::from_column_slice(theta));
        let count = rows(federation, client, &theta)?.count() as f64;
        let matrix = federation.population(client).shift_matrix();
        let pull = matrix.tr_mul(&theta);
        let width = match protocol.deploy {
            Deploy::Step => dim,
            Deploy::Round => 2 * dim,
        };
        // R of a row; the two derivatives in one where φ is the local θ.
        let derivative = |(x, slope, curvature): (DVector<f64>, f64, f64)| {
            let own = &x * x.transpose() * curvature;
            let reaction = &matrix * slope + &x * pull.transpose() * curvature;
            match protocol.deploy {
                Deploy::Step => own + reaction,
                Deploy::Round => {
                    let mut both = own.resize_horizontally(width, 0.0);
                    both.columns_mut(dim, dim).copy_from(&reaction);
                    both
                }
            }
        };
        let all = || rows(federation, client, &theta).into_iter().flatten().map(derivative);
        let mean = all().fold(DMatrix::zeros(dim, width), |sum, row| sum + row) / count;
        let scale = client::scale(federation, protocol, client);
        let share = scale * scale / (count * protocol.batch.size());
        let apart = all().map(|row| row - &mean);
        if dim * width <= MOST_ENTRIES {
            let nothing = DMatrix::zeros(dim * dim, width * width);
            let squares = apart.fold(nothing, |sum, row| sum + row.kronecker(&row));
            return Some(Grows::Exact(squares * share));
        }
        let squares = apart.fold(DMatrix::zeros(dim, dim), |sum, row| sum + &row * row.transpose());
        Some(Grows::Bound(squares * share, width))
    }

    /// The length of z: the local error, and the deployed one where that is another.
    pub(crate) fn width(&self) -> usize {
        match self {
            Grows::Exact(square) => square.ncols().isqrt(),
            Grows::Bound(_, width) => *width,
        }
    }

    /// E(R̂ Y R̂ᵀ)/batch, or an upper bound of it.
    pub(crate) fn apply(&self, y: &DMatrix<f64>) -> DMatrix<f64> {
        match self {
            Grows::Exact(square) => {
                let flat = square * DVector::from_column_slice(y.as_slice());
                let dim = flat.len().isqrt();
                DMatrix::from_column_slice(dim, dim, flat.as_slice())
            }
            Grows::Bound(bound, _) => bound * y.trace(),
        }
    }
}

/// A client's rows x̃ as θ moves them, each with ℓ′ and ℓ″; none where gradients have constant
/// derivatives.
pub(crate) fn rows(
    federation: &Federation,
    client: usize,
    theta: &DVector<f64>,
) -> Option<impl Iterator<Item = (DVector<f64>, f64, f64)>> {
    let Base::Table(table) = &federation.base() else { return None };
    let derivatives: fn(f64, f64) -> (f64, f64) = match federation.loss() {
        Loss::Mean => return None,
        Loss::Squared { .. } => |m, y| (Squared.slope(m, y), Squared.curvature(m, y)),
        Loss::Logistic { .. } => |m, y| (Logistic.slope(m, y), Logistic.curvature(m, y)),
    };
    let shift = federation.population(client).shift_matrix() * theta;
    Some(table.rows_of(client).map(move |(row, label)| {
        let x = DVector::from_column_slice(row) + &shift;
        let (slope, curvature) = derivatives(x.dot(theta), label);
        (x, slope, curvature)
    }))
}

//! How the gradient of a batch varies around its mean near one point.
//!
//! A row x with label y, moved by M φ, has the gradient ℓ′ x̃ + ridge with x̃ = x + M φ, and its own
//! derivative R = [∂/∂w, ∂/∂φ] with ∂/∂w = ℓ″ x̃ x̃ᵀ and ∂/∂φ = ℓ′ M + ℓ″ x̃ (Mᵀθ)ᵀ. Rows differ, so the
//! noise of a batch grows with the error z = (w, φ) that it meets: its covariance is S at the point
//! and S + E(R̂ z zᵀ R̂ᵀ)/batch away from it, R̂ = R − E R. The loss `mean` has constant derivatives and
//! only S.

use fedback_core::base::{Base, Table};
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
        let Base::Table(table) = &federation.base() else { return None };
        let rows = RowDerivatives { federation, protocol, client, theta };
        match federation.loss() {
            Loss::Mean => None,
            Loss::Squared { .. } => Some(rows.noise(table, Squared)),
            Loss::Logistic { .. } => Some(rows.noise(table, Logistic)),
        }
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

struct RowDerivatives<'a> {
    federation: &'a Federation,
    protocol: &'a Protocol,
    client: usize,
    theta: &'a [f64],
}

impl RowDerivatives<'_> {
    fn noise(&self, table: &Table, loss: impl MarginLoss) -> Grows {
        let dim = self.theta.len();
        let width = match self.protocol.deploy {
            Deploy::Step => dim,
            Deploy::Round => 2 * dim,
        };
        let rows = || self.derivatives(table, loss, width);
        let share = 1.0 / table.block(self.client).1.len() as f64;
        let mean = rows().fold(DMatrix::zeros(dim, width), |sum, row| sum + row) * share;
        let scale = client::scale(self.federation, self.protocol, self.client);
        let share = share * scale * scale / self.protocol.batch.size();
        let apart = rows().map(|row| row - &mean);
        match dim * width <= MOST_ENTRIES {
            true => {
                Grows::Exact(apart.fold(DMatrix::zeros(dim * dim, width * width), |sum, row| {
                    sum + row.kronecker(&row) * share
                }))
            }
            false => {
                let squares =
                    apart.fold(DMatrix::zeros(dim, dim), |sum, row| sum + &row * row.transpose());
                Grows::Bound(squares * share, width)
            }
        }
    }

    /// R of every row; the two derivatives in one where φ is the local θ.
    fn derivatives(
        &self,
        table: &Table,
        loss: impl MarginLoss,
        width: usize,
    ) -> impl Iterator<Item = DMatrix<f64>> {
        let dim = self.theta.len();
        let theta = DVector::from_column_slice(self.theta);
        let matrix = self.federation.response().matrix(self.client, dim);
        let shift = &matrix * &theta;
        let pull = matrix.tr_mul(&theta);
        table.rows_of(self.client).map(move |(row, label)| {
            let x = DVector::from_column_slice(row) + &shift;
            let margin = x.dot(&theta);
            let (slope, curvature) = (loss.slope(margin, label), loss.curvature(margin, label));
            let own = &x * x.transpose() * curvature;
            let reaction = &matrix * slope + &x * pull.transpose() * curvature;
            match width == dim {
                true => own + reaction,
                false => {
                    let mut both = DMatrix::zeros(dim, width);
                    both.columns_mut(0, dim).copy_from(&own);
                    both.columns_mut(dim, dim).copy_from(&reaction);
                    both
                }
            }
        })
    }
}

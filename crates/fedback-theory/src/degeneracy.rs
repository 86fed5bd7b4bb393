//! Is there anything to a reaction, or would a model that ignores it do as well?
//!
//! Where every client has the same M, a deployed θ moves every row by the same M θ and every score by
//! the same θᵀMθ. An intercept is free to undo that: with θ the static minimiser, fitted as if
//! nothing reacted, and its intercept lowered by θᵀMθ, scores and losses are what they were before,
//! and the residuals still average to zero, which is all that the term of M θ in the gradient asks
//! for. So the stable point, the optimal point and the static minimiser are one point up to the
//! intercept, however strong the reaction: the benchmark says nothing about reaction. The credit data
//! of the paper are close to this, for its sensitivities are nearly the same.

use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use nalgebra::DVector;
use serde::Serialize;

use crate::stable::{distance, minimiser, norm};

/// What ignoring the reaction costs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Degeneracy {
    /// Whether some client's data react.
    #[serde(skip)]
    pub reacts: bool,
    /// Whether an intercept absorbs the reaction exactly.
    pub absorbed: bool,
    /// |θ^PS − θ^static|, where both exist; θ^static is fitted as if nothing reacted.
    pub stable_minus_static: Option<f64>,
    /// The same without the intercept.
    pub stable_minus_static_features: Option<f64>,
    /// |θ^PS − θ^PO|, where both exist.
    pub stable_minus_optimal: Option<f64>,
    /// |θ^PS|; 0 where there is none.
    #[serde(skip)]
    pub size: f64,
}

impl Degeneracy {
    /// Whether nothing here is performative: nothing reacts, the intercept absorbs the reaction, or the
    /// three points are one to a hundredth.
    pub fn is_degenerate(&self) -> bool {
        !self.reacts || self.absorbed || self.is_small()
    }

    /// Whether the stable point is close to the static one, but for the intercept, and to the optimal.
    pub fn is_small(&self) -> bool {
        let small = |distance: Option<f64>| distance.is_some_and(|d| d <= SMALL * self.size);
        small(self.stable_minus_static_features) && small(self.stable_minus_optimal)
    }
}

/// Distances below this share of |θ^PS| are called small.
const SMALL: f64 = 0.01;

/// Compares a stable point with the static minimiser and an optimal point.
pub fn degeneracy(
    federation: &Federation,
    stable: Option<&[f64]>,
    optimal: Option<&[f64]>,
) -> Degeneracy {
    let zeros = DVector::zeros(federation.dim());
    let fixed = minimiser(federation, zeros.as_slice(), &zeros);
    let fixed = fixed.as_ref().map(|fixed| fixed.as_slice());
    let features = federation.dim() - usize::from(federation.has_intercept());
    let apart = |other: Option<&[f64]>, to: usize| {
        stable.zip(other).map(|(a, b)| distance(&a[..to], &b[..to]))
    };
    Degeneracy {
        reacts: reacts(federation),
        absorbed: is_absorbed(federation),
        stable_minus_static: apart(fixed, federation.dim()),
        stable_minus_static_features: apart(fixed, features),
        stable_minus_optimal: apart(optimal, federation.dim()),
        size: stable.map_or(0.0, norm),
    }
}

/// Whether some client's data react, or its weight.
fn reacts(federation: &Federation) -> bool {
    federation.weighs()
        || federation.counting().any(|client| federation.population(client).sensitivity() > 0.0)
}

/// Whether all clients that count share one M, the score is linear and an intercept is free.
fn is_absorbed(federation: &Federation) -> bool {
    let linear = !matches!(federation.loss(), Loss::Mean);
    if !linear || !federation.has_intercept() || !reacts(federation) {
        return false;
    }
    let Some(shift) = federation.shift().filter(|shift| shift.is_linear()) else { return false };
    let mut matrices = federation.counting().map(|i| shift.matrix(i, federation.dim()));
    let Some(common) = matrices.next() else { return false };
    let negligible = 1e-12 * common.amax();
    !federation.weighs() && matrices.all(|matrix| (matrix - &common).amax() <= negligible)
}

//! Where one client can push the model farthest.
//!
//! Near the stable point small steps of the others pull θ back by B x, B = Σ_{j≠i} p_j (H_j + J_j). A
//! client that always pushes by u holds it where both balance, at p_i B⁻¹ u: farthest, of all u of
//! one length, along the singular vector of B that belongs to its smallest singular value.

use fedback_core::federation::Federation;
use nalgebra::{DMatrix, DVector};

/// Coordinates beyond which no singular vectors are computed.
const MOST: usize = 300;

/// The direction of the push that one client's others give way to most, a vector of length 1; none
/// where coordinates are too many.
pub fn weakest_direction(federation: &Federation, client: usize, at: &[f64]) -> Option<Vec<f64>> {
    let dim = at.len();
    if dim == 1 {
        return Some(vec![1.0]);
    }
    if dim > MOST {
        return None;
    }
    let mut pull = DMatrix::zeros(dim, dim);
    for (other, weight) in federation.weights().iter().enumerate().filter(|(j, _)| *j != client) {
        let expansion = federation.population(other).expand(at, at);
        pull += (expansion.curvature + expansion.reaction) * *weight;
    }
    let decomposed = pull.try_svd(true, false, f64::EPSILON, 10_000)?;
    let smallest = decomposed.singular_values.imin();
    let push: DVector<f64> = decomposed.u?.column(smallest).into_owned();
    push.iter().all(|number| number.is_finite()).then(|| push.as_slice().to_vec())
}

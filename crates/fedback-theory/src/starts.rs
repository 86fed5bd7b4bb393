//! Where searches begin on problems that may have several stable points or several optima.
//!
//! What makes a problem non-convex is the reaction, so besides zeros and the static minimiser (as if
//! nothing reacted) searches start on both sides of it along coordinates that react, near and far.

use fedback_core::federation::Federation;
use nalgebra::DVector;

use crate::stable::minimiser;

/// Coordinates tried in both directions; more would cost more than they find.
const MOST_COORDINATES: usize = 6;

/// The starts of a problem, zeros first.
pub(crate) fn starts(federation: &Federation) -> Vec<DVector<f64>> {
    let zeros = DVector::zeros(federation.dim());
    let fixed = minimiser(federation, zeros.as_slice(), &zeros);
    let centre = fixed.clone().unwrap_or_else(|| zeros.clone());
    let size = centre.norm().max(1.0);
    let mut starts = vec![zeros];
    starts.extend(fixed);
    for j in reacting(federation) {
        for distance in [1.0, -1.0, 4.0, -4.0] {
            let mut start = centre.clone();
            start[j] += distance * size;
            starts.push(start);
        }
    }
    starts
}

/// The coordinates that the response of some client moves.
fn reacting(federation: &Federation) -> Vec<usize> {
    let dim = federation.dim();
    let mut moves = vec![false; dim];
    for client in 0..federation.clients().min(64) {
        let matrix = federation.population(client).shift_matrix();
        for (j, moves) in moves.iter_mut().enumerate() {
            *moves |= matrix.row(j).iter().any(|entry| *entry != 0.0);
        }
    }
    (0..dim).filter(|&j| moves[j]).take(MOST_COORDINATES).collect()
}

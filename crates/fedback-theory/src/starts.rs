//! Where searches begin on problems that may have several stable points or several optima.
//!
//! What makes a problem non-convex is the reaction, so besides zeros and the static minimiser (as if
//! nothing reacted) searches start on both sides of it along coordinates that react, near and far.

use fedback_core::federation::Federation;
use fedback_core::response::By;
use nalgebra::DVector;

use crate::newton;
use crate::stable::minimiser;

/// Coordinates tried in both directions; more would cost more than they find.
const MOST_COORDINATES: usize = 6;

/// Cells whose own minimisers are tried; more would cost more than they find.
const MOST_CELLS: usize = 24;

/// The minimiser of every cell's own loss, where people leave together: a stable point is close to the
/// cells that it serves. Where a cell has none, the point that a search for it has come to.
fn of_cells(federation: &Federation) -> Vec<Result<DVector<f64>, DVector<f64>>> {
    let by_client = federation.retention().is_some_and(|retention| retention.by == By::Client);
    let cells: Vec<usize> = match federation.cells() {
        Some(cells) => (0..cells.count()).collect(),
        None if by_client => federation.counting().collect(),
        // Rows that leave alone are too many.
        None => Vec::new(),
    };
    let zeros = DVector::zeros(federation.dim());
    let own = |cell| newton::descend(&zeros, |at| federation.cell(cell, at));
    cells.into_iter().take(MOST_CELLS).map(own).collect()
}

/// Points far out in directions in which a single cell costs less and less: who serves it alone may drive
/// the others away. They are no starts for stable points, since gradients vanish there without a root.
pub(crate) fn far_out(federation: &Federation) -> Vec<DVector<f64>> {
    of_cells(federation).into_iter().filter_map(Result::err).collect()
}

/// The starts of a problem, zeros first.
pub(crate) fn starts(federation: &Federation) -> Vec<DVector<f64>> {
    let zeros = DVector::zeros(federation.dim());
    let fixed = minimiser(federation, zeros.as_slice(), &zeros);
    let centre = fixed.clone().unwrap_or_else(|| zeros.clone());
    let size = centre.norm().max(1.0);
    let mut starts = vec![zeros];
    starts.extend(fixed);
    starts.extend(of_cells(federation).into_iter().flatten());
    let moving = federation.response().moving(federation.clients(), federation.dim());
    for j in moving.into_iter().take(MOST_COORDINATES) {
        for distance in [1.0, -1.0, 4.0, -4.0] {
            let mut start = centre.clone();
            start[j] += distance * size;
            starts.push(start);
        }
    }
    starts
}

//! What may become of a row under a deployed θ.

use nalgebra::DMatrix;

use super::{Cells, Shift};
use crate::base::Table;
use crate::loss::Loss;

/// The rows of one client, and what their reaction looks at.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// The table they are in.
    pub table: &'a Table,
    /// Whose they are.
    pub client: usize,
    /// What a prediction costs.
    pub loss: Loss,
    /// How rows leave together, where they do.
    pub cells: Option<&'a Cells>,
}

/// One of the things that may become of a row.
#[derive(Clone, Copy)]
pub struct Fate<'a> {
    /// The row, by its place among the client's.
    pub row: usize,
    /// How much of the population it is, once that has reacted.
    pub share: f64,
    /// The features it has then.
    pub x: &'a [f64],
    /// And the label.
    pub label: f64,
    /// How all of that changes with what is deployed, where that was asked for.
    pub slopes: Option<&'a Slopes>,
}

/// Derivatives in what is deployed. What is empty is zero.
#[derive(Clone, Debug, Default)]
pub struct Slopes {
    /// Of the share.
    pub share: Vec<f64>,
    /// Of the features: a row for each.
    pub x: Option<DMatrix<f64>>,
    /// Of the label.
    pub label: Vec<f64>,
}

/// All rows move by one vector.
pub(super) fn shifted(
    shift: &Shift,
    rows: &Rows<'_>,
    deployed: &[f64],
    slopes: bool,
    each: &mut dyn FnMut(&Fate<'_>),
) {
    let mut moved = vec![0.0; deployed.len()];
    shift.apply(rows.client, deployed, &mut moved);
    let derivative =
        || Slopes { x: Some(shift.derivative(rows.client, deployed)), ..Slopes::default() };
    let slopes = slopes.then(derivative);
    let share = 1.0 / rows.table.block(rows.client).1.len() as f64;
    let mut x = vec![0.0; deployed.len()];
    for (row, (base, label)) in rows.table.rows_of(rows.client).enumerate() {
        for ((x, base), moved) in x.iter_mut().zip(base).zip(&moved) {
            *x = base + moved;
        }
        each(&Fate { row, share, x: &x, label, slopes: slopes.as_ref() });
    }
}

//! Many rounds of one kind at once.
//!
//! With a one below the state, Z = E((y, 1)(y, 1)ᵀ), a round is linear, and so are 2, 4, 8, … of them.

use nalgebra::{DMatrix, DVector};

use super::Moments;

/// Some rounds of one kind, for a state of so many numbers, the model's first.
#[derive(Clone, Debug)]
pub(crate) struct Leap {
    dim: usize,
    width: usize,
    operator: DMatrix<f64>,
}

impl Leap {
    /// One round: E(y) becomes map · E(y) + shift, and ⟨P, E(y yᵀ)⟩ what `pulled` says.
    pub(super) fn new(
        dim: usize,
        map: &DMatrix<f64>,
        shift: &DMatrix<f64>,
        pulled: impl Fn(&DMatrix<f64>) -> (DMatrix<f64>, DMatrix<f64>, f64),
    ) -> Self {
        let width = map.nrows();
        // ⟨Q, E(y yᵀ)⟩ + q · E(y) + c.
        let row = |square: &DMatrix<f64>, cross: DVector<f64>, constant: f64| {
            packed(width + 1, |j, k| match (j < width, k < width) {
                (true, true) if j < k => square[(j, k)] + square[(k, j)],
                (true, true) => square[(j, k)],
                (true, false) => cross[j],
                (false, _) => constant,
            })
        };
        let nothing = DMatrix::zeros(width, width);
        let mut rows = Vec::new();
        for k in 0..width {
            for j in 0..=k {
                let mut weight = nothing.clone();
                weight[(j, k)] += 0.5;
                weight[(k, j)] += 0.5;
                let (square, cross, constant) = pulled(&weight);
                rows.extend(row(&square, cross.column(0) * 2.0, constant));
            }
        }
        for j in 0..width {
            rows.extend(row(&nothing, map.row(j).transpose(), shift[j]));
        }
        rows.extend(row(&nothing, DVector::zeros(width), 1.0));
        let count = (width + 1) * (width + 2) / 2;
        Leap { dim, width, operator: DMatrix::from_row_slice(count, count, &rows) }
    }

    /// Numbers that moments are moved over it as.
    pub(super) fn count(&self) -> f64 {
        self.operator.nrows() as f64
    }

    /// Twice as many rounds.
    pub(super) fn doubled(&self) -> Leap {
        Leap { operator: &self.operator * &self.operator, ..*self }
    }

    /// Moves a mean and a spread, and returns the model's variance.
    pub(super) fn apply(
        &self,
        (mean, spread): Moments<'_>,
        (mean_after, spread_after): (&mut [f64], &mut [f64]),
    ) -> f64 {
        let width = self.width;
        let entry = |j: usize, k: usize| match (j < width, k < width) {
            (true, true) => spread[k * width + j] + mean[j] * mean[k],
            (true, false) => mean[j],
            (false, _) => 1.0,
        };
        let moved = &self.operator * DVector::from_vec(packed(width + 1, entry));
        let z = |j: usize, k: usize| moved[place(j, k)];
        (0..width).for_each(|j| mean_after[j] = z(j, width));
        for k in 0..width {
            for j in 0..width {
                spread_after[k * width + j] = z(j, k) - mean_after[j] * mean_after[k];
            }
        }
        (0..self.dim).map(|j| spread_after[j * width + j]).sum()
    }
}

/// The upper triangle of a symmetric matrix, column after column.
pub(super) fn packed(dim: usize, entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..dim).flat_map(|k| (0..=k).map(move |j| (j, k))).map(|(j, k)| entry(j, k)).collect()
}

/// Where an entry is in that.
fn place(j: usize, k: usize) -> usize {
    let (low, high) = (j.min(k), j.max(k));
    high * (high + 1) / 2 + low
}

pub(super) fn unpacked(values: &[f64], dim: usize) -> DMatrix<f64> {
    DMatrix::from_fn(dim, dim, |j, k| values[place(j, k)])
}

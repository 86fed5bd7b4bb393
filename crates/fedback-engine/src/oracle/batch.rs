//! A batch of rows as they have become, and the gradient over it.
//!
//! Rows lie where they lay, or have moved to room of their own. Four of them are multiplied with a model at a time;
//! every sum runs over coordinates, or rows, in their order.

use fedback_core::loss::Loss;
use fedback_core::simd::{LANES, Path};

use super::group::{Block, Blocks};

/// The batch.
#[derive(Default)]
pub struct Batch {
    /// Which rows they are, by their place among the client's.
    pub rows: Vec<u32>,
    /// What became of their features, row after row; nothing where these stay as they are.
    pub moved: Vec<Block>,
    /// Their labels.
    pub labels: Vec<f64>,
    /// Margins, and then slopes.
    pub slopes: Vec<f64>,
    /// Whether the margins are there already.
    pub scored: bool,
}

/// All rows of a client, and what lies behind them.
#[derive(Clone, Copy)]
pub struct Everyone<'a> {
    /// Row after row.
    pub values: &'a [f64],
    /// Coordinates of a row.
    pub dim: usize,
}

impl<'a> Everyone<'a> {
    /// A row in whole blocks; what stands behind its last coordinate belongs to others.
    #[inline(always)]
    pub fn row(self, row: usize, blocks: impl Blocks) -> &'a [Block] {
        self.values[row * self.dim..][..4 * blocks.count()].as_chunks::<4>().0
    }
}

/// Numbers in whole blocks, zeros behind the last.
pub fn padded(numbers: &[f64], out: &mut Vec<Block>) {
    out.clear();
    out.resize(numbers.len().div_ceil(4), Block::default());
    out.as_flattened_mut()[..numbers.len()].copy_from_slice(numbers);
}

impl Batch {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.moved.clear();
        self.labels.clear();
        self.slopes.clear();
        self.scored = false;
    }

    /// The features of the n-th.
    #[inline(always)]
    pub fn row<'a>(&'a self, all: Everyone<'a>, n: usize, blocks: impl Blocks) -> &'a [Block] {
        match self.moved.is_empty() {
            true => all.row(self.rows[n] as usize, blocks),
            false => &self.moved[n * blocks.count()..][..blocks.count()],
        }
    }

    /// Gives every row room of its own, with what it is before it moves.
    #[inline(always)]
    pub fn copy(&mut self, all: Everyone<'_>, blocks: impl Blocks) {
        for &row in &self.rows {
            self.moved.extend_from_slice(all.row(row as usize, blocks));
        }
    }

    /// Writes the margins of all to `slopes`, in whole vectors of lanes.
    #[inline(always)]
    pub fn score(
        &mut self,
        path: impl Path,
        all: Everyone<'_>,
        theta: &[Block],
        blocks: impl Blocks,
    ) {
        let mut margins = std::mem::take(&mut self.slopes);
        let count = self.rows.len();
        margins.clear();
        margins.resize(count.next_multiple_of(LANES), 0.0);
        for first in (0..count).step_by(4) {
            // Where they are no multiple of four, the last one stands for what is missing.
            let mut rows = [self.row(all, count - 1, blocks); 4];
            for (k, row) in rows[..4.min(count - first)].iter_mut().enumerate() {
                *row = self.row(all, first + k, blocks);
            }
            dots(path, rows, theta, blocks, &mut margins[first..]);
        }
        margins[count..].fill(0.0);
        self.slopes = margins;
    }

    /// Writes the mean gradient at θ, without penalty; what stands behind its last coordinate is not used.
    #[inline(always)]
    pub fn gradient(
        &mut self,
        path: impl Path,
        (all, loss): (Everyone<'_>, Loss),
        theta: &[Block],
        blocks: impl Blocks,
        out: &mut [Block],
    ) {
        let (count, zero) = (self.rows.len(), path.splat(0.0));
        let share = path.splat(1.0 / count as f64);
        out.iter_mut().for_each(|out| path.store(zero, out));
        let mean = matches!(loss, Loss::Mean);
        if !mean {
            if !self.scored {
                self.score(path, all, theta, blocks);
            }
            self.labels.resize(self.slopes.len(), 0.0);
            let lanes = self.slopes.as_chunks_mut::<LANES>().0.iter_mut();
            for (slopes, labels) in lanes.zip(self.labels.as_chunks::<LANES>().0) {
                loss.slopes(slopes, labels);
            }
        }
        for first in (0..count).step_by(4) {
            let several = (count - first).min(4);
            for j in 0..blocks.count() {
                let mut sum = path.load(&out[j]);
                for n in first..first + several {
                    let x = path.load(&self.row(all, n, blocks)[j]);
                    let own = if mean { x } else { path.mul(path.splat(self.slopes[n]), x) };
                    sum = path.add(sum, own);
                }
                path.store(sum, &mut out[j]);
            }
        }
        for (out, theta) in out.iter_mut().zip(theta) {
            let average = path.mul(path.load(out), share);
            let gradient = if mean { path.sub(path.load(theta), average) } else { average };
            path.store(gradient, out);
        }
    }
}

/// The inner products of four rows with a model, each summed in the order of coordinates.
#[inline(always)]
pub fn dots<P: Path>(
    path: P,
    rows: [&[Block]; 4],
    theta: &[Block],
    blocks: impl Blocks,
    out: &mut [f64],
) {
    // Minus zero is what nothing adds up to.
    let mut sums = path.splat(-0.0);
    for j in 0..blocks.count() {
        let theta = path.load(&theta[j]);
        let products = rows.map(|row| path.mul(path.load(&row[j]), theta));
        for product in path.transpose(products) {
            sums = path.add(sums, product);
        }
    }
    if let Some(out) = out.first_chunk_mut::<4>() {
        path.store(sums, out);
    }
}

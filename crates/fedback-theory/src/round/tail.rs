//! A bound on all later errors.
//!
//! In a norm |y|²_P in which a round contracts, E|T y|²_P ≤ f E|y|²_P with f < 1, what a round adds besides
//! gives e ← f e + 2 b √e + c for e = E|y|²_P. That map is increasing, so e never exceeds the larger of where
//! it is and of the map's fixed point. P is such that |y|²_P falls by |x|² + |v|² + |s c|² in every round like the
//! present one, whose steps sum to s: what clients keep is a gradient, and counts by what a round makes of it.
//! Rounds of smaller steps are tried against the same P with c in their own units, which only lessens it.

use nalgebra::{DMatrix, DVector};

use super::block::Block;
use super::frame::Joint;
use super::{Rounds, System};
use crate::cohort::Chance;

/// By how much steps are smaller each time, and how often.
const SMALLER: f64 = 0.4;
const TIMES: i32 = 10;
/// By how much more than it takes what is fast is weighed: the more, the smaller steps must be, and the
/// stronger a reaction may be.
const FAST: [f64; 5] = [1.0, 4.0, 20.0, 150.0, 2000.0];
/// Iterations and the accuracy of P.
const MOST_ITERATIONS: usize = 60;

/// A norm of one part's state.
pub(crate) struct Norm {
    weight: DMatrix<f64>,
    /// |x|² ≤ `model` |y|²_P.
    model: f64,
}

/// What keeps errors where they are.
pub(crate) trait Tail {
    /// Norms in which the prepared round may contract.
    fn norms(&self, chance: Chance) -> Vec<Norm>;
    /// The fixed point of what the prepared round, whose steps are `smaller`, does to it; none where it
    /// does not contract.
    fn level(&self, chance: Chance, norm: &Norm, smaller: f64) -> Option<f64>;
    /// E|y|²_P.
    fn weigh(&self, norm: &Norm, mean: &[f64], spread: &[f64]) -> f64;
}

impl<T: Block, J: Joint<T>> Rounds<T, J> {
    /// What a round makes of a weight: [T*(P), q; qᵀ, c].
    fn pulled_back(
        &self,
        chance: Chance,
        weight: &DMatrix<f64>,
    ) -> (DMatrix<f64>, DMatrix<f64>, f64) {
        let (map, shift) = (self.expected.map.matrix(), self.expected.shift.matrix());
        let mut square = map.transpose() * weight * &map;
        let mut cross = map.transpose() * weight * &shift;
        let mut constant = (shift.transpose() * weight * &shift)[0];
        let mut noise = self.expected.noise.matrix();
        if let Some((draw, share)) = chance {
            let (drawn, more) = &self.drawn[draw];
            noise += more.matrix() * share;
            let (s, q, c) = J::pulled(drawn, weight);
            square += s * share;
            cross += q * share;
            constant += c * share;
        }
        constant += (weight * noise).trace();
        (square, cross, constant)
    }
}

impl<T: Block, J: Joint<T>> Tail for Rounds<T, J> {
    fn norms(&self, chance: Chance) -> Vec<Norm> {
        let dim = self.frame.dim;
        let norm = |weight: DMatrix<f64>| {
            let inverse = weight.clone().try_inverse()?;
            let model = inverse.view((0, 0), (dim, dim)).symmetric_eigenvalues().max();
            Some(Norm { weight, model })
        };
        self.weights(chance).unwrap_or_default().into_iter().filter_map(norm).collect()
    }

    fn level(&self, chance: Chance, norm: &Norm, smaller: f64) -> Option<f64> {
        let weight = self.units(smaller).around(&norm.weight);
        let (square, cross, constant) = self.pulled_back(chance, &weight);
        let (factor, slope) = match weight.nrows() {
            1 => (square[0] / weight[0], cross[0].abs() / weight[0].sqrt()),
            _ => {
                let half = weight.cholesky()?.l();
                let once = half.solve_lower_triangular(&square)?;
                let ratio = half.solve_lower_triangular(&once.transpose())?;
                let ratio = ((&ratio + ratio.transpose()) * 0.5).symmetric_eigenvalues();
                (ratio.max(), half.solve_lower_triangular(&cross)?.norm())
            }
        };
        if factor.is_nan() || factor >= 1.0 {
            return None;
        }
        let left = 1.0 - factor;
        let root = (slope + (slope * slope + left * constant).sqrt()) / left;
        Some(root * root).filter(|level| level.is_finite())
    }

    fn weigh(&self, norm: &Norm, mean: &[f64], spread: &[f64]) -> f64 {
        let width = self.frame.width();
        let mean = DMatrix::from_column_slice(width, 1, mean);
        let spread = DMatrix::from_column_slice(width, width, spread);
        (mean.transpose() * &norm.weight * &mean)[0] + (&norm.weight * spread).trace()
    }
}

impl<T: Block, J: Joint<T>> Rounds<T, J> {
    /// What clients keep times a number, all else as it is.
    fn units(&self, kept: f64) -> DMatrix<f64> {
        let from = self.frame.place_of(0);
        let unit = |j: usize| if j < from { 1.0 } else { kept };
        DMatrix::from_diagonal(&DVector::from_fn(self.frame.width(), |j, _| unit(j)))
    }

    /// P = T*(P) + W, without what is slow and what is fast being mixed: rounds of small steps move
    /// x + rate β/(1 − β) v slowly, and forget v and c at once.
    fn weights(&self, chance: Chance) -> Option<Vec<DMatrix<f64>>> {
        let (dim, total) = (self.frame.dim, self.sizes.iter().sum::<f64>());
        if self.frame.width() == 1 {
            return Some(vec![DMatrix::identity(1, 1)]);
        }
        let weight = self.accumulated(chance, self.units(total) * self.units(total))?;
        let Some(slow) = self.frame.slow() else { return Some(vec![weight]) };
        let weight = slow.clone().try_inverse()?.transpose().around(&weight);
        let apart = |fast: f64| {
            let share = |j: usize, k: usize| match (j < dim, k < dim) {
                (true, true) => 1.0,
                (false, false) => fast,
                (true, false) | (false, true) => 0.0,
            };
            let width = weight.nrows();
            let weight = DMatrix::from_fn(width, width, |j, k| weight[(j, k)] * share(j, k));
            slow.transpose().around(&weight)
        };
        Some(FAST.into_iter().map(apart).collect())
    }

    /// P = T*(P) + W, by doubling along the expected map where nothing else is random, and step by step
    /// around that otherwise.
    fn accumulated(&self, chance: Chance, source: DMatrix<f64>) -> Option<DMatrix<f64>> {
        let map = self.expected.map.matrix().transpose();
        let mut sum = super::second::geometric(&map, source.clone())?;
        let Some((draw, share)) = chance else { return Some(sum) };
        for _ in 0..MOST_ITERATIONS {
            let more = J::pulled(&self.drawn[draw].0, &sum).0 * share;
            let next = super::second::geometric(&map, &source + more)?;
            let moved = (&next - &sum).norm();
            sum = next;
            if moved <= 1e-3 * sum.norm() {
                return Some(sum);
            }
        }
        None
    }
}

impl System {
    /// A bound on E|x|² now and after every later round, whose steps are those of the prepared round or,
    /// where they `decay`, smaller and smaller.
    pub(crate) fn ceiling(
        &mut self,
        chance: Chance,
        sizes: &[f64],
        (mean, spread): (&[f64], &[f64]),
        decay: bool,
    ) -> Option<f64> {
        let norms: Vec<Vec<Norm>> = self.parts.iter().map(|part| part.norms(chance)).collect();
        let weighed = self.places().zip(&norms).map(|((part, own, square), norms)| {
            let level = |norm| Some(part.weigh(norm, &mean[own.clone()], &spread[square.clone()]));
            norms.iter().map(level).collect()
        });
        let mut levels: Vec<Vec<Option<f64>>> = weighed.collect();
        let times = if decay { TIMES } else { 0 };
        for time in 0..=times {
            let smaller = libm::pow(SMALLER, time as f64);
            let shrunk: Vec<f64> = sizes.iter().map(|size| size * smaller).collect();
            self.prepare(&shrunk, true);
            for ((part, norms), levels) in self.parts.iter().zip(&norms).zip(&mut levels) {
                for (norm, level) in norms.iter().zip(levels) {
                    let more = level.and(part.level(chance, norm, smaller));
                    *level = level.zip(more).map(|(level, more)| level.max(more));
                }
            }
        }
        self.prepare(sizes, true);
        let parts = norms.iter().zip(levels);
        let least = parts.map(|(norms, levels)| {
            let all = norms.iter().zip(levels);
            let known = all.filter_map(|(norm, level)| Some(norm.model * level?));
            known.min_by(f64::total_cmp)
        });
        least.sum()
    }
}

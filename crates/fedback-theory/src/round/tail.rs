//! A bound on all later errors.
//!
//! In a norm |y|²_P in which a round contracts, E|T y|²_P ≤ f E|y|²_P with f < 1, what a round adds besides
//! gives e ← f e + 2 b √e + c for e = E|y|²_P. That map is increasing, so e never exceeds the larger of where
//! it is and of the map's fixed point. P is such that |y|²_P falls by |x|² + |v|² + |s c|² in every round like the
//! present one, whose steps sum to s: what clients keep is a gradient, and counts by what a round makes of it.
//! Rounds of smaller steps are tried against the same P with c less the gradient in their own units: as that
//! is apart from the model in P, it only lessens it.

use std::ops::Range;

use nalgebra::{DMatrix, DVector};

use super::block::Block;
use super::frame::Joint;
use super::part::{Part, Rounds};
use super::{Moments, System};
use crate::cohort::Chance;
use crate::spectrum;

/// By how much steps are smaller each time, and how often.
const SMALLER: f64 = 0.4;
const TIMES: i32 = 10;
/// What is fast is weighed by powers of 1/|step|, or of this, from 0 to 3, so many for each.
const LEAST_RATIO: f64 = 30.0;
const POWERS: f64 = 4.0;
/// Iterations for P, and what the last of them may change, in units of W.
const MOST_ITERATIONS: usize = 100;
const LATE: f64 = 0.02;

/// A norm of one part's state: |z|² by a weight, z = S y.
struct Norm {
    coordinates: DMatrix<f64>,
    weight: DMatrix<f64>,
    /// |x|² ≤ `model` |y|²_P.
    model: f64,
}

impl Norm {
    fn new(coordinates: &DMatrix<f64>, weight: DMatrix<f64>, dim: usize) -> Option<Self> {
        let inverse = coordinates.transpose().around(&weight).try_inverse()?;
        let model = inverse.view((0, 0), (dim, dim)).symmetric_eigenvalues().max();
        Some(Norm { coordinates: coordinates.clone(), weight, model })
    }
}

impl<T: Block, J: Joint<T>> Rounds<T, J> {
    /// A bound on E|x|² now and after every later round, whose steps are those of the prepared round
    /// and so many times smaller ones.
    pub(super) fn bounded(&mut self, chance: Chance, now: Moments<'_>, times: i32) -> Option<f64> {
        let (sizes, norms) = (self.sizes.clone(), self.norms(chance, times > 0));
        let weighed = |norm: &Norm| Some(self.weigh(norm, now));
        let mut levels: Vec<Option<f64>> = norms.iter().map(weighed).collect();
        for time in 0..=times {
            let smaller = libm::pow(SMALLER, time as f64);
            let shrunk: Vec<f64> = sizes.iter().map(|size| size * smaller).collect();
            self.prepare(&shrunk, true);
            for (norm, level) in norms.iter().zip(&mut levels) {
                *level = level.and_then(|own| Some(own.max(self.level(chance, norm, smaller)?)));
            }
        }
        self.prepare(&sizes, true);
        let known = norms.iter().zip(levels).filter_map(|(norm, level)| Some(norm.model * level?));
        known.min_by(f64::total_cmp)
    }

    /// The fixed point of what the prepared round, whose steps are `smaller`, does to |y|²_P; none
    /// where it does not contract.
    fn level(&self, chance: Chance, norm: &Norm, smaller: f64) -> Option<f64> {
        self.work.touch(10.0 * self.work.of_move(None));
        let z = self.units(smaller) * &norm.coordinates;
        let weight = z.transpose().around(&norm.weight);
        let (square, cross, constant) = self.pulled_back(chance, &weight);
        let half = weight.cholesky()?.l();
        let left = -spectrum::relative(&square, &half)?.max();
        let slope = half.solve_lower_triangular(&cross)?.norm();
        if left.is_nan() || left <= 0.0 {
            return None;
        }
        let root = (slope + (slope * slope + left * constant).sqrt()) / left;
        Some(root * root).filter(|level| level.is_finite())
    }

    /// E|y|²_P.
    fn weigh(&self, norm: &Norm, (mean, spread): Moments<'_>) -> f64 {
        let width = self.frame.width();
        let mean = DMatrix::from_column_slice(width, 1, mean);
        let second = DMatrix::from_column_slice(width, width, spread) + &mean * mean.transpose();
        (norm.coordinates.around(&second) * &norm.weight).trace()
    }

    /// What clients keep times a number, all else as it is.
    fn units(&self, kept: f64) -> DMatrix<f64> {
        let from = self.frame.place_of(0);
        let unit = |j: usize| if j < from { 1.0 } else { kept };
        DMatrix::from_diagonal(&DVector::from_fn(self.frame.width(), |j, _| unit(j)))
    }

    /// Norms in which what is slow and what is fast do not mix: rounds of small steps move the model slowly and
    /// forget velocities and stale controls at once. Each kind has P = T*(P) + W of its own; between them more
    /// and more weight of what is fast is tried. Where nothing changes its units, also P of the whole state.
    fn norms(&self, chance: Chance, smaller: bool) -> Vec<Norm> {
        let (dim, width) = (self.frame.dim, self.frame.width());
        let identity = DMatrix::identity(width, width);
        let whole = || self.accumulated(chance, &identity, 0..width);
        let whole = (!smaller || self.frame.kept.is_none()).then(whole).flatten();
        let whole = whole.and_then(|weight| Norm::new(&identity, weight, dim));
        let mut norms: Vec<Norm> = whole.into_iter().collect();
        let Some(apart) = self.apart() else { return norms };
        let kinds = [0..dim, dim..width].map(|kind| self.accumulated(chance, &apart, kind));
        if let [Some(slow), Some(fast)] = kinds {
            let total: f64 = self.sizes.iter().sum();
            let ratio = (1.0 / (total * self.steepest())).max(LEAST_RATIO);
            norms.extend((0..=3 * POWERS as i32).filter_map(|power| {
                let share = libm::pow(ratio, power as f64 / POWERS);
                Norm::new(&apart, &slow + &fast * share, dim)
            }));
        }
        norms
    }

    /// The state in coordinates that are slow, the first of them, or fast: x + rate β/(1 − β) v, which
    /// velocity alone does not move, what is remembered less x, and c_i less client i's gradient at x. None where
    /// there is the model only.
    fn apart(&self) -> Option<DMatrix<f64>> {
        let (dim, width) = (self.frame.dim, self.frame.width());
        let mut apart = DMatrix::identity(width, width);
        if let Some((rate, beta)) = self.frame.momentum {
            (0..dim).for_each(|j| apart[(j, dim + j)] = rate * beta / (1.0 - beta));
        }
        for place in self.frame.pasts().step_by(dim) {
            (0..dim).for_each(|j| apart[(place + j, j)] = -1.0);
        }
        if self.frame.kept.is_some() {
            for (k, client) in self.clients.iter().enumerate() {
                let place = (self.frame.place_of(k), 0);
                apart.view_mut(place, (dim, dim)).copy_from(&-client.slope.matrix());
            }
        }
        (!self.frame.is_plain()).then_some(apart)
    }

    /// P = T*(P) + W of some of the coordinates z = S y by themselves, by doubling along the expected map and
    /// step by step around that where there is more chance than that.
    fn accumulated(
        &self,
        chance: Chance,
        coordinates: &DMatrix<f64>,
        kind: Range<usize>,
    ) -> Option<DMatrix<f64>> {
        if coordinates.nrows() == 1 {
            return Some(coordinates.clone());
        }
        let inverse = coordinates.clone().try_inverse()?;
        let only = |all: DMatrix<f64>| {
            let own = |j: usize, k: usize| kind.contains(&j) && kind.contains(&k);
            all.map_with_location(|j, k, entry| if own(j, k) { entry } else { 0.0 })
        };
        self.work.touch(40.0 * self.work.of_move(None));
        let map = only(coordinates * self.expected.map.matrix() * &inverse).transpose();
        let units = self.units(self.sizes.iter().sum());
        let source = only(&units * &units);
        let mut sum = super::second::geometric(&map, source.clone())?;
        let Some((draw, share)) = chance else { return Some(sum) };
        for _ in 0..MOST_ITERATIONS {
            self.work.touch(2.0 * self.work.of_move(chance) + 20.0 * self.work.of_move(None));
            let pulled = J::pulled(&self.drawn[draw].0, &coordinates.transpose().around(&sum)).0;
            let more = only(inverse.transpose().around(&pulled)) * share;
            let next = super::second::geometric(&map, &source + more)?;
            // Sums grow, so that what is still to come is at most what W leaves over.
            let late = (&next - &sum).diagonal();
            sum = next;
            if late.iter().zip(&source.diagonal()).all(|(late, own)| *late <= LATE * own) {
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
        (mean, spread): Moments<'_>,
        decay: bool,
    ) -> Option<f64> {
        let times = if decay { TIMES } else { 0 };
        let places: Vec<_> = self.places().map(|(_, own, square)| (own, square)).collect();
        let ceilings = self.parts.iter_mut().zip(places).map(|(part, (own, square))| {
            part.ceiling(chance, (&mean[own], &spread[square]), times)
        });
        ceilings.sum()
    }
}

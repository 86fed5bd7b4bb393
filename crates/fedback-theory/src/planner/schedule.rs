//! The step sizes for one E and one scheme.
//!
//! With E and the scheme chosen a round has its price, so "cheaper than this" means "in at most R rounds",
//! and the question is whether any (η₀, γ) brings the largest error from round R on down to the target.
//! This largest error is continuous in (η₀, γ), also where the target is not met, so it can be
//! minimised: over η₀ for each γ, since a path that lands on θ^PS after R rounds does so for a narrow range
//! of η₀ only, and over γ. Where the target is met, R is what it took, and is lowered.

use fedback_core::protocol::StepSize;

use super::minimum::{Close, Point, lowest};
use super::search::{Cell, Search};

/// Errors above the target, in units of it, that are followed beyond R.
const PATIENCE: f64 = 4.0;

/// A schedule: (log η₀, log γ).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) first: f64,
    pub(super) gamma: f64,
}

impl Place {
    /// The place with β a = `rate`, a the margin.
    pub(super) fn of_rate(first: f64, rate: f64, margin: f64) -> Self {
        Place { first, gamma: libm::log(rate / margin) - first }
    }

    pub(super) fn step(self) -> f64 {
        libm::exp(self.first)
    }

    pub(super) fn step_size(self) -> StepSize {
        StepSize::Decaying {
            beta: libm::exp(self.first + self.gamma),
            gamma: libm::exp(self.gamma),
        }
    }
}

/// May this E and scheme do with so many rounds?
#[derive(Clone, Copy)]
pub(super) struct Wish {
    pub(super) local_steps: usize,
    pub(super) variant: usize,
    pub(super) rounds: u64,
    /// How far apart, in logarithms, first steps and γ are looked at first.
    pub(super) widths: (f64, f64),
    /// How close γ is looked at.
    pub(super) finest: f64,
}

impl Search<'_> {
    /// Lowers the rounds of a cell until nothing around its schedule does with fewer; `finest` is the
    /// least share of them that counts.
    pub(super) fn refine(&mut self, mut cell: Cell, finest: f64) -> Cell {
        loop {
            let rounds = cell.reach.rounds;
            let fewer = ((1.0 - finest) * rounds as f64) as u64;
            let Cell { local_steps, variant, .. } = cell;
            let wish = Wish {
                local_steps,
                variant,
                rounds: fewer.min(rounds - 1),
                widths: (0.15, 0.4),
                finest: self.effort.finest,
            };
            match self.around(wish, cell.place) {
                Some(better) => cell = better,
                None => return cell,
            }
        }
    }

    /// A schedule near a place that fulfils a wish.
    pub(super) fn around(&mut self, wish: Wish, place: Place) -> Option<Cell> {
        if wish.rounds == 0 {
            return None;
        }
        let flat = self.effort.flat;
        let mut found = None;
        let start = self.row(wish, place.gamma, place.first, &mut found);
        let mut first = start.0;
        let mut row = |gamma: f64| {
            let (next, value) = self.row(wish, gamma, first, &mut found);
            first = if value.is_finite() { next } else { first };
            value
        };
        let close = Close { apart: wish.finest, flat };
        lowest(&mut row, (place.gamma, start.1), wish.widths.1, close);
        found
    }

    /// The lowest point over first steps with one γ, near a first step.
    fn row(&mut self, wish: Wish, gamma: f64, near: f64, found: &mut Option<Cell>) -> Point {
        if found.is_some() {
            return (near, 0.0);
        }
        let close = Close { apart: 1e-7, flat: self.effort.flat };
        let mut score = |first: f64| self.score(wish, Place { first, gamma }, found);
        let start = (near, score(near));
        lowest(&mut score, start, wish.widths.0, close)
    }

    /// How far above the target the largest error from the wished round on is, in units of the target;
    /// zero or less where it is not, and the wish is fulfilled.
    pub(super) fn score(&mut self, wish: Wish, place: Place, found: &mut Option<Cell>) -> f64 {
        let Wish { local_steps, variant, rounds, .. } = wish;
        if place.first > libm::log(self.largest_step()) || self.is_spent() {
            return f64::INFINITY;
        }
        let outcome = self.follow(local_steps, &[(variant, rounds)], place, PATIENCE)[0];
        let Some(reach) = outcome.reach else {
            return (outcome.worst / self.question.target - 1.0).max(1e-9);
        };
        let cell = Cell { local_steps, variant, place, reach };
        match self.record(cell) {
            true => {
                *found = Some(cell);
                reach.crossing / rounds as f64 - 1.0
            }
            false => 1e-9,
        }
    }

    /// What a grid of schedules does with several wishes' schemes.
    pub(super) fn scores(
        &mut self,
        local_steps: usize,
        ways: &[(usize, u64)],
        place: Place,
    ) -> Vec<(f64, f64)> {
        let target = self.question.target;
        let outcomes = self.follow(local_steps, ways, place, PATIENCE);
        let mut scores = Vec::with_capacity(ways.len());
        for (outcome, &(variant, _)) in outcomes.iter().zip(ways) {
            if let Some(reach) = outcome.reach {
                self.record(Cell { local_steps, variant, place, reach });
            }
            scores.push((outcome.worst / target - 1.0, outcome.spread / target));
        }
        scores
    }
}

//! The step sizes for one E and one scheme.
//!
//! With E and the scheme chosen a round has its price, so "cheaper than this" means "in at most R rounds",
//! and the question is whether any (η₀, γ) brings the largest error from round R on down to the target.
//! This largest error is continuous in (η₀, γ), also where the target is not met, so it can be
//! minimised: over η₀ for each γ, since a path that lands on θ^PS after R rounds does so for a narrow range
//! of η₀ only, and over γ. Where the target is met, R is what it took, and is lowered.

use fedback_core::protocol::StepSize;

use super::horizon::Outcome;
use super::minimum::{Close, Point, lowest};
use super::search::{Cell, Search};

/// Errors above the target, in units of it, that are followed beyond R.
const PATIENCE: f64 = 4.0;
/// How far apart, in logarithms, first steps and γ are looked at first.
const WIDTHS: (f64, f64) = (0.15, 0.4);

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
    /// How close γ is looked at.
    pub(super) finest: f64,
}

impl Search<'_> {
    /// Lowers the rounds of a cell until nothing around its schedule does with fewer, and with so few
    /// that it would be the best; `finest` is the least share of them that counts.
    pub(super) fn refine(&mut self, mut cell: Cell, finest: f64) -> Cell {
        loop {
            let Cell { local_steps, variant, reach, .. } = cell;
            let affordable = self.best_cost() / self.cost_of_round(local_steps, variant);
            let fewer = ((1.0 - finest) * reach.rounds as f64).min(libm::ceil(affordable) - 1.0);
            let wish = Wish {
                local_steps,
                variant,
                rounds: (fewer as u64).min(reach.rounds - 1),
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
        let close = Close { apart: wish.finest, flat: self.effort.finest / 15.0 };
        let mut near = place.first;
        let mut row = |gamma: f64| {
            let (first, value) = self.row(wish, Place { first: near, gamma });
            near = if value.is_finite() { first } else { near };
            value
        };
        lowest(&mut row, place.gamma, WIDTHS.1, close);
        let known = self.cell(wish.local_steps, wish.variant).copied();
        known.filter(|cell| cell.reach.rounds <= wish.rounds)
    }

    /// The lowest point over first steps with a place's γ, near its first step.
    pub(super) fn row(&mut self, wish: Wish, Place { first, gamma }: Place) -> Point {
        let close = Close { apart: 1e-7, flat: self.effort.finest / 15.0 };
        let mut score = |first: f64| self.score(wish, Place { first, gamma });
        lowest(&mut score, first, WIDTHS.0, close)
    }

    fn score(&mut self, wish: Wish, place: Place) -> f64 {
        if place.first > libm::log(self.largest_step()) || self.is_spent() {
            return f64::INFINITY;
        }
        self.scores(wish.local_steps, &[(wish.variant, wish.rounds)], place)[0].0
    }

    /// For variants, each with the rounds that are wished: how far above the target the largest error
    /// from there on is, zero or less where it is not; and what of it is spread. In units of the target.
    pub(super) fn scores(
        &mut self,
        local_steps: usize,
        ways: &[(usize, u64)],
        place: Place,
    ) -> Vec<(f64, f64)> {
        let target = self.question.target;
        let outcomes = self.follow(local_steps, ways, place, PATIENCE);
        let score = |(outcome, &(variant, rounds)): (Outcome, &(usize, u64))| {
            let above = match outcome.reach {
                None => (outcome.worst / target - 1.0).max(1e-9),
                Some(reach) => match self.record(Cell { local_steps, variant, place, reach }) {
                    true => reach.crossing / rounds as f64 - 1.0,
                    false => 1e-9,
                },
            };
            (above, outcome.spread / target)
        };
        outcomes.into_iter().zip(ways).map(score).collect()
    }
}

//! Few rounds: where communication is dear, the best plan often lands on θ^PS in a round or a few.
//!
//! The step sizes that do so lie in valleys too narrow for a coarse grid, as narrow as √A/|θ⁰ − θ^PS|, and
//! E that do so need not be next to each other. But few rounds are cheap to work out. So for many E the
//! largest errors from round R on, R being the most that would be cheaper than the best so far, are
//! worked out over a grid of (η₀, γ). Along each row of one γ the bottoms of valleys are sought, and then the
//! γ whose bottom is lowest. The mean path is the same for every scheme, and so are its valleys: one
//! scheme stands for all that have as many rounds.

use super::minimum::Point;
use super::schedule::{Place, Wish};
use super::search::{Effort, Search};

/// The smallest γ: the second step is a thirtieth of the first.
const SMALLEST: f64 = 0.03;
/// γ, in units of all steps, that makes steps practically constant.
const LARGEST: f64 = 40.0;
/// Improvements below this share are not worth a search.
const WORTHWHILE: f64 = 0.005;
/// Bottoms that are higher than this, in units of the target, are not followed to other γ.
const PROMISING: f64 = 6.0;

impl Search<'_> {
    /// Sweeps over everything that would be cheaper than the best in few rounds.
    pub(super) fn sweep(&mut self, progress: &mut dyn FnMut(f64)) {
        let chosen = self.question.all_local_steps(2 * self.effort.few, self.effort.denser);
        for (place, &local_steps) in chosen.iter().enumerate() {
            progress(place as f64 / chosen.len() as f64);
            for group in 0..self.groups.len() {
                while self.sweep_local_steps(local_steps, group)
                    && let Some(best) = self.best
                {
                    self.refine(best, 0.0);
                }
            }
        }
    }

    /// The most rounds that would be cheaper than the best.
    fn cheaper_rounds(&self, local_steps: usize, variant: usize) -> u64 {
        let best = (1.0 - WORTHWHILE) * self.best_cost();
        let rounds = (best / self.cost_of_round(local_steps, variant)).min(1e9) as u64;
        rounds.min(self.question.budget / local_steps as u64).min(self.effort.few as u64)
    }

    /// Whether one E, with the schemes of one group, does better than the best.
    fn sweep_local_steps(&mut self, local_steps: usize, group: usize) -> bool {
        let contenders = self.variants.iter().enumerate();
        let contenders = contenders.filter(|(_, v)| v.contends && v.group == group);
        let ways: Vec<(usize, u64)> = contenders
            .map(|(k, _)| (k, self.cheaper_rounds(local_steps, k)))
            .filter(|(_, rounds)| *rounds > 0)
            .collect();
        let Some(most) = ways.iter().map(|(_, rounds)| *rounds).max() else { return false };
        let before = self.best_cost();
        let grid = Grid::new(self, local_steps, most);
        let mut scores: Vec<Vec<(f64, f64)>> = Vec::new();
        for place in grid.places() {
            if self.is_spent() {
                return false;
            }
            scores.push(self.scores(local_steps, &ways, place));
            if self.best_cost() < before {
                return true;
            }
        }
        for rounds in 1..=most {
            let same = (0..ways.len()).filter(|&k| ways[k].1 == rounds);
            let low = |k: usize| scores.iter().map(|s| s[k].0).fold(f64::INFINITY, f64::min);
            let Some(lead) = same.min_by(|a, b| low(*a).total_cmp(&low(*b))) else { continue };
            let values: Vec<(f64, f64)> = scores.iter().map(|s| s[lead]).collect();
            let wish = Wish { local_steps, variant: ways[lead].0, rounds, finest: 0.02 };
            if self.valleys(wish, &grid, &values) {
                return self.best_cost() < before;
            }
        }
        false
    }

    /// Looks for the lowest valley; whether it is low enough.
    fn valleys(&mut self, wish: Wish, grid: &Grid, values: &[(f64, f64)]) -> bool {
        let columns = grid.firsts.len();
        let mut bottoms: Vec<Point> = Vec::new();
        for (&gamma, values) in grid.gammas.iter().zip(values.chunks_exact(columns)) {
            let mut bottom = (0.0, f64::INFINITY);
            for (k, &first) in grid.firsts.iter().enumerate() {
                let around = &values[k.saturating_sub(1)..(k + 2).min(columns)];
                let low = around.iter().all(|other| values[k].0 <= other.0);
                let quiet = around.iter().any(|other| other.1 <= 1.0);
                if low && quiet && values[k].0.is_finite() {
                    let lowest = self.row(wish, Place { first, gamma });
                    bottom = if lowest.1 < bottom.1 { lowest } else { bottom };
                }
                if bottom.1 <= 0.0 {
                    return true;
                }
            }
            bottoms.push(bottom);
        }
        for (row, &(first, value)) in bottoms.iter().enumerate() {
            let around = &bottoms[row.saturating_sub(1)..(row + 2).min(bottoms.len())];
            let low = around.iter().all(|other| value <= other.1);
            let place = Place { first, gamma: grid.gammas[row] };
            if low && value < PROMISING && self.around(wish, place).is_some() {
                return true;
            }
        }
        false
    }
}

/// Schedules in rows of one γ, first steps falling from the largest.
struct Grid {
    firsts: Vec<f64>,
    gammas: Vec<f64>,
}

impl Grid {
    fn new(search: &Search<'_>, local_steps: usize, rounds: u64) -> Self {
        let &Effort { few, spacing, .. } = search.effort;
        let columns = 3 * few;
        let steps = (local_steps as u64 * rounds) as f64;
        let top = libm::log(search.largest_step());
        let depth = libm::log((0.1 / steps).min(0.02));
        let firsts = (0..columns).map(|k| top + depth * k as f64 / (columns - 1) as f64).collect();
        let range = libm::log(LARGEST * steps / SMALLEST);
        let rows = libm::ceil(range / libm::log(spacing)) as usize;
        let gamma = |row: usize| libm::log(SMALLEST) + range * row as f64 / rows as f64;
        Grid { firsts, gammas: (0..=rows).map(gamma).collect() }
    }

    /// All of them, row after row.
    fn places(&self) -> impl Iterator<Item = Place> {
        let row = |&gamma: &f64| self.firsts.iter().map(move |&first| Place { first, gamma });
        self.gammas.iter().flat_map(row)
    }
}

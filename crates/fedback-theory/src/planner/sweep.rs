//! Few rounds: where communication is dear, the best plan often lands on θ^PS in a round or a few.
//!
//! The step sizes that do so lie in valleys too narrow for a coarse grid, as narrow as √A/|θ⁰ − θ^PS|, and
//! E that do so need not be next to each other. But few rounds are cheap to work out. So for many E the
//! largest errors from round R on, R being the most that would be cheaper than the best so far, are
//! worked out over a grid of (η₀, γ). Along each row of one γ the bottoms of valleys are sought, and then the
//! γ whose bottom is lowest. The mean path is the same for every scheme, and so are its valleys: one
//! scheme stands for all that have as many rounds.

use super::choices::geometric;
use super::guide::fewest_steps;
use super::minimum::{Close, Point, lowest_between};
use super::schedule::{Place, Wish};
use super::search::{Cell, MOST_LOCAL_STEPS, Search};

/// How few rounds are few, and how they are looked at.
pub(super) struct Sweep {
    /// The most rounds.
    pub(super) rounds: u64,
    /// E up to which every one is looked at, and how fast they grow from there on.
    pub(super) every: usize,
    pub(super) growth: f64,
    /// First steps in a row.
    pub(super) columns: usize,
    /// How fast γ grows from row to row.
    pub(super) spacing: f64,
}

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
        let sweep = &self.effort.sweep;
        let most = MOST_LOCAL_STEPS.min(self.question.budget as usize).max(1);
        let chosen = match &self.question.local_steps {
            Some(list) => list.clone(),
            None => {
                let every = sweep.every.min(most);
                let beyond = geometric(every, most, sweep.growth).into_iter().skip(1);
                (1..=every).chain(beyond).collect()
            }
        };
        let fewest = fewest_steps(&self.task, self.question.target);
        for (place, &local_steps) in chosen.iter().enumerate() {
            progress(place as f64 / chosen.len() as f64);
            if ((local_steps as u64 * sweep.rounds) as f64) < fewest {
                continue;
            }
            for group in 0..self.groups.len() {
                while self.sweep_local_steps(local_steps, group) {}
            }
        }
    }

    /// The most rounds that would be cheaper than the best.
    fn cheaper_rounds(&self, local_steps: usize, variant: usize) -> u64 {
        let best = (1.0 - WORTHWHILE) * self.best_cost();
        let rounds = (best / self.cost_of_round(local_steps, variant)).min(1e9) as u64;
        rounds.min(self.question.budget / local_steps as u64).min(self.effort.sweep.rounds)
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
                self.settle();
                return true;
            }
        }
        for rounds in 1..=most {
            let same = (0..ways.len()).filter(|&k| ways[k].1 == rounds);
            let low = |k: usize| scores.iter().map(|s| s[k].0).fold(f64::INFINITY, f64::min);
            let Some(lead) = same.min_by(|a, b| low(*a).total_cmp(&low(*b))) else { continue };
            let values: Vec<(f64, f64)> = scores.iter().map(|s| s[lead]).collect();
            let wish = Wish {
                local_steps,
                variant: ways[lead].0,
                rounds,
                widths: (0.05, 0.3 * libm::log(self.effort.sweep.spacing)),
                finest: 0.02,
            };
            if self.valleys(wish, &grid, &values) {
                self.settle();
                return true;
            }
        }
        false
    }

    /// Looks for the lowest valley; whether it is low enough.
    fn valleys(&mut self, wish: Wish, grid: &Grid, values: &[(f64, f64)]) -> bool {
        let close = Close { apart: 1e-7, flat: self.effort.flat };
        let mut found = None;
        let mut bottoms: Vec<Point> = Vec::new();
        for (row, &gamma) in grid.gammas.iter().enumerate() {
            let columns = grid.firsts.len();
            let values = &values[row * columns..(row + 1) * columns];
            let mut bottom = (0.0, f64::INFINITY);
            for k in 0..columns {
                let (above, below) = (k.saturating_sub(1), (k + 1).min(columns - 1));
                let low = values[k].0 <= values[above].0 && values[k].0 <= values[below].0;
                let quiet = values[above].1.min(values[k].1).min(values[below].1) <= 1.0;
                if !low || !quiet || !values[k].0.is_finite() {
                    continue;
                }
                let mut score = |first: f64| self.score(wish, Place { first, gamma }, &mut found);
                let value = |k: usize| (grid.firsts[k], values[k].0);
                let high =
                    if above == k { (grid.firsts[k] + 1e-9, f64::INFINITY) } else { value(above) };
                let end =
                    if below == k { (grid.firsts[k] - 1e-9, f64::INFINITY) } else { value(below) };
                let lowest = lowest_between(&mut score, [end, value(k), high], close);
                if found.is_some() {
                    return true;
                }
                bottom = if lowest.1 < bottom.1 { lowest } else { bottom };
            }
            bottoms.push(bottom);
        }
        for (row, &(first, value)) in bottoms.iter().enumerate() {
            let neighbours = [row.saturating_sub(1), (row + 1).min(bottoms.len() - 1)];
            let low = neighbours.iter().all(|&other| value <= bottoms[other].1);
            let place = Place { first, gamma: grid.gammas[row] };
            if low && value < PROMISING && self.around(wish, place).is_some() {
                return true;
            }
        }
        false
    }

    /// Looks around the best for fewer rounds still.
    fn settle(&mut self) {
        if let Some(best) = self.best {
            let better: Cell = self.refine(best, 0.0);
            self.record(better);
        }
    }
}

/// Schedules in rows of one γ, first steps falling from the largest.
struct Grid {
    firsts: Vec<f64>,
    gammas: Vec<f64>,
}

impl Grid {
    fn new(search: &Search<'_>, local_steps: usize, rounds: u64) -> Self {
        let Sweep { columns, spacing, .. } = search.effort.sweep;
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

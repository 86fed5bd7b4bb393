//! The search: E × cohort and scheme, and for each of these the step sizes.
//!
//! Step sizes are searched in (log η₀, log β a), a the margin: on a coarse grid that all schemes share
//! a path on, then for each scheme by itself, by steps that shrink. What is minimised is
//! where the logarithm of the error crosses the target's for good, between rounds: it is smooth where
//! the number of rounds is not, and rounds are its ceiling. A path ends as soon as it cannot win.
//! E runs over a grid that grows geometrically and is then refined around the best, and so does K where
//! waiting costs; where it does not, more clients never hurt and the largest cohort is best.

use fedback_core::protocol::{Scheme, StepSize};

use super::dynamics::{Dynamics, Sampling};
use super::horizon::{Aim, Reach, follow};
use super::rows::Detail;
use super::{Proposal, Question, Task};

/// How closely is looked.
struct Effort {
    /// First steps tried, in units of the largest.
    first_steps: &'static [f64],
    /// β a tried: the law of large t needs more than 1/2, and [`CONSTANT`] is practically a constant
    /// step.
    rates: &'static [f64],
    /// How fast the E that are tried grow.
    growth: f64,
    /// How close, in logarithms, schedules are searched for while E and K are, and at the end.
    coarse: f64,
    fine: f64,
    /// E that are tried around the best, and how often refining starts again.
    around: usize,
    turns: usize,
}

/// For problems whose rounds cost next to nothing.
const THOROUGH: Effort = Effort {
    first_steps: &[1.0, 0.7, 0.5, 0.35, 0.22, 0.12, 0.06, 0.03, 0.015, 0.005, 0.001],
    rates: &[1.0, 1.5, 2.5, 5.0, 12.0, 40.0, CONSTANT, 300.0, 0.75, 0.55, 0.4],
    growth: 1.35,
    coarse: 0.03,
    fine: 0.002,
    around: 12,
    turns: 3,
};
/// For problems whose rounds are matrices, or go over rows.
const QUICK: Effort = Effort {
    first_steps: &[1.0, 0.5, 0.22, 0.08, 0.02],
    rates: &[1.0, 2.0, 5.0, CONSTANT, 20.0, 0.6],
    growth: 1.9,
    coarse: 0.12,
    fine: 0.03,
    around: 3,
    turns: 1,
};
/// β a above which steps are constant for all practical purposes.
const CONSTANT: f64 = 1e5;
/// Costs beyond this many times the best are not pursued.
const INTERESTING: f64 = 2.5;
/// Local steps beyond which nobody goes without saying so.
const MOST_LOCAL_STEPS: usize = 2000;

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The cheapest way; none where the budget is too small.
    pub best: Option<Proposal>,
    /// The cheapest way for every E and scheme that was looked at, unless it is far too expensive.
    pub alternatives: Vec<Proposal>,
}

/// A scheme with its cohort.
struct Variant {
    scheme: Scheme,
    sampling: Sampling,
    scaled: bool,
    communication: f64,
    /// Whether it may win; the others are there for comparison only.
    contends: bool,
}

struct Search<'a> {
    task: Task<'a>,
    effort: &'static Effort,
    question: &'a Question,
    variants: Vec<Variant>,
    plain: Box<dyn Dynamics + 'a>,
    scaled: Option<Box<dyn Dynamics + 'a>>,
    error: Vec<f64>,
    margin: f64,
    largest_step: f64,
    cells: Vec<Cell>,
}

/// The best schedule found for one E and one variant.
#[derive(Clone, Copy, PartialEq)]
struct Cell {
    local_steps: usize,
    variant: usize,
    place: Place,
    reach: Reach,
}

/// A schedule: (log η₀, log β a).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    first: f64,
    rate: f64,
}

/// Searches. `progress` hears of the share that is done, roughly.
pub fn search(task: &Task<'_>, question: &Question, progress: &mut dyn FnMut(f64)) -> Found {
    let clients = task.federation.clients();
    let mut search = Search {
        task: *task,
        effort: if task.is_simple() { &THOROUGH } else { &QUICK },
        question,
        variants: Vec::new(),
        plain: task.dynamics(false, Detail::Sketch),
        scaled: task.protocol.scale_objectives.then(|| task.dynamics(true, Detail::Sketch)),
        error: task.error(),
        margin: task.margin,
        largest_step: 1.0 / task.smoothness,
        cells: Vec::new(),
    };
    let weights = &task.federation.weights;
    let variant = |scheme: Scheme| Variant {
        scheme,
        sampling: Sampling::of(scheme, clients),
        scaled: task.scales(scheme),
        communication: question.prices.communication_of(scheme, weights),
        contends: question.contends(scheme, clients),
    };
    let schemes = question.schemes(clients);
    search.variants = schemes.into_iter().map(variant).collect();
    search.over_local_steps(&mut |share| progress(0.7 * share));
    // Refining one choice may move the best place of the other.
    for turn in 0..search.effort.turns {
        let before = search.best();
        search.between_cohorts(&variant, clients);
        search.between_local_steps();
        progress(0.8 + 0.05 * turn as f64);
        search.polish();
        if search.best() == before {
            break;
        }
    }
    let best = search.best().map(|cell| search.finish(cell));
    progress(1.0);
    let alternatives = search.cells.iter().map(|cell| search.proposal(cell)).collect();
    Found { best, alternatives }
}

impl Question {
    /// Whether larger cohorts cost more.
    fn waits(&self) -> bool {
        self.prices.communication * self.prices.straggler > 0.0
    }

    /// Whether a scheme may be the best. Where waiting costs nothing, full participation is at least
    /// as good as any cohort for every convex risk (Jensen), and larger cohorts as smaller ones.
    fn contends(&self, scheme: Scheme, clients: usize) -> bool {
        let largest = self.largest_cohort.min(clients);
        match scheme {
            _ if self.waits() => true,
            Scheme::Full => true,
            Scheme::WithReplacement { cohort }
            | Scheme::WithoutReplacement { cohort }
            | Scheme::FirstArrivals { cohort, .. } => {
                cohort == largest && !(self.full && largest == clients)
            }
        }
    }

    /// Every scheme to look at, with cohorts on a grid.
    fn schemes(&self, clients: usize) -> Vec<Scheme> {
        let largest = self.largest_cohort.max(1);
        let grid = |most: usize| -> Vec<usize> {
            let all = geometric(1, most, 1.5);
            match self.waits() {
                true => all,
                // Only for the chart: a handful below the largest.
                false => {
                    let few = [most / 5, most / 2, most].map(|k| k.max(1));
                    let mut few = few.to_vec();
                    few.dedup();
                    few
                }
            }
        };
        let mut schemes = Vec::new();
        if self.full && largest >= clients {
            schemes.push(Scheme::Full);
        }
        if self.without_replacement {
            let most = largest.min(clients);
            let cohorts = grid(most).into_iter().filter(|k| !self.full || *k < clients);
            schemes.extend(cohorts.map(|cohort| Scheme::WithoutReplacement { cohort }));
        }
        if self.with_replacement {
            let cohorts = grid(largest.min(clients)).into_iter();
            schemes.extend(cohorts.map(|cohort| Scheme::WithReplacement { cohort }));
        }
        schemes
    }
}

/// Whole numbers from `first` to `last` that grow by about `factor`, both ends included.
fn geometric(first: usize, last: usize, factor: f64) -> Vec<usize> {
    let mut numbers = vec![first];
    let mut next = first;
    while next < last {
        next = ((next as f64 * factor) as usize).max(next + 1).min(last);
        numbers.push(next);
    }
    numbers
}

/// At most `most` whole numbers strictly between two, evenly spaced.
fn between(low: usize, high: usize, most: usize) -> Vec<usize> {
    let inside = high.saturating_sub(low + 1);
    let every = inside.div_ceil(most).max(1);
    (low + 1..high).skip((every - 1) / 2).step_by(every).collect()
}

impl Search<'_> {
    fn cost_of_round(&self, local_steps: usize, variant: usize) -> f64 {
        local_steps as f64 + self.variants[variant].communication
    }

    fn cost(&self, cell: &Cell) -> f64 {
        cell.reach.rounds as f64 * self.cost_of_round(cell.local_steps, cell.variant)
    }

    /// The cheapest cell; of equal ones the first scheme, then the fewest local steps a round.
    fn best(&self) -> Option<Cell> {
        let mut cells: Vec<Cell> = self.cells.clone();
        cells.sort_by(|a, b| {
            let key = |cell: &Cell| (cell.variant, cell.local_steps);
            self.cost(a).total_cmp(&self.cost(b)).then(key(a).cmp(&key(b)))
        });
        cells.first().copied()
    }

    fn over_local_steps(&mut self, progress: &mut dyn FnMut(f64)) {
        let most = MOST_LOCAL_STEPS.min(self.question.budget as usize).max(1);
        let chosen = match &self.question.local_steps {
            Some(list) => list.clone(),
            None => geometric(1, most, self.effort.growth),
        };
        let all: Vec<usize> = (0..self.variants.len()).collect();
        let mut worse = 0;
        for (place, &local_steps) in chosen.iter().enumerate() {
            let one_round = all.iter().map(|&v| self.cost_of_round(local_steps, v));
            let least = one_round.fold(f64::INFINITY, f64::min);
            let best = self.best().map_or(f64::INFINITY, |cell| self.cost(&cell));
            if self.question.local_steps.is_none() && (least > best || worse >= 4) {
                break;
            }
            self.explore(local_steps, &all);
            let own = self.cells.iter().filter(|cell| cell.local_steps == local_steps);
            let own = own.map(|cell| self.cost(cell)).fold(f64::INFINITY, f64::min);
            worse = if own > 1.3 * best { worse + 1 } else { 0 };
            progress((place + 1) as f64 / chosen.len() as f64);
        }
    }

    /// Looks between the best E and its neighbours, again and again.
    fn between_local_steps(&mut self) {
        if self.question.local_steps.is_some() {
            return;
        }
        for _ in 0..6 {
            let Some(best) = self.best() else { return };
            let mut tried: Vec<usize> = self
                .cells
                .iter()
                .filter(|cell| cell.variant == best.variant)
                .map(|cell| cell.local_steps)
                .collect();
            tried.sort_unstable();
            tried.dedup();
            let place = tried.iter().position(|e| *e == best.local_steps).unwrap_or(0);
            let low = if place == 0 { 0 } else { tried[place - 1] };
            let high = tried.get(place + 1).copied().unwrap_or(best.local_steps + 2);
            let mut inside = between(low, best.local_steps, self.effort.around / 2 + 1);
            inside.extend(between(best.local_steps, high, self.effort.around / 2 + 1));
            for local_steps in inside {
                self.explore(local_steps, &[best.variant]);
            }
            if self.best().is_some_and(|cell| cell.local_steps == best.local_steps) {
                break;
            }
        }
        // Whole rounds make costs ragged: a little further away may be as good by chance.
        let Some(best) = self.best() else { return };
        let around = best.local_steps * 3 / 5..best.local_steps * 8 / 5 + 3;
        for local_steps in between(around.start, around.end, self.effort.around) {
            self.explore(local_steps, &[best.variant]);
        }
    }

    /// Looks between the best K and its neighbours, at the best E.
    fn between_cohorts(&mut self, variant: &dyn Fn(Scheme) -> Variant, clients: usize) {
        if !self.question.waits() {
            return;
        }
        let Some(best) = self.best() else { return };
        let resize: fn(usize) -> Scheme = match self.variants[best.variant].scheme {
            Scheme::Full if !self.question.without_replacement => return,
            Scheme::Full | Scheme::WithoutReplacement { .. } | Scheme::FirstArrivals { .. } => {
                |cohort| Scheme::WithoutReplacement { cohort }
            }
            Scheme::WithReplacement { .. } => |cohort| Scheme::WithReplacement { cohort },
        };
        let own = self.variants[best.variant].scheme.cohort().unwrap_or(clients);
        let mut tried: Vec<usize> =
            (1..=clients).filter(|&k| self.find(resize(k)).is_some()).collect();
        if !tried.contains(&own) {
            tried.push(own);
        }
        tried.sort_unstable();
        let place = tried.iter().position(|k| *k == own).unwrap_or(0);
        let low = if place == 0 { own } else { tried[place - 1] };
        let high = tried.get(place + 1).copied().unwrap_or(own);
        let mut inside = between(low, own, 8);
        inside.extend(between(own, high, 8));
        for cohort in inside {
            let scheme = resize(cohort);
            let place = self.find(scheme).unwrap_or_else(|| {
                self.variants.push(variant(scheme));
                self.variants.len() - 1
            });
            self.explore(best.local_steps, &[place]);
        }
    }

    /// Looks closer at the schedules of all that come near the best.
    fn polish(&mut self) {
        for place in 0..self.cells.len() {
            let Some(best) = self.best() else { return };
            let mut cell = self.cells[place];
            let each = self.cost_of_round(cell.local_steps, cell.variant);
            let hoped_for = libm::ceil(0.95 * cell.reach.crossing) * each;
            let leads = cell.place == best.place && cell.local_steps == best.local_steps;
            if self.variants[cell.variant].contends && (leads || hoped_for < self.cost(&best)) {
                self.descend(&mut cell, self.effort.fine);
                self.cells[place] = cell;
            }
        }
    }

    fn find(&self, scheme: Scheme) -> Option<usize> {
        self.variants.iter().position(|variant| variant.scheme == scheme)
    }

    /// Finds the best schedules of some variants at one E.
    fn explore(&mut self, local_steps: usize, variants: &[usize]) {
        let known = |v: &usize| {
            self.cells.iter().any(|cell| cell.local_steps == local_steps && cell.variant == *v)
        };
        let fresh: Vec<usize> = variants.iter().copied().filter(|v| !known(v)).collect();
        for scaled in [false, true] {
            let group: Vec<usize> =
                fresh.iter().copied().filter(|&v| self.variants[v].scaled == scaled).collect();
            if !group.is_empty() {
                self.explore_group(local_steps, &group);
            }
        }
    }

    fn explore_group(&mut self, local_steps: usize, group: &[usize]) {
        let mut best: Vec<Option<Cell>> = vec![None; group.len()];
        // What was best at other E is a good guess, and ends other paths early.
        let mut places: Vec<Place> = Vec::new();
        for &v in group {
            let near = self.cells.iter().rev().filter(|cell| cell.variant == v);
            places.extend(near.map(|cell| cell.place).take(1));
        }
        places.dedup();
        for place in places {
            self.try_place(local_steps, group, place, &mut best);
        }
        let contenders: Vec<usize> =
            (0..group.len()).filter(|&k| self.variants[group[k]].contends).collect();
        let top = libm::log(self.largest_step);
        for (row, &rate) in self.effort.rates.iter().enumerate() {
            for (column, &first) in self.effort.first_steps.iter().enumerate() {
                let place = Place { first: top + libm::log(first), rate: libm::log(rate) };
                // Those that are there for comparison do with a quarter of the grid.
                if row % 2 == 0 && column % 2 == 0 {
                    self.try_place(local_steps, group, place, &mut best);
                    continue;
                }
                let chosen: Vec<usize> = contenders.iter().map(|&k| group[k]).collect();
                let mut own: Vec<Option<Cell>> = contenders.iter().map(|&k| best[k]).collect();
                self.try_place(local_steps, &chosen, place, &mut own);
                contenders.iter().zip(own).for_each(|(&k, own)| best[k] = own);
            }
        }
        for (k, &v) in group.iter().enumerate() {
            let Some(mut cell) = best[k] else { continue };
            let cheapest = self.best().map_or(f64::INFINITY, |cell| self.cost(&cell));
            if self.variants[v].contends && self.cost(&cell) <= 1.6 * cheapest {
                self.descend(&mut cell, self.effort.coarse);
            }
            self.cells.push(cell);
        }
    }

    /// Moves the first step by steps that shrink where none of them helps, with the best rate for each.
    /// The two are not moved together: the best rate is often the largest that keeps the promise to
    /// stay, and along such an edge steps in fixed directions get stuck.
    fn descend(&mut self, cell: &mut Cell, finest: f64) {
        let top = libm::log(self.largest_step);
        let mut width = 0.25;
        while width > finest && cell.reach.rounds > 1 {
            let from = cell.place;
            for side in [1.0, -1.0] {
                let first = (from.first + side * width).min(top);
                if first != from.first {
                    let other = self.best_rate(cell, Place { first, ..from }, finest);
                    *cell =
                        other.filter(|o| o.reach.crossing < cell.reach.crossing).unwrap_or(*cell);
                }
            }
            if cell.place.first == from.first {
                width *= 0.5;
            }
        }
        if cell.reach.rounds > 1 {
            let place = cell.place;
            *cell = self.best_rate(cell, place, finest).unwrap_or(*cell);
        }
    }

    /// The best rate for the first step of a place, looked for around the place's own.
    fn best_rate(&mut self, cell: &Cell, place: Place, finest: f64) -> Option<Cell> {
        let most = libm::log(CONSTANT);
        let mut best = [(cell.place == place).then_some(*cell)];
        if best[0].is_none() {
            self.try_place(cell.local_steps, &[cell.variant], place, &mut best);
        }
        let (mut centre, mut width) = (place.rate, 0.4);
        while width > finest {
            let before = centre;
            for rate in [centre + width, centre - width] {
                let place = Place { rate: rate.min(most), ..place };
                let crossing = best[0].map(|cell| cell.reach.crossing);
                self.try_place(cell.local_steps, &[cell.variant], place, &mut best);
                if best[0].map(|cell| cell.reach.crossing) != crossing {
                    centre = place.rate;
                    break;
                }
            }
            if centre == before {
                width *= 0.5;
            }
        }
        best[0]
    }

    /// Follows one schedule for several variants, and keeps it where it is better.
    fn try_place(
        &mut self,
        local_steps: usize,
        variants: &[usize],
        place: Place,
        best: &mut [Option<Cell>],
    ) {
        let cheapest = self.best().map_or(f64::INFINITY, |cell| self.cost(&cell));
        let limit = |(k, &v): (usize, &usize)| {
            let budget = self.question.budget / local_steps as u64;
            let affordable = INTERESTING * cheapest / self.cost_of_round(local_steps, v);
            // One round cannot be bettered.
            let own = best[k].map_or(u64::MAX, |cell| cell.reach.rounds);
            let own = if own == 1 { 0 } else { own };
            budget.min(own).min(affordable.min(1e18) as u64)
        };
        let limits: Vec<u64> = variants.iter().enumerate().map(limit).collect();
        if limits.iter().all(|limit| *limit == 0) {
            return;
        }
        let reaches = self.follow(local_steps, variants, place.step_size(self.margin), &limits);
        for (k, reach) in reaches.into_iter().enumerate() {
            let Some(reach) = reach else { continue };
            if best[k].is_none_or(|cell| reach.crossing < cell.reach.crossing) {
                best[k] = Some(Cell { local_steps, variant: variants[k], place, reach });
            }
        }
    }

    fn follow(
        &mut self,
        local_steps: usize,
        variants: &[usize],
        step_size: StepSize,
        limits: &[u64],
    ) -> Vec<Option<Reach>> {
        let samplings: Vec<Sampling> =
            variants.iter().map(|&v| self.variants[v].sampling).collect();
        let scaled = variants.iter().any(|&v| self.variants[v].scaled);
        let dynamics = match (&mut self.scaled, scaled) {
            (Some(scaled), true) => scaled,
            _ => &mut self.plain,
        };
        let aim = Aim {
            start: &self.error,
            target: self.question.target,
            margin: self.margin,
            stable_first_round: true,
            frozen: true,
        };
        follow(&mut **dynamics, local_steps, step_size, &aim, &samplings, limits)
    }

    /// The cell as a proposal: with numbers that a person can type where they do as well, every round
    /// worked out by itself, over many rows.
    fn finish(&self, cell: Cell) -> Proposal {
        let first = cell.place.step();
        let variant = &self.variants[cell.variant];
        let mut dynamics = self.task.dynamics(variant.scaled, Detail::Full);
        let limit = [self.question.budget / cell.local_steps as u64];
        let mut last = self.proposal(&cell);
        for digits in [3, 4, 6, 15] {
            let gamma = significant(libm::exp(cell.place.rate) / self.margin / first, digits);
            let beta = significant(first * gamma, digits).min(gamma * self.largest_step);
            let step_size = StepSize::Decaying { beta, gamma };
            let (aim, sampling) = (self.aim(false), [variant.sampling]);
            let reach =
                follow(&mut *dynamics, cell.local_steps, step_size, &aim, &sampling, &limit);
            let Some(reach) = reach[0] else { continue };
            last = Proposal { step_size, ..self.proposal(&Cell { reach, ..cell }) };
            if reach.rounds <= cell.reach.rounds {
                break;
            }
        }
        last
    }

    fn aim(&self, frozen: bool) -> Aim<'_> {
        Aim {
            start: &self.error,
            target: self.question.target,
            margin: self.margin,
            stable_first_round: true,
            frozen,
        }
    }

    fn proposal(&self, cell: &Cell) -> Proposal {
        Proposal {
            scheme: self.variants[cell.variant].scheme,
            local_steps: cell.local_steps,
            step_size: cell.place.step_size(self.margin),
            rounds: cell.reach.rounds,
            crossing: cell.reach.crossing,
            distance_sq: cell.reach.distance_sq,
            worst_after: cell.reach.worst_after,
            watched: cell.reach.watched,
            communication: self.variants[cell.variant].communication,
        }
    }
}

impl Place {
    fn step(self) -> f64 {
        libm::exp(self.first)
    }

    fn step_size(self, margin: f64) -> StepSize {
        let beta = libm::exp(self.rate) / margin;
        StepSize::Decaying { beta, gamma: beta / self.step() }
    }
}

/// A number rounded to significant digits.
fn significant(number: f64, digits: i32) -> f64 {
    let exponent = digits - 1 - libm::floor(libm::log10(number)) as i32;
    match exponent {
        0..=300 => {
            let unit = libm::pow(10.0, exponent as f64);
            libm::round(number * unit) / unit
        }
        _ => {
            let unit = libm::pow(10.0, -exponent as f64);
            libm::round(number / unit) * unit
        }
    }
}

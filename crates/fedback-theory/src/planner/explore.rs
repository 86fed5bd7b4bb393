//! Where the search goes: E on a grid, schedules on a grid, then around the best.

use fedback_core::protocol::{Protocol, StepSize};

use super::choices::{between, geometric};
use super::schedule::{Place, Wish};
use super::search::{Cell, MOST_LOCAL_STEPS, Search};
use crate::cohort;

/// Costs beyond this many times the best are not pursued.
const INTERESTING: f64 = 2.5;
/// Costs up to this many times the best may be the best after a closer look.
const CLOSE: f64 = 1.6;
/// By how much steps are shortened until they are stable, and how often.
const SHORTENED: f64 = 0.75;
const MOST_SHORTENED: usize = 48;
/// Schedules that are looked at closer in the end.
const POLISHED: usize = 10;

impl Search<'_> {
    /// Looks at the spec's own setting, if it may be chosen.
    pub(super) fn own_setting(&mut self, clients: usize) {
        let Protocol { scheme, local_steps, step_size, .. } = *self.task.protocol;
        let listed = |list: &Vec<usize>| list.contains(&local_steps);
        let place = match step_size {
            StepSize::Constant(size) => Place::of_rate(libm::log(size), 1e5, self.task.pace()),
            StepSize::Decaying { beta, gamma } => {
                Place { first: libm::log(beta / gamma), gamma: libm::log(gamma) }
            }
        };
        let limit = self.question.budget / local_steps as u64;
        let allowed = self.question.allows(scheme, clients)
            && self.question.contends(scheme, clients)
            && self.question.local_steps.as_ref().is_none_or(listed)
            && place.step() <= self.largest_step() * (1.0 + 1e-12);
        if let Some(variant) = allowed.then(|| self.variant_of(scheme)).flatten() {
            let reach = self.follow(local_steps, &[(variant, limit)], place, 1.0)[0].reach;
            reach.map(|reach| self.record(Cell { local_steps, variant, place, reach }));
        }
    }

    /// Looks at E on a grid.
    pub(super) fn over_local_steps(&mut self, progress: &mut dyn FnMut(f64)) {
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
            let best = self.best_cost();
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
    pub(super) fn between_local_steps(&mut self) {
        if self.question.local_steps.is_some() {
            return;
        }
        for _ in 0..6 {
            let Some(best) = self.best else { return };
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
            if self.best.is_some_and(|cell| cell.local_steps == best.local_steps) {
                break;
            }
        }
        // Whole rounds make costs ragged: a little further away may be as good by chance.
        let Some(best) = self.best else { return };
        let around = best.local_steps * 3 / 5..best.local_steps * 8 / 5 + 3;
        for local_steps in between(around.start, around.end, self.effort.around) {
            self.explore(local_steps, &[best.variant]);
        }
    }

    /// Looks between the best K and its neighbours, at the best E.
    pub(super) fn between_cohorts(&mut self, clients: usize) {
        let (true, Some(best)) = (self.question.waits(), self.best) else { return };
        let scheme = cohort::partial(self.variants[best.variant].scheme, clients);
        let own = scheme.cohort().unwrap_or(clients);
        let sized = |cohort: usize| cohort::resized(scheme, cohort);
        let known = |k: &usize| self.variants.iter().any(|v| v.scheme == sized(*k));
        let low = (1..own).rev().find(known).unwrap_or(own);
        let high = (own + 1..=clients).find(known).unwrap_or(own);
        let mut inside = between(low, own, 8);
        inside.extend(between(own, high, 8));
        inside.retain(|&cohort| self.question.allows(sized(cohort), clients));
        for cohort in inside {
            if let Some(variant) = self.variant_of(sized(cohort)) {
                self.explore(best.local_steps, &[variant]);
            }
        }
    }

    /// Looks closer at the schedules of the best and of a few that come near it.
    pub(super) fn polish(&mut self) {
        let mut near: Vec<Cell> = self
            .cells
            .iter()
            .filter(|cell| self.variants[cell.variant].contends)
            .copied()
            .collect();
        near.sort_by(|a, b| self.cost(a).total_cmp(&self.cost(b)));
        for cell in self.best.into_iter().chain(near.into_iter().take(POLISHED)) {
            let each = self.cost_of_round(cell.local_steps, cell.variant);
            let hoped_for = libm::ceil(0.95 * cell.reach.crossing) * each;
            if Some(cell) == self.best || hoped_for < self.best_cost() {
                let better = self.refine(cell, self.effort.fine);
                self.record(better);
            }
        }
    }

    /// Finds the best schedules of some variants at one E.
    fn explore(&mut self, local_steps: usize, variants: &[usize]) {
        let known = |v: &usize| {
            self.cells.iter().any(|cell| cell.local_steps == local_steps && cell.variant == *v)
        };
        let fresh: Vec<usize> = variants.iter().copied().filter(|v| !known(v)).collect();
        for group in 0..self.groups.len() {
            let own = |v: &usize| self.variants[*v].group == group;
            let group: Vec<usize> = fresh.iter().copied().filter(own).collect();
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
        let all: Vec<usize> = (0..group.len()).collect();
        for place in places {
            self.try_place(local_steps, group, &all, place, &mut best);
        }
        let contenders: Vec<usize> =
            (0..group.len()).filter(|&k| self.variants[group[k]].contends).collect();
        let top = libm::log(self.largest_stable_step(local_steps, group[0]));
        for (row, &rate) in self.effort.rates.iter().enumerate() {
            for (column, &first) in self.effort.first_steps.iter().enumerate() {
                let place = Place::of_rate(top + libm::log(first), rate, self.task.pace());
                // Those that are there for comparison do with a quarter of the grid.
                let quarter = row % 2 == 0 && column % 2 == 0;
                let which = if quarter { &all } else { &contenders };
                self.try_place(local_steps, group, which, place, &mut best);
            }
        }
        // A closer look at the cheapest; what is good for it is good for the others.
        let cost = |&k: &usize| best[k].map_or(f64::INFINITY, |cell| self.cost(&cell));
        let lead = contenders.iter().copied().min_by(|a, b| cost(a).total_cmp(&cost(b)));
        if let Some((k, cell)) = lead.and_then(|k| Some((k, best[k]?))) {
            let better = match self.cost(&cell) <= CLOSE * self.best_cost() {
                true => self.refine(cell, self.effort.coarse),
                false => self.overtake(cell),
            };
            best[k] = Some(better);
            self.try_place(local_steps, group, &contenders, better.place, &mut best);
        }
        best.into_iter().flatten().for_each(|cell| {
            self.record(cell);
        });
    }

    /// The largest first step that may be taken and does not enlarge errors in mean square, roughly.
    fn largest_stable_step(&mut self, local_steps: usize, variant: usize) -> f64 {
        let largest = self.largest_step();
        let sizes = (0..MOST_SHORTENED).map(|k| largest * libm::pow(SHORTENED, k as f64));
        let mut sizes = sizes.collect::<Vec<f64>>().into_iter();
        sizes.find(|size| self.is_stable(local_steps, variant, *size)).unwrap_or(largest)
    }

    /// The cell with rounds so few that it would be the best, if a schedule near its own does that.
    fn overtake(&mut self, cell: Cell) -> Cell {
        let Cell { local_steps, variant, .. } = cell;
        let affordable = self.best_cost() / self.cost_of_round(local_steps, variant);
        let rounds = ((1.0 - self.effort.coarse) * affordable) as u64;
        let finest = self.effort.finest;
        let wish = Wish { local_steps, variant, rounds, widths: (0.15, 0.4), finest };
        match self.around(wish, cell.place) {
            Some(better) => self.refine(better, self.effort.coarse),
            None => cell,
        }
    }

    /// Follows one schedule for some variants of a group, and keeps it where it is better.
    fn try_place(
        &mut self,
        local_steps: usize,
        group: &[usize],
        which: &[usize],
        place: Place,
        best: &mut [Option<Cell>],
    ) {
        let limit = |k: usize| {
            let budget = self.question.budget / local_steps as u64;
            let affordable =
                INTERESTING * self.best_cost() / self.cost_of_round(local_steps, group[k]);
            // One round cannot be bettered.
            let own = best[k].map_or(u64::MAX, |cell| cell.reach.rounds);
            let own = if own == 1 { 0 } else { own };
            budget.min(own).min(affordable.min(1e18) as u64)
        };
        let ways: Vec<(usize, u64)> = which.iter().map(|&k| (group[k], limit(k))).collect();
        if self.is_spent() || ways.iter().all(|(_, limit)| *limit == 0) {
            return;
        }
        let outcomes = self.follow(local_steps, &ways, place, 1.0);
        for (&k, outcome) in which.iter().zip(outcomes) {
            let Some(reach) = outcome.reach else { continue };
            if best[k].is_none_or(|cell| reach.crossing < cell.reach.crossing) {
                best[k] = Some(Cell { local_steps, variant: group[k], place, reach });
            }
        }
    }
}

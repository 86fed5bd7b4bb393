//! Where the search goes: E on a grid, schedules on a grid, then around the best.

use fedback_core::protocol::{Protocol, StepSize};

use super::choices::between;
use super::schedule::Place;
use super::search::{Cell, Search};
use crate::cohort;

/// Costs beyond this many times the best are not pursued.
const INTERESTING: f64 = 2.5;
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
        let allowed = self.question.allows(scheme, clients)
            && self.question.contends(scheme, clients)
            && self.question.local_steps.as_ref().is_none_or(listed)
            && place.step() <= self.largest_step() * (1.0 + 1e-12);
        if let Some(variant) = allowed.then(|| self.variant_of(scheme)).flatten() {
            self.try_place(local_steps, &[variant], place);
        }
    }

    /// Looks at E on a grid.
    pub(super) fn over_local_steps(&mut self, progress: &mut dyn FnMut(f64)) {
        let chosen = self.question.all_local_steps(1, self.effort.growth);
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
            let Some(Cell { local_steps: own, variant, .. }) = self.best else { return };
            let same = |cell: &&Cell| cell.variant == variant;
            let tried = || self.cells.iter().filter(same).map(|cell| cell.local_steps);
            let low = tried().filter(|e| *e < own).max().unwrap_or(0);
            let high = tried().filter(|e| *e > own).min().unwrap_or(own + 2);
            let most = self.effort.few / 2;
            for local_steps in between(low, own, most).chain(between(own, high, most)) {
                self.explore(local_steps, &[variant]);
            }
            if self.best.is_some_and(|cell| cell.local_steps == own) {
                break;
            }
        }
        // Whole rounds make costs ragged: a little further away may be as good by chance.
        let Some(Cell { local_steps: own, variant, .. }) = self.best else { return };
        for local_steps in between(own * 3 / 5, own * 8 / 5 + 3, self.effort.few / 2 + 1) {
            self.explore(local_steps, &[variant]);
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
        for cohort in between(low, own, 8).chain(between(own, high, 8)) {
            if self.question.allows(sized(cohort), clients)
                && let Some(variant) = self.variant_of(sized(cohort))
            {
                self.explore(best.local_steps, &[variant]);
            }
        }
    }

    /// Looks closer at the schedules of the best and of a few that come near it.
    pub(super) fn polish(&mut self) {
        let contends = |cell: &&Cell| self.variants[cell.variant].contends;
        let mut near: Vec<Cell> = self.cells.iter().filter(contends).copied().collect();
        near.sort_by(|a, b| self.cost(a).total_cmp(&self.cost(b)));
        for cell in self.best.into_iter().chain(near.into_iter().take(POLISHED)) {
            let each = self.cost_of_round(cell.local_steps, cell.variant);
            let hoped_for = libm::ceil(0.95 * cell.reach.crossing) * each;
            if Some(cell) == self.best || hoped_for < self.best_cost() {
                self.refine(cell, self.effort.coarse / 4.0);
            }
        }
    }

    /// Finds the best schedules of some variants at one E.
    fn explore(&mut self, local_steps: usize, variants: &[usize]) {
        for group in 0..self.groups.len() {
            let fresh = |v: &usize| {
                self.variants[*v].group == group && self.cell(local_steps, *v).is_none()
            };
            let fresh: Vec<usize> = variants.iter().copied().filter(fresh).collect();
            if !fresh.is_empty() {
                self.explore_group(local_steps, &fresh);
            }
        }
    }

    fn explore_group(&mut self, local_steps: usize, group: &[usize]) {
        if self.is_spent() {
            return;
        }
        // What was best at other E is a good guess, and ends other paths early.
        let last = |v: &usize| self.cells.iter().rev().find(|cell| cell.variant == *v);
        let mut guesses: Vec<Place> =
            group.iter().filter_map(last).map(|cell| cell.place).collect();
        guesses.dedup();
        for place in guesses {
            self.try_place(local_steps, group, place);
        }
        let contends = |v: &usize| self.variants[*v].contends;
        let contenders: Vec<usize> = group.iter().copied().filter(contends).collect();
        let top = libm::log(self.largest_stable_step(local_steps, group[0]));
        for (row, &rate) in self.effort.rates.iter().enumerate() {
            for (column, &first) in self.effort.first_steps.iter().enumerate() {
                let place = Place::of_rate(top + libm::log(first), rate, self.task.pace());
                // Those that are there for comparison do with a quarter of the grid.
                let quarter = row % 2 == 0 && column % 2 == 0;
                self.try_place(local_steps, if quarter { group } else { &contenders }, place);
            }
        }
        // A closer look at the cheapest; what is good for it is good for the others.
        let cells = contenders.iter().filter_map(|v| self.cell(local_steps, *v));
        let lead = cells.min_by(|a, b| self.cost(a).total_cmp(&self.cost(b)));
        if let Some(&lead) = lead {
            let better = self.refine(lead, self.effort.coarse);
            self.try_place(local_steps, &contenders, better.place);
        }
    }

    /// Follows one schedule for some variants of a group, and records it where it is better.
    fn try_place(&mut self, local_steps: usize, variants: &[usize], place: Place) {
        let limit = |v: usize| {
            let budget = self.question.budget / local_steps as u64;
            let affordable = INTERESTING * self.best_cost() / self.cost_of_round(local_steps, v);
            // One round cannot be bettered.
            let own = self.cell(local_steps, v).map_or(u64::MAX, |cell| cell.reach.rounds);
            let own = if own == 1 { 0 } else { own };
            budget.min(own).min(affordable.min(1e18) as u64)
        };
        let ways: Vec<(usize, u64)> = variants.iter().map(|&v| (v, limit(v))).collect();
        if self.is_spent() || ways.iter().all(|(_, limit)| *limit == 0) {
            return;
        }
        let outcomes = self.follow(local_steps, &ways, place, 1.0);
        for (outcome, &variant) in outcomes.iter().zip(variants) {
            if let Some(reach) = outcome.reach {
                self.record(Cell { local_steps, variant, place, reach });
            }
        }
    }
}

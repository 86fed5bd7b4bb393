//! The search: E × cohort and scheme, and for each of these the step sizes.
//!
//! First roughly: E on a grid that grows geometrically, step sizes on a coarse grid that all schemes share
//! paths on, and for those that come near the best a closer look ([`super::schedule`]). Then the plans of few
//! rounds, which a coarse grid misses ([`super::sweep`]). Then between the neighbours of the best E and, where
//! waiting costs, K; where it does not, more clients never hurt and the largest cohort is best. A path
//! ends as soon as it cannot win. Whatever is to be the best is worked out exactly, round by round, before
//! it is: the best is always one that passed.

use fedback_core::protocol::{Protocol, Scheme, StepSize};

use super::horizon::{Aim, Outcome, PRECISE, Reach, SKETCHED, follow};
use super::paths::{self, Paths};
use super::rows;
use super::schedule::Place;
use super::{Proposal, Question, Task};
use crate::cohort::{self, Chance, rescales};

/// How closely is looked.
pub(super) struct Effort {
    /// First steps tried, in units of the largest.
    pub(super) first_steps: &'static [f64],
    /// β a tried: the law of large t needs more than 1/2, and the last is practically a constant
    /// step.
    pub(super) rates: &'static [f64],
    /// How fast the E that are tried grow.
    pub(super) growth: f64,
    /// The share of rounds that a closer look must save while E and K are searched; in the end a quarter.
    pub(super) coarse: f64,
    /// How close γ is looked at; errors are a fifteenth.
    pub(super) finest: f64,
    /// How few rounds are few. Every E up to twice as many is looked at for them, and half as many are tried
    /// at a time on either side of the best.
    pub(super) few: usize,
    /// How fast E grow from there on, and γ from row to row of schedules.
    pub(super) denser: f64,
    pub(super) spacing: f64,
}

/// For problems whose rounds cost next to nothing.
const THOROUGH: Effort = Effort {
    first_steps: &[1.0, 0.7, 0.5, 0.35, 0.22, 0.12, 0.06, 0.03, 0.015, 0.005, 0.001],
    rates: &[1.0, 1.5, 2.5, 5.0, 12.0, 40.0, 1e5, 300.0, 0.75, 0.55, 0.4],
    growth: 1.35,
    coarse: 0.04,
    finest: 0.002,
    few: 12,
    denser: 1.06,
    spacing: 2.2,
};
/// For problems whose rounds are matrices, or go over rows.
const QUICK: Effort = Effort {
    first_steps: &[1.0, 0.5, 0.22, 0.08, 0.02],
    rates: &[1.0, 2.0, 5.0, 1e5, 20.0, 0.6],
    growth: 1.9,
    coarse: 0.1,
    finest: 0.05,
    few: 4,
    denser: 1.3,
    spacing: 6.0,
};
/// Numbers that may be touched.
const WORK: f64 = 9e9;
/// By how much steps are shortened until they are stable, and how often.
const SHORTENED: f64 = 0.75;
const MOST_SHORTENED: usize = 48;
/// Numbers up to which local steps are worked out one by one where it must be exact.
const ONE_BY_ONE: f64 = 6e6;
/// The same for what is proposed in the end.
const LAST: f64 = 6e8;

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The cheapest way; none where the budget is too small.
    pub best: Option<Proposal>,
    /// The cheapest way for every E and scheme that was looked at, unless it is far too expensive.
    pub alternatives: Vec<Proposal>,
    /// Whether the search ended before everything was looked at, because it took too long.
    pub cut: bool,
    /// Whether settings were found that meet the target, but no bound that they keep it.
    pub unproved: bool,
}

/// A scheme with its cohort.
pub(super) struct Variant {
    pub(super) scheme: Scheme,
    chance: Chance,
    /// Those of one group share their mean path.
    pub(super) group: usize,
    communication: f64,
    /// Whether it may win; the others are there for comparison only.
    pub(super) contends: bool,
}

pub(super) struct Search<'a> {
    pub(super) task: Task<'a>,
    pub(super) effort: &'static Effort,
    pub(super) question: &'a Question,
    pub(super) variants: Vec<Variant>,
    pub(super) groups: Vec<Paths>,
    pub(super) cells: Vec<Cell>,
    /// The cheapest cell that passed.
    pub(super) best: Option<Cell>,
    /// Numbers that forecasts touched, and that all may touch for now.
    forecasts: f64,
    allowance: f64,
    /// What errors were in the last forecast, in units of what they had looked like.
    bias: f64,
    /// Whether they were not enough.
    cut: bool,
    /// Whether something met the target that could not be promised.
    unproved: bool,
}

/// The best schedule found for one E and one variant.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Cell {
    pub(super) local_steps: usize,
    pub(super) variant: usize,
    pub(super) place: Place,
    pub(super) reach: Reach,
}

/// Searches. `progress` hears of the share that is done, roughly.
pub fn search(task: &Task<'_>, question: &Question, progress: &mut dyn FnMut(f64)) -> Found {
    let clients = task.federation.clients();
    let mut search = Search {
        task: *task,
        effort: if task.is_simple() { &THOROUGH } else { &QUICK },
        question,
        variants: Vec::new(),
        groups: Vec::new(),
        cells: Vec::new(),
        best: None,
        forecasts: 0.0,
        allowance: 0.0,
        bias: 1.0,
        cut: false,
        unproved: false,
    };
    for scheme in question.all_schemes(clients) {
        search.variant_of(scheme);
    }
    // What one part leaves undone for want of time, another may still find.
    search.allow(0.6);
    search.over_local_steps(&mut |share| progress(0.4 * share));
    search.allow(0.85);
    search.sweep(&mut |share| progress(0.4 + 0.4 * share));
    search.allow(1.0);
    search.between_cohorts(clients);
    search.between_local_steps();
    // Last: what has been looked at is not explored.
    search.own_setting(clients);
    progress(0.9);
    search.polish();
    let best = search.best.map(|cell| search.in_few_digits(&cell));
    progress(1.0);
    let alternatives = search.cells.iter().map(|cell| search.proposal(cell)).collect();
    let (cut, unproved) = (search.cut || search.is_spent(), best.is_none() && search.unproved);
    Found { best, alternatives, cut, unproved }
}

impl Search<'_> {
    /// The variant of a scheme; none where its rounds cannot be written down.
    pub(super) fn variant_of(&mut self, scheme: Scheme) -> Option<usize> {
        if let Some(known) = self.variants.iter().position(|variant| variant.scheme == scheme) {
            return Some(known);
        }
        let task = self.task;
        let (protocol, weights) = (task.under(scheme), task.federation.weights());
        // All draws by weight, and all of different clients, are one up to their share.
        let kinds = [
            Scheme::WithReplacement { cohort: 1 },
            Scheme::WithoutReplacement { cohort: 1 },
            scheme,
        ];
        let cohorts = paths::cohorts(task.federation, &protocol, &kinds);
        let chance = cohorts.schemes[cohorts.schemes.len() - 1];
        // What is aggregated must be the same; what clients keep depends on who is asked how often.
        let kind = |of: Scheme| (task.scales(of), rescales(task.federation, &task.under(of)));
        let keeps = cohort::keeps(task.federation, &protocol);
        let same = |variant: &&Variant| !keeps && kind(variant.scheme) == kind(scheme);
        let group = match self.variants.iter().find(same) {
            Some(known) => known.group,
            None => {
                self.groups.push(Paths::new(&task, &protocol, cohorts, rows::SKETCH)?);
                self.groups.len() - 1
            }
        };
        self.variants.push(Variant {
            scheme,
            chance,
            group,
            communication: self.question.prices.communication_of(scheme, weights),
            contends: self.question.contends(scheme, task.federation.clients()),
        });
        Some(self.variants.len() - 1)
    }

    pub(super) fn largest_step(&self) -> f64 {
        1.0 / self.task.smoothness
    }

    /// The largest first step that may be taken and does not enlarge errors in mean square, roughly.
    pub(super) fn largest_stable_step(&mut self, local_steps: usize, variant: usize) -> f64 {
        let Variant { chance, group, .. } = self.variants[variant];
        let (largest, paths) = (self.largest_step(), &mut self.groups[group]);
        let mut sizes = (0..MOST_SHORTENED).map(|k| largest * libm::pow(SHORTENED, k as f64));
        let stable = sizes.find(|size| {
            paths.system.prepare(&vec![*size; local_steps], true);
            !paths.expands(chance) || paths.worked() > self.allowance
        });
        stable.unwrap_or(largest)
    }

    /// Lets the search go on until so large a share of the work is done.
    fn allow(&mut self, share: f64) {
        self.cut |= self.allowance > 0.0 && self.is_spent();
        self.allowance = share * WORK;
    }

    fn work(&self) -> f64 {
        self.forecasts + self.groups.iter().map(Paths::worked).sum::<f64>()
    }

    pub(super) fn is_spent(&self) -> bool {
        self.work() > self.allowance
    }

    pub(super) fn cost_of_round(&self, local_steps: usize, variant: usize) -> f64 {
        local_steps as f64 + self.variants[variant].communication
    }

    pub(super) fn cost(&self, cell: &Cell) -> f64 {
        cell.reach.rounds as f64 * self.cost_of_round(cell.local_steps, cell.variant)
    }

    pub(super) fn best_cost(&self) -> f64 {
        self.best.map_or(f64::INFINITY, |cell| self.cost(&cell))
    }

    /// What is known of an E and a variant.
    pub(super) fn cell(&self, local_steps: usize, variant: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.local_steps == local_steps && cell.variant == variant)
    }

    /// Takes a cell, as the best if it is and passes; false where it does not.
    pub(super) fn record(&mut self, cell: Cell) -> bool {
        let order = |cell: &Cell| (cell.variant, cell.local_steps);
        let (cost, best) = (self.cost(&cell), self.best_cost());
        let first = self.best.is_none_or(|best| order(&cell) < order(&best));
        let wins = cost < best * (1.0 - 1e-12) || cost <= best * (1.0 + 1e-12) && first;
        let mut cell = cell;
        if wins && self.variants[cell.variant].contends {
            // A forecast over more rows may differ a little from what was looked at.
            let limit = cell.reach.rounds + cell.reach.rounds / 50;
            let reach = self.forecast(&cell, cell.place.step_size(), (limit, ONE_BY_ONE));
            self.unproved |= reach.is_none();
            let Some(reach) = reach else { return false };
            if reach.rounds == cell.reach.rounds {
                self.bias = (reach.distance_sq / cell.reach.distance_sq).clamp(0.8, 1.2);
            }
            cell.reach = reach;
            if self.cost(&cell) <= cost {
                self.best = Some(cell);
            }
        }
        let same = |c: &&mut Cell| c.local_steps == cell.local_steps && c.variant == cell.variant;
        match self.cells.iter_mut().find(same) {
            Some(known) if known.reach.crossing <= cell.reach.crossing => (),
            Some(known) => *known = cell,
            None => self.cells.push(cell),
        }
        true
    }

    /// Follows one schedule for several variants, each with a limit of rounds.
    pub(super) fn follow(
        &mut self,
        local_steps: usize,
        ways: &[(usize, u64)],
        place: Place,
        patience: f64,
    ) -> Vec<Outcome> {
        let schemes: Vec<(Chance, u64)> =
            ways.iter().map(|&(v, limit)| (self.variants[v].chance, limit)).collect();
        let few = self.effort.few as u64;
        let aim = Aim {
            target: self.question.target / self.bias,
            stable_first_round: true,
            apart: if ways.iter().all(|&(_, limit)| limit <= few) { few } else { 0 },
            change: SKETCHED,
            patience,
            promise: false,
            work: self.allowance - self.work(),
        };
        let group = &mut self.groups[self.variants[ways[0].0].group];
        follow(group, local_steps, place.step_size(), &aim, &schemes)
    }

    /// When a cell's E and scheme with these step sizes meet the target for good within some rounds; all
    /// steps are worked out one by one unless that touches more than `most` numbers.
    fn forecast(
        &mut self,
        cell: &Cell,
        step_size: StepSize,
        (limit, most): (u64, f64),
    ) -> Option<Reach> {
        let Variant { scheme, group, .. } = self.variants[cell.variant];
        let steps = cell.reach.rounds as f64 * cell.local_steps as f64;
        let work = steps * self.groups[group].work_of_step();
        let change = if work <= most { 0.0 } else { PRECISE };
        let aim = Aim::promised(self.question.target, change);
        let local_steps = cell.local_steps;
        let protocol = Protocol { local_steps, step_size, ..self.task.under(scheme) };
        self.task.forecast(&protocol, limit, &aim, &mut self.forecasts)
    }

    /// The cell as a proposal, with numbers that a person can type where they do as well.
    fn in_few_digits(&mut self, cell: &Cell) -> Proposal {
        let rounds = cell.reach.rounds;
        for digits in [3, 4, 6] {
            let gamma = significant(libm::exp(cell.place.gamma), digits);
            let beta =
                significant(cell.place.step() * gamma, digits).min(gamma * self.largest_step());
            let step_size = StepSize::Decaying { beta, gamma };
            if let Some(reach) = self.forecast(cell, step_size, (rounds, LAST)) {
                return Proposal { step_size, reach, ..self.proposal(cell) };
            }
        }
        self.proposal(cell)
    }

    fn proposal(&self, cell: &Cell) -> Proposal {
        Proposal {
            scheme: self.variants[cell.variant].scheme,
            local_steps: cell.local_steps,
            step_size: cell.place.step_size(),
            reach: cell.reach,
            communication: self.variants[cell.variant].communication,
        }
    }
}

/// A number rounded to significant digits.
fn significant(number: f64, digits: usize) -> f64 {
    format!("{number:.*e}", digits - 1).parse().unwrap_or(number)
}

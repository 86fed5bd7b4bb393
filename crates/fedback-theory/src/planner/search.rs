//! The search: E × cohort and scheme, and for each of these the step sizes.
//!
//! First roughly: E on a grid that grows geometrically, step sizes on a coarse grid that all schemes share
//! paths on, and for those that come near the best a closer look ([`super::schedule`]). Then the plans of few
//! rounds, which a coarse grid misses ([`super::sweep`]). Then between the neighbours of the best E and, where
//! waiting costs, K; where it does not, more clients never hurt and the largest cohort is best. A path
//! ends as soon as it cannot win. Whatever is to be the best is worked out exactly, round by round, before
//! it is: the best is always one that passed.

use fedback_core::protocol::{Scheme, StepSize};

use super::horizon::{Aim, Outcome, PRECISE, Reach, SKETCHED, follow};
use super::paths::{self, Paths};
use super::rows::Detail;
use super::schedule::Place;
use super::sweep::Sweep;
use super::{Proposal, Question, Task};
use crate::cohort::{Chance, rescales};

/// How closely is looked.
pub(super) struct Effort {
    /// First steps tried, in units of the largest.
    pub(super) first_steps: &'static [f64],
    /// β a tried: the law of large t needs more than 1/2, and the last is practically a constant
    /// step.
    pub(super) rates: &'static [f64],
    /// How fast the E that are tried grow.
    pub(super) growth: f64,
    /// The share of rounds that a closer look must save, while E and K are searched and at the end.
    pub(super) coarse: f64,
    pub(super) fine: f64,
    /// How close γ and errors are looked at.
    pub(super) finest: f64,
    pub(super) flat: f64,
    /// E that are tried around the best, and how often refining starts again.
    pub(super) around: usize,
    pub(super) turns: usize,
    pub(super) sweep: Sweep,
    /// Numbers that may be touched.
    work: f64,
}

/// For problems whose rounds cost next to nothing.
const THOROUGH: Effort = Effort {
    first_steps: &[1.0, 0.7, 0.5, 0.35, 0.22, 0.12, 0.06, 0.03, 0.015, 0.005, 0.001],
    rates: &[1.0, 1.5, 2.5, 5.0, 12.0, 40.0, 1e5, 300.0, 0.75, 0.55, 0.4],
    growth: 1.35,
    coarse: 0.04,
    fine: 0.01,
    finest: 0.002,
    flat: 2e-4,
    around: 12,
    turns: 3,
    sweep: Sweep { rounds: 12, every: 24, growth: 1.06, columns: 32, spacing: 2.2 },
    work: 4e9,
};
/// For problems whose rounds are matrices, or go over rows.
const QUICK: Effort = Effort {
    first_steps: &[1.0, 0.5, 0.22, 0.08, 0.02],
    rates: &[1.0, 2.0, 5.0, 1e5, 20.0, 0.6],
    growth: 1.9,
    coarse: 0.1,
    fine: 0.03,
    finest: 0.05,
    flat: 0.003,
    around: 3,
    turns: 1,
    sweep: Sweep { rounds: 4, every: 4, growth: 1.5, columns: 12, spacing: 6.0 },
    work: 4e9,
};
/// Local steps beyond which nobody goes without saying so.
pub(super) const MOST_LOCAL_STEPS: usize = 2000;
/// Cells that are worked out over all rows at the end.
const WORKED_OUT: usize = 8;
/// Local steps of clients that are worked out one by one where it must be exact.
const ONE_BY_ONE: f64 = 2e6;
/// The same for what is proposed in the end.
const LAST: f64 = 2e8;
/// Numbers that one forecast may touch.
const FORECAST: f64 = 2e9;

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
    pub(super) groups: Vec<Paths<'a>>,
    error: Vec<f64>,
    pub(super) cells: Vec<Cell>,
    /// The cheapest cell that passed.
    pub(super) best: Option<Cell>,
    /// Numbers that were touched, and that may be for now.
    work: f64,
    allowance: f64,
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
        error: task.error(),
        cells: Vec::new(),
        best: None,
        work: 0.0,
        allowance: 0.0,
        cut: false,
        unproved: false,
    };
    for scheme in question.all_schemes(clients) {
        search.variant_of(scheme);
    }
    // What one part leaves undone for want of time, another may still find.
    search.allow(0.5);
    search.own_setting(clients);
    search.over_local_steps(&mut |share| progress(0.4 * share));
    search.allow(0.8);
    search.sweep(&mut |share| progress(0.4 + 0.4 * share));
    search.allow(1.0);
    // Refining one choice may move the best place of the other.
    for turn in 0..search.effort.turns {
        let before = search.best;
        search.between_cohorts(clients);
        search.between_local_steps();
        progress(0.8 + 0.05 * turn as f64);
        search.polish();
        if search.best == before {
            break;
        }
    }
    let finished = search.work_out();
    progress(1.0);
    let same = |a: &Proposal, b: &Proposal| a.local_steps == b.local_steps && a.scheme == b.scheme;
    let alternatives = search.cells.iter().map(|cell| {
        let sketched = search.proposal(cell);
        finished.iter().find(|known| same(known, &sketched)).cloned().unwrap_or(sketched)
    });
    let alternatives = alternatives.collect();
    let best = finished.into_iter().min_by(|a, b| a.total().total_cmp(&b.total()));
    let (cut, unproved) = (search.cut || search.is_spent(), best.is_none() && search.unproved);
    Found { best, alternatives, cut, unproved }
}

impl<'a> Search<'a> {
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
        let cohorts = paths::cohorts(weights, &protocol, &kinds);
        let chance = cohorts.schemes[cohorts.schemes.len() - 1];
        // What is aggregated must be the same; what clients keep depends on who is asked how often.
        let kind = |of: Scheme| (task.scales(of), rescales(task.federation, &task.under(of)));
        let keeps = protocol.local.keeps();
        let same = |variant: &&Variant| !keeps && kind(variant.scheme) == kind(scheme);
        let group = match self.variants.iter().find(same) {
            Some(known) => known.group,
            None => {
                self.groups.push(Paths::new(&task, &protocol, cohorts, Detail::Sketch)?);
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

    /// Whether rounds of one step size do not enlarge errors in mean square.
    pub(super) fn is_stable(&mut self, local_steps: usize, variant: usize, size: f64) -> bool {
        let Variant { chance, group, .. } = self.variants[variant];
        let paths = &mut self.groups[group];
        paths.prepare(&vec![size; local_steps], true);
        self.work += 16.0 * paths.step_work() + paths.round_work(1);
        paths.radius(chance) <= 1.0
    }

    /// Lets the search go on until so large a share of the work is done.
    fn allow(&mut self, share: f64) {
        self.cut |= self.allowance > 0.0 && self.is_spent();
        self.allowance = share * self.effort.work;
    }

    pub(super) fn is_spent(&self) -> bool {
        self.work > self.allowance
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

    /// Takes a cell, as the best if it is and passes; false where it does not.
    pub(super) fn record(&mut self, cell: Cell) -> bool {
        let order = |cell: &Cell| (cell.variant, cell.local_steps);
        let (cost, best) = (self.cost(&cell), self.best_cost());
        let first = self.best.is_none_or(|best| order(&cell) < order(&best));
        let wins = cost < best * (1.0 - 1e-12) || cost <= best * (1.0 + 1e-12) && first;
        let mut cell = cell;
        if wins && self.variants[cell.variant].contends {
            match self.exactly(cell) {
                Some(exact) => cell = exact,
                None => {
                    self.unproved = true;
                    return false;
                }
            }
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
        let few = self.effort.sweep.rounds;
        let aim = Aim {
            start: &self.error,
            target: self.question.target,
            stable_first_round: true,
            apart: if ways.iter().all(|&(_, limit)| limit <= few) { few } else { 0 },
            change: SKETCHED,
            patience,
            promise: false,
            most: self.allowance,
        };
        let group = &mut self.groups[self.variants[ways[0].0].group];
        follow(group, local_steps, place.step_size(), &aim, &schemes, &mut self.work)
    }

    /// When a cell's E and scheme with these step sizes meet the target for good within some rounds,
    /// every round worked out by itself unless they are too many, and a bound covering the rest.
    fn forecast(
        &mut self,
        cell: &Cell,
        step_size: StepSize,
        (limit, most): (u64, f64),
    ) -> Option<Reach> {
        let Variant { scheme, chance, group, .. } = self.variants[cell.variant];
        let steps = cell.reach.rounds as f64 * cell.local_steps as f64;
        let all = steps * self.groups[group].step_work();
        let aim = Aim {
            start: &self.error,
            target: self.question.target,
            stable_first_round: true,
            apart: 0,
            change: if all > most { PRECISE } else { 0.0 },
            patience: 1.0,
            promise: true,
            most: self.work + FORECAST,
        };
        let ways = [(chance, limit)];
        if !self.groups[group].is_bent() {
            let paths = &mut self.groups[group];
            return follow(paths, cell.local_steps, step_size, &aim, &ways, &mut self.work)[0]
                .reach;
        }
        let protocol = self.task.under(scheme);
        let cohorts = paths::cohorts(self.task.federation.weights(), &protocol, &[scheme]);
        let ways = [(cohorts.schemes[0], limit)];
        let mut paths = Paths::new(&self.task, &protocol, cohorts, Detail::Full)?;
        follow(&mut paths, cell.local_steps, step_size, &aim, &ways, &mut self.work)[0].reach
    }

    /// The cell as it can be promised; none where it does not meet the target for good, or only later.
    fn exactly(&mut self, cell: Cell) -> Option<Cell> {
        if !self.task.federation.is_affine() {
            return Some(cell);
        }
        let limit = cell.reach.rounds + cell.reach.rounds / 50;
        let reach = self.forecast(&cell, cell.place.step_size(), (limit, ONE_BY_ONE))?;
        Some(Cell { reach, ..cell })
    }

    /// The best that was found, worked out. Where cells were only sketched, a few of them: their order
    /// may change, and some may not be kept.
    fn work_out(&mut self) -> Vec<Proposal> {
        let mut cells: Vec<Cell> = self.best.into_iter().collect();
        if !self.task.federation.is_affine() {
            let contends = |cell: &&Cell| self.variants[cell.variant].contends;
            cells.extend(self.cells.iter().filter(contends));
            cells.sort_by(|a, b| self.cost(a).total_cmp(&self.cost(b)));
            cells.dedup_by(|a, b| a == b);
        }
        let mut finished: Vec<Proposal> = Vec::new();
        for (tried, cell) in cells.into_iter().enumerate() {
            let least = finished.iter().map(Proposal::total).fold(f64::INFINITY, f64::min);
            if tried >= WORKED_OUT && !finished.is_empty() || tried >= 5 * WORKED_OUT {
                break;
            }
            if self.cost(&cell) < least {
                let proposal = self.finish(cell);
                self.unproved |= proposal.is_none();
                finished.extend(proposal);
            }
        }
        finished
    }

    /// The cell as a proposal: over many rows, and with numbers that a person can type where they do
    /// as well.
    fn finish(&mut self, cell: Cell) -> Option<Proposal> {
        let affine = self.task.federation.is_affine();
        let budget = self.question.budget / cell.local_steps as u64;
        for digits in [3, 4, 6, 15] {
            let gamma = significant(libm::exp(cell.place.gamma), digits);
            let beta =
                significant(cell.place.step() * gamma, digits).min(gamma * self.largest_step());
            let step_size = StepSize::Decaying { beta, gamma };
            let limit = if digits < 15 { cell.reach.rounds } else { budget };
            let Some(reach) = self.forecast(&cell, step_size, (limit, LAST)) else { continue };
            if reach.rounds <= cell.reach.rounds || !affine {
                return Some(Proposal { step_size, ..self.proposal(&Cell { reach, ..cell }) });
            }
        }
        affine.then(|| self.proposal(&cell))
    }

    fn proposal(&self, cell: &Cell) -> Proposal {
        Proposal {
            scheme: self.variants[cell.variant].scheme,
            local_steps: cell.local_steps,
            step_size: cell.place.step_size(),
            rounds: cell.reach.rounds,
            crossing: cell.reach.crossing,
            distance_sq: cell.reach.distance_sq,
            worst_after: cell.reach.worst_after,
            watched: cell.reach.watched,
            communication: self.variants[cell.variant].communication,
        }
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

//! Server and clients in memory, in parallel.
//!
//! Repetitions advance side by side, in groups that go through their rounds together and own the
//! buffers of one round, so that kernels have many clients at hand; where there are fewer groups
//! than threads, the clients of a cohort are divided as well, and the coordinates of a long fold.
//! Nothing of this changes a bit: a client's work
//! is a pure function of its order, and folds follow the cohort. No round allocates.

use std::sync::Arc;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round};
use fedback_core::stream::Seed;
use rayon::prelude::*;

use crate::algorithm::{Order, Scratch, Task, Work, WorkError, step_sizes};
use crate::backend::{Backend, BackendError};
use crate::cohort::{Cohort, CohortSampler, RecordedCohort, RecordedCohorts};
use crate::repetition::{Standing, spread};
use crate::server::{fold, fold_part};

pub use crate::repetition::Repetition;

/// All repetitions of a run.
pub struct Simulation<'a, W> {
    work: &'a W,
    protocol: Protocol,
    sampler: Arc<CohortSampler>,
    recorded: Option<RecordedCohorts>,
    weights: Arc<[f64]>,
    seed: Seed,
    round: Round,
    groups: Vec<Group>,
}

/// Repetitions that go through their rounds together.
struct Group {
    repetitions: Vec<Repetition>,
    buffers: Buffers,
}

#[derive(Default)]
struct Buffers {
    /// One a repetition.
    cohorts: Vec<Cohort>,
    everyone: Vec<ClientId>,
    deltas: Vec<f64>,
    mean_delta: Vec<f64>,
    step_sizes: Vec<f64>,
    before: Vec<f64>,
    scratch: Vec<Scratch>,
}

/// Most repetitions of a group: enough to fill the lanes of a kernel with few clients.
const TOGETHER: usize = 16;
/// Numbers in the deltas of a group that fit into a core's cache beside the data.
const CACHED: usize = 1 << 14;

/// Repetitions a group: as many as share a cache, in equally many groups for every thread.
fn group_size(repetitions: usize, numbers_each: usize) -> usize {
    let most = (CACHED / numbers_each.max(1)).clamp(1, TOGETHER);
    let groups = repetitions.div_ceil(most).next_multiple_of(2 * rayon::current_num_threads());
    repetitions.div_ceil(groups).max(1)
}

impl<'a, W: Work> Simulation<'a, W> {
    /// Repetitions that have closed `round` rounds, with their models one after the other in
    /// `thetas` and `failed` those that ended before.
    pub fn new(
        work: &'a W,
        protocol: Protocol,
        weights: Arc<[f64]>,
        seed: Seed,
        round: Round,
        thetas: &[f64],
        failed: &[(u64, Round)],
    ) -> Self {
        let standing = Standing { round, thetas, failed };
        let mut repetitions = standing.repetitions(seed, work.dim());
        let sampler = Arc::new(CohortSampler::new(&protocol, weights.clone()));
        let size = group_size(repetitions.len(), sampler.capacity() * work.dim());
        let mut groups = Vec::new();
        while !repetitions.is_empty() {
            let rest = repetitions.split_off(size.min(repetitions.len()));
            groups.push(Group { repetitions, buffers: Buffers::default() });
            repetitions = rest;
        }
        Simulation { work, protocol, sampler, recorded: None, weights, seed, round, groups }
    }

    /// The same with the cohorts that a run recorded; where it recorded none, they are drawn.
    pub fn replaying(self, cohorts: RecordedCohorts) -> Self {
        Simulation { recorded: (!cohorts.is_empty()).then_some(cohorts), ..self }
    }

    /// The same simulation with another sampler of cohorts, for example one that knows when clients
    /// arrive.
    pub fn with_sampler(self, sampler: Arc<CohortSampler>) -> Self {
        Simulation { sampler, ..self }
    }
}

impl<W: Work> Backend for Simulation<'_, W> {
    const IRREPLACEABLE: bool = false;

    fn round(&self) -> Round {
        self.round
    }

    fn repetitions(&self) -> impl Iterator<Item = &Repetition> {
        self.groups.iter().flat_map(|group| &group.repetitions)
    }

    fn fail(&mut self, number: usize) {
        let round = self.round;
        let size = self.groups.first().map_or(1, |group| group.repetitions.len());
        let repetition = &mut self.groups[number / size].repetitions[number % size];
        repetition.failed.get_or_insert(round);
    }

    fn measure<T: Send>(&self, measure: impl Fn(&Repetition) -> T + Sync) -> Vec<T> {
        let groups: Vec<Vec<T>> = self
            .groups
            .par_iter()
            .map(|group| group.repetitions.iter().map(&measure).collect())
            .collect();
        groups.into_iter().flatten().collect()
    }

    fn advance(&mut self, until: Round, consensus: bool) -> Result<(), BackendError> {
        let rounds = self.round.0..until.0;
        let context = Context {
            work: self.work,
            protocol: &self.protocol,
            sampler: &self.sampler,
            recorded: self.recorded.as_ref(),
            weights: &self.weights,
            seed: self.seed,
            split: self.groups.len() < rayon::current_num_threads(),
        };
        self.groups.par_iter_mut().try_for_each(|group| {
            rounds.clone().try_for_each(|round| match consensus && round + 1 == rounds.end {
                true => context.watched_round(Round(round), group),
                false => context.round(Round(round), group),
            })
        })?;
        self.round = until;
        Ok(())
    }

    fn take_cohorts(&mut self) -> Vec<RecordedCohort> {
        Vec::new()
    }
}

/// What all rounds share.
struct Context<'a, W> {
    work: &'a W,
    protocol: &'a Protocol,
    sampler: &'a CohortSampler,
    recorded: Option<&'a RecordedCohorts>,
    weights: &'a [f64],
    seed: Seed,
    split: bool,
}

impl<W: Work> Context<'_, W> {
    /// One round of a group.
    fn round(&self, round: Round, group: &mut Group) -> Result<(), WorkError> {
        let Group { repetitions, buffers } = group;
        buffers.cohorts.resize_with(repetitions.len(), Cohort::default);
        let mut members = 0;
        for (repetition, cohort) in repetitions.iter().zip(&mut buffers.cohorts) {
            match repetition.failed {
                None => self.choose(repetition, round, cohort),
                Some(_) => cohort.clear(),
            }
            members += cohort.members.len();
        }
        let task = |place: usize| {
            let clients: &[ClientId] = &buffers.cohorts[place].members;
            repetitions[place].task(round, clients)
        };
        let mut tasks = [task(0); TOGETHER];
        (1..repetitions.len()).for_each(|place| tasks[place] = task(place));
        step_sizes(self.protocol, round, &mut buffers.step_sizes);
        let dim = self.work.dim();
        buffers.deltas.resize(members * dim, 0.0);
        self.clients(
            &self.order(&buffers.step_sizes),
            &tasks[..repetitions.len()],
            &mut buffers.deltas,
            &mut buffers.scratch,
        )?;
        let mut rest = buffers.deltas.as_slice();
        for (repetition, cohort) in repetitions.iter_mut().zip(&buffers.cohorts) {
            let (deltas, later) = rest.split_at(cohort.members.len() * dim);
            rest = later;
            if repetition.failed.is_none() {
                self.close(round, repetition, cohort, deltas, &mut buffers.before);
            }
        }
        Ok(())
    }

    /// One round of a group in which all clients work, in order to see how far they are apart.
    fn watched_round(&self, round: Round, group: &mut Group) -> Result<(), WorkError> {
        let Group { repetitions, buffers } = group;
        buffers.cohorts.resize_with(repetitions.len(), Cohort::default);
        let Buffers { cohorts, everyone, deltas, mean_delta, step_sizes: sizes, .. } = buffers;
        let dim = self.work.dim();
        everyone.resize(self.weights.len(), ClientId(0));
        everyone.iter_mut().zip(0..).for_each(|(client, id)| *client = ClientId(id));
        deltas.resize(everyone.len() * dim, 0.0);
        step_sizes(self.protocol, round, sizes);
        let order = self.order(sizes);
        for (repetition, cohort) in repetitions.iter_mut().zip(cohorts) {
            if repetition.failed.is_some() {
                continue;
            }
            self.choose(repetition, round, cohort);
            self.clients(
                &order,
                &[repetition.task(round, everyone)],
                deltas,
                &mut buffers.scratch,
            )?;
            repetition.consensus = Some(spread(self.weights, deltas, mean_delta, dim));
            // Members come in the order of their ids: each delta moves towards the front.
            for (place, member) in cohort.members.iter().enumerate() {
                let from = member.0 as usize * dim;
                deltas.copy_within(from..from + dim, place * dim);
            }
            let members = &deltas[..cohort.members.len() * dim];
            self.close(round, repetition, cohort, members, &mut buffers.before);
        }
        Ok(())
    }

    /// The cohort as it was recorded, or as it is drawn.
    fn choose(&self, repetition: &Repetition, round: Round, cohort: &mut Cohort) {
        match self.recorded.and_then(|recorded| recorded.of(repetition.number, round)) {
            Some(recorded) => recorded.copy_to(cohort),
            None => self.sampler.draw(self.seed, repetition.number, round, cohort),
        }
    }

    fn order<'b>(&self, step_sizes: &'b [f64]) -> Order<'b> {
        Order {
            step_sizes,
            batch: self.protocol.batch,
            deploy: self.protocol.deploy,
            scale_objectives: self.protocol.scale_objectives,
        }
    }

    /// θ takes in the cohort's updates, or stays what it was where that is not finite.
    fn close(
        &self,
        round: Round,
        repetition: &mut Repetition,
        cohort: &Cohort,
        deltas: &[f64],
        before: &mut Vec<f64>,
    ) {
        let aggregate = self.protocol.aggregate;
        let divided = self.split && deltas.len() >= WORTH_DIVIDING;
        repetition.close(round, before, |theta| match divided {
            true => theta.par_chunks_mut(COORDINATES).enumerate().for_each(|(part, theta)| {
                fold_part(part * COORDINATES, theta, cohort, deltas, aggregate);
            }),
            false => fold(theta, cohort, deltas, aggregate),
        });
    }

    /// The work of all tasks; that of a single one is divided among threads where groups do not
    /// occupy them.
    fn clients(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        scratch: &mut Vec<Scratch>,
    ) -> Result<(), WorkError> {
        let dim = self.work.dim();
        let block = match tasks {
            [task] if self.split => self.block(task.clients.len(), dim),
            _ => usize::MAX,
        };
        let blocks = tasks.first().map_or(1, |task| task.clients.len().div_ceil(block));
        scratch.resize_with(blocks.max(1), Scratch::default);
        if blocks <= 1 {
            return self.work.work(order, tasks, deltas, &mut scratch[0]);
        }
        let task = tasks[0];
        let parts = task.clients.par_chunks(block).zip(deltas.par_chunks_mut(block * dim));
        parts.zip(scratch).try_for_each(|((clients, deltas), scratch)| {
            self.work.work(order, &[Task { clients, ..task }], deltas, scratch)
        })
    }

    /// Clients a block: about four blocks a thread, and none so small that handing it over costs
    /// more than its work.
    fn block(&self, clients: usize, dim: usize) -> usize {
        let operations = dim * self.protocol.batch * self.protocol.local_steps;
        let worthwhile = (SMALLEST_BLOCK / operations.max(1)).max(1);
        clients.div_ceil(4 * rayon::current_num_threads()).max(worthwhile)
    }
}

/// Coordinates of gradients that are worth a hand-over between threads.
const SMALLEST_BLOCK: usize = 4096;

/// Numbers in the deltas of a round whose fold is divided among threads, by coordinates.
const WORTH_DIVIDING: usize = 1 << 17;
/// Coordinates that are folded together.
const COORDINATES: usize = 256;

//! Server and clients in memory, in parallel.
//!
//! Repetitions advance side by side, in groups that go through their rounds together and own the
//! buffers of one round, so that kernels have many clients at hand; where there are fewer groups
//! than threads, the clients of a cohort are divided as well, and the coordinates of a long fold.
//! Nothing of this changes a bit: a client's work
//! is a pure function of its order, and folds follow the cohort. No round allocates. Workers that want
//! all at once ([`Work::wants_all`]) get all repetitions in one group, as long as a round's updates are
//! no more than memory should hold; then in a few, whose buffers are not kept from slice to slice.

use fedback_core::federation::{ClientId, range_of};
use fedback_core::protocol::{Batch, Protocol, Round};
use fedback_core::state::{Repetition, State};
use fedback_core::stream::{Purpose, Rounds, Seed};
use rayon::prelude::*;

use crate::backend::{Backend, BackendError, Course};
use crate::cohort::{Cohort, CohortSampler, RecordedCohort, RecordedCohorts};
use crate::fold::{Done, Folding, fold, spread};
use crate::work::{Order, Scratch, Task, Work, WorkError, step_sizes};

/// All repetitions of a run, in memory.
pub struct Simulation<'a, W> {
    work: &'a W,
    course: Course,
    /// Repetitions of a group.
    size: usize,
    groups: Vec<Buffers>,
}

/// Room for a round of repetitions that go through their rounds together.
#[derive(Default)]
struct Buffers {
    /// One a repetition.
    streams: Vec<Rounds>,
    /// One a repetition.
    cohorts: Vec<Cohort>,
    everyone: Vec<ClientId>,
    deltas: Vec<f64>,
    kept: Vec<f64>,
    mean_delta: Vec<f64>,
    step_sizes: Vec<f64>,
    folding: Folding,
    scratch: Vec<Scratch>,
}

/// Most repetitions of a group: enough to fill the lanes of a kernel with few clients.
const TOGETHER: usize = 16;
/// Numbers in the deltas of a group that fit into a core's cache beside the data.
const CACHED: usize = 1 << 14;

/// Numbers in the deltas of a group that is to be large: 128 MB.
const WHOLE: usize = 1 << 24;

/// Repetitions a group: as many as share a cache, in equally many groups for every thread.
fn group_size(repetitions: usize, numbers_each: usize) -> usize {
    let most = (CACHED / numbers_each.max(1)).clamp(1, TOGETHER);
    let groups = repetitions.div_ceil(most).next_multiple_of(2 * rayon::current_num_threads());
    repetitions.div_ceil(groups).max(1)
}

impl<'a, W: Work> Simulation<'a, W> {
    /// A run that goes on from where it stands.
    pub fn new(work: &'a W, course: Course) -> Self {
        let repetitions = &course.state.repetitions;
        let size = match work.wants_all() {
            true => {
                let most = WHOLE / (course.sampler.capacity() * work.dim()).max(1);
                most.clamp(1, repetitions.len().max(1))
            }
            false => group_size(repetitions.len(), course.sampler.capacity() * work.dim()),
        };
        let streams =
            |repetition: &Repetition| Rounds::new(course.seed, repetition.number, Purpose::Data);
        let groups = repetitions
            .chunks(size)
            .map(|group| Buffers {
                streams: group.iter().map(streams).collect(),
                ..Buffers::default()
            })
            .collect();
        Simulation { work, course, size, groups }
    }
}

impl<W: Work> Backend for Simulation<'_, W> {
    fn is_irreplaceable(&self) -> bool {
        false
    }

    fn state(&self) -> &State {
        &self.course.state
    }

    fn state_mut(&mut self) -> &mut State {
        &mut self.course.state
    }

    fn advance(&mut self, until: Round, consensus: bool) -> Result<(), BackendError> {
        let Course { protocol, sampler, seed, state, cohorts } = &mut self.course;
        let rounds = state.round.0..until.0;
        let context = Context {
            work: self.work,
            protocol,
            sampler,
            recorded: (!cohorts.is_empty()).then_some(&*cohorts),
            seed: *seed,
            split: !self.work.wants_all() && self.groups.len() < rayon::current_num_threads(),
        };
        let emptied = self.work.wants_all() && self.groups.len() > 1;
        let groups = state.repetitions.par_chunks_mut(self.size).zip(&mut self.groups);
        groups.try_for_each(|(repetitions, buffers)| {
            rounds.clone().try_for_each(|round| match consensus && round + 1 == rounds.end {
                true => context.watched_round(Round(round), repetitions, buffers),
                false => context.round(Round(round), repetitions, buffers),
            })?;
            if emptied {
                let streams = std::mem::take(&mut buffers.streams);
                *buffers = Buffers { streams, ..Buffers::default() };
            }
            Ok::<(), WorkError>(())
        })?;
        state.round = until;
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
    seed: Seed,
    split: bool,
}

impl<W: Work> Context<'_, W> {
    /// One round of a group.
    fn round(
        &self,
        round: Round,
        repetitions: &mut [Repetition],
        buffers: &mut Buffers,
    ) -> Result<(), WorkError> {
        let Buffers { streams, cohorts, deltas, kept, step_sizes: sizes, folding, scratch, .. } =
            buffers;
        cohorts.resize_with(repetitions.len(), Cohort::default);
        let mut members = 0;
        for (repetition, cohort) in repetitions.iter_mut().zip(&mut *cohorts) {
            match repetition.failed {
                None => {
                    self.work.renew(repetition);
                    self.choose(repetition, round, cohort);
                }
                Some(_) => cohort.clear(),
            }
            members += cohort.members.len();
        }
        let task = |place: usize| task(round, streams[place], &repetitions[place], &cohorts[place]);
        let (mut few, many);
        let tasks = match repetitions.len() {
            count @ ..=TOGETHER => {
                few = [task(0); TOGETHER];
                (1..count).for_each(|place| few[place] = task(place));
                &few[..count]
            }
            count => {
                many = (0..count).map(task).collect::<Vec<_>>();
                &many
            }
        };
        step_sizes(self.protocol, round, sizes);
        let order = Order { protocol: self.protocol, step_sizes: sizes };
        let (dim, each) = (self.work.dim(), repetitions[0].layout().kept);
        deltas.resize(members * dim, 0.0);
        kept.clear();
        if each > 0 {
            for (repetition, cohort) in repetitions.iter().zip(&*cohorts) {
                gather(repetition, &cohort.members, kept);
            }
        }
        self.clients(&order, tasks, deltas, kept, scratch)?;
        folding.divided = self.split;
        let (mut deltas, mut kept) = (deltas.as_slice(), kept.as_slice());
        for (repetition, cohort) in repetitions.iter_mut().zip(cohorts) {
            let (own, later) = deltas.split_at(cohort.members.len() * dim);
            let (own_kept, later_kept) = kept.split_at(cohort.members.len() * each);
            (deltas, kept) = (later, later_kept);
            if repetition.failed.is_none() {
                let done = Done { cohort, deltas: own, kept: own_kept };
                fold(self.protocol, self.sampler.weights(), round, repetition, done, folding);
            }
        }
        Ok(())
    }

    /// One round of a group in which all clients work, in order to see how far they are apart.
    fn watched_round(
        &self,
        round: Round,
        repetitions: &mut [Repetition],
        buffers: &mut Buffers,
    ) -> Result<(), WorkError> {
        let Buffers { streams, cohorts, everyone, deltas, kept, mean_delta, .. } = buffers;
        let (sizes, folding, scratch) =
            (&mut buffers.step_sizes, &mut buffers.folding, &mut buffers.scratch);
        cohorts.resize_with(repetitions.len(), Cohort::default);
        let (dim, weights) = (self.work.dim(), self.sampler.weights());
        everyone.resize(weights.len(), ClientId(0));
        everyone.iter_mut().zip(0..).for_each(|(client, id)| *client = ClientId(id));
        deltas.resize(everyone.len() * dim, 0.0);
        step_sizes(self.protocol, round, sizes);
        let order = Order { protocol: self.protocol, step_sizes: sizes };
        folding.divided = self.split;
        for ((repetition, cohort), streams) in repetitions.iter_mut().zip(cohorts).zip(streams) {
            if repetition.failed.is_some() {
                continue;
            }
            self.work.renew(repetition);
            self.choose(repetition, round, cohort);
            kept.clear();
            kept.extend_from_slice(&repetition.kept);
            let (streams, broadcast) = (streams.round(round.0), repetition.broadcast());
            let task = Task { streams, broadcast, clients: everyone };
            self.clients(&order, &[task], deltas, kept, scratch)?;
            let counted = self.work.weights(repetition);
            let counted = counted.as_deref().unwrap_or(weights);
            repetition.consensus = Some(spread(counted, deltas, mean_delta, dim));
            let each = repetition.layout().kept;
            // Members come in the order of their ids: what is theirs moves towards the front.
            for (place, member) in cohort.members.iter().enumerate() {
                let from = member.0 as usize;
                deltas.copy_within(from * dim..(from + 1) * dim, place * dim);
                kept.copy_within(from * each..(from + 1) * each, place * each);
            }
            let members = cohort.members.len();
            let (deltas, kept) = (&deltas[..members * dim], &kept[..members * each]);
            fold(self.protocol, weights, round, repetition, Done { cohort, deltas, kept }, folding);
        }
        Ok(())
    }

    /// The cohort as it was recorded, or as it is drawn.
    fn choose(&self, repetition: &Repetition, round: Round, cohort: &mut Cohort) {
        match self.recorded.and_then(|recorded| recorded.of(repetition.number, round)) {
            Some(recorded) => recorded.copy_to(cohort),
            None => match self.work.weights(repetition) {
                None => self.sampler.draw(self.seed, repetition.number, round, cohort),
                Some(weights) => {
                    let sampler = self.sampler.with_weights(weights);
                    cohort.clear();
                    sampler.draw(self.seed, repetition.number, round, cohort);
                }
            },
        }
    }

    /// The work of all tasks; that of a single one is divided among threads where groups do not
    /// occupy them.
    fn clients(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        kept: &mut [f64],
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
            return self.work.work(order, tasks, deltas, kept, &mut scratch[0]);
        }
        let task = tasks[0];
        let each = kept.len() / task.clients.len();
        let parts = task.clients.par_chunks(block).zip(deltas.par_chunks_mut(block * dim));
        let one = |clients, deltas, kept, scratch| {
            self.work.work(order, &[Task { clients, ..task }], deltas, kept, scratch)
        };
        match each {
            0 => parts.zip(scratch).try_for_each(|((clients, deltas), scratch)| {
                one(clients, deltas, &mut [], scratch)
            }),
            _ => parts.zip(kept.par_chunks_mut(block * each)).zip(scratch).try_for_each(
                |(((clients, deltas), kept), scratch)| one(clients, deltas, kept, scratch),
            ),
        }
    }

    /// Clients a block: about four blocks a thread, and none so small that handing it over costs
    /// more than its work.
    fn block(&self, clients: usize, dim: usize) -> usize {
        let batch = match self.protocol.batch {
            Batch::Sampled(size) => size,
            Batch::All => ROWS,
        };
        let operations = dim * batch * self.protocol.local_steps;
        let worthwhile = (SMALLEST_BLOCK / operations.max(1)).max(1);
        clients.div_ceil(4 * rayon::current_num_threads()).max(worthwhile)
    }
}

/// Coordinates of gradients that are worth a hand-over between threads.
const SMALLEST_BLOCK: usize = 4096;

/// Rows of a population that is used whole, as a guess.
const ROWS: usize = 256;

/// The work of a cohort in the round that follows `round`.
#[inline(always)]
fn task<'b>(
    round: Round,
    streams: Rounds,
    repetition: &'b Repetition,
    cohort: &'b Cohort,
) -> Task<'b> {
    Task {
        streams: streams.round(round.0),
        broadcast: repetition.broadcast(),
        clients: &cohort.members,
    }
}

/// Appends what some clients keep.
fn gather(repetition: &Repetition, clients: &[ClientId], out: &mut Vec<f64>) {
    let each = repetition.layout().kept;
    match range_of(clients) {
        Some(range) => {
            out.extend_from_slice(&repetition.kept[range.start * each..range.end * each]);
        }
        None => clients.iter().for_each(|client| {
            out.extend_from_slice(repetition.kept_by(*client));
        }),
    }
}

//! Server and clients in memory, in parallel.
//!
//! Repetitions advance side by side, in groups that each own the buffers of one round; where there
//! are fewer repetitions than threads, the clients of a cohort are divided as well. Neither changes
//! a bit: a client's work is a pure function of its order, and folds follow the cohort. No round
//! allocates.

use std::sync::Arc;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round};
use fedback_core::stream::Seed;
use rayon::prelude::*;

use crate::algorithm::{Order, Scratch, Work, WorkError, step_sizes};
use crate::cohort::{Cohort, CohortSampler};
use crate::server::fold;

/// One seeded repeat.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// Its number, part of every stream's key.
    pub number: u64,
    /// The server's model; what it was before the failing round, where one failed.
    pub theta: Vec<f64>,
    /// The round in which θ stopped being finite.
    pub failed: Option<Round>,
    /// Σ p_i |w_i − w̄|² just before the last aggregation, over all clients, where asked for.
    pub consensus: f64,
}

/// All repetitions of a run.
pub struct Simulation<'a, W> {
    work: &'a W,
    protocol: Protocol,
    sampler: Arc<CohortSampler>,
    weights: Arc<[f64]>,
    seed: Seed,
    round: Round,
    groups: Vec<Group>,
}

/// Repetitions that share buffers.
struct Group {
    repetitions: Vec<Repetition>,
    buffers: Buffers,
}

#[derive(Default)]
struct Buffers {
    cohort: Cohort,
    everyone: Vec<ClientId>,
    deltas: Vec<f64>,
    all_deltas: Vec<f64>,
    mean_delta: Vec<f64>,
    step_sizes: Vec<f64>,
    before: Vec<f64>,
    scratch: Vec<Scratch>,
}

/// More groups than any machine has threads, few enough that their buffers stay small.
const GROUPS: usize = 64;

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
        let mut repetitions: Vec<Repetition> = thetas
            .chunks_exact(work.dim())
            .enumerate()
            .map(|(number, theta)| Repetition {
                number: number as u64,
                theta: theta.to_vec(),
                failed: None,
                consensus: 0.0,
            })
            .collect();
        for &(number, round) in failed {
            repetitions[number as usize].failed = Some(round);
        }
        let size = repetitions.len().div_ceil(GROUPS).max(1);
        let mut groups = Vec::new();
        while !repetitions.is_empty() {
            let rest = repetitions.split_off(size.min(repetitions.len()));
            groups.push(Group { repetitions, buffers: Buffers::default() });
            repetitions = rest;
        }
        let sampler = Arc::new(CohortSampler::new(&protocol, weights.clone()));
        Simulation { work, protocol, sampler, weights, seed, round, groups }
    }

    /// Rounds closed so far.
    pub fn round(&self) -> Round {
        self.round
    }

    /// The repetitions in order.
    pub fn repetitions(&self) -> impl Iterator<Item = &Repetition> {
        self.groups.iter().flat_map(|group| &group.repetitions)
    }

    /// Gives a repetition up: it works no more.
    pub fn fail(&mut self, number: usize) {
        let round = self.round;
        let size = self.groups.first().map_or(1, |group| group.repetitions.len());
        let repetition = &mut self.groups[number / size].repetitions[number % size];
        repetition.failed.get_or_insert(round);
    }

    /// Applies `measure` to every repetition, in parallel, and returns the values in order.
    pub fn measure<T: Send>(&self, measure: impl Fn(&Repetition) -> T + Sync) -> Vec<T> {
        let groups: Vec<Vec<T>> = self
            .groups
            .par_iter()
            .map(|group| group.repetitions.iter().map(&measure).collect())
            .collect();
        groups.into_iter().flatten().collect()
    }

    /// Closes rounds until `until` are closed. With `consensus`, all clients work in the last of
    /// them, and the consensus error just before its aggregation is kept.
    pub fn advance(&mut self, until: Round, consensus: bool) -> Result<(), WorkError> {
        let rounds = self.round.0..until.0;
        let context = Context {
            work: self.work,
            protocol: &self.protocol,
            sampler: &self.sampler,
            weights: &self.weights,
            seed: self.seed,
            split: self.groups.len() < rayon::current_num_threads(),
        };
        self.groups.par_iter_mut().try_for_each(|group| {
            group.repetitions.iter_mut().try_for_each(|repetition| {
                rounds.clone().try_for_each(|round| {
                    let last = round + 1 == rounds.end;
                    context.round(Round(round), repetition, &mut group.buffers, consensus && last)
                })
            })
        })?;
        self.round = until;
        Ok(())
    }
}

/// What all rounds share.
struct Context<'a, W> {
    work: &'a W,
    protocol: &'a Protocol,
    sampler: &'a CohortSampler,
    weights: &'a [f64],
    seed: Seed,
    split: bool,
}

impl<W: Work> Context<'_, W> {
    fn round(
        &self,
        round: Round,
        repetition: &mut Repetition,
        buffers: &mut Buffers,
        consensus: bool,
    ) -> Result<(), WorkError> {
        if repetition.failed.is_some() {
            return Ok(());
        }
        let dim = self.work.dim();
        self.sampler.draw(self.seed, repetition.number, round, &mut buffers.cohort);
        step_sizes(self.protocol, round, &mut buffers.step_sizes);
        let order = Order {
            seed: self.seed,
            repetition: repetition.number,
            round,
            theta: &repetition.theta,
            step_sizes: &buffers.step_sizes,
            batch: self.protocol.batch,
            deploy: self.protocol.deploy,
            scale_objectives: self.protocol.scale_objectives,
        };
        let Buffers { cohort, everyone, deltas, all_deltas, mean_delta, scratch, .. } = buffers;
        deltas.resize(cohort.members.len() * dim, 0.0);
        if consensus {
            everyone.resize(self.weights.len(), ClientId(0));
            everyone.iter_mut().zip(0..).for_each(|(client, id)| *client = ClientId(id));
            all_deltas.resize(everyone.len() * dim, 0.0);
            self.clients(&order, everyone, all_deltas, scratch)?;
            repetition.consensus = spread(self.weights, all_deltas, mean_delta, dim);
            for (member, delta) in cohort.members.iter().zip(deltas.chunks_exact_mut(dim)) {
                delta.copy_from_slice(&all_deltas[member.0 as usize * dim..][..dim]);
            }
        } else {
            self.clients(&order, &cohort.members, deltas, scratch)?;
        }
        let theta = &mut repetition.theta;
        buffers.before.clear();
        buffers.before.extend_from_slice(theta);
        fold(theta, &buffers.cohort, &buffers.deltas, self.protocol.aggregate);
        if !theta.iter().all(|t| t.is_finite()) {
            theta.copy_from_slice(&buffers.before);
            repetition.failed = Some(Round(round.0 + 1));
            repetition.consensus = f64::NAN;
        }
        Ok(())
    }

    /// The work of `clients`, divided among threads where repetitions do not occupy them.
    fn clients(
        &self,
        order: &Order<'_>,
        clients: &[ClientId],
        deltas: &mut [f64],
        scratch: &mut Vec<Scratch>,
    ) -> Result<(), WorkError> {
        let dim = self.work.dim();
        let block = if self.split { self.block(clients.len(), dim) } else { clients.len() };
        let blocks = clients.len().div_ceil(block.max(1));
        scratch.resize_with(blocks.max(1), Scratch::default);
        if blocks <= 1 {
            return self.work.work(order, clients, deltas, &mut scratch[0]);
        }
        clients.par_chunks(block).zip(deltas.par_chunks_mut(block * dim)).zip(scratch).try_for_each(
            |((clients, deltas), scratch)| self.work.work(order, clients, deltas, scratch),
        )
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

/// Σ p_i |δ_i − δ̄|² with δ̄ = Σ p_i δ_i, in client order.
fn spread(weights: &[f64], deltas: &[f64], mean: &mut Vec<f64>, dim: usize) -> f64 {
    mean.clear();
    mean.resize(dim, 0.0);
    for (p, delta) in weights.iter().zip(deltas.chunks_exact(dim)) {
        mean.iter_mut().zip(delta).for_each(|(mean, d)| *mean += p * d);
    }
    let away = |delta: &[f64]| -> f64 {
        delta.iter().zip(mean.iter()).map(|(d, mean)| (d - mean) * (d - mean)).sum()
    };
    weights.iter().zip(deltas.chunks_exact(dim)).map(|(p, delta)| p * away(delta)).sum()
}

//! One seeded repeat of a run, whoever does its work.

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_core::stream::{Purpose, Rounds, Seed};

use crate::algorithm::Task;

/// One seeded repeat.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// Its number, part of every stream's key.
    pub number: u64,
    /// The server's model; what it was before the failing round, where one failed.
    pub theta: Vec<f64>,
    /// The round in which θ stopped being finite.
    pub failed: Option<Round>,
    /// Σ p_i |w_i − w̄|² just before the last aggregation for which it was asked, over all clients;
    /// none where the update of one was missing.
    pub consensus: Option<f64>,
    streams: Rounds,
}

/// Where all repetitions of a run stand: what a resume starts from.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// Rounds closed.
    pub round: Round,
    /// The models, one after the other.
    pub thetas: &'a [f64],
    /// The repetitions that ended before, with the round in which they did.
    pub failed: &'a [(u64, Round)],
}

impl Standing<'_> {
    /// The repetitions of a model with `dim` coordinates.
    pub(crate) fn repetitions(&self, seed: Seed, dim: usize) -> Vec<Repetition> {
        let models = self.thetas.chunks_exact(dim).zip(0..);
        let mut repetitions: Vec<Repetition> =
            models.map(|(theta, number)| Repetition::new(seed, number, theta.to_vec())).collect();
        for &(number, round) in self.failed {
            repetitions[number as usize].failed = Some(round);
        }
        repetitions
    }
}

impl Repetition {
    pub(crate) fn new(seed: Seed, number: u64, theta: Vec<f64>) -> Self {
        let streams = Rounds::new(seed, number, Purpose::Data);
        Repetition { number, theta, failed: None, consensus: Some(0.0), streams }
    }

    /// The work of some clients in the round that follows `round`.
    pub(crate) fn task<'b>(&'b self, round: Round, clients: &'b [ClientId]) -> Task<'b> {
        Task { streams: self.streams.round(round.0), theta: &self.theta, clients }
    }

    /// θ takes in a round's updates by `fold`, or stays what it was where that is not finite.
    pub(crate) fn close(
        &mut self,
        round: Round,
        before: &mut Vec<f64>,
        fold: impl FnOnce(&mut [f64]),
    ) {
        before.clear();
        before.extend_from_slice(&self.theta);
        fold(&mut self.theta);
        if !self.theta.iter().all(|t| t.is_finite()) {
            self.theta.copy_from_slice(before);
            self.failed = Some(Round(round.0 + 1));
            self.consensus = None;
        }
    }
}

/// Σ p_i |δ_i − δ̄|² with δ̄ = Σ p_i δ_i, in client order.
pub(crate) fn spread(weights: &[f64], deltas: &[f64], mean: &mut Vec<f64>, dim: usize) -> f64 {
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

//! The server: a state machine without I/O.
//!
//! Two parts. The *protocol part*, [`Server`], opens a round, accepts or refuses updates one by one
//! and closes the round; whoever talks to real clients drives it. The *fold* is the arithmetic;
//! the simulation, which has a whole cohort at hand, calls it directly. Both give the same bits.
//! A server is built from protocol, weights and dimension alone: it never sees data.

use std::sync::Arc;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Aggregate, Protocol, Round};
use fedback_core::stream::Seed;

use crate::cohort::{Cohort, CohortSampler};

/// θ ← θ + Σ coefficient · delta, or θ ← Σ coefficient · (θ + delta): in cohort order, four members
/// at a time, so that the additions do not wait for each other.
pub fn fold(theta: &mut [f64], cohort: &Cohort, deltas: &[f64], aggregate: Aggregate) {
    fold_part(0, theta, cohort, deltas, aggregate);
}

/// The same for the coordinates from `first` on that `theta` holds: coordinates do not mix, so that
/// parts may be folded side by side.
pub(crate) fn fold_part(
    first: usize,
    theta: &mut [f64],
    cohort: &Cohort,
    deltas: &[f64],
    aggregate: Aggregate,
) {
    if aggregate == Aggregate::Iterates {
        let total: f64 = cohort.coefficients.iter().sum();
        theta.iter_mut().for_each(|t| *t *= total);
    }
    let members = cohort.members.len().max(1);
    let dim = deltas.len() / members;
    if dim == 1 {
        return theta.iter_mut().for_each(|t| fold_scalar(t, &cohort.coefficients, deltas));
    }
    let count = theta.len();
    let part = |member: usize| &deltas[member * dim + first..][..count];
    let (fours, rest) = cohort.coefficients.as_chunks::<4>();
    for (four, c) in fours.iter().enumerate() {
        let [a, b, d, e] = [0, 1, 2, 3].map(|k| part(4 * four + k));
        for (j, t) in theta.iter_mut().enumerate() {
            *t += (c[0] * a[j] + c[1] * b[j]) + (c[2] * d[j] + c[3] * e[j]);
        }
    }
    for (member, c) in (4 * fours.len()..).zip(rest) {
        theta.iter_mut().zip(part(member)).for_each(|(t, d)| *t += c * d);
    }
}

/// The same for a single coordinate, without the loops over coordinates.
fn fold_scalar(theta: &mut f64, coefficients: &[f64], deltas: &[f64]) {
    let (fours, rest) = coefficients.as_chunks::<4>();
    let (four_deltas, rest_deltas) = deltas.as_chunks::<4>();
    for (c, d) in fours.iter().zip(four_deltas) {
        *theta += (c[0] * d[0] + c[1] * d[1]) + (c[2] * d[2] + c[3] * d[3]);
    }
    rest.iter().zip(rest_deltas).for_each(|(c, d)| *theta += c * d);
}

/// Why an update was refused. The server's state is what it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No round is open.
    #[error("no round is open")]
    NoRoundOpen,
    /// The update belongs to another round.
    #[error("the update is for round {found}, open is round {open}")]
    OtherRound {
        /// The update's round.
        found: u64,
        /// The open round.
        open: u64,
    },
    /// The client is not in the cohort.
    #[error("client {0} is not in this round's cohort")]
    NotInCohort(u32),
    /// The client's update is there already.
    #[error("client {0} has sent its update already")]
    Duplicate(u32),
    /// The update has the wrong number of coordinates.
    #[error("the update has {found} coordinates, the model {expected}")]
    WrongLength {
        /// Coordinates of the update.
        found: usize,
        /// Coordinates of the model.
        expected: usize,
    },
    /// The update is not finite.
    #[error("coordinate {0} of the update is not a finite number")]
    NotFinite(usize),
}

/// Why a round cannot be opened or closed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RoundError {
    /// The previous round is still open.
    #[error("round {0} is still open")]
    StillOpen(u64),
    /// No round is open.
    #[error("no round is open")]
    NoRoundOpen,
    /// Updates are missing.
    #[error("{} of the cohort's updates are missing", .0.len())]
    Missing(Vec<ClientId>),
}

/// A server of one repetition.
#[derive(Clone, Debug)]
pub struct Server {
    protocol: Protocol,
    sampler: Arc<CohortSampler>,
    seed: Seed,
    repetition: u64,
    round: Round,
    theta: Vec<f64>,
    open: Option<OpenRound>,
}

#[derive(Clone, Debug)]
struct OpenRound {
    cohort: Cohort,
    deltas: Vec<f64>,
    received: Vec<bool>,
}

impl Server {
    /// A server that has closed `round` rounds and holds `theta`.
    pub fn new(
        protocol: Protocol,
        sampler: Arc<CohortSampler>,
        (seed, repetition): (Seed, u64),
        round: Round,
        theta: Vec<f64>,
    ) -> Self {
        Server { protocol, sampler, seed, repetition, round, theta, open: None }
    }

    /// The model.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// Rounds closed so far; also the name of the round that is open or opens next.
    pub fn round(&self) -> Round {
        self.round
    }

    /// Opens a round and says whose work it needs. The same cohort comes out however often a round
    /// is abandoned and opened again.
    pub fn open(&mut self) -> Result<&Cohort, RoundError> {
        if self.open.is_some() {
            return Err(RoundError::StillOpen(self.round.0));
        }
        let mut cohort = Cohort::default();
        self.sampler.draw(self.seed, self.repetition, self.round, &mut cohort);
        let members = cohort.members.len();
        let open = self.open.insert(OpenRound {
            cohort,
            deltas: vec![0.0; members * self.theta.len()],
            received: vec![false; members],
        });
        Ok(&open.cohort)
    }

    /// Takes one client's update for `round`.
    pub fn accept(&mut self, round: Round, client: ClientId, delta: &[f64]) -> Result<(), Refusal> {
        let dim = self.theta.len();
        let open = self.open.as_mut().ok_or(Refusal::NoRoundOpen)?;
        if round != self.round {
            return Err(Refusal::OtherRound { found: round.0, open: self.round.0 });
        }
        let place = open
            .cohort
            .members
            .binary_search(&client)
            .map_err(|_| Refusal::NotInCohort(client.0))?;
        if open.received[place] {
            return Err(Refusal::Duplicate(client.0));
        }
        if delta.len() != dim {
            return Err(Refusal::WrongLength { found: delta.len(), expected: dim });
        }
        if let Some(bad) = delta.iter().position(|d| !d.is_finite()) {
            return Err(Refusal::NotFinite(bad));
        }
        open.deltas[place * dim..][..dim].copy_from_slice(delta);
        open.received[place] = true;
        Ok(())
    }

    /// The members whose updates have not come: what a deadline asks.
    pub fn missing(&self) -> Vec<ClientId> {
        let open = self.open.iter();
        open.flat_map(|open| open.cohort.members.iter().zip(&open.received))
            .filter(|(_, received)| !**received)
            .map(|(member, _)| *member)
            .collect()
    }

    /// Forgets the open round; θ is what it was before.
    pub fn abandon(&mut self) {
        self.open = None;
    }

    /// Closes the round: θ takes in the cohort's updates.
    pub fn close(&mut self) -> Result<Round, RoundError> {
        let missing = self.missing();
        if !missing.is_empty() {
            return Err(RoundError::Missing(missing));
        }
        let open = self.open.take().ok_or(RoundError::NoRoundOpen)?;
        fold(&mut self.theta, &open.cohort, &open.deltas, self.protocol.aggregate);
        self.round.0 += 1;
        Ok(self.round)
    }
}

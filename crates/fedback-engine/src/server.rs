//! The server: a state machine without I/O.
//!
//! Two parts. The *protocol part*, [`Server`], opens a round, accepts or refuses updates one by one
//! and closes the round; whoever talks to real clients drives it. The *fold* is the arithmetic;
//! the simulation, which has a whole cohort at hand, calls it directly. Both give the same bits.
//! A server is built from protocol, weights and dimension alone: it never sees data.
//!
//! Real clients vanish, answer twice, answer the wrong question or answer nonsense. What is wrong is
//! refused with a reason ([`Refusal`]) and changes nothing: the client counts as one that has not
//! answered and may still send a right update. What is missing in the end is shared: a round closed
//! without some of its drawn members multiplies the coefficients of the others by
//! (Σ all coefficients) / (Σ those of the present), so that the step keeps its size and the weight
//! of the absent falls to the present in proportion to their own.

mod refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Aggregate, Protocol, Round, Scheme};
use fedback_core::stream::Seed;

use crate::cohort::{Cohort, CohortSampler, RecordedCohort};
use crate::repetition::{Repetition, spread};

pub use refusal::{LARGEST, Refusal};

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

/// Why a round cannot be opened or closed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RoundError {
    /// The previous round is still open.
    #[error("round {0} is still open")]
    StillOpen(u64),
    /// No round is open.
    #[error("no round is open")]
    NoRoundOpen,
    /// Updates are missing, and those that came are too few or weigh nothing.
    #[error("{} updates are missing, {present} have come", .missing.len())]
    Missing {
        /// Whose updates have not come.
        missing: Vec<ClientId>,
        /// How many have.
        present: usize,
    },
}

/// How a round comes to its cohort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// The sampler draws it, and its members are asked.
    Drawn,
    /// Everybody is asked, and the first `cohort` valid updates are it.
    First {
        /// The paper's K.
        cohort: usize,
        /// Divide weights by how often a client has been among the first, rather than by K/N.
        correct: bool,
    },
}

impl From<Scheme> for Call {
    fn from(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Full => Call::Drawn,
            Scheme::WithReplacement { .. } | Scheme::WithoutReplacement { .. } => Call::Drawn,
            Scheme::FirstArrivals { cohort, correct } => Call::First { cohort, correct },
        }
    }
}

/// A server of one repetition.
#[derive(Clone, Debug)]
pub struct Server {
    protocol: Protocol,
    sampler: Arc<CohortSampler>,
    seed: Seed,
    call: Call,
    round: Round,
    repetition: Repetition,
    /// In how many rounds each client was among the first; empty where that is of no use.
    included: Vec<u64>,
    open: Option<OpenRound>,
    before: Vec<f64>,
}

#[derive(Clone, Debug)]
struct OpenRound {
    members: Members,
    /// Everybody was asked, to see how far they are apart.
    watched: bool,
    /// Who was asked, in the order of ids.
    asked: Vec<ClientId>,
    received: BTreeMap<ClientId, Vec<f64>>,
    /// Asked, not received, and said not to come.
    absent: BTreeSet<ClientId>,
}

#[derive(Clone, Debug)]
enum Members {
    Drawn(Cohort),
    First { size: usize, come: Vec<ClientId> },
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
        let repetition = Repetition::new(seed, repetition, theta);
        Server::of(protocol, sampler, seed, round, repetition)
    }

    pub(crate) fn of(
        protocol: Protocol,
        sampler: Arc<CohortSampler>,
        seed: Seed,
        round: Round,
        repetition: Repetition,
    ) -> Self {
        let call = Call::from(protocol.scheme);
        let (included, open, before) = (Vec::new(), None, Vec::new());
        let known = sampler.clone();
        Server { protocol, sampler, seed, call, round, repetition, included, open, before }
            .with_sampler(known)
    }

    /// The same server with another sampler of cohorts, for example one that knows when clients
    /// arrive.
    pub fn with_sampler(self, sampler: Arc<CohortSampler>) -> Self {
        let included = match self.call {
            Call::First { correct: true, .. } if !sampler.knows_inclusion() => {
                vec![0; sampler.weights().len()]
            }
            _ => Vec::new(),
        };
        Server { sampler, included, ..self }
    }

    /// Takes note of who was in an earlier round's cohort, after a resume.
    pub fn remember(&mut self, members: &[ClientId]) {
        for member in members {
            if let Some(times) = self.included.get_mut(member.0 as usize) {
                *times += 1;
            }
        }
    }

    /// The model, and what else is known of the repetition.
    pub fn repetition(&self) -> &Repetition {
        &self.repetition
    }

    /// The model.
    pub fn theta(&self) -> &[f64] {
        &self.repetition.theta
    }

    /// Rounds closed so far; also the name of the round that is open or opens next.
    pub fn round(&self) -> Round {
        self.round
    }

    /// Gives the repetition up; there is nothing to open any more.
    pub fn fail(&mut self) {
        self.repetition.failed.get_or_insert(self.round);
    }

    /// Opens a round and says whose work it needs; with `watched` everybody's, in order to see how
    /// far clients are apart. The same cohort is drawn however often a round is abandoned and
    /// opened again.
    pub fn open(&mut self, watched: bool) -> Result<&[ClientId], RoundError> {
        if self.open.is_some() {
            return Err(RoundError::StillOpen(self.round.0));
        }
        let members = match self.call {
            Call::Drawn => {
                let mut cohort = Cohort::default();
                self.sampler.draw(self.seed, self.repetition.number, self.round, &mut cohort);
                Members::Drawn(cohort)
            }
            Call::First { cohort: size, .. } => Members::First { size, come: Vec::new() },
        };
        let asked = match &members {
            Members::Drawn(cohort) if !watched => cohort.members.clone(),
            _ => (0..self.sampler.weights().len() as u32).map(ClientId).collect(),
        };
        let (received, absent) = (BTreeMap::new(), BTreeSet::new());
        let open = self.open.insert(OpenRound { members, watched, asked, received, absent });
        Ok(&open.asked)
    }

    /// Takes one client's update for `round`, or refuses it.
    pub fn accept(&mut self, round: Round, client: ClientId, delta: &[f64]) -> Result<(), Refusal> {
        let theta = &self.repetition.theta;
        let open = self.open.as_mut().ok_or(Refusal::NoRoundOpen)?;
        if round != self.round {
            return Err(Refusal::OtherRound { found: round.0, open: self.round.0 });
        }
        if open.asked.binary_search(&client).is_err() {
            return Err(Refusal::NotAsked(client.0));
        }
        if open.received.contains_key(&client) {
            return Err(Refusal::Duplicate(client.0));
        }
        if let Members::First { size, .. } = open.members
            && open.is_complete()
        {
            return Err(Refusal::Late(size));
        }
        refusal::refuse_nonsense(theta, delta)?;
        if let Members::First { size, come } = &mut open.members
            && come.len() < *size
        {
            come.push(client);
        }
        open.absent.remove(&client);
        open.received.insert(client, delta.to_vec());
        Ok(())
    }

    /// A client will not answer, as far as is known.
    pub fn absent(&mut self, client: ClientId) {
        if let Some(open) = &mut self.open
            && open.asked.binary_search(&client).is_ok()
            && !open.received.contains_key(&client)
        {
            open.absent.insert(client);
        }
    }

    /// Everybody whose update is missing is waited for again.
    pub fn ask_again(&mut self) {
        self.open.iter_mut().for_each(|open| open.absent.clear());
    }

    /// Whether somebody's update is needed and may still come.
    pub fn is_waiting(&self) -> bool {
        self.open.as_ref().is_some_and(|open| {
            let settled = open.received.len() + open.absent.len();
            !open.is_complete() && settled < open.asked.len()
        })
    }

    /// Those whose updates are needed and have not come: what a deadline asks.
    pub fn missing(&self) -> Vec<ClientId> {
        let open = self.open.iter().filter(|open| !open.is_complete());
        open.flat_map(|open| open.asked.iter().filter(|c| !open.received.contains_key(c)))
            .copied()
            .collect()
    }

    /// Forgets the open round; θ is what it was before.
    pub fn abandon(&mut self) {
        self.open = None;
    }

    /// Whether the first arrivals make its cohorts: then a deadline closes a round, and is no reason to
    /// ask again.
    pub fn takes_the_first(&self) -> bool {
        matches!(self.call, Call::First { .. })
    }

    /// Whether the round can be closed: its cohort is complete, or at least `minimum` of its members
    /// have answered and they weigh something.
    pub fn can_close(&self, minimum: usize) -> Result<(), RoundError> {
        self.present(minimum).map(|_| ())
    }

    /// Closes the round: θ takes in the updates of the cohort, as far as they have come. Returns
    /// the cohort where it is not the one that the seed draws.
    pub fn close(&mut self, minimum: usize) -> Result<Option<RecordedCohort>, RoundError> {
        let (cohort, drawn) = self.present(minimum)?;
        let open = self.open.take().ok_or(RoundError::NoRoundOpen)?;
        let (dim, weights) = (self.repetition.theta.len(), self.sampler.weights());
        if open.watched {
            let all: Vec<f64> = open.received.values().flatten().copied().collect();
            let complete = open.received.len() == weights.len();
            self.repetition.consensus =
                complete.then(|| spread(weights, &all, &mut self.before, dim));
        }
        let deltas: Vec<f64> =
            cohort.members.iter().flat_map(|member| &open.received[member]).copied().collect();
        self.repetition.close(self.round, &mut self.before, |theta| {
            fold(theta, &cohort, &deltas, self.protocol.aggregate);
        });
        self.remember(&cohort.members);
        let (repetition, round) = (self.repetition.number, self.round);
        self.round.0 += 1;
        let Cohort { members, coefficients, .. } = cohort;
        Ok((!drawn).then_some(RecordedCohort { repetition, round, members, coefficients }))
    }

    /// The cohort as far as it has come, and whether it is the one drawn.
    fn present(&self, minimum: usize) -> Result<(Cohort, bool), RoundError> {
        let open = self.open.as_ref().ok_or(RoundError::NoRoundOpen)?;
        let (cohort, share) = match &open.members {
            Members::Drawn(drawn) => {
                let mut cohort = drawn.clone();
                cohort.keep(|member| open.received.contains_key(&member));
                if cohort.members.len() == drawn.members.len() {
                    return Ok((cohort, true));
                }
                let total = |cohort: &Cohort| cohort.coefficients.iter().sum::<f64>();
                let share = total(drawn) / total(&cohort);
                (cohort, share)
            }
            Members::First { size, come } => {
                let mut members = come.clone();
                members.sort_unstable();
                let cohort = self.of_arrivals(&members, *size);
                if come.len() == *size {
                    return Ok((cohort, false));
                }
                // The deadline has closed the round: as in memory, coefficients stay what they are.
                (cohort, 1.0)
            }
        };
        if cohort.members.len() < minimum.max(1) || !share.is_finite() {
            let missing = match &open.members {
                Members::Drawn(drawn) => drawn.members.iter(),
                Members::First { .. } => open.asked.iter(),
            };
            let missing = missing.filter(|c| !open.received.contains_key(c)).copied().collect();
            return Err(RoundError::Missing { missing, present: cohort.members.len() });
        }
        let mut cohort = cohort;
        cohort.coefficients.iter_mut().for_each(|c| *c *= share);
        Ok((cohort, false))
    }

    /// The cohort of the first arrivals: p_i N/K, or p_i / π_i. Where π_i, the chance to be among the
    /// first, is not known, it is estimated by the rounds before: (times included + K/N) / (rounds + 1).
    fn of_arrivals(&self, members: &[ClientId], size: usize) -> Cohort {
        let weights = self.sampler.weights();
        let share = size as f64 / weights.len() as f64;
        let mut cohort = Cohort::default();
        self.sampler.of_arrivals(members, &mut cohort);
        for (member, coefficient) in members.iter().zip(&mut cohort.coefficients) {
            let place = member.0 as usize;
            if let Some(&times) = self.included.get(place) {
                let chance = (times as f64 + share) / (self.round.0 as f64 + 1.0);
                *coefficient = weights[place] / chance;
            }
        }
        cohort
    }
}

impl OpenRound {
    fn is_complete(&self) -> bool {
        let everybody = self.received.len() == self.asked.len();
        match &self.members {
            Members::First { size, come } if !self.watched => come.len() == *size || everybody,
            _ => everybody,
        }
    }
}

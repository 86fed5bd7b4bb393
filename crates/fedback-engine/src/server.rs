//! The server: a state machine without I/O.
//!
//! [`Server`] opens a round of one repetition, accepts or refuses updates one by one and closes the
//! round; whoever talks to real clients drives it. The state is not its own: it is lent where it is
//! read, and to [`Server::close`] where it changes, by the [`fold`](mod@crate::fold) that the
//! simulation uses too. Both come to the same bits. A server is built from protocol, weights and seed
//! alone: it never sees data.
//!
//! Real clients vanish, answer twice, answer the wrong question or answer nonsense. What is wrong is
//! refused with a reason ([`Refusal`]) and changes nothing: the client counts as one that has not
//! answered and may still send a right update. What is missing in the end is shared: a round closed
//! without some of its drawn members multiplies the coefficients of the others by
//! (Σ all coefficients) / (Σ those of the present), so that the step keeps its size and the weight
//! of the absent falls to the present in proportion to their own.

mod reach;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round, Scheme};
use fedback_core::state::Repetition;
use fedback_core::stream::Seed;

use crate::cohort::{Cohort, CohortSampler, RecordedCohort};
use crate::fold::{Done, Folding, fold, spread};

pub use reach::Reach;
pub use refusal::{LARGEST, Refusal};

/// What a client sends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// Local θ after the round − θ broadcast.
    pub delta: Vec<f64>,
    /// What the client keeps now, where the rule keeps something.
    pub kept: Vec<f64>,
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
    /// In how many rounds each client was among the first; empty where that is of no use.
    included: Vec<u64>,
    /// How far honest clients can get, where that is known.
    reach: Option<Arc<Reach>>,
    open: Option<OpenRound>,
    folding: Folding,
}

#[derive(Clone, Debug)]
struct OpenRound {
    /// Rounds closed before it, which is its name.
    round: Round,
    called: Called,
    /// Everybody was asked, to see how far they are apart.
    watched: bool,
    /// Who was asked, in the order of ids.
    asked: Vec<ClientId>,
    received: BTreeMap<ClientId, Update>,
    /// Asked, not received, and said not to come.
    absent: BTreeSet<ClientId>,
}

/// Who makes the cohort of a round.
#[derive(Clone, Debug)]
enum Called {
    Drawn(Cohort),
    First { size: usize, come: Vec<ClientId> },
}

impl Server {
    /// A server without an open round.
    pub fn new(protocol: Protocol, sampler: Arc<CohortSampler>, seed: Seed) -> Self {
        let call = Call::from(protocol.scheme);
        let counts =
            matches!(call, Call::First { correct: true, .. }) && !sampler.knows_inclusion();
        let included = if counts { vec![0; sampler.weights().len()] } else { Vec::new() };
        let folding = Folding::default();
        Server { protocol, sampler, seed, call, included, reach: None, open: None, folding }
    }

    /// The same server, which believes no update that honest work cannot have come to.
    pub fn knowing(self, reach: Arc<Reach>) -> Self {
        Server { reach: Some(reach), ..self }
    }

    /// Takes note of who was in an earlier round's cohort, after a resume.
    pub fn remember(&mut self, members: &[ClientId]) {
        for member in members {
            if let Some(times) = self.included.get_mut(member.0 as usize) {
                *times += 1;
            }
        }
    }

    /// Opens the round of a repetition that follows `round` and says whose work it needs; with
    /// `watched` everybody's, in order to see how far clients are apart. The same cohort is drawn
    /// however often a round is abandoned and opened again.
    pub fn open(
        &mut self,
        repetition: &Repetition,
        round: Round,
        watched: bool,
    ) -> Result<&[ClientId], RoundError> {
        if let Some(open) = &self.open {
            return Err(RoundError::StillOpen(open.round.0));
        }
        let called = match self.call {
            Call::Drawn => {
                let mut cohort = Cohort::default();
                self.sampler.draw(self.seed, repetition.number, round, &mut cohort);
                Called::Drawn(cohort)
            }
            Call::First { cohort: size, .. } => Called::First { size, come: Vec::new() },
        };
        let asked = match &called {
            Called::Drawn(cohort) if !watched => cohort.members.clone(),
            Called::Drawn(_) | Called::First { .. } => {
                (0..self.sampler.weights().len() as u32).map(ClientId).collect()
            }
        };
        let (received, absent) = (BTreeMap::new(), BTreeSet::new());
        let open = self.open.insert(OpenRound { round, called, watched, asked, received, absent });
        Ok(&open.asked)
    }

    /// Takes one client's update for `round`, or refuses it.
    pub fn accept(
        &mut self,
        repetition: &Repetition,
        round: Round,
        client: ClientId,
        update: Update,
    ) -> Result<(), Refusal> {
        let open = self.open.as_mut().ok_or(Refusal::NoRoundOpen)?;
        if round != open.round {
            return Err(Refusal::OtherRound { found: round.0, open: open.round.0 });
        }
        if open.asked.binary_search(&client).is_err() {
            return Err(Refusal::NotAsked(client.0));
        }
        if open.received.contains_key(&client) {
            return Err(Refusal::Duplicate(client.0));
        }
        if let Called::First { size, .. } = open.called
            && open.is_complete()
        {
            return Err(Refusal::Late(size));
        }
        let reach = self.reach.as_deref();
        refusal::refuse_nonsense((&self.protocol, reach), (repetition, round), client, &update)?;
        if let Called::First { size, come } = &mut open.called
            && come.len() < *size
        {
            come.push(client);
        }
        open.absent.remove(&client);
        open.received.insert(client, update);
        Ok(())
    }

    /// A client will not answer, as far as is known; whether it was expected to.
    pub fn absent(&mut self, client: ClientId) -> bool {
        let Some(open) = &mut self.open else { return false };
        let expected =
            open.asked.binary_search(&client).is_ok() && !open.received.contains_key(&client);
        if expected {
            open.absent.insert(client);
        }
        expected
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

    /// Forgets the open round; nothing has changed.
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

    /// Closes the round: the repetition takes in the updates of the cohort, as far as they have come.
    /// Returns the cohort where it is not the one that the seed draws.
    pub fn close(
        &mut self,
        repetition: &mut Repetition,
        minimum: usize,
    ) -> Result<Option<RecordedCohort>, RoundError> {
        let (cohort, drawn) = self.present(minimum)?;
        let open = self.open.take().ok_or(RoundError::NoRoundOpen)?;
        let (dim, weights) = (repetition.layout().dim, self.sampler.weights());
        if open.watched {
            let deltas = open.received.values().flat_map(|update| &update.delta);
            let all: Vec<f64> = deltas.copied().collect();
            let complete = open.received.len() == weights.len();
            repetition.consensus = complete.then(|| spread(weights, &all, &mut Vec::new(), dim));
        }
        let updates = || cohort.members.iter().map(|member| &open.received[member]);
        let deltas: Vec<f64> = updates().flat_map(|update| &update.delta).copied().collect();
        let kept: Vec<f64> = updates().flat_map(|update| &update.kept).copied().collect();
        let done = Done { cohort: &cohort, deltas: &deltas, kept: &kept };
        fold(&self.protocol, weights, open.round, repetition, done, &mut self.folding);
        self.remember(&cohort.members);
        let (repetition, round) = (repetition.number, open.round);
        let Cohort { members, coefficients, .. } = cohort;
        Ok((!drawn).then_some(RecordedCohort { repetition, round, members, coefficients }))
    }

    /// The cohort as far as it has come, and whether it is the one drawn.
    fn present(&self, minimum: usize) -> Result<(Cohort, bool), RoundError> {
        let open = self.open.as_ref().ok_or(RoundError::NoRoundOpen)?;
        let (cohort, share) = match &open.called {
            Called::Drawn(drawn) => {
                let mut cohort = drawn.clone();
                cohort.keep(|member| open.received.contains_key(&member));
                if cohort.members.len() == drawn.members.len() {
                    return Ok((cohort, true));
                }
                let total = |cohort: &Cohort| cohort.coefficients.iter().sum::<f64>();
                let share = total(drawn) / total(&cohort);
                (cohort, share)
            }
            Called::First { size, come } => {
                let mut members = come.clone();
                members.sort_unstable();
                let cohort = self.of_arrivals(open.round, &members, *size);
                if come.len() == *size {
                    return Ok((cohort, false));
                }
                // The deadline has closed the round: as in memory, coefficients stay what they are.
                (cohort, 1.0)
            }
        };
        if cohort.members.len() < minimum.max(1) || !share.is_finite() {
            let missing = match &open.called {
                Called::Drawn(drawn) => drawn.members.iter(),
                Called::First { .. } => open.asked.iter(),
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
    fn of_arrivals(&self, round: Round, members: &[ClientId], size: usize) -> Cohort {
        let weights = self.sampler.weights();
        let share = size as f64 / weights.len() as f64;
        let mut cohort = Cohort::default();
        self.sampler.of_arrivals(members, &mut cohort);
        for (member, coefficient) in members.iter().zip(&mut cohort.coefficients) {
            let place = member.0 as usize;
            if let Some(&times) = self.included.get(place) {
                let chance = (times as f64 + share) / (round.0 as f64 + 1.0);
                *coefficient = weights[place] / chance;
            }
        }
        cohort
    }
}

impl OpenRound {
    fn is_complete(&self) -> bool {
        let everybody = self.received.len() == self.asked.len();
        match &self.called {
            Called::First { size, come } if !self.watched => come.len() == *size || everybody,
            Called::First { .. } | Called::Drawn(_) => everybody,
        }
    }
}

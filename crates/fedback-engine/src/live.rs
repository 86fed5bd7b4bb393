//! Server and real clients.
//!
//! [`Live`] closes rounds with the updates that a [`Transport`] brings. It decides everything that
//! is to be decided: who is asked, which update is believed, when a round is over, whom to ask again
//! and when to give up. It waits for nothing and knows no clock: the transport carries messages and
//! says when time is up, so that every bad day of a network can be played to it without one.
//!
//! All repetitions advance in lockstep, one [`Server`] each. One round: everybody whose work some
//! repetition needs is asked; updates are accepted, or refused with a reason, as they come; the round
//! is over once nothing is missing or all that is missing is known to be absent, and at the
//! transport's deadline. What is missing then is asked for again, [`Settings::attempts`] times; of first
//! arrivals only where fewer than the minimum have come.
//! What is still missing is done without as long as [`Settings::minimum`] members of each cohort have
//! answered (see [`server`](crate::server) for what becomes of the coefficients), and otherwise the
//! run stops: no repetition has closed the round, and it can be opened again later.
//!
//! Where every member answers in the end, θ has the bits of the
//! [`Simulation`](crate::simulate::Simulation). Where one does not, or where the first arrivals make
//! the cohort, [`Backend::take_cohorts`] tells who made the round, and a simulation that
//! [replays](crate::simulate::Simulation::replaying) these cohorts comes to the same bits.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round, Step};
use fedback_core::stream::Seed;
use rayon::prelude::*;

use crate::backend::{Backend, BackendError};
use crate::cohort::{CohortSampler, RecordedCohort, RecordedCohorts};
use crate::repetition::{Repetition, Standing};
use crate::server::{Refusal, RoundError, Server};

/// Carries orders to clients and their answers back.
pub trait Transport {
    /// Sends an order to the clients it names. Does not wait for answers. An order that asks
    /// [`again`](LiveOrder::again) names those whose right answer has not come, also those who were
    /// said to be absent; a transport that wants to give a site time to come back waits here.
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError>;

    /// Waits for what comes next. After [`Arrival::Deadline`], what was asked before may still
    /// arrive, and is taken as long as its round is open.
    fn next(&mut self) -> Result<Arrival, TransportError>;

    /// An update that came from [`Transport::next`] was refused: θ did not change, and the client
    /// may send a right one while the round is open.
    fn refused(&mut self, sender: Sender, reason: &Refusal);
}

impl<T: Transport + ?Sized> Transport for &mut T {
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError> {
        (**self).ask(order)
    }

    fn next(&mut self) -> Result<Arrival, TransportError> {
        (**self).next()
    }

    fn refused(&mut self, sender: Sender, reason: &Refusal) {
        (**self).refused(sender, reason);
    }
}

/// What the server asks of the clients in one round, of all repetitions together.
#[derive(Clone, Copy, Debug)]
pub struct LiveOrder<'a> {
    /// Rounds closed before this one: its name in updates and in the key of every stream.
    pub round: Round,
    /// The index t of the round's first local step, which decides the step sizes.
    pub first_step: Step,
    /// The seed of the clients' streams.
    pub seed: Seed,
    /// The models as broadcast, repetition after repetition.
    pub thetas: &'a [f64],
    /// Whose work is wanted for which repetition, sorted by client: one message to each.
    pub asked: &'a [Assignment],
    /// Whether the same was asked before, and did not come.
    pub again: bool,
}

/// One client's work for one repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assignment {
    /// The client.
    pub client: ClientId,
    /// The repetition.
    pub repetition: u64,
}

/// What comes from the clients, or does not.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    /// A client's work for one repetition.
    Update {
        /// Who claims to have done what.
        sender: Sender,
        /// Local θ after the round − θ broadcast.
        delta: Vec<f64>,
    },
    /// A client will not answer what was asked last: its site is gone, or said that it cannot.
    Absent {
        /// The client.
        client: ClientId,
        /// Why, in words.
        reason: String,
    },
    /// Time is up for what was asked last.
    Deadline,
}

/// Who claims to have done what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The round of the order that was followed.
    pub round: Round,
    /// The repetition.
    pub repetition: u64,
    /// The client.
    pub client: ClientId,
}

/// Why nothing comes any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Somebody asked to stop. The round that is open is abandoned.
    #[error("interrupted")]
    Interrupted,
    /// No client can be reached; why, in words.
    #[error("{0}")]
    Broken(String),
}

/// What to do about clients that do not answer.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | `minimum` | 1 | members of a cohort that must answer for a round to be closed without the others | ≥ 1 |
/// | `attempts` | 1 | how often those who did not answer are asked again in a round | ≥ 0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Members of a cohort that must answer for a round to be closed without the others.
    pub minimum: usize,
    /// How often those who did not answer are asked again in a round.
    pub attempts: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { minimum: 1, attempts: 1 }
    }
}

/// All repetitions of a run, with real clients.
pub struct Live<T> {
    transport: T,
    protocol: Protocol,
    seed: Seed,
    settings: Settings,
    round: Round,
    servers: Vec<Server>,
    /// Why there is no answer from clients in the open round, as far as is known.
    reasons: BTreeMap<ClientId, String>,
    cohorts: Vec<RecordedCohort>,
}

impl<T: Transport> Live<T> {
    /// Repetitions that stand somewhere; `dim` is the number of coordinates of θ.
    pub fn new(
        transport: T,
        protocol: Protocol,
        (weights, dim): (Arc<[f64]>, usize),
        seed: Seed,
        standing: Standing<'_>,
        settings: Settings,
    ) -> Self {
        let sampler = Arc::new(CohortSampler::new(&protocol, weights));
        let round = standing.round;
        let server = |repetition| Server::of(protocol, sampler.clone(), seed, round, repetition);
        let servers = standing.repetitions(seed, dim).into_iter().map(server).collect();
        let (reasons, cohorts) = Default::default();
        Live { transport, protocol, seed, settings, round, servers, reasons, cohorts }
    }

    /// The same with another sampler of cohorts, for example one that knows when clients arrive.
    pub fn with_sampler(self, sampler: &Arc<CohortSampler>) -> Self {
        let servers = self.servers.into_iter();
        let servers = servers.map(|server| server.with_sampler(sampler.clone())).collect();
        Live { servers, ..self }
    }

    /// The same, which knows the cohorts that were recorded before a resume: how often a client was
    /// among the first decides what its next arrival counts.
    pub fn remembering(mut self, cohorts: &RecordedCohorts) -> Self {
        for server in &mut self.servers {
            for round in 0..self.round.0 {
                if let Some(cohort) = cohorts.of(server.repetition().number, Round(round)) {
                    server.remember(&cohort.members);
                }
            }
        }
        self
    }

    /// The repetitions that go on.
    fn active(&mut self) -> impl Iterator<Item = &mut Server> {
        self.servers.iter_mut().filter(|server| server.repetition().failed.is_none())
    }

    /// One round of all repetitions, or none of any.
    fn play(&mut self, watched: bool) -> Result<(), BackendError> {
        self.reasons.clear();
        for server in self.active() {
            // What an error left behind is opened anew.
            server.abandon();
            let _ = server.open(watched);
        }
        let gathered = self.gather().and_then(|()| self.check());
        if let Err(error) = gathered {
            self.active().for_each(Server::abandon);
            return Err(error);
        }
        let minimum = self.settings.minimum;
        let cohorts: Vec<_> =
            self.active().filter_map(|server| server.close(minimum).ok().flatten()).collect();
        self.cohorts.extend(cohorts);
        self.round.0 += 1;
        Ok(())
    }

    /// Asks, and takes what comes, until nothing is missing or nothing more is to be expected.
    fn gather(&mut self) -> Result<(), BackendError> {
        let thetas: Vec<f64> = self.servers.iter().flat_map(Server::theta).copied().collect();
        for attempt in 0..=self.settings.attempts {
            let asked = self.missing();
            let in_time = self.servers.iter().all(Server::takes_the_first) && self.check().is_ok();
            if asked.is_empty() || (attempt > 0 && in_time) {
                break;
            }
            self.servers.iter_mut().for_each(Server::ask_again);
            self.transport.ask(&LiveOrder {
                round: self.round,
                first_step: self.protocol.first_step(self.round),
                seed: self.seed,
                thetas: &thetas,
                asked: &asked,
                again: attempt > 0,
            })?;
            while self.servers.iter().any(Server::is_waiting) {
                match self.transport.next()? {
                    Arrival::Update { sender, delta } => self.take(sender, &delta),
                    Arrival::Absent { client, reason } => {
                        self.servers.iter_mut().for_each(|server| server.absent(client));
                        self.reasons.insert(client, reason);
                    }
                    Arrival::Deadline => break,
                }
            }
        }
        Ok(())
    }

    /// Everything that is wanted and has not come, sorted by client.
    fn missing(&self) -> Vec<Assignment> {
        let assignments = self.servers.iter().flat_map(|server| {
            let repetition = server.repetition().number;
            server.missing().into_iter().map(move |client| Assignment { client, repetition })
        });
        let mut assignments: Vec<Assignment> = assignments.collect();
        assignments.sort_unstable();
        assignments
    }

    fn take(&mut self, sender: Sender, delta: &[f64]) {
        let Sender { round, repetition, client } = sender;
        let server = usize::try_from(repetition).ok().and_then(|n| self.servers.get_mut(n));
        let taken = match server {
            Some(server) => server.accept(round, client, delta),
            None => Err(Refusal::UnknownRepetition(repetition)),
        };
        if let Err(reason) = taken {
            if reason.is_bad_update() {
                self.reasons.insert(client, reason.to_string());
            }
            self.transport.refused(sender, &reason);
        }
    }

    /// Whether every repetition can close its round.
    fn check(&self) -> Result<(), BackendError> {
        let minimum = self.settings.minimum;
        for server in self.servers.iter().filter(|s| s.repetition().failed.is_none()) {
            if let Err(RoundError::Missing { missing, present }) = server.can_close(minimum) {
                let reason = |client| self.reasons.get(&client).cloned();
                return Err(BackendError::TooFew {
                    repetition: server.repetition().number,
                    present,
                    minimum: minimum.max(1),
                    missing: missing.into_iter().map(|client| (client, reason(client))).collect(),
                });
            }
        }
        Ok(())
    }
}

impl<T: Transport> Backend for Live<T> {
    const IRREPLACEABLE: bool = true;

    fn round(&self) -> Round {
        self.round
    }

    fn repetitions(&self) -> impl Iterator<Item = &Repetition> {
        self.servers.iter().map(Server::repetition)
    }

    fn fail(&mut self, number: usize) {
        self.servers[number].fail();
    }

    fn measure<U: Send>(&self, measure: impl Fn(&Repetition) -> U + Sync) -> Vec<U> {
        self.servers.par_iter().map(|server| measure(server.repetition())).collect()
    }

    fn advance(&mut self, until: Round, consensus: bool) -> Result<(), BackendError> {
        while self.round < until {
            self.play(consensus && self.round.0 + 1 == until.0)?;
        }
        Ok(())
    }

    fn take_cohorts(&mut self) -> Vec<RecordedCohort> {
        std::mem::take(&mut self.cohorts)
    }
}

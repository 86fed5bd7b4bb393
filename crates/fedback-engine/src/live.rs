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
//! the cohort, [`Backend::take_cohorts`] tells who made the round, and a simulation with these
//! [cohorts](Course::cohorts) comes to the same bits.
//!
//! Clients are pure functions of what they are sent: what they keep from round to round travels with
//! the order and comes back with the update. Whoever is absent keeps what it kept, and a client that
//! moves to another site finds it there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round, Step};
use fedback_core::state::{Repetition, State};
use fedback_core::stream::Seed;

use crate::backend::{Backend, BackendError, Course};
use crate::cohort::RecordedCohort;
use crate::incident::{Incident, Incidents, Trouble};
use crate::server::{Reach, Refusal, RoundError, Server, Update};

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
    /// The models as broadcast and what is sent with them, repetition after repetition.
    pub broadcasts: &'a [f64],
    /// Whose work is wanted for which repetition, sorted by client: one message to each.
    pub asked: &'a [Assignment],
    /// What those who are asked keep, one after the other; empty where the rule keeps nothing.
    pub kept: &'a [f64],
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
        /// What it sends.
        update: Update,
    },
    /// A client will not answer what was asked last: its site is gone, or said that it cannot.
    Absent {
        /// The client.
        client: ClientId,
        /// Why, in words.
        reason: String,
    },
    /// Somebody claimed a client that is not its own, and was not believed.
    Claimed {
        /// The client.
        client: ClientId,
        /// Who, in words.
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
    state: State,
    /// One a repetition.
    servers: Vec<Server>,
    /// Why there is no answer from clients in the open round, as far as is known.
    reasons: BTreeMap<ClientId, String>,
    cohorts: Vec<RecordedCohort>,
    incidents: Incidents,
}

impl<T: Transport> Live<T> {
    /// A run that goes on from where it stands. Cohorts that were recorded before a resume say how
    /// often a client was among the first, which decides what its next arrival counts.
    pub fn new(transport: T, course: Course, settings: Settings) -> Self {
        let Course { protocol, sampler, seed, state, cohorts } = course;
        let server = |repetition: &Repetition| {
            let mut server = Server::new(protocol, sampler.clone(), seed);
            for round in 0..state.round.0 {
                if let Some(cohort) = cohorts.of(repetition.number, Round(round)) {
                    server.remember(&cohort.members);
                }
            }
            server
        };
        let servers = state.repetitions.iter().map(server).collect();
        let (reasons, cohorts, incidents) = Default::default();
        Live { transport, protocol, seed, settings, state, servers, reasons, cohorts, incidents }
    }

    /// The same run, which goes on after trouble that is known already.
    pub fn after(self, incidents: Incidents) -> Self {
        Live { incidents, ..self }
    }

    /// The same run, which believes no update that honest work cannot have come to.
    pub fn knowing(mut self, reach: Reach) -> Self {
        let reach = Arc::new(reach);
        let servers = self.servers.into_iter();
        self.servers = servers.map(|server| server.knowing(reach.clone())).collect();
        self
    }

    /// The repetitions that go on, with their servers.
    fn active(&mut self) -> impl Iterator<Item = (&mut Server, &mut Repetition)> {
        let both = self.servers.iter_mut().zip(&mut self.state.repetitions);
        both.filter(|(_, repetition)| repetition.failed.is_none())
    }

    /// One round of all repetitions, or none of any.
    fn play(&mut self, watched: bool) -> Result<(), BackendError> {
        self.reasons.clear();
        let round = self.state.round;
        for (server, repetition) in self.active() {
            // What an error left behind is opened anew.
            server.abandon();
            let _ = server.open(repetition, round, watched);
        }
        let gathered = self.gather().and_then(|()| self.check());
        if let Err(error) = gathered {
            self.active().for_each(|(server, _)| server.abandon());
            return Err(error);
        }
        self.note_absences();
        let minimum = self.settings.minimum;
        let closed = self
            .active()
            .filter_map(|(server, repetition)| server.close(repetition, minimum).ok().flatten());
        let cohorts: Vec<_> = closed.collect();
        self.cohorts.extend(cohorts);
        self.state.round.0 += 1;
        Ok(())
    }

    /// Notes whose work the round does without. Of first arrivals it is expected that others are late.
    fn note_absences(&mut self) {
        let servers = self.servers.iter().filter(|server| !server.takes_the_first());
        let missing: BTreeSet<ClientId> = servers.flat_map(Server::missing).collect();
        for client in missing {
            let reason = self.reasons.get(&client).map_or("no answer in time", String::as_str);
            self.incidents.note(self.state.round, client, Trouble::Absent, reason);
        }
    }

    /// Asks, and takes what comes, until nothing is missing or nothing more is to be expected.
    fn gather(&mut self) -> Result<(), BackendError> {
        let broadcasts = self.state.repetitions.iter().flat_map(Repetition::broadcast);
        let broadcasts: Vec<f64> = broadcasts.copied().collect();
        for attempt in 0..=self.settings.attempts {
            let asked = self.missing();
            let in_time = self.servers.iter().all(Server::takes_the_first) && self.check().is_ok();
            if asked.is_empty() || (attempt > 0 && in_time) {
                break;
            }
            self.servers.iter_mut().for_each(Server::ask_again);
            let of = |asked: &Assignment| {
                self.state.repetitions[asked.repetition as usize].kept_by(asked.client)
            };
            let kept: Vec<f64> = asked.iter().flat_map(of).copied().collect();
            self.transport.ask(&LiveOrder {
                round: self.state.round,
                first_step: self.protocol.first_step(self.state.round),
                seed: self.seed,
                broadcasts: &broadcasts,
                asked: &asked,
                kept: &kept,
                again: attempt > 0,
            })?;
            while self.servers.iter().any(Server::is_waiting) {
                match self.transport.next()? {
                    Arrival::Update { sender, update } => self.take(sender, update),
                    Arrival::Absent { client, reason } => {
                        let expected = self.servers.iter_mut().map(|server| server.absent(client));
                        // News of strangers would be held without end.
                        if expected.filter(|expected| *expected).count() > 0 {
                            self.reasons.insert(client, reason);
                        }
                    }
                    Arrival::Claimed { client, reason } => {
                        self.note(client, Trouble::Claimed, &reason);
                    }
                    Arrival::Deadline => break,
                }
            }
        }
        Ok(())
    }

    /// Everything that is wanted and has not come, sorted by client.
    fn missing(&self) -> Vec<Assignment> {
        let both = self.servers.iter().zip(&self.state.repetitions);
        let assignments = both.flat_map(|(server, repetition)| {
            let repetition = repetition.number;
            server.missing().into_iter().map(move |client| Assignment { client, repetition })
        });
        let mut assignments: Vec<Assignment> = assignments.collect();
        assignments.sort_unstable();
        assignments
    }

    fn take(&mut self, sender: Sender, update: Update) {
        let Sender { round, repetition, client } = sender;
        let place = usize::try_from(repetition).unwrap_or(usize::MAX);
        let server = self.servers.get_mut(place).zip(self.state.repetitions.get(place));
        let taken = match server {
            Some((server, repetition)) => server.accept(repetition, round, client, update),
            None => Err(Refusal::UnknownRepetition(repetition)),
        };
        if let Err(reason) = taken {
            if reason.is_bad_update() {
                self.note(client, Trouble::Refused, &reason.to_string());
                self.reasons.insert(client, reason.to_string());
            }
            self.transport.refused(sender, &reason);
        }
    }

    /// Notes trouble with a client of the run in the open round.
    fn note(&mut self, client: ClientId, trouble: Trouble, reason: &str) {
        if (client.0 as usize) < self.state.layout().clients {
            self.incidents.note(self.state.round, client, trouble, reason);
        }
    }

    /// Whether every repetition can close its round.
    fn check(&self) -> Result<(), BackendError> {
        let minimum = self.settings.minimum;
        let both = self.servers.iter().zip(&self.state.repetitions);
        for (server, repetition) in both.filter(|(_, repetition)| repetition.failed.is_none()) {
            if let Err(RoundError::Missing { missing, present }) = server.can_close(minimum) {
                let reason = |client| self.reasons.get(&client).cloned();
                return Err(BackendError::TooFew {
                    repetition: repetition.number,
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
    fn is_irreplaceable(&self) -> bool {
        true
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    fn advance(&mut self, until: Round, consensus: bool) -> Result<(), BackendError> {
        while self.state.round < until {
            self.play(consensus && self.state.round.0 + 1 == until.0)?;
        }
        Ok(())
    }

    fn take_cohorts(&mut self) -> Vec<RecordedCohort> {
        std::mem::take(&mut self.cohorts)
    }

    fn take_incidents(&mut self) -> Vec<Incident> {
        self.incidents.take_changed()
    }
}

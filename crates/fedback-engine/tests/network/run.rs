//! A run on the network: a server that may die after every round, what it leaves behind, and the
//! simulation that it is compared with.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Round};
use fedback_core::state::{Repetition, State};
use fedback_engine::backend::{Backend, Course};
use fedback_engine::cohort::{RecordedCohort, RecordedCohorts};
use fedback_engine::live::{Arrival, Live, LiveOrder, Sender, Settings, Transport, TransportError};
use fedback_engine::server::{Reach, Refusal};
use fedback_engine::simulate::Simulation;

use super::{DIM, Network, REPETITIONS, SEED};

/// What a run leaves of a repetition.
#[derive(Debug, PartialEq)]
pub struct Left {
    pub server: Vec<u64>,
    pub kept: Vec<u64>,
    pub consensus: Option<u64>,
}

pub fn left(state: &State) -> Vec<Left> {
    let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect();
    let of = |r: &Repetition| Left {
        server: bits(&r.server),
        kept: bits(&r.kept),
        consensus: r.consensus.map(f64::to_bits),
    };
    state.repetitions.iter().map(of).collect()
}

/// A server that lives for one round, from where the last one was left, and its books.
pub struct Run<'a> {
    federation: &'a Federation,
    protocol: Protocol,
    pub state: State,
    pub cohorts: Vec<RecordedCohort>,
}

impl<'a> Run<'a> {
    pub fn new(federation: &'a Federation, protocol: Protocol) -> Self {
        let state = Self::beginning(federation, protocol).state;
        Run { federation, protocol, state, cohorts: Vec::new() }
    }

    fn beginning(federation: &Federation, protocol: Protocol) -> Course {
        let weights = federation.weights().clone();
        Course::new(protocol, weights, SEED, &[0.25; DIM], REPETITIONS as u64)
    }

    /// The same run with repetitions that have failed before.
    pub fn without(mut self, failed: &[u64]) -> Self {
        for repetition in failed {
            self.state.repetitions[*repetition as usize].failed = Some(Round(0));
        }
        self
    }

    /// Rounds closed so far.
    pub fn round(&self) -> Round {
        self.state.round
    }

    /// A server that goes on from the last checkpoint.
    pub fn server<T: Transport>(&self, transport: T, settings: Settings) -> Live<T> {
        let cohorts: RecordedCohorts = self.cohorts.iter().cloned().collect();
        let beginning = Self::beginning(self.federation, self.protocol);
        let course = Course { state: self.state.clone(), cohorts, ..beginning };
        Live::new(transport, course, settings).knowing(Reach::of(self.federation))
    }

    /// Writes down what a store has of a state: numbers, and nothing else.
    pub fn checkpoint(&mut self, live: &mut Live<impl Transport>) {
        let mut state = Self::beginning(self.federation, self.protocol).state;
        state.round = live.state().round;
        for (new, old) in state.repetitions.iter_mut().zip(&live.state().repetitions) {
            new.server.clone_from(&old.server);
            new.kept.clone_from(&old.kept);
            new.failed = old.failed;
        }
        assert!(state.servers().all(|number| number.is_finite()));
        self.state = state;
        self.cohorts.extend(live.take_cohorts());
    }

    /// The same run in memory, from the beginning, with the cohorts that were recorded so far.
    pub fn replay(&self) -> Simulation<'a, Federation> {
        let cohorts = self.cohorts.iter().cloned().collect();
        let mut beginning = Self::beginning(self.federation, self.protocol);
        for (new, old) in beginning.state.repetitions.iter_mut().zip(&self.state.repetitions) {
            new.failed = old.failed;
        }
        Simulation::new(self.federation, Course { cohorts, ..beginning })
    }
}

/// A network under a server that dies after so many arrivals.
pub struct Mortal<'n, 'f> {
    pub network: &'n mut Network<'f>,
    pub left: Option<usize>,
}

impl Transport for Mortal<'_, '_> {
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError> {
        self.network.ask(order)
    }

    fn next(&mut self) -> Result<Arrival, TransportError> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or(TransportError::Interrupted)?;
        }
        self.network.next()
    }

    fn refused(&mut self, sender: Sender, reason: &Refusal) {
        self.network.refused(sender, reason);
    }
}

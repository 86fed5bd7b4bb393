//! What the runner tells, and who listens.

use fedback_core::state::State;
use fedback_engine::cohort::RecordedCohort;
use fedback_engine::incident::Incident;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::plan::Outline;
use crate::store::Record;

/// Something that happened in a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run begins, or goes on, after `round` rounds.
    Started {
        /// The plan.
        plan: &'a Outline,
        /// Rounds closed before.
        round: u64,
    },
    /// A record was taken.
    Record(&'a Record),
    /// A round was closed with a cohort that the seed alone does not tell.
    Cohort(&'a RecordedCohort),
    /// Something went wrong with a client, once more or for the first time.
    Incident(&'a Incident),
    /// Rounds were closed.
    Advanced {
        /// Rounds closed.
        round: u64,
    },
    /// A state from which the run can go on.
    Checkpoint {
        /// Where all repetitions stand.
        state: &'a State,
        /// Seconds spent.
        seconds: f64,
        /// θ of every repetition at the last record, where the run may end by what moved since.
        before: Option<&'a [Vec<f64>]>,
    },
    /// The run is over.
    Ended(&'a Ending),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ending {
    /// All rounds are closed and every repetition is finite.
    Done,
    /// It failed; why, in words.
    Failed(String),
    /// It was asked to stop.
    Interrupted,
}

impl Ending {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match self {
            Ending::Done => "done",
            Ending::Failed(_) => "failed",
            Ending::Interrupted => "interrupted",
        }
    }
}

/// Listens to events. An error ends the run.
pub trait Sink {
    /// Takes one event.
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error>;
}

/// Nobody listens.
impl Sink for () {
    fn take(&mut self, _event: &Event<'_>) -> Result<(), Error> {
        Ok(())
    }
}

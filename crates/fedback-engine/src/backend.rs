//! Who does the work of a run: memory, or real clients.
//!
//! The loop over rounds is written once, for any backend: [`Simulation`](crate::simulate::Simulation)
//! and [`Live`](crate::live::Live) differ in nothing that a loop could see but where updates come
//! from. The choice is made once a run, by type: no call is virtual.

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;

use crate::algorithm::WorkError;
use crate::cohort::RecordedCohort;
use crate::live::TransportError;
use crate::repetition::Repetition;

/// Something that closes rounds of all repetitions of a run.
pub trait Backend {
    /// Whether what a round brought cannot be computed again, so that every round is worth a
    /// checkpoint.
    const IRREPLACEABLE: bool;

    /// Rounds closed so far.
    fn round(&self) -> Round;

    /// The repetitions in order.
    fn repetitions(&self) -> impl Iterator<Item = &Repetition>;

    /// Gives a repetition up: it works no more.
    fn fail(&mut self, number: usize);

    /// Applies `measure` to every repetition, in parallel, and returns the values in order.
    fn measure<T: Send>(&self, measure: impl Fn(&Repetition) -> T + Sync) -> Vec<T>;

    /// Closes rounds until `until` are closed. With `consensus`, all clients work in the last of
    /// them, and the consensus error just before its aggregation is kept.
    fn advance(&mut self, until: Round, consensus: bool) -> Result<(), BackendError>;

    /// The cohorts of rounds closed since this was last asked which the seed alone does not tell.
    fn take_cohorts(&mut self) -> Vec<RecordedCohort>;
}

/// Why a backend cannot go on. The rounds closed before stand.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BackendError {
    /// A client could not work.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// Nothing comes from the clients any more, or somebody asked to stop.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Too few members of a cohort answered.
    #[error("{}", too_few(*.repetition, *.present, *.minimum, .missing, &|c| format!("client {}", c.0)))]
    TooFew {
        /// The repetition.
        repetition: u64,
        /// How many answered.
        present: usize,
        /// How many were needed.
        minimum: usize,
        /// Who did not, and what is known of the reason.
        missing: Vec<(ClientId, Option<String>)>,
    },
}

/// [`BackendError::TooFew`] in words, with names for the clients.
pub fn too_few(
    repetition: u64,
    present: usize,
    minimum: usize,
    missing: &[(ClientId, Option<String>)],
    name: &dyn Fn(ClientId) -> String,
) -> String {
    let shown = missing.iter().take(MOST_NAMED).map(|(client, reason)| match reason {
        Some(reason) => format!("{} ({reason})", name(*client)),
        None => name(*client),
    });
    let mut shown: Vec<String> = shown.collect();
    if missing.len() > MOST_NAMED {
        shown.push(format!("{} more", missing.len() - MOST_NAMED));
    }
    format!(
        "repetition {repetition}: {present} of {} answered, at least {minimum} must; missing: {}",
        present + missing.len(),
        shown.join(", ")
    )
}

/// Missing clients that a message names.
const MOST_NAMED: usize = 20;

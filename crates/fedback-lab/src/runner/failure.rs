//! Why a run failed, in words.

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_engine::backend::{BackendError, too_few};

use crate::measure::Recorder;
use crate::plan::Outline;

/// An error of a backend, with names for the clients.
pub(super) fn explain(plan: &Outline, error: &BackendError) -> String {
    match (error, &plan.client_names) {
        (BackendError::TooFew { repetition, present, minimum, missing }, Some(names)) => {
            let name = |client: ClientId| names[client.0 as usize].clone();
            too_few(*repetition, *present, *minimum, missing, &name)
        }
        _ => error.to_string(),
    }
}

/// Which repetitions stopped being finite, when, and the likely cause.
pub(super) fn explain_failure(recorder: &Recorder<'_>, failed: &[(u64, Round)]) -> String {
    let first = failed.iter().map(|&(n, round)| (round.0, n)).min();
    let (round, repetition) = first.unwrap_or_default();
    let others = match failed.len() - 1 {
        0 => String::new(),
        1 => " (and one more repetition later)".into(),
        more => format!(" (and {more} more repetitions then or later)"),
    };
    let cause = recorder.judge.likely_cause(Round(round.saturating_sub(1)));
    format!("repetition {repetition} stopped being finite in round {round}{others}; {cause}")
}

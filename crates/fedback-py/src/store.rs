//! What a store holds.

use std::path::{Path, PathBuf};

use fedback_lab::error::Error;
use fedback_lab::recorded::RecordedRun;
use fedback_lab::store::{RunId, Store};
use pyo3::prelude::*;

use crate::error::raise;
use crate::outcome::Outcome;

/// A store that must be there.
pub fn existing(path: &Path) -> Result<Store, Error> {
    let missing = || Error::input(format!("store {}", path.display()), "no store is there");
    Store::open_existing(path)?.ok_or_else(missing)
}

/// (id, name, state, round, rounds, repetitions, started, seconds, set), newest first.
type Summary = (i64, String, String, u64, u64, u64, String, f64, String);

/// The runs of a store; none where there is no store.
#[pyfunction]
pub fn runs(path: PathBuf) -> PyResult<Vec<Summary>> {
    let store = Store::open_existing(&path).map_err(Error::from).map_err(raise)?;
    let runs = store.map_or(Ok(Vec::new()), |store| store.runs());
    let runs = runs.map_err(Error::from).map_err(raise)?;
    let row = |run: fedback_lab::store::RunSummary| {
        let state = run.state.as_str().to_string();
        let (round, rounds, repetitions) = (run.round, run.rounds, run.repetitions);
        let set = serde_json::Value::Object(run.set).to_string();
        (run.id.0, run.name, state, round, rounds, repetitions, run.started, run.seconds, set)
    };
    Ok(runs.into_iter().map(row).collect())
}

/// What a recorded run left so far.
#[pyfunction]
pub fn load(py: Python<'_>, id: i64, path: PathBuf) -> PyResult<Outcome> {
    let run = py.detach(|| RecordedRun::read(&existing(&path)?, RunId(id))).map_err(raise)?;
    let inner = py.detach(|| run.outcome());
    Ok(Outcome { inner, records: run.stored.records, id: Some(id) })
}

//! What a store holds, and what people do with it.

use std::path::{Path, PathBuf};

use fedback_lab::bundle;
use fedback_lab::error::Error;
use fedback_lab::npz;
use fedback_lab::recorded::RecordedRun;
use fedback_lab::scoring::Scorer;
use fedback_lab::show::{Shown, differing as differences};
use fedback_lab::spec::Loss;
use fedback_lab::store::{self, RunId, Runs, Store};
use fedback_lab::whole_file;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::error::raise;
use crate::outcome::Outcome;
use crate::run::warn;
use crate::supervise::free;

/// A store that must be there.
pub fn existing(path: &Path) -> Result<Store, Error> {
    let missing = || Error::input(format!("store {}", path.display()), "no store is there");
    Store::open_existing(path)?.ok_or_else(missing)
}

/// The runs of a store, newest first, as JSON text; none where there is no store. Of those that are
/// damaged it warns.
#[pyfunction]
pub fn runs(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let store = Store::open_existing(&path).map_err(Error::from).map_err(raise)?;
    let runs = store.map_or(Ok(Runs::default()), |store| store.runs());
    let Runs { sound, damaged } = runs.map_err(Error::from).map_err(raise)?;
    damaged.iter().try_for_each(|damage| warn(py, &damage.to_string()))?;
    Ok(json!(sound).to_string())
}

/// What a recorded run left so far.
#[pyfunction]
pub fn load(py: Python<'_>, id: i64, path: PathBuf) -> PyResult<Outcome> {
    let run = free(py, || read(&path, id)).map_err(raise)?;
    let inner = free(py, || run.outcome());
    Ok(Outcome { inner, records: run.stored.records, id: Some(id) })
}

/// A recorded run, described, as JSON text.
#[pyfunction]
pub fn show(py: Python<'_>, id: i64, path: PathBuf) -> PyResult<String> {
    let work = || Ok(json!(Shown::of(&read(&path, id)?)).to_string());
    free(py, work).map_err(raise)
}

/// What differs between recorded runs, as JSON text: every key with a list of values.
#[pyfunction]
pub fn differing(py: Python<'_>, ids: Vec<i64>, path: PathBuf) -> PyResult<String> {
    let work = || {
        let shown = ids.iter().map(|&id| Ok(Shown::of(&read(&path, id)?)));
        let found = differences(&shown.collect::<Result<Vec<_>, Error>>()?);
        let found = found.into_iter().map(|one| (one.key, json!(one.values)));
        Ok(Value::Object(found.collect()).to_string())
    };
    free(py, work).map_err(raise)
}

/// Replaces the note and the tags of a run; what is not given stays.
#[pyfunction]
pub fn note(
    id: i64,
    note: Option<String>,
    tags: Option<Vec<String>>,
    path: PathBuf,
) -> PyResult<()> {
    let work = || {
        let tags = tags.map(words).transpose()?;
        let store = existing(&path)?;
        let run = store.load(RunId(id))?;
        let (tags, note) = (tags.unwrap_or(run.tags), note.unwrap_or(run.note));
        Ok(store.annotate(run.id, &tags, &note)?)
    };
    work().map_err(raise)
}

/// Tags, each of them one word, once.
pub fn words(tags: Vec<String>) -> Result<Vec<String>, Error> {
    let mut once: Vec<String> = Vec::new();
    for tag in tags {
        let tag = store::tag(&tag)
            .map_err(|why| Error::input("tags", format!("found {tag:?}; {why}")))?;
        if !once.contains(&tag) {
            once.push(tag);
        }
    }
    Ok(once)
}

/// Removes runs, all of them or none.
#[pyfunction]
pub fn rm(mut ids: Vec<i64>, path: PathBuf) -> PyResult<()> {
    ids.sort_unstable();
    ids.dedup();
    let ids: Vec<RunId> = ids.into_iter().map(RunId).collect();
    let remove = || Ok(existing(&path)?.remove(&ids)?);
    remove().map_err(raise)
}

/// Writes a run as a store of its own.
#[pyfunction]
pub fn write_bundle(py: Python<'_>, id: i64, out: PathBuf, path: PathBuf) -> PyResult<()> {
    free(py, || bundle::write(&read(&path, id)?, &out)).map_err(raise)
}

/// Writes a run's final models and curve as arrays.
#[pyfunction]
pub fn write_npz(py: Python<'_>, id: i64, out: PathBuf, path: PathBuf) -> PyResult<()> {
    let work = || {
        let run = read(&path, id)?;
        whole_file::write(&out, npz::of(&run, &run.outcome())?)
    };
    py.detach(work).map_err(raise)
}

/// Takes the runs of a bundle into a store, and says their numbers there.
#[pyfunction]
pub fn import_bundle(py: Python<'_>, file: PathBuf, path: PathBuf) -> PyResult<Vec<i64>> {
    let work = || {
        // Said before a store is made.
        if !file.is_file() {
            let why = "no such file; needed: a bundle of `export`, or a store";
            return Err(Error::input(file.display(), why));
        }
        let ids = bundle::read(&file, &path)?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    };
    free(py, work).map_err(raise)
}

/// The rows of a CSV file, called `place` in messages, with their scores; how many columns these
/// are, at the end of every row.
#[pyfunction]
pub fn score(
    py: Python<'_>,
    id: i64,
    rows: &[u8],
    place: &str,
    repetition: Option<i64>,
    path: PathBuf,
) -> PyResult<(String, usize)> {
    let work = || {
        let run = read(&path, id)?;
        let repetitions = run.spec.repetitions.0;
        let number = |found: i64| {
            let known = u64::try_from(found).ok().filter(|number| *number < repetitions);
            let why = format!("found {found}; allowed: 0 to {}", repetitions - 1);
            known.ok_or_else(|| Error::input("repetition", why))
        };
        let scorer = Scorer::of(&run, repetition.map(number).transpose()?)?;
        let scored = scorer.score(rows).map_err(|why| Error::input(place, why))?;
        let logistic = matches!(run.spec.problem.loss, Loss::Logistic(_));
        Ok((scored.csv, if logistic { 3 } else { 1 }))
    };
    free(py, work).map_err(raise)
}

fn read(path: &Path, id: i64) -> Result<RecordedRun, Error> {
    RecordedRun::read(&existing(path)?, RunId(id))
}

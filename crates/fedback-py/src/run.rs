//! `run` and `resume`: every plan recorded first where there is a store, then run.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fedback_lab::chart::label_of;
use fedback_lab::error::Error;
use fedback_lab::event::{Event, Sink};
use fedback_lab::experiment::{self, Finished, Keep, Ready, Reopened, Replayed};
use fedback_lab::plan::Built;
use fedback_lab::recorded::RecordedRun;
use fedback_lab::store::{Record, RunId};
use pyo3::exceptions::{PyKeyboardInterrupt, PyUserWarning};
use pyo3::prelude::*;

use crate::custom::Functions;
use crate::document::Document;
use crate::error::{InputError, raise};
use crate::outcome::Outcome;
use crate::supervise::{free, supervise};

/// Runs every point of a spec.
#[pyfunction]
#[pyo3(signature = (document, *, store, tags, note, threads, progress, draw, loss))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
pub fn run(
    py: Python<'_>,
    document: &Document,
    store: Option<PathBuf>,
    tags: Vec<String>,
    note: String,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
    draw: Option<Py<PyAny>>,
    loss: Option<Py<PyAny>>,
) -> PyResult<Vec<Outcome>> {
    let tags = crate::store::words(tags).map_err(raise)?;
    if !(tags.is_empty() && note.is_empty()) && store.is_none() {
        let why = "belong to a recorded run; say where it is recorded: store=\"fedback.db\"";
        return Err(misfit("tags, note", why));
    }
    let (plans, _) = free(py, || document.plans()).map_err(raise)?;
    let functions = Functions::new(py, draw, loss)?;
    plans.iter().try_for_each(|plan| functions.check(plan))?;
    let threads = threads_for(&plans, threads);
    let complete: Vec<_> = plans.into_iter().map(|plan| functions.complete(plan)).collect();
    let all = || complete.iter().map(|plan| &**plan);
    let ready = free(py, || Ready::new(all().collect())).map_err(raise)?;
    let doubts = complete.first().map_or(&[][..], |plan| &plan.outline().spec.doubts);
    doubts.iter().try_for_each(|doubt| warn(py, &format!("doubted in the spec: {doubt}")))?;
    ready.warnings().iter().try_for_each(|warning| warn(py, warning))?;
    let keep = store.as_deref().map(|store| Keep { store, tags: &tags, note: &note });
    let met = |made: &Finished| made.ids.get(made.outcomes.len().checked_sub(1)?).copied();
    let shown = (progress.as_ref(), threads);
    let work = |hear: &mut dyn Sink, stop: &AtomicBool| ready.run(keep, hear, stop);
    let (Finished { outcomes, ids }, heard) = listening(py, &functions, shown, work, met)?;
    let outcomes = outcomes.into_iter().zip(heard).enumerate();
    let outcome = |(place, (inner, records))| {
        let id = ids.get(place).map(|id: &RunId| id.0);
        Outcome { inner, records, id }
    };
    Ok(outcomes.map(outcome).collect())
}

/// Goes on with a run that was interrupted; one that has ended is handed over as it ended.
#[pyfunction]
#[pyo3(signature = (id, *, store, threads, progress, draw, loss))]
pub fn resume(
    py: Python<'_>,
    id: i64,
    store: PathBuf,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
    draw: Option<Py<PyAny>>,
    loss: Option<Py<PyAny>>,
) -> PyResult<Outcome> {
    let read = || RecordedRun::read(&crate::store::existing(&store)?, RunId(id));
    let run = free(py, read).map_err(raise)?;
    if run.has_ended() {
        return Ok(Outcome::as_it_ended(run));
    }
    let Reopened { run, plan } = free(py, || Reopened::new(run)).map_err(raise)?;
    let functions = Functions::new(py, draw, loss)?;
    functions.check(&plan)?;
    let threads = threads_for([&plan], threads);
    let complete = functions.complete(plan);
    let work = |hear: &mut dyn Sink, stop: &AtomicBool| {
        let store = crate::store::existing(&store)?;
        experiment::resume(&*complete, &store, &run.stored, hear, stop)
    };
    let shown = (progress.as_ref(), threads);
    let (inner, heard) = listening(py, &functions, shown, work, |_| Some(RunId(id)))?;
    let records = run.stored.records.into_iter().chain(heard.into_iter().flatten()).collect();
    Ok(Outcome { inner, records, id: Some(id) })
}

/// Runs a recorded run again with its recorded cohorts, and says whether the same bits came out.
#[pyfunction]
#[pyo3(signature = (id, *, store, draw, loss))]
pub fn replay(
    py: Python<'_>,
    id: i64,
    store: PathBuf,
    draw: Option<Py<PyAny>>,
    loss: Option<Py<PyAny>>,
) -> PyResult<(Outcome, bool)> {
    let reopen = || experiment::reopen(&crate::store::existing(&store)?, RunId(id));
    let Reopened { run, plan } = free(py, reopen).map_err(raise)?;
    let functions = Functions::new(py, draw, loss)?;
    functions.check(&plan)?;
    let threads = threads_for([&plan], None);
    let complete = functions.complete(plan);
    let work = |hear: &mut dyn Sink, stop: &AtomicBool| {
        experiment::replay(&*complete, &run.stored, hear, stop)
    };
    let (Replayed { outcome, same }, heard) =
        listening(py, &functions, (None, threads), work, |_| None)?;
    let records = heard.into_iter().flatten().collect();
    Ok((Outcome { inner: outcome, records, id: None }, same))
}

/// Warns the caller of the Python function that called.
pub fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(text)?, 2)
}

/// Python's functions take their turns.
fn threads_for<'a>(
    plans: impl IntoIterator<Item = &'a Built>,
    threads: Option<usize>,
) -> Option<usize> {
    let custom = plans.into_iter().any(|plan| plan.whole().is_none());
    if custom { Some(1) } else { threads }
}

/// Does something that runs plans, beside a Python thread that shows how far it is. Also returns
/// the records of every run. What a function of the user raised is raised; an interruption says how
/// to go on, by the number of the run that it met.
fn listening<T: Send>(
    py: Python<'_>,
    functions: &Functions,
    (progress, threads): (Option<&Py<PyAny>>, Option<usize>),
    work: impl FnOnce(&mut dyn Sink, &AtomicBool) -> Result<T, Error> + Send,
    met: impl FnOnce(&T) -> Option<RunId>,
) -> PyResult<(T, Vec<Vec<Record>>)> {
    let (stop, now, result) = (AtomicBool::new(false), Now::default(), Mutex::new(None));
    let tick = |py: Python<'_>| now.show(py, progress);
    let supervised = supervise(py, threads, &stop, tick, || {
        let mut listener = Listener { records: Vec::new(), now: &now };
        let made = work(&mut listener, &stop);
        let made = made.map(|made| (made, listener.records));
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
    });
    let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (functions.raised(), supervised, result) {
        (Some(error), _, _) => Err(error),
        (None, Err(error), Some(Ok((made, _))))
            if error.is_instance_of::<PyKeyboardInterrupt>(py) =>
        {
            Err(PyKeyboardInterrupt::new_err(match met(&made) {
                Some(id) => format!("interrupted; go on with fedback.resume({id}, store=…)"),
                None => "interrupted".into(),
            }))
        }
        (None, Err(error), _) => Err(error),
        (None, Ok(()), Some(made)) => made.map_err(raise),
        (None, Ok(()), None) => Err(raise(Error::Failed("the run's thread was lost".into()))),
    }
}

/// What is running, and how far it is.
#[derive(Default)]
pub struct Now {
    run: Mutex<(String, u64)>,
    round: AtomicU64,
}

impl Now {
    /// Tells a Python function, if there is one.
    pub fn show(&self, py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        let Some(progress) = progress else { return Ok(()) };
        let (label, rounds) = self.run.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match label.is_empty() {
            true => Ok(()),
            false => {
                let round = self.round.load(Ordering::Relaxed);
                progress.call1(py, (label, round, rounds)).map(|_| ())
            }
        }
    }
}

/// Keeps the records of every run, and says how far it is.
pub struct Listener<'a> {
    /// All records so far, of every run that was begun.
    pub records: Vec<Vec<Record>>,
    /// How far it is.
    pub now: &'a Now,
}

impl Sink for Listener<'_> {
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match event {
            Event::Started { plan, round } => {
                let run = (label_of(&plan.spec.name, &plan.set), plan.spec.rounds.0);
                *self.now.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
                self.now.round.store(*round, Ordering::Relaxed);
                self.records.push(Vec::new());
            }
            Event::Record(record) => {
                if let Some(records) = self.records.last_mut() {
                    records.push((*record).clone());
                }
            }
            Event::Advanced { round } => self.now.round.store(*round, Ordering::Relaxed),
            Event::Cohort(_) | Event::Incident(_) => {}
            Event::Checkpoint { .. } | Event::Ended(_) => {}
        }
        Ok(())
    }
}

/// Refuses functions that a plan has no use for, or lacks.
pub fn misfit(key: &str, why: &str) -> PyErr {
    InputError::new_err(format!("{key}: {why}"))
}

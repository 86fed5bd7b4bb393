//! `run` and `resume`: every plan recorded first where there is a store, then run.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use fedback_lab::device::Device;
use fedback_lab::error::Error;
use fedback_lab::event::Sink;
use fedback_lab::experiment::{self, Finished, Keep, Ready, Reopened, Replayed};
use fedback_lab::plan::Built;
use fedback_lab::recorded::RecordedRun;
use fedback_lab::runner::Runnable;
use fedback_lab::store::{Record, RunId};
use pyo3::exceptions::{PyKeyboardInterrupt, PyUserWarning};
use pyo3::prelude::*;

use crate::custom::Functions;
use crate::document::Document;
use crate::error::{InputError, raise};
use crate::now::{Listener, Now};
use crate::outcome::Outcome;
use crate::supervise::{free, supervise};

/// Runs every point of a spec.
#[pyfunction]
#[pyo3(signature = (document, *, store, tags, note, threads, device, progress, draw, loss))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
pub fn run(
    py: Python<'_>,
    document: &Document,
    store: Option<PathBuf>,
    tags: Vec<String>,
    note: String,
    threads: Option<usize>,
    device: &str,
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
    let device = chosen(device)?;
    let place = || device.place(complete.iter().map(|plan| &**plan));
    let placed = free(py, place).map_err(raise)?;
    let all = || placed.iter().map(|plan| plan as &dyn Runnable);
    let ready = free(py, || Ready::new(all().collect())).map_err(raise)?;
    let doubts = complete.first().map_or(&[][..], |plan| &plan.outline().spec.doubts);
    doubts.iter().try_for_each(|doubt| warn(py, &format!("doubted in the spec: {doubt}")))?;
    ready.warnings().iter().try_for_each(|warning| warn(py, warning))?;
    let keep = store.as_deref().map(|store| Keep { store, tags: &tags, note: &note });
    let met = |made: &Finished| made.ids.get(made.outcomes.len().checked_sub(1)?).copied();
    let shown = Shown { progress: progress.as_ref(), points: complete.len(), earlier: &[] };
    let work = |hear: &mut dyn Sink, stop: &AtomicBool| ready.run(keep, hear, stop);
    let (Finished { outcomes, ids }, heard) = listening(py, &functions, shown, threads, work, met)?;
    let outcomes = outcomes.into_iter().zip(heard).enumerate();
    let outcome = |(place, (inner, records))| {
        let id = ids.get(place).map(|id: &RunId| id.0);
        Outcome { inner, records, id }
    };
    Ok(outcomes.map(outcome).collect())
}

/// Goes on with a run that was interrupted; one that has ended is handed over as it ended.
#[pyfunction]
#[pyo3(signature = (id, *, store, threads, device, progress, draw, loss))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
pub fn resume(
    py: Python<'_>,
    id: i64,
    store: PathBuf,
    threads: Option<usize>,
    device: &str,
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
    let (complete, device) = (functions.complete(plan), chosen(device)?);
    let work = |hear: &mut dyn Sink, stop: &AtomicBool| {
        let store = crate::store::existing(&store)?;
        let placed = device.place_one(&*complete)?;
        experiment::resume(&placed, &store, &run.stored, hear, stop)
    };
    let shown = Shown { progress: progress.as_ref(), points: 1, earlier: &run.stored.records };
    let (inner, heard) = listening(py, &functions, shown, threads, work, |_| Some(RunId(id)))?;
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
        listening(py, &functions, Shown::default(), threads, work, |_| None)?;
    let records = heard.into_iter().flatten().collect();
    Ok((Outcome { inner: outcome, records, id: None }, same))
}

/// The device of a name.
fn chosen(device: &str) -> PyResult<Device> {
    device.parse().map_err(|why: String| misfit("device", &why))
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

/// Who is told how far it is, of how many runs, and what was recorded before.
#[derive(Default)]
struct Shown<'a> {
    progress: Option<&'a Py<PyAny>>,
    points: usize,
    earlier: &'a [Record],
}

/// Does something that runs plans, beside a Python thread that shows how far it is. Also returns
/// the records of every run. What a function of the user raised is raised; an interruption says how
/// to go on, by the number of the run that it met.
fn listening<T: Send>(
    py: Python<'_>,
    functions: &Functions,
    Shown { progress, points, earlier }: Shown<'_>,
    threads: Option<usize>,
    work: impl FnOnce(&mut dyn Sink, &AtomicBool) -> Result<T, Error> + Send,
    met: impl FnOnce(&T) -> Option<RunId>,
) -> PyResult<(T, Vec<Vec<Record>>)> {
    let (stop, result) = (AtomicBool::new(false), Mutex::new(None));
    let shared = Py::new(py, Now::of(points))?;
    Now::begin(&shared, py, progress)?;
    let now = shared.get();
    let tick = |py: Python<'_>| now.show(py, progress);
    let supervised = supervise(py, threads, &stop, tick, || {
        let made = functions.served(|| work(&mut Listener { now, earlier }, &stop));
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
    });
    let supervised = supervised.and(Now::end(py, progress));
    let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (functions.raised(), supervised, result) {
        (Some(error), _, _) => Err(error),
        (None, Err(error), Some(Ok(made))) if error.is_instance_of::<PyKeyboardInterrupt>(py) => {
            Err(PyKeyboardInterrupt::new_err(match met(&made) {
                Some(id) => format!("interrupted; go on with fedback.resume({id}, store=…)"),
                None => "interrupted".into(),
            }))
        }
        (None, Err(error), _) => Err(error),
        (None, Ok(()), Some(made)) => made.map(|made| (made, now.take_records())).map_err(raise),
        (None, Ok(()), None) => Err(raise(Error::Failed("the run's thread was lost".into()))),
    }
}

/// Refuses functions that a plan has no use for, or lacks.
pub fn misfit(key: &str, why: &str) -> PyErr {
    InputError::new_err(format!("{key}: {why}"))
}

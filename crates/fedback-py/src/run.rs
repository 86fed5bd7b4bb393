//! `run` and `resume`: every plan recorded first where there is a store, then run.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fedback_lab::custom::Custom;
use fedback_lab::error::Error;
use fedback_lab::event::{Ending, Event, Sink};
use fedback_lab::exact::exact;
use fedback_lab::experiment::{self, Reopened};
use fedback_lab::outcome::Outcome as LabOutcome;
use fedback_lab::plan::Built;
use fedback_lab::recorded::RecordedRun;
use fedback_lab::runner::Resume;
use fedback_lab::store::{Record, RunId, Store};
use fedback_lab::warning::warnings;
use pyo3::exceptions::{PyKeyboardInterrupt, PyUserWarning};
use pyo3::prelude::*;

use crate::custom::{Functions, Parts};
use crate::document::Document;
use crate::error::{InputError, raise};
use crate::outcome::Outcome;
use crate::supervise::{supervise, with_threads};

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
    let labelled = !(tags.is_empty() && note.is_empty());
    if labelled && store.is_none() {
        let why = "belong to a recorded run; say where it is recorded: store=\"fedback.db\"";
        return Err(misfit("tags, note", why));
    }
    let (plans, _) = py.detach(|| document.plans()).map_err(raise)?;
    let functions = Functions::new(py, draw, loss)?;
    plans.iter().try_for_each(|plan| functions.check(plan))?;
    plans.iter().try_for_each(|plan| plan.check_arrivals()).map_err(raise)?;
    let warned = |plan: &Built| plan.whole().map(warnings).unwrap_or_default();
    let warned: Vec<Vec<String>> = py.detach(|| plans.iter().map(warned).collect());
    // What is said of the first point goes for most of the others.
    let doubts = plans.first().map_or(&[][..], |plan| &plan.spec.doubts);
    doubts.iter().try_for_each(|doubt| warn(py, &format!("doubted in the spec: {doubt}")))?;
    warned.iter().take(1).flatten().try_for_each(|warning| warn(py, warning))?;
    let place = Place { store: store.as_deref(), threads, progress: progress.as_ref() };
    let recording = place.open().map_err(raise)?;
    let mut jobs = Vec::new();
    for (plan, warnings) in plans.into_iter().zip(warned) {
        let begin = |store: &Store| {
            let id = experiment::begin(store, &plan, warnings)?;
            if labelled {
                store.annotate(id, &tags, &note)?;
            }
            Ok(id)
        };
        let id = recording.as_ref().map(begin).transpose();
        jobs.push(Job { plan, id: id.map_err(raise)?, resume: None });
    }
    drop(recording);
    jobs.into_iter().map(|job| place.run(py, job, &functions)).collect()
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
    let run = py.detach(read).map_err(raise)?;
    if run.has_ended() {
        return Ok(Outcome::as_it_ended(run));
    }
    let reopened = py.detach(|| Reopened::new(run)).map_err(raise)?;
    let round = reopened.round();
    let functions = Functions::new(py, draw, loss)?;
    functions.check(&reopened.plan)?;
    let resume = reopened.resume();
    let place = Place { store: Some(&store), threads, progress: progress.as_ref() };
    let mut outcome =
        place.run(py, Job { plan: reopened.plan, id: Some(RunId(id)), resume }, &functions)?;
    outcome.inner.resumed_from = Some(round);
    Ok(outcome)
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
    let reopened = py.detach(reopen).map_err(raise)?;
    let functions = Functions::new(py, draw, loss)?;
    functions.check(&reopened.plan)?;
    let (stop, round) = (AtomicBool::new(false), AtomicU64::new(0));
    let (plan, stored) = (&reopened.plan, &reopened.stored);
    let raised = Mutex::new(None);
    let made = supervise(
        py,
        &stop,
        |_| Ok(()),
        || {
            let mut listener = Listener { records: Vec::new(), round: &round };
            let replayed = match plan {
                Built::Whole(plan) => experiment::replay(plan, stored, &mut listener, &stop),
                Built::Custom(plan) => with_threads(Some(1), || {
                    let custom = Custom::new(plan.clone(), Parts::new(plan, &functions));
                    let replayed = experiment::replay(&custom, stored, &mut listener, &stop);
                    if let Ok(mut raised) = raised.lock() {
                        *raised = custom.gradients().raised();
                    }
                    replayed
                }),
            };
            (replayed, listener.records)
        },
    );
    if let Some(error) = raised.into_inner().ok().flatten() {
        return Err(error);
    }
    let (replayed, records) = made?;
    let experiment::Replayed { outcome, same } = replayed.map_err(raise)?;
    let exact = py.detach(|| plan.whole().and_then(|plan| exact(plan).ok()));
    Ok((Outcome { inner: outcome.with_exact(exact), records, id: None }, same))
}

/// Warns the caller of the Python function that called.
fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(text)?, 2)
}

struct Job {
    plan: Built,
    id: Option<RunId>,
    resume: Option<Resume>,
}

/// Where and how runs are made.
struct Place<'a> {
    store: Option<&'a Path>,
    threads: Option<usize>,
    progress: Option<&'a Py<PyAny>>,
}

/// Keeps the records and the number of the last round.
pub struct Listener<'a> {
    /// All records so far.
    pub records: Vec<Record>,
    /// Rounds closed.
    pub round: &'a AtomicU64,
}

impl Sink for Listener<'_> {
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match event {
            Event::Record { round, values } => {
                self.records.push(Record { round: *round, values: values.to_vec() });
            }
            Event::Advanced { round } => self.round.store(*round, Ordering::Relaxed),
            _ => {}
        }
        Ok(())
    }
}

impl Place<'_> {
    fn open(&self) -> Result<Option<Store>, Error> {
        Ok(self.store.map(Store::open).transpose()?)
    }

    fn run(&self, py: Python<'_>, job: Job, functions: &Functions) -> PyResult<Outcome> {
        let Job { plan, id, resume } = job;
        let (stop, round) = (AtomicBool::new(false), AtomicU64::new(0));
        let rounds = plan.spec.rounds.0;
        let label = fedback_lab::chart::label_of(&plan.spec.name, &plan.set);
        let earlier = resume.as_ref().map(|resume| resume.records.clone()).unwrap_or_default();
        let exact = plan.whole().map(|plan| || exact(plan).ok());
        let raised = Mutex::new(None);
        let tick = |py: Python<'_>| match self.progress {
            Some(progress) => {
                let now = round.load(Ordering::Relaxed);
                progress.call1(py, (&label, now, rounds)).map(|_| ())
            }
            None => Ok(()),
        };
        let made = supervise(py, &stop, tick, || {
            let mut listener = Listener { records: earlier, round: &round };
            let outcome = match &plan {
                Built::Whole(plan) => with_threads(self.threads, || {
                    self.recorded(plan, id, resume, &mut listener, &stop)
                }),
                // Python's functions take their turns.
                Built::Custom(plan) => with_threads(Some(1), || {
                    let custom = Custom::new(plan.clone(), Parts::new(plan, functions));
                    let outcome = self.recorded(&custom, id, resume, &mut listener, &stop);
                    if let Ok(mut raised) = raised.lock() {
                        *raised = custom.gradients().raised();
                    }
                    outcome
                }),
            };
            (outcome, listener.records)
        });
        if let Some(error) = raised.into_inner().ok().flatten() {
            return Err(error);
        }
        let (outcome, records) = made.map_err(|error| self.explain(py, error, id))?;
        let inner = outcome.map_err(raise)?;
        if inner.ending == Ending::Interrupted {
            return Err(PyKeyboardInterrupt::new_err("interrupted"));
        }
        let exact = exact.and_then(|exact| py.detach(exact));
        Ok(Outcome { inner: inner.with_exact(exact), records, id: id.map(|id| id.0) })
    }

    fn recorded(
        &self,
        plan: &impl fedback_lab::runner::Runnable,
        id: Option<RunId>,
        resume: Option<Resume>,
        listener: &mut Listener<'_>,
        stop: &AtomicBool,
    ) -> Result<LabOutcome, Error> {
        match self.open()?.zip(id) {
            Some((store, id)) => experiment::run_recorded(plan, &store, id, resume, listener, stop),
            None => experiment::run_unrecorded(plan, listener, stop),
        }
    }

    /// An interruption says how to go on.
    fn explain(&self, py: Python<'_>, error: PyErr, id: Option<RunId>) -> PyErr {
        match (error.is_instance_of::<PyKeyboardInterrupt>(py), id) {
            (true, Some(id)) => PyKeyboardInterrupt::new_err(format!(
                "interrupted; go on with fedback.resume({id}, store=…)"
            )),
            _ => error,
        }
    }
}

/// Refuses functions that a plan has no use for, or lacks.
pub fn misfit(key: &str, why: &str) -> PyErr {
    InputError::new_err(format!("{key}: {why}"))
}

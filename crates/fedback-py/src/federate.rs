//! Runs whose clients are real: the library's loop, with a transport that is a Python object.
//!
//! `python/fedback/_transport.py` translates between the two: orders and arrivals as Python sees them, and
//! as they are here.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_core::state::Layout;
use fedback_engine::live::{Arrival, LiveOrder, Sender, Settings, Transport, TransportError};
use fedback_engine::server::{Refusal, Update};
use fedback_lab::error::Error;
use fedback_lab::event::Ending;
use fedback_lab::experiment::{begin, reopen, run_live};
use fedback_lab::measure::WithoutData;
use fedback_lab::plan::Built;
use fedback_lab::runner::{LiveRun, Runnable};
use fedback_lab::store::{RunId, Store, StoredRun};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::custom::Functions;
use crate::document::Document;
use crate::error::raise;
use crate::now::{Listener, Now};
use crate::numbers::{floats, pack, to_floats};
use crate::outcome::Outcome;
use crate::run::misfit;
use crate::supervise::{free, supervise};

/// Records every point of a spec before its round 0; their numbers.
#[pyfunction]
pub fn begin_all(py: Python<'_>, document: &Document, store: PathBuf) -> PyResult<Vec<i64>> {
    let begin_all = || -> Result<Vec<i64>, Error> {
        let (plans, _) = document.plans()?;
        let store = Store::open(&store)?;
        plans.iter().map(|plan| Ok(begin(&store, plan, Vec::new())?.0)).collect()
    };
    free(py, begin_all).map_err(raise)
}

/// Runs one point of a spec with clients that `transport` reaches; goes on with the run `resume` where
/// that is said.
#[pyfunction]
#[pyo3(signature = (
    document, transport, *, point, store, resume, minimum, attempts, progress, draw, loss
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
pub fn federate(
    py: Python<'_>,
    document: &Document,
    transport: Py<PyAny>,
    point: Option<usize>,
    store: Option<PathBuf>,
    resume: Option<i64>,
    minimum: usize,
    attempts: u32,
    progress: Option<Py<PyAny>>,
    draw: Option<Py<PyAny>>,
    loss: Option<Py<PyAny>>,
) -> PyResult<Outcome> {
    if minimum == 0 {
        return Err(misfit("minimum", "found 0; allowed: 1 or more"));
    }
    let prepare = || prepare(document, point, store.as_deref(), resume);
    let (plan, id, from) = match free(py, prepare).map_err(raise)? {
        Prepared::Ready(ready) => *ready,
        Prepared::Ended(outcome) => return Ok(*outcome),
    };
    let functions = Functions::new(py, draw, loss)?;
    let messages = py.import("fedback._transport")?.unbind();
    let link = Link {
        transport,
        messages,
        hash: plan.hash.clone(),
        about: (plan.spec.rounds.0, point, id.map(|id| id.0)),
        layout: plan.layout(),
        raised: Mutex::new(None),
        stop: AtomicBool::new(false),
    };
    let shared = Py::new(py, Now::of(1))?;
    Now::begin(&shared, py, progress.as_ref())?;
    let (stop, now) = (&link.stop, shared.get());
    let earlier = from.as_ref().map_or(&[][..], |from| &from.records);
    let tick = |py: Python<'_>| now.show(py, progress.as_ref());
    let made = supervise(py, None, stop, tick, || {
        let mut listener = Listener { now, earlier };
        let store = store.as_deref().map(Store::open).transpose()?;
        let mut calling = &link;
        let settings = Settings { minimum, attempts };
        let mut live = |judge: &dyn fedback_lab::measure::Judge| {
            let federation = plan.whole().map(|plan| plan.federation());
            let live =
                LiveRun { plan: &plan, federation, judge, transport: &mut calling, settings };
            run_live(live, store.as_ref().zip(id), from.as_ref(), &mut listener, stop)
        };
        match &plan {
            Built::Custom(_) if functions.check(&plan).is_err() => live(&WithoutData),
            Built::Custom(_) | Built::Whole(_) => live(&*functions.complete(plan.clone()).judge()),
        }
    });
    let made = Now::end(py, progress.as_ref()).and(made);
    if let Some(error) = link.raised() {
        return Err(error);
    }
    let inner = made?.map_err(raise)?;
    match &inner.ending {
        Ending::Interrupted => return Err(PyKeyboardInterrupt::new_err("interrupted")),
        Ending::Failed(why) if inner.failed.is_empty() => {
            return Err(raise(Error::Failed(why.clone())));
        }
        _ => {}
    }
    let exact = free(py, || plan.whole().and_then(Runnable::exact));
    let earlier = from.map(|from| from.records).unwrap_or_default();
    let records = earlier.into_iter().chain(now.take_records().into_iter().flatten()).collect();
    Ok(Outcome { inner: inner.with_exact(exact), records, id: id.map(|id| id.0) })
}

enum Prepared {
    Ready(Box<(Built, Option<RunId>, Option<StoredRun>)>),
    /// The run that was to be resumed has ended.
    Ended(Box<Outcome>),
}

fn prepare(
    document: &Document,
    point: Option<usize>,
    store: Option<&std::path::Path>,
    resume: Option<i64>,
) -> Result<Prepared, Error> {
    let origin = &document.0.origin;
    let mut points = document.0.points()?;
    let count = points.len();
    let place = point.unwrap_or(0);
    if place >= count || (point.is_none() && count > 1) {
        let why = format!("it has {count} points, and one is run at a time: name it");
        return Err(Error::input(origin, why));
    }
    let plan = Built::new(points.swap_remove(place), &document.0.directory, origin)?;
    let store = store.map(Store::open).transpose()?;
    let Some(number) = resume else {
        let id = store.as_ref().map(|store| begin(store, &plan, Vec::new())).transpose()?;
        return Ok(Prepared::Ready(Box::new((plan, id, None))));
    };
    let Some(store) = store else {
        return Err(Error::input("resume", "needs the store that has the run"));
    };
    let id = RunId(number);
    let reopened = reopen(&store, id)?;
    if reopened.plan.hash != plan.hash {
        let why = format!("run {number} is of another plan than {origin}: its spec or data differ");
        return Err(Error::input("resume", why));
    }
    if reopened.has_ended() {
        return Ok(Prepared::Ended(Box::new(Outcome::as_it_ended(reopened.run))));
    }
    Ok(Prepared::Ready(Box::new((reopened.plan, Some(id), Some(reopened.run.stored)))))
}

/// A Python transport as the library calls it.
struct Link {
    transport: Py<PyAny>,
    messages: Py<PyModule>,
    hash: String,
    /// Rounds, the point of a sweep, the run's number.
    about: (u64, Option<usize>, Option<i64>),
    layout: Layout,
    raised: Mutex<Option<PyErr>>,
    /// Set where somebody asked to stop.
    stop: AtomicBool,
}

impl Link {
    fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Calls Python; an exception ends the run and is raised where it was started.
    fn call<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, TransportError> {
        Python::attach(|py| {
            call(py).map_err(|error| {
                let stopped = error.is_instance_of::<PyKeyboardInterrupt>(py);
                let reason = error.to_string();
                let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
                raised.get_or_insert(error);
                if stopped { TransportError::Interrupted } else { TransportError::Broken(reason) }
            })
        })
    }
}

impl Transport for &Link {
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError> {
        self.call(|py| {
            let asked = || order.asked.iter();
            let repetitions = asked().map(|asked| asked.repetition as u32);
            let clients = asked().map(|asked| asked.client.0);
            let arguments = (
                &self.transport,
                (order.round.0, order.first_step.0, order.seed.0),
                (&self.hash, order.again, self.layout.broadcast(), self.layout.kept),
                floats(py, order.broadcasts.iter().copied()),
                pack(py, repetitions, u32::to_le_bytes),
                pack(py, clients, u32::to_le_bytes),
                floats(py, order.kept.iter().copied()),
                self.about,
            );
            self.messages.bind(py).getattr("ask")?.call1(arguments)?;
            Ok(())
        })
    }

    fn next(&mut self) -> Result<Arrival, TransportError> {
        loop {
            if let Some(arrival) = self.arrival()? {
                return Ok(arrival);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(TransportError::Interrupted);
            }
        }
    }

    fn refused(&mut self, sender: Sender, reason: &Refusal) {
        // What goes wrong in telling is raised at the end, like everything else.
        let _ = self.call(|py| {
            let arguments = (sender.repetition, sender.client.0, reason.to_string());
            self.transport.call_method1(py, "refused", arguments).map(|_| ())
        });
    }
}

impl Link {
    /// What came, if anything did.
    fn arrival(&self) -> Result<Option<Arrival>, TransportError> {
        self.call(|py| {
            let came = self.messages.bind(py).getattr("arrival")?.call1((&self.transport,))?;
            if came.is_none() {
                return Ok(None);
            }
            let came = came.cast_into::<PyTuple>()?;
            Ok(Some(match came.len() {
                5 => {
                    type Came<'py> = (u64, u64, u32, Bound<'py, PyBytes>, Bound<'py, PyBytes>);
                    let (round, repetition, client, delta, kept): Came<'_> = came.extract()?;
                    let client = ClientId(client);
                    let sender = Sender { round: Round(round), repetition, client };
                    let (delta, kept) = (to_floats(delta.as_bytes())?, to_floats(kept.as_bytes())?);
                    Arrival::Update { sender, update: Update { delta, kept } }
                }
                3 => {
                    let (client, reason, claimed): (u32, String, bool) = came.extract()?;
                    let client = ClientId(client);
                    match claimed {
                        true => Arrival::Claimed { client, reason },
                        false => Arrival::Absent { client, reason },
                    }
                }
                _ => Arrival::Deadline,
            }))
        })
    }
}

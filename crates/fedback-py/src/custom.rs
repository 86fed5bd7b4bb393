//! Parts of a problem that are Python functions.
//!
//! `draw(client, theta, n, rng) -> batch` is a population, `loss(theta, batch) -> (value, gradient)` a
//! loss. `python/fedback/_custom.py` checks what they return and names what is wrong with it. An
//! exception ends the run, and is raised there as it was.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use fedback_core::base::Base;
use fedback_core::federation::ClientId;
use fedback_core::stream::Streams;
use fedback_engine::plain::{BuiltInCursor, Gradients, Observations};
use fedback_engine::work::WorkError;
use fedback_lab::custom::Custom;
use fedback_lab::plan::{Built, CustomPlan};
use fedback_lab::runner::Runnable;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::numbers::{floats, to_floats};
use crate::run::misfit;

/// The functions of a problem.
pub struct Functions {
    draw: Option<Py<PyAny>>,
    loss: Option<Py<PyAny>>,
    checks: Py<PyModule>,
    raised: Mutex<Option<PyErr>>,
}

impl Functions {
    /// Takes what the user gave.
    pub fn new(py: Python<'_>, draw: Option<Py<PyAny>>, loss: Option<Py<PyAny>>) -> PyResult<Self> {
        let checks = py.import("fedback._custom")?.unbind();
        Ok(Functions { draw, loss, checks, raised: Mutex::new(None) })
    }

    /// Refuses functions that a plan has no use for, or lacks.
    pub fn check(&self, plan: &Built) -> PyResult<()> {
        let (population, loss) = match plan {
            Built::Whole(_) => (false, false),
            Built::Custom(plan) => {
                (plan.populations().population.is_none(), plan.populations().loss.is_none())
            }
        };
        for (name, key, wanted, given) in [
            ("draw", "problem.base.kind", population, self.draw.is_some()),
            ("loss", "problem.loss.kind", loss, self.loss.is_some()),
        ] {
            match (wanted, given) {
                (true, false) => {
                    return Err(misfit(key, &format!("\"custom\" needs a function {name}=…")));
                }
                (false, true) => {
                    let why = format!("is built in: leave {name} out, or set kind = \"custom\"");
                    return Err(misfit(key, &why));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A plan as it can be run, with the functions that it lacked.
    pub fn complete(&self, plan: Built) -> Box<dyn Runnable + '_> {
        match plan {
            Built::Whole(plan) => Box::new(plan),
            Built::Custom(plan) => {
                Box::new(Custom::new(plan.clone(), Parts::new(Cow::Owned(plan), self)))
            }
        }
    }

    /// The exception that ended a run, if one did.
    pub fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a plan and its functions are together.
pub struct Parts<'a> {
    plan: Cow<'a, CustomPlan>,
    functions: &'a Functions,
}

/// Where in a client's observations of one round a draw goes on.
pub enum Cursor {
    BuiltIn(BuiltInCursor),
    Python { client: u32, generator: Py<PyAny> },
}

/// Observations.
pub enum Batch {
    Rows(Observations),
    Object(Py<PyAny>),
}

impl<'a> Parts<'a> {
    /// Puts them together.
    pub fn new(plan: Cow<'a, CustomPlan>, functions: &'a Functions) -> Self {
        Parts { plan, functions }
    }

    /// Calls Python for a client; an exception is kept.
    fn call<T>(
        &self,
        client: u32,
        call: impl FnOnce(Python<'_>) -> PyResult<T>,
    ) -> Result<T, WorkError> {
        Python::attach(call).map_err(|error| {
            let reason = error.to_string();
            let mut raised = self.functions.raised.lock().unwrap_or_else(PoisonError::into_inner);
            raised.get_or_insert(error);
            WorkError { client, reason }
        })
    }

    fn check<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.functions.checks.bind(py).getattr(name)
    }

    /// Features of a row, without the intercept.
    fn features(&self) -> usize {
        self.plan.dim - usize::from(self.plan.populations().intercept)
    }

    /// Rows that a function returned, for a loss that is built in.
    fn rows(&self, batch: &Bound<'_, PyAny>, count: usize) -> PyResult<Observations> {
        let py = batch.py();
        let labelled =
            self.plan.populations().loss.is_some_and(|loss| loss != fedback_core::loss::Loss::Mean);
        let binary =
            matches!(self.plan.populations().loss, Some(fedback_core::loss::Loss::Logistic { .. }));
        let checked =
            self.check(py, "rows")?.call1((batch, count, self.features(), labelled, binary))?;
        let (features, labels): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = checked.extract()?;
        let features = to_floats(features.as_bytes())?;
        let features = match self.plan.populations().intercept {
            false => features,
            true => features
                .chunks_exact(self.features())
                .flat_map(|row| row.iter().copied().chain([1.0]))
                .collect(),
        };
        Ok(Observations { features, labels: to_floats(labels.as_bytes())? })
    }

    /// Built-in rows as a function sees them: an array, or features and labels.
    fn object<'py>(&self, py: Python<'py>, rows: &Observations) -> PyResult<Bound<'py, PyAny>> {
        let features = floats(py, rows.features.iter().copied());
        let labels = floats(py, rows.labels.iter().copied());
        self.check(py, "batch")?.call1((features, labels, self.plan.dim))
    }
}

impl Gradients for Parts<'_> {
    type Cursor = Cursor;
    type Batch = Batch;

    fn dim(&self) -> usize {
        self.plan.dim
    }

    fn cursor(&self, streams: Streams, client: ClientId) -> Result<Cursor, WorkError> {
        if self.functions.draw.is_none() {
            return Ok(Cursor::BuiltIn(BuiltInCursor::new(streams, client)));
        }
        let stream = streams.client(client.0);
        let key = (stream.word(0), stream.word(1));
        self.call(client.0, |py| {
            let generator = self.check(py, "generator")?.call1(key)?.unbind();
            Ok(Cursor::Python { client: client.0, generator })
        })
    }

    fn draw(
        &self,
        cursor: &mut Cursor,
        deployed: &[f64],
        count: usize,
    ) -> Result<Batch, WorkError> {
        match (cursor, &self.plan.populations().population, &self.functions.draw) {
            (Cursor::BuiltIn(cursor), Some((base, response)), _) => {
                Ok(Batch::Rows(cursor.draw(base, response, deployed, count)))
            }
            (Cursor::Python { client, generator }, _, Some(draw)) => self.call(*client, |py| {
                let theta = floats(py, deployed.iter().copied());
                let arguments = (draw, *client, theta, count, &*generator);
                let batch = self.check(py, "observe")?.call1(arguments)?;
                match self.plan.populations().loss {
                    Some(_) => self.rows(&batch, count).map(Batch::Rows),
                    None => Ok(Batch::Object(batch.unbind())),
                }
            }),
            // A plan's functions are checked before it is run.
            _ => Err(WorkError { client: 0, reason: "there is no population".into() }),
        }
    }

    fn everything(&self, client: ClientId, deployed: &[f64]) -> Result<Option<Batch>, WorkError> {
        Ok(match &self.plan.populations().population {
            Some((Base::Table(table), response)) => {
                let rows = Observations::everything(table, response, client.0 as usize, deployed);
                Some(Batch::Rows(rows))
            }
            _ => None,
        })
    }

    fn gradient(
        &self,
        client: ClientId,
        theta: &[f64],
        batch: &Batch,
        range: Option<Range<usize>>,
        out: &mut [f64],
    ) -> Result<f64, WorkError> {
        if let (Batch::Rows(rows), Some(loss)) = (batch, self.plan.populations().loss) {
            return Ok(rows.gradient(loss, self.plan.populations().intercept, theta, range, out));
        }
        self.call(client.0, |py| {
            let batch = match (batch, &range) {
                (Batch::Rows(rows), None) => self.object(py, rows)?,
                (Batch::Rows(rows), Some(range)) => {
                    self.object(py, &rows.part(range.clone(), self.plan.dim))?
                }
                (Batch::Object(batch), None) => batch.bind(py).clone(),
                (Batch::Object(batch), Some(range)) => {
                    self.check(py, "part")?.call1((batch, range.start, range.end))?
                }
            };
            let loss = &self.functions.loss;
            let loss = loss.as_ref().ok_or_else(|| misfit("loss", "there is no function"))?;
            let arguments = (loss, floats(py, theta.iter().copied()), batch);
            let (value, gradient): (f64, Bound<'_, PyBytes>) =
                self.check(py, "judge")?.call1(arguments)?.extract()?;
            out.copy_from_slice(&to_floats(gradient.as_bytes())?);
            Ok(value)
        })
    }
}

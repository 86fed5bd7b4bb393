//! Parts of a problem that are Python functions.
//!
//! They are asked for a block of clients at a time, all of a round and of all repetitions as far as they
//! fit. `python/fedback/_custom.py` makes arrays of what goes back and forth, calls functions that take
//! one client for each of them, checks what they return and names what is wrong with it. An exception
//! ends the run, and is raised there as it was.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use fedback_core::base::Base;
use fedback_core::loss::Loss;
use fedback_engine::plain::{Blocks, BuiltInCursor, Judged, Member, Observations};
use fedback_engine::work::WorkError;
use fedback_lab::custom::Custom;
use fedback_lab::plan::{Built, CustomPlan};
use fedback_lab::runner::Runnable;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::numbers::{array, fill, pack, to_floats};
use crate::run::misfit;
use crate::streams::Streams;

/// Numbers in the observations or in the models of a block: enough that a call of Python is the lesser
/// part, few enough to stay near a cache.
const BLOCK: usize = 1 << 19;
/// Numbers in an observation of a function, as a guess: models are often wider than what they are shown.
const WIDTH: usize = 64;

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
            Built::Custom(plan) => Box::new(self.custom(plan)),
        }
    }

    /// A custom plan with the functions that it lacked.
    pub fn custom(&self, plan: CustomPlan) -> Custom<Parts<'_>> {
        Custom::new(plan.clone(), Parts::new(Cow::Owned(plan), self))
    }

    /// Does work that calls them, on a thread that Python knows all the while: it would make a state for the
    /// thread, with a stack, at every call otherwise.
    pub fn served<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self.draw.is_some() || self.loss.is_some() {
            true => Python::attach(|py| py.detach(work)),
            false => work(),
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

/// Where in the observations of one round draws go on.
pub enum Cursor {
    BuiltIn(Vec<BuiltInCursor>),
    Python { first: u32, members: usize, cursor: Py<PyAny> },
}

/// Observations of a block's members.
pub enum Batch {
    Rows(Vec<Observations>),
    Object(Py<PyAny>),
}

impl<'a> Parts<'a> {
    /// Puts them together.
    pub fn new(plan: Cow<'a, CustomPlan>, functions: &'a Functions) -> Self {
        Parts { plan, functions }
    }

    /// Calls Python for a block that begins with a client; an exception is kept.
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

    /// Rows that a function returned, for a loss that is built in.
    fn rows(
        &self,
        batch: &Bound<'_, PyAny>,
        loss: Loss,
        members: usize,
        count: usize,
    ) -> PyResult<Vec<Observations>> {
        let intercept = self.plan.populations().intercept;
        let features = self.plan.dim - usize::from(intercept);
        let (labelled, binary) = match loss {
            Loss::Mean => (false, false),
            Loss::Squared { .. } => (true, false),
            Loss::Logistic { .. } => (true, true),
        };
        let check = self.check(batch.py(), "rows")?;
        let checked = check.call1((batch, members, count, features, labelled, binary))?;
        let (values, labels): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = checked.extract()?;
        let (values, labels) = (to_floats(values.as_bytes())?, to_floats(labels.as_bytes())?);
        let mut labels = labels.chunks_exact(count.max(1));
        let rows = values.chunks_exact((count * features).max(1)).map(|values| {
            let labels = labels.next().unwrap_or_default().to_vec();
            Observations::of_rows(values.to_vec(), labels, features, intercept)
        });
        Ok(rows.collect())
    }

    /// Built-in rows as a function sees them.
    fn object<'py>(
        &self,
        py: Python<'py>,
        rows: &[Observations],
        range: Option<&Range<usize>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (mut features, mut labels, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for one in rows {
            let whole = 0..one.features.len() / self.plan.dim;
            let range = range.unwrap_or(&whole);
            features.extend_from_slice(one.features_of(range, self.plan.dim));
            labels.extend_from_slice(one.labels_of(range));
            sizes.push(range.len());
        }
        let (features, labels) = (array(py, &features)?, array(py, &labels)?);
        self.check(py, "batch")?.call1((features, labels, self.plan.dim, sizes))
    }
}

impl Blocks for Parts<'_> {
    type Cursor = Cursor;
    type Batch = Batch;

    fn dim(&self) -> usize {
        self.plan.dim
    }

    fn together(&self, observations: Option<usize>) -> usize {
        let dim = self.plan.dim;
        let (each, width) = match &self.plan.populations().population {
            Some((Base::Table(table), _)) => {
                let rows = |client| table.block(client).1.len();
                let rows: usize = (0..self.plan.clients()).map(rows).sum();
                (observations.unwrap_or(rows.div_ceil(self.plan.clients())), dim)
            }
            Some((Base::Gaussian(_), _)) => (observations.unwrap_or(1), dim),
            None => (observations.unwrap_or(1), dim.min(WIDTH)),
        };
        (BLOCK / each.saturating_mul(width).max(dim).max(1)).max(1)
    }

    fn cursor(&self, members: &[Member]) -> Result<Cursor, WorkError> {
        let Some(draw) = &self.functions.draw else {
            let cursor = |member: &Member| BuiltInCursor::new(member.streams, member.client);
            return Ok(Cursor::BuiltIn(members.iter().map(cursor).collect()));
        };
        let first = members.first().map_or(0, |member| member.client.0);
        self.call(first, |py| {
            let clients = pack(py, members.iter().map(|m| m.client.0), u32::to_le_bytes);
            let begun = self.check(py, "begin")?.call1((draw, clients, Streams::new(members)))?;
            Ok(Cursor::Python { first, members: members.len(), cursor: begun.unbind() })
        })
    }

    fn draw(
        &self,
        cursor: &mut Cursor,
        deployed: &[f64],
        count: usize,
    ) -> Result<Batch, WorkError> {
        match (cursor, &self.plan.populations().population) {
            (Cursor::BuiltIn(cursors), Some((base, response))) => {
                let each = cursors.iter_mut().zip(deployed.chunks_exact(self.plan.dim));
                let draw = |(cursor, deployed): (&mut BuiltInCursor, &[f64])| {
                    cursor.draw(base, response, deployed, count)
                };
                Ok(Batch::Rows(each.map(draw).collect()))
            }
            (Cursor::Python { first, members, cursor }, _) => self.call(*first, |py| {
                let batch =
                    cursor.bind(py).call_method1("observe", (array(py, deployed)?, count))?;
                match self.plan.populations().loss {
                    Some(loss) => self.rows(&batch, loss, *members, count).map(Batch::Rows),
                    None => Ok(Batch::Object(batch.unbind())),
                }
            }),
            // A plan's functions are checked before it is run.
            (Cursor::BuiltIn(_), None) => {
                Err(WorkError { client: 0, reason: "there is no population".into() })
            }
        }
    }

    fn everything(&self, members: &[Member], deployed: &[f64]) -> Result<Option<Batch>, WorkError> {
        let Some((Base::Table(table), response)) = &self.plan.populations().population else {
            return Ok(None);
        };
        let each = members.iter().zip(deployed.chunks_exact(self.plan.dim));
        let rows = each.map(|(member, deployed)| {
            Observations::everything(table, response, member.client.0 as usize, deployed)
        });
        Ok(Some(Batch::Rows(rows.collect())))
    }

    fn gradients(
        &self,
        members: &[Member],
        theta: &[f64],
        batch: &Batch,
        range: Option<Range<usize>>,
        out: Judged<'_>,
    ) -> Result<(), WorkError> {
        let (dim, populations) = (self.plan.dim, self.plan.populations());
        if let (Batch::Rows(rows), Some(loss)) = (batch, populations.loss) {
            let models = theta.chunks_exact(dim).zip(out.gradients.chunks_exact_mut(dim));
            for ((rows, (theta, gradient)), value) in rows.iter().zip(models).zip(out.losses) {
                let intercept = populations.intercept;
                *value = rows.gradient(loss, intercept, theta, range.clone(), gradient);
            }
            return Ok(());
        }
        self.call(members.first().map_or(0, |member| member.client.0), |py| {
            let (batch, range) = match batch {
                Batch::Rows(rows) => (self.object(py, rows, range.as_ref())?, None),
                Batch::Object(batch) => (batch.bind(py).clone(), range),
            };
            let loss = self.functions.loss.as_ref();
            let loss = loss.ok_or_else(|| misfit("loss", "there is no function"))?;
            let Range { start, end } = range.unwrap_or(0..0);
            let arguments = (loss, array(py, theta)?, members.len(), batch, start, end);
            let judged = self.check(py, "judge")?.call1(arguments)?;
            let (losses, gradients): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = judged.extract()?;
            fill(out.losses, losses.as_bytes())?;
            fill(out.gradients, gradients.as_bytes())
        })
    }
}

//! A site of a real federation: the work of some clients, on order.

use std::borrow::Cow;

use fedback_core::federation::{ClientId, Federation};
use fedback_core::protocol::Round;
use fedback_core::stream::Seed;
use fedback_engine::plain::Plain;
use fedback_lab::plan::{Asked, CustomPlan, Given, Plan, SitePlan};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::custom::{Functions, Parts};
use crate::document::Document;
use crate::error::{InputError, RunError, raise};
use crate::numbers::{floats, to_floats, unpack};
use crate::supervise::free;
use crate::tables::{SiteTables, only};

/// Does the work of clients when a server asks for it.
#[pyclass(frozen)]
pub struct Site {
    plan: SitePlan,
    problem: Problem,
}

enum Problem {
    BuiltIn(Box<Federation>),
    Custom(Box<CustomPlan>, Functions),
}

#[pymethods]
impl Site {
    /// The site of a spec without sweep.
    #[new]
    #[pyo3(signature = (document, *, draw, loss, tables))]
    fn new(
        py: Python<'_>,
        document: &Document,
        draw: Option<Py<PyAny>>,
        loss: Option<Py<PyAny>>,
        tables: Option<&SiteTables>,
    ) -> PyResult<Self> {
        let inner = &document.0;
        let point = only(document)?;
        if let Some(tables) = tables {
            let build = || tables.0.site(&point, &inner.directory, &inner.origin);
            let (plan, federation) = free(py, build).map_err(raise)?;
            return Ok(Site { plan, problem: Problem::BuiltIn(Box::new(federation)) });
        }
        if point.spec.problem.custom_part().is_none() {
            let build = || Plan::site(point, &inner.directory, &inner.origin);
            let (plan, federation) = free(py, build).map_err(raise)?;
            return Ok(Site { plan, problem: Problem::BuiltIn(Box::new(federation)) });
        }
        let plan = CustomPlan::new(point, &inner.directory, &inner.origin).map_err(raise)?;
        let functions = Functions::new(py, draw, loss)?;
        functions.check(&fedback_lab::plan::Built::Custom(plan.clone()))?;
        let problem = Problem::Custom(Box::new(plan.clone()), functions);
        Ok(Site { plan: SitePlan::from(&plan), problem })
    }

    /// Names everything that decides the bits.
    #[getter]
    fn plan_hash(&self) -> &str {
        &self.plan.hash
    }

    /// Coordinates of θ.
    #[getter]
    fn dim(&self) -> usize {
        self.plan.dim
    }

    /// The number of clients of the whole federation.
    #[getter]
    fn clients(&self) -> usize {
        self.plan.weights.len()
    }

    /// Numbers that are broadcast for a repetition: θ, and what is sent with it.
    #[getter]
    fn broadcast(&self) -> usize {
        self.plan.layout().broadcast()
    }

    /// Numbers that a client keeps from one of its rounds to the next.
    #[getter]
    fn kept(&self) -> usize {
        self.plan.layout().kept
    }

    /// The updates that are asked for, a row a pair of repetition and client: what each client moved
    /// by, and what it keeps now.
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python function")]
    fn work<'py>(
        &self,
        py: Python<'py>,
        seed: u64,
        round: u64,
        repetitions: &[u8],
        clients: &[u8],
        broadcasts: &[u8],
        kept: &[u8],
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let layout = self.plan.layout();
        let repetitions = unpack(repetitions, u32::from_le_bytes)?;
        let clients = unpack(clients, u32::from_le_bytes)?;
        let (broadcasts, kept) = (to_floats(broadcasts)?, to_floats(kept)?);
        let models = broadcasts.len() / layout.broadcast();
        let fits = repetitions.len() == clients.len()
            && broadcasts.len() == models * layout.broadcast()
            && kept.len() == clients.len() * layout.kept
            && repetitions.iter().all(|r| (*r as usize) < models)
            && clients.iter().all(|c| (*c as usize) < layout.clients);
        if !fits {
            let why = format!(
                "an order for other shapes: {} repetitions, {} clients, {} numbers in models, {} \
                 that clients keep; here are {} clients, {} coordinates, {} numbers kept",
                repetitions.len(),
                clients.len(),
                broadcasts.len(),
                kept.len(),
                layout.clients,
                layout.dim,
                layout.kept
            );
            return Err(InputError::new_err(why));
        }
        let asked: Vec<Asked> = repetitions
            .iter()
            .zip(&clients)
            .map(|(&repetition, &client)| Asked { repetition, client: ClientId(client) })
            .collect();
        let key = (Seed(seed), Round(round));
        let given = Given { asked: &asked, broadcasts: &broadcasts, kept: &kept };
        let updates = free(py, || match &self.problem {
            Problem::BuiltIn(federation) => self
                .plan
                .work(&**federation, key, given)
                .map_err(|error| RunError::new_err(error.to_string())),
            Problem::Custom(plan, functions) => {
                let parts = Parts::new(Cow::Borrowed(plan), functions);
                let work = Plain { gradients: parts, weights: self.plan.weights.clone() };
                self.plan.work(&work, key, given).map_err(|error| {
                    let raised = functions.raised();
                    raised.unwrap_or_else(|| RunError::new_err(error.to_string()))
                })
            }
        })?;
        Ok((floats(py, updates.deltas), floats(py, updates.kept)))
    }
}

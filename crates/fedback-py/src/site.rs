//! A site of a real federation: the work of some clients, on order.

use fedback_core::federation::{ClientId, Federation};
use fedback_core::protocol::Round;
use fedback_core::stream::Seed;
use fedback_engine::algorithm::plain::Plain;
use fedback_lab::plan::{Asked, CustomPlan, Plan, SitePlan};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::custom::{Functions, Parts};
use crate::document::Document;
use crate::error::{InputError, RunError, raise};
use crate::numbers::{floats, to_floats, unpack};
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
            let (plan, federation) = py.detach(build).map_err(raise)?;
            return Ok(Site { plan, problem: Problem::BuiltIn(Box::new(federation)) });
        }
        if point.spec.problem.custom_part().is_none() {
            let build = || Plan::site(point, &inner.directory, &inner.origin);
            let (plan, federation) = py.detach(build).map_err(raise)?;
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

    /// The updates that are asked for: one row a pair of repetition and client.
    fn work<'py>(
        &self,
        py: Python<'py>,
        seed: u64,
        round: u64,
        repetitions: &[u8],
        clients: &[u8],
        thetas: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let dim = self.plan.dim;
        let repetitions = unpack(repetitions, u32::from_le_bytes)?;
        let clients = unpack(clients, u32::from_le_bytes)?;
        let thetas = to_floats(thetas)?;
        let models = thetas.len() / dim;
        let fits = repetitions.len() == clients.len()
            && thetas.len() == models * dim
            && repetitions.iter().all(|r| (*r as usize) < models)
            && clients.iter().all(|c| (*c as usize) < self.plan.weights.len());
        if !fits {
            let why = format!(
                "an order for other shapes: {} repetitions, {} clients, {} numbers in models; \
                 here are {} clients and {dim} coordinates",
                repetitions.len(),
                clients.len(),
                thetas.len(),
                self.plan.weights.len()
            );
            return Err(InputError::new_err(why));
        }
        let asked: Vec<Asked> = repetitions
            .iter()
            .zip(&clients)
            .map(|(&repetition, &client)| Asked { repetition, client: ClientId(client) })
            .collect();
        let key = (Seed(seed), Round(round));
        let deltas = py.detach(|| match &self.problem {
            Problem::BuiltIn(federation) => self
                .plan
                .work(&**federation, key, &asked, &thetas)
                .map_err(|error| RunError::new_err(error.to_string())),
            Problem::Custom(plan, functions) => {
                let parts = Parts::new(plan, functions);
                let work = Plain { gradients: parts, weights: self.plan.weights.clone() };
                self.plan.work(&work, key, &asked, &thetas).map_err(|error| {
                    let raised = work.gradients.raised();
                    raised.unwrap_or_else(|| RunError::new_err(error.to_string()))
                })
            }
        })?;
        Ok(floats(py, deltas))
    }
}

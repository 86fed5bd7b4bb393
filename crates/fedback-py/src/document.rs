//! Specs on their way in: JSON text of Python's dictionaries, or TOML files.

use std::path::PathBuf;

use fedback_lab::error::Error;
use fedback_lab::experiment::Experiment;
use fedback_lab::plan::Built;
use fedback_lab::spec::{Document as Inner, Point};
use pyo3::prelude::*;

use crate::error::{InputError, raise};
use crate::supervise::free;

/// A spec as the library reads it.
#[pyclass(frozen)]
#[derive(Clone)]
pub struct Document(pub Inner);

#[pymethods]
impl Document {
    /// A spec from JSON text; relative paths start in `directory`.
    #[new]
    fn new(json: &str, origin: &str, directory: PathBuf) -> PyResult<Self> {
        let fail = |error: serde_json::Error| InputError::new_err(format!("{origin}: {error}"));
        let table: toml::Table = serde_json::from_str(json).map_err(fail)?;
        Ok(Document(Inner::of(table, origin, directory)))
    }

    /// A spec file.
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<Self> {
        Inner::read(&path).map(Document).map_err(raise)
    }

    /// TOML text.
    #[staticmethod]
    fn parse(text: &str, origin: &str) -> PyResult<Self> {
        Inner::parse(text, origin).map(Document).map_err(raise)
    }

    /// The same with `path.to.key=value` set.
    fn set(&self, assignments: Vec<String>) -> PyResult<Self> {
        let mut inner = self.0.clone();
        assignments.iter().try_for_each(|assignment| inner.set(assignment)).map_err(raise)?;
        Ok(Document(inner))
    }

    /// The spec of one point of its sweep.
    fn at(&self, which: usize) -> PyResult<Self> {
        self.0.at(which).map(Document).map_err(raise)
    }

    /// What the points of its sweep set, as JSON; one that sets nothing where there is no sweep.
    fn points(&self) -> PyResult<Vec<String>> {
        let points = self.0.points().map_err(raise)?;
        let set = |point: &Point| serde_json::to_string(&point.set).unwrap_or_default();
        Ok(points.iter().map(set).collect())
    }

    #[getter]
    fn json(&self) -> String {
        serde_json::to_string(self.0.table()).unwrap_or_default()
    }

    #[getter]
    fn toml(&self) -> String {
        toml::to_string(self.0.table()).unwrap_or_default()
    }

    #[getter]
    fn directory(&self) -> PathBuf {
        self.0.directory.clone()
    }

    #[getter]
    fn origin(&self) -> String {
        self.0.origin.clone()
    }

    /// What a run would have to do with, without anything being run: (N, d, hash, swept).
    fn shape(&self, py: Python<'_>) -> PyResult<(usize, usize, String, bool)> {
        let (plans, swept) = free(py, || self.plans()).map_err(raise)?;
        let plan = &plans[0];
        Ok((plan.clients(), plan.dim, plan.hash.clone(), swept))
    }
}

impl Document {
    /// The plans of a problem that is built in.
    pub fn experiment(&self) -> Result<Experiment, Error> {
        Experiment::new(&self.0)
    }

    /// The plans of whatever problem, and whether they are points of a sweep.
    pub fn plans(&self) -> Result<(Vec<Built>, bool), Error> {
        let points = self.0.points()?;
        let swept = points.iter().any(|point| !point.set.is_empty());
        let plan = |point| Built::new(point, &self.0.directory, &self.0.origin);
        Ok((points.into_iter().map(plan).collect::<Result<_, _>>()?, swept))
    }
}

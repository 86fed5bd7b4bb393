//! Rows that only their site can read: sums of them, and what all sites' sums make.

use std::path::PathBuf;

use fedback_lab::error::Error;
use fedback_lab::plan::{Census, SiteTables as Inner};
use fedback_lab::spec::Point;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::document::Document;
use crate::error::{raise, wrong};
use crate::numbers::{floats, to_floats};

/// The tables of the clients that a site holds.
#[pyclass(frozen)]
pub struct SiteTables(pub Inner);

#[pymethods]
impl SiteTables {
    /// Reads a CSV file for every client held.
    #[new]
    fn new(document: &Document, files: Vec<(usize, PathBuf)>) -> PyResult<Self> {
        let point = only(document)?;
        Inner::read(&point.spec, &files, &document.0.origin).map(SiteTables).map_err(raise)
    }

    /// For every client: its number, its count of rows, the sum of every feature.
    fn sums<'py>(&self, py: Python<'py>) -> Vec<(usize, u64, Bound<'py, PyBytes>)> {
        let sums = self.0.sums().into_iter();
        sums.map(|(client, rows, sums)| (client, rows, floats(py, sums))).collect()
    }

    /// For every client: its number, and the sum of every feature's squared distance to a mean.
    fn squares<'py>(
        &self,
        py: Python<'py>,
        mean: &[u8],
    ) -> PyResult<Vec<(usize, Bound<'py, PyBytes>)>> {
        let squares = self.0.squares(&to_floats(mean)?).into_iter();
        Ok(squares.map(|(client, squares)| (client, floats(py, squares))).collect())
    }
}

/// The only point of a spec.
pub fn only(document: &Document) -> PyResult<Point> {
    let mut points = document.0.points().map_err(raise)?;
    match (points.pop(), points.is_empty()) {
        (Some(point), true) => Ok(point),
        _ => {
            let why = "has a sweep; a site works on one point";
            Err(raise(Error::input(&document.0.origin, why)))
        }
    }
}

/// The mean of every feature, from every client's count and sums.
#[pyfunction]
pub fn census_mean<'py>(
    py: Python<'py>,
    rows: Vec<u64>,
    sums: Vec<Vec<f64>>,
) -> Bound<'py, PyBytes> {
    floats(py, Census::new(rows, sums).mean)
}

/// The standard deviation of every feature, from every client's sums of squares.
#[pyfunction]
pub fn census_sd<'py>(
    py: Python<'py>,
    rows: Vec<u64>,
    mean: Vec<f64>,
    squares: Vec<Vec<f64>>,
    features: Vec<String>,
) -> PyResult<Bound<'py, PyBytes>> {
    let sd = Census { rows, mean }.deviations(squares, &features).map_err(wrong)?;
    Ok(floats(py, sd))
}

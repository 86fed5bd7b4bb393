//! The paper's experiments, the table they need, and the schema of specs.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use fedback_lab::spec::Spec;
use fedback_paper::credit_data;
use fedback_paper::reproduce::{self as paper, Request};
use pyo3::prelude::*;

use crate::error::raise;
use crate::supervise::supervise;

/// Reproduces figures: the path of the page, the verdicts as JSON text, and what was left out.
#[pyfunction]
#[pyo3(signature = (figures, *, out, quick, seed))]
pub fn reproduce(
    py: Python<'_>,
    figures: Vec<String>,
    out: PathBuf,
    quick: bool,
    seed: Option<u64>,
) -> PyResult<(PathBuf, String, Vec<String>)> {
    let stop = AtomicBool::new(false);
    let request = Request { figures, quick, seed, folder: out };
    let work = || paper::reproduce(&request, &mut (), &stop);
    let done = supervise(py, None, &stop, |_| Ok(()), work)?.map_err(raise)?;
    Ok((done.page, done.report.verdicts().to_string(), done.left_out))
}

/// The credit table in the user's cache, fetched where it is not there: its path, and what is to be
/// said of its bytes.
#[pyfunction]
#[pyo3(signature = (file))]
pub fn credit(py: Python<'_>, file: Option<PathBuf>) -> PyResult<(PathBuf, Option<&'static str>)> {
    let stop = AtomicBool::new(false);
    let work = || credit_data::provide(file.as_deref(), &|_| (), &stop);
    let fetched = supervise(py, None, &stop, |_| Ok(()), work)?.map_err(raise)?;
    let doubt = fetched.doubt();
    Ok((fetched.path, doubt))
}

/// The JSON schema of specs, as text.
#[pyfunction]
pub fn schema() -> String {
    Spec::schema().to_string()
}

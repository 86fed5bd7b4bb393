//! The paper's experiments, the table they need, and the schema of specs.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use fedback_lab::credit::Recognised;
use fedback_lab::credit::fetch;
use fedback_lab::error::Error;
use fedback_lab::experiment::run_unrecorded;
use fedback_lab::paper::{FIGURES, PaperFigure, figure, report};
use fedback_lab::spec::Spec;
use pyo3::prelude::*;

use crate::error::raise;
use crate::question::Silent;
use crate::supervise::supervise;

/// Reproduces figures: the path of the page, the verdicts as JSON text, and what was left out.
#[pyfunction]
pub fn reproduce(
    py: Python<'_>,
    figures: Vec<String>,
    out: PathBuf,
    quick: bool,
) -> PyResult<(PathBuf, String, Vec<String>)> {
    let stop = AtomicBool::new(false);
    let work = || -> Result<(PathBuf, String, Vec<String>), Error> {
        let chosen: Vec<&PaperFigure> = match figures.is_empty() {
            true => FIGURES.iter().collect(),
            false => figures.iter().map(|id| figure(id)).collect::<Result<_, _>>()?,
        };
        let (mut sections, mut missing) = (Vec::new(), Vec::new());
        for figure in chosen {
            match figure.missing() {
                Some(why) => missing.push(why),
                None => {
                    let run = |plan: &_| run_unrecorded(plan, &mut Silent, &stop);
                    sections.push(figure.section(&figure.study(quick, None, run)?));
                }
            }
        }
        let report = report(sections, quick);
        let page = report.write(&out)?;
        Ok((page, report.verdicts().to_string(), missing))
    };
    supervise(py, &stop, |_| Ok(()), work)?.map_err(raise)
}

/// The credit table in the user's cache, fetched where it is not there: its path, and whether its bytes are
/// those that results were verified with.
#[pyfunction]
#[pyo3(signature = (file))]
pub fn credit(py: Python<'_>, file: Option<PathBuf>) -> PyResult<(PathBuf, bool)> {
    let stop = AtomicBool::new(false);
    let work = || -> Result<(PathBuf, bool), Error> {
        let fetched = match &file {
            Some(path) => fetch::from_file(path)?,
            None => match fetch::present()? {
                Some(present) => present,
                None => fetch::with_pip(&stop)?,
            },
        };
        Ok((fetched.path, fetched.recognised == Recognised::ByHash))
    };
    supervise(py, &stop, |_| Ok(()), work)?.map_err(raise)
}

/// The JSON schema of specs, as text.
#[pyfunction]
pub fn schema() -> String {
    Spec::schema().to_string()
}

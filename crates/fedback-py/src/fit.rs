//! `fit`: from observations to a spec.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use fedback_core::stream::Seed;
use fedback_fit::model::{Direction, Shape};
use fedback_lab::error::Error;
use fedback_lab::fit::{self as lab, Columns, Question};
use pyo3::prelude::*;

use crate::error::raise;
use crate::run::misfit;
use crate::supervise::supervise;

/// Fits a response, writes its folder, and returns the JSON and the warnings.
#[pyfunction]
#[pyo3(signature = (data, deployments, *, output, client, deployment, individual, label, ignore,
    response, features, shape, reference, confidence, seed, force))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
pub fn fit(
    py: Python<'_>,
    data: PathBuf,
    deployments: PathBuf,
    output: PathBuf,
    client: String,
    deployment: String,
    individual: Option<String>,
    label: Option<String>,
    ignore: Vec<String>,
    response: Option<String>,
    features: Option<Vec<String>>,
    shape: Option<String>,
    reference: Option<String>,
    confidence: f64,
    seed: u64,
    force: bool,
) -> PyResult<(String, Vec<String>)> {
    let response = match response.as_deref() {
        None => None,
        Some("best-response") => Some(Direction::BestResponse),
        Some("location") => Some(Direction::Location),
        Some(other) => {
            let why = format!("found {other}; allowed: best-response, location");
            return Err(misfit("response", &why));
        }
    };
    let shape = match shape.as_deref() {
        None | Some("auto") => None,
        Some("scalar") => Some(Shape::Scalar),
        Some("vector") => Some(Shape::Vector),
        Some("matrix") => Some(Shape::Matrix),
        Some(other) => {
            let why = format!("found {other}; allowed: auto, scalar, vector, matrix");
            return Err(misfit("shape", &why));
        }
    };
    let columns = Columns { client, deployment, individual, label, ignore };
    let question = Question { response, features, shape, reference, confidence, seed: Seed(seed) };
    let work = || -> Result<(String, Vec<String>), Error> {
        let (files, output) = ((&*data, &*deployments), (&*output, force));
        let (fitted, folder) = lab::fit(files, &columns, &question, output)?;
        Ok((fitted.to_json(&folder).to_string(), fitted.all_warnings()))
    };
    supervise(py, None, &AtomicBool::new(false), |_| Ok(()), work)?.map_err(raise)
}

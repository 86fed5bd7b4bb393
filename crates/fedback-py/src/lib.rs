//! The Python package's compiled half: thin functions over the library, results as JSON text and
//! NumPy arrays. `python/fedback` is what users see.

mod custom;
mod document;
mod error;
mod federate;
mod fit;
mod now;
mod numbers;
mod outcome;
mod paper;
mod question;
mod run;
mod site;
mod store;
mod streams;
mod supervise;
mod tables;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The compiled half of fedback.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    supervise::imported();
    if let Some(threads) = fedback_lab::threads::of_pool(None) {
        // It fails where there is a pool already, which then is not ours to choose.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("STREAM_FORMAT", fedback_core::stream::STREAM_FORMAT)?;
    module.add("InputError", py.get_type::<error::InputError>())?;
    module.add("RunError", py.get_type::<error::RunError>())?;
    module.add_class::<document::Document>()?;
    module.add_class::<now::Now>()?;
    module.add_class::<outcome::Outcome>()?;
    module.add_class::<site::Site>()?;
    module.add_class::<streams::Streams>()?;
    module.add_class::<tables::SiteTables>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(tables::census_mean, module)?)?;
    module.add_function(wrap_pyfunction!(tables::census_sd, module)?)?;
    module.add_function(wrap_pyfunction!(outcome::figure, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::resume, module)?)?;
    module.add_function(wrap_pyfunction!(run::replay, module)?)?;
    module.add_function(wrap_pyfunction!(federate::begin_all, module)?)?;
    module.add_function(wrap_pyfunction!(federate::federate, module)?)?;
    module.add_function(wrap_pyfunction!(question::exact, module)?)?;
    module.add_function(wrap_pyfunction!(question::solve, module)?)?;
    module.add_function(wrap_pyfunction!(question::bounds, module)?)?;
    module.add_function(wrap_pyfunction!(question::check, module)?)?;
    module.add_function(wrap_pyfunction!(question::plan, module)?)?;
    module.add_function(wrap_pyfunction!(fit::fit, module)?)?;
    module.add_function(wrap_pyfunction!(paper::reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(paper::credit, module)?)?;
    module.add_function(wrap_pyfunction!(paper::schema, module)?)?;
    module.add_function(wrap_pyfunction!(store::runs, module)?)?;
    module.add_function(wrap_pyfunction!(store::load, module)?)?;
    module.add_function(wrap_pyfunction!(store::show, module)?)?;
    module.add_function(wrap_pyfunction!(store::differing, module)?)?;
    module.add_function(wrap_pyfunction!(store::note, module)?)?;
    module.add_function(wrap_pyfunction!(store::rm, module)?)?;
    module.add_function(wrap_pyfunction!(store::write_bundle, module)?)?;
    module.add_function(wrap_pyfunction!(store::write_npz, module)?)?;
    module.add_function(wrap_pyfunction!(store::import_bundle, module)?)?;
    module.add_function(wrap_pyfunction!(store::score, module)?)?;
    Ok(())
}

/// The command `fedback` with a command line, in a process of its own; its exit code.
#[pyfunction]
fn command(py: Python<'_>, line: Vec<OsString>) -> u8 {
    py.detach(|| fedback::cli::main(line))
}

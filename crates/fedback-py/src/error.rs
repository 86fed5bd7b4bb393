//! The library's errors as Python exceptions.

use fedback_lab::error::Error;
use fedback_lab::spec::KeyError;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(fedback, InputError, PyValueError, "The input was wrong; nothing was written.");
create_exception!(
    fedback,
    RunError,
    PyRuntimeError,
    "The run failed; what was recorded is kept, and `run` holds what it left."
);

/// The exception that an error becomes.
pub fn raise(error: Error) -> PyErr {
    match error {
        Error::Input(message) => InputError::new_err(message),
        Error::Question(error) => wrong(error),
        Error::Failed(message) | Error::Unfinished(message) => RunError::new_err(message),
        Error::Interrupted(message) => PyKeyboardInterrupt::new_err(message),
    }
}

/// The exception that a wrong argument becomes.
pub fn wrong(error: KeyError) -> PyErr {
    InputError::new_err(error.to_string())
}

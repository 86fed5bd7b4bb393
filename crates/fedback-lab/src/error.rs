//! What can go wrong, in one message, with the exit code that goes with it.

use std::fmt;

use fedback_engine::backend::AssemblyError;

use crate::spec::KeyError;

/// An error for a person to read.
#[derive(Debug)]
pub enum Error {
    /// The input was wrong; nothing was written. Exit code 2.
    Input(String),
    /// A question was asked with a value that makes no sense, named by its field; nothing was
    /// written. Exit code 2.
    Question(KeyError),
    /// The run failed; what was recorded is kept. Exit code 1.
    Failed(String),
    /// What was asked about has not ended yet. Exit code 3.
    Unfinished(String),
    /// The user asked to stop. Exit code 130.
    Interrupted(String),
}

impl Error {
    /// Wrong input: where, and what.
    pub fn input(place: impl fmt::Display, message: impl fmt::Display) -> Self {
        Error::Input(format!("{place}: {message}"))
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Failed(_) => 1,
            Error::Input(_) | Error::Question(_) => 2,
            Error::Unfinished(_) => 3,
            Error::Interrupted(_) => 130,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Question(error) => error.fmt(f),
            Error::Input(message)
            | Error::Failed(message)
            | Error::Unfinished(message)
            | Error::Interrupted(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

impl From<AssemblyError> for Error {
    fn from(error: AssemblyError) -> Self {
        Error::Input(error.to_string())
    }
}

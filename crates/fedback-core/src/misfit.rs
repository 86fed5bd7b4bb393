//! Parts that do not go together, and questions that have no answer.
//!
//! Both name the part by its key in a spec, so that the library, the command and Python refuse the
//! same thing in the same words.

/// Why a problem or a protocol cannot exist: a part of it, and what is wrong with that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {reason}")]
pub struct Misfit {
    /// The part, by its key in a spec.
    pub part: &'static str,
    /// What was found, and what is allowed.
    pub reason: String,
}

impl Misfit {
    /// A part that does not fit.
    pub fn new(part: &'static str, reason: impl Into<String>) -> Self {
        Misfit { part, reason: reason.into() }
    }
}

/// Why there is no answer for a problem and a protocol that do exist: a part that whoever was asked
/// does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {reason}")]
pub struct Unsupported {
    /// The part, by its key in a spec.
    pub part: &'static str,
    /// What is not known, and what is.
    pub reason: String,
}

impl Unsupported {
    /// A part that is not known.
    pub fn new(part: &'static str, reason: impl Into<String>) -> Self {
        Unsupported { part, reason: reason.into() }
    }
}

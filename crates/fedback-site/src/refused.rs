//! Why a question is not answered.

/// Why a question is not answered: what is told, and what stays in the site's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The reason, in words of ours.
    pub reason: String,
    /// More of it, for the site alone.
    pub detail: Option<String>,
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Refused { reason, detail: None }
    }
}

impl From<&str> for Refused {
    fn from(reason: &str) -> Self {
        reason.to_string().into()
    }
}

impl Refused {
    /// Something went wrong at the site, which is nobody else's business.
    pub(crate) fn inside(what: &str, error: impl std::fmt::Display) -> Self {
        let reason = format!("{what}; the site's log says why");
        Refused { reason, detail: Some(error.to_string()) }
    }
}

//! Answers, and what is said instead of one.

use axum::Json;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fedback_lab::error::Error;
use fedback_lab::store::StoreError;
use serde_json::json;

/// Why there is no answer, in words for whoever looks at the page.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    words: String,
}

impl Refusal {
    pub fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Refusal { status, words: words.into() }
    }

    /// The question makes no sense.
    pub fn question(words: impl Into<String>) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, words)
    }

    /// What is asked about is not there.
    pub fn missing(words: impl Into<String>) -> Self {
        Refusal::new(StatusCode::NOT_FOUND, words)
    }

    pub fn words(&self) -> &str {
        &self.words
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.words }))).into_response()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Input(_) | Error::Question(_) => StatusCode::BAD_REQUEST,
            Error::Failed(_) | Error::Unfinished(_) | Error::Interrupted(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        Refusal::new(status, error.to_string())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::UnknownRun { .. } => StatusCode::NOT_FOUND,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refusal::new(status, error.to_string())
    }
}

pub type Answer = Result<Response, Refusal>;

/// Does what takes time beside the thread that answers.
pub async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        let why = "fedback stopped working on this answer, which is its own mistake: please report \
                   what you asked for";
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why))
    })
}

/// Text that is JSON already.
pub fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A picture. Its own style sheet is inside of it, which a page's policy says nothing of.
pub fn svg(text: String) -> Response {
    const ALONE: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, ALONE),
    ];
    (headers, text).into_response()
}

/// A file to be kept.
pub fn csv(name: &str, text: String) -> Response {
    let headers: [(HeaderName, String); 2] = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".into()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, text).into_response()
}

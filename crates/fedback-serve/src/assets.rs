//! What a browser loads: one page, its style and its modules, inside the binary.

use axum::extract::Path;
use axum::http::header;
use axum::response::IntoResponse;

use crate::answer::{Answer, Refusal};

const PAGE: &str = include_str!("../assets/page.html");

const FILES: [(&str, &str); 12] = [
    ("icon.svg", include_str!("../assets/icon.svg")),
    ("page.css", include_str!("../assets/page.css")),
    ("main.js", include_str!("../assets/main.js")),
    ("ask.js", include_str!("../assets/ask.js")),
    ("elements.js", include_str!("../assets/elements.js")),
    ("fields.js", include_str!("../assets/fields.js")),
    ("figure.js", include_str!("../assets/figure.js")),
    ("form.js", include_str!("../assets/form.js")),
    ("runs.js", include_str!("../assets/runs.js")),
    ("run.js", include_str!("../assets/run.js")),
    ("compare.js", include_str!("../assets/compare.js")),
    ("what-if.js", include_str!("../assets/what-if.js")),
];

pub async fn page() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE)
}

pub async fn file(Path(name): Path<String>) -> Answer {
    let found = FILES.iter().find(|(own, _)| *own == name);
    let (name, text) = found.ok_or_else(|| Refusal::missing("there is no such file"))?;
    let kind = match name.rsplit('.').next() {
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    };
    Ok(([(header::CONTENT_TYPE, kind)], *text).into_response())
}

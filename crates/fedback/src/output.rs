//! Text for people: standard output in one piece, complaints on standard error.

use std::io::Write;

use crate::lab::error::Error;
pub use crate::lab::whole_file::write as write_file;
use crate::lab::words::short;
use serde_json::Value;

/// Writes to standard output. A reader that went away (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Failed(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes one JSON document to standard output.
pub fn print_json(value: &Value) -> Result<(), Error> {
    print(&format!("{value}\n"))
}

/// Writes a line to standard error, whatever names and cells are quoted in it; where that is closed
/// there is nobody to tell.
pub fn complain(message: &str) {
    let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes a figure; one that is named like another format is refused.
pub fn write_svg(path: &std::path::Path, svg: &str) -> Result<(), Error> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if matches!(ending.to_ascii_lowercase().as_str(), "png" | "pdf" | "eps" | "jpg" | "jpeg") {
        let why = "figures are written as .svg; for other formats use Python, as in \
                   fedback.load(1).plot(size=\"single\").figure.savefig(\"figure.pdf\"), or convert \
                   the SVG, as in rsvg-convert -f pdf figure.svg";
        return Err(Error::input(path.display(), why));
    }
    write_file(path, svg)
}

/// A count with its noun: one, or so many.
pub fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A vector, shortened in the middle.
pub fn short_vector(values: &[f64]) -> String {
    format!("[{}]", short_list(&values.iter().map(|value| short(*value)).collect::<Vec<_>>()))
}

/// A list, shortened in the middle where a vector is.
pub fn short_list(all: &[String]) -> String {
    match all.len() {
        0..=12 => all.join(", "),
        n => format!("{}, …, {}", all[..6].join(", "), all[n - 3..].join(", ")),
    }
}

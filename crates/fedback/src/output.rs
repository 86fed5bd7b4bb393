//! Text for people: standard output in one piece, complaints on standard error, tables, numbers.

use std::io::Write;

use fedback::lab::error::Error;
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

/// Writes a file, naming it in the error.
pub fn write_file(path: &std::path::Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text)
        .map_err(|error| Error::Failed(format!("{} cannot be written: {error}", path.display())))
}

/// A table: numbers to the right, words to the left.
pub fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(header.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let wordy = |column: usize| {
        let word = |cell: &String| cell.parse::<f64>().is_err() && cell != NOTHING;
        rows.iter().filter_map(|row| row.get(column)).any(word)
    };
    let widths: Vec<(usize, bool)> = (0..header.len()).map(|c| (width(c), wordy(c))).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            let padding = " ".repeat(width.0 - cell.chars().count());
            if width.1 { format!("{cell}{padding}") } else { format!("{padding}{cell}") }
        });
        format!("  {}\n", cells.collect::<Vec<_>>().join("   ").trim_end())
    };
    std::iter::once(line(header)).chain(rows.iter().map(|row| line(row))).collect()
}

/// What stands for a number that is not there.
const NOTHING: &str = "–";

/// A number to four significant digits.
pub fn short(number: f64) -> String {
    let size = number.abs();
    if number.is_nan() {
        NOTHING.into()
    } else if size == 0.0 || (1e-3..1e6).contains(&size) {
        // The exponent after rounding: 99.996 is 100.0, not 100.00.
        let scientific = format!("{size:.3e}");
        let exponent: i32 = scientific.split('e').nth(1).map_or(0, |e| e.parse().unwrap_or(0));
        let digits = (3 - exponent).max(0) as usize;
        if size == 0.0 { "0".into() } else { format!("{number:.digits$}") }
    } else {
        format!("{number:.3e}")
    }
}

/// A count with its noun: one, or so many.
pub fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A vector, shortened in the middle.
pub fn short_vector(values: &[f64]) -> String {
    let shown: Vec<String> = match values.len() {
        0..=12 => values.iter().map(|v| short(*v)).collect(),
        n => {
            let ends = values[..6].iter().map(|v| short(*v)).chain(["…".into()]);
            ends.chain(values[n - 3..].iter().map(|v| short(*v))).collect()
        }
    };
    format!("[{}]", shown.join(", "))
}

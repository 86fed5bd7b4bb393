//! Recorded latencies from CSV: the columns `client` and `seconds`, or one column per client.
//!
//! Clients go by the names that the data give them, otherwise by their numbers from 0 on.

use std::path::Path;

use fedback_core::arrivals::Trace;
use sha2::{Digest, Sha256};

use crate::csv_file::CsvFile;

/// A trace, and the digest of the file it was read from.
pub struct TraceFile {
    /// The latencies of every client.
    pub trace: Trace,
    /// Of the file's bytes.
    pub digest: Vec<u8>,
}

/// Reads the latencies of `clients`, or says in one sentence what is wrong and where.
pub fn read(path: &Path, clients: &[String]) -> Result<TraceFile, String> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let latencies = parse(&bytes, clients).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(TraceFile { trace: Trace::new(&latencies), digest: Sha256::digest(&bytes).to_vec() })
}

fn parse(bytes: &[u8], clients: &[String]) -> Result<Vec<Vec<f64>>, String> {
    let mut file = CsvFile::new(bytes)?;
    let names = file.names.clone();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let listed = match names[..] {
        ["client", "seconds"] => Some((0, 1)),
        ["seconds", "client"] => Some((1, 0)),
        _ => None,
    };
    let number_of = |name: &str| {
        clients.iter().position(|client| client == name).ok_or_else(|| {
            format!("found the client \"{name}\"; the clients are: {}", shortened(clients))
        })
    };
    let needed = "needed: a column for each, or the columns client and seconds";
    let columns = match listed {
        Some(_) => Vec::new(),
        None => names
            .iter()
            .map(|name| number_of(name).map_err(|why| format!("line 1: {why}; {needed}")))
            .collect::<Result<_, _>>()?,
    };
    let mut latencies = vec![Vec::new(); clients.len()];
    while let Some(row) = file.next_short_row()? {
        let at = |why: String| format!("line {}: {why}", row.line);
        match listed {
            Some((client, seconds)) => {
                let client = number_of(&row[client]).map_err(at)?;
                latencies[client].push(latency(&row[seconds]).map_err(at)?);
            }
            None => {
                // Clients need not have equally many records.
                for (cell, &client) in row.cells().zip(&columns).filter(|(c, _)| !c.is_empty()) {
                    latencies[client].push(latency(cell).map_err(at)?);
                }
            }
        }
    }
    match latencies.iter().position(Vec::is_empty) {
        Some(without) => Err(format!("no latency of client \"{}\"", clients[without])),
        None => Ok(latencies),
    }
}

fn latency(cell: &str) -> Result<f64, String> {
    match cell.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("found \"{cell}\"; allowed: a finite latency, 0 or more")),
    }
}

fn shortened(clients: &[String]) -> String {
    match clients {
        [first, second, .., last] if clients.len() > 8 => {
            format!("{first}, {second}, …, {last}")
        }
        _ => clients.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_layouts_say_the_same() {
        let clients = names(&["a", "b"]);
        let listed = parse(b"client,seconds\nb,2\na,1.5\nb,3\n", &clients).unwrap();
        let columns = parse(b"b,a\n2,1.5\n3,\n", &clients).unwrap();
        assert_eq!(listed, [vec![1.5], vec![2.0, 3.0]]);
        assert_eq!(columns, listed);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let clients = names(&["0", "1"]);
        let said = |text: &str| parse(text.as_bytes(), &clients).unwrap_err();
        assert!(said("client,seconds\n0,1\n2,1\n").contains("line 3: found the client \"2\""));
        assert!(said("client,seconds\n0,1\n1,-1\n").contains("line 3: found \"-1\""));
        assert!(said("client,seconds\n0,soon\n").contains("line 2: found \"soon\""));
        assert!(said("client,seconds\n0,1\n").contains("no latency of client \"1\""));
        assert!(said("0,x\n1,1\n").contains("line 1: found the client \"x\""));
        assert!(said("0,0\n1,1\n").contains("two columns"));
        assert!(said("0,1\n1,1,1\n").contains("line 2: found 3 cells"));
    }
}

//! A table read from a CSV file with a header, which is never in memory as a whole.

use std::io::{self, Read};
use std::path::Path;

use fedback_core::base::RawTable;
use sha2::{Digest, Sha256};

/// What to look for in the file.
pub struct Columns<'a> {
    /// The column to predict.
    pub label: Option<&'a str>,
    /// The column that names clients.
    pub client: Option<&'a str>,
    /// The features, in this order; all other columns where none are said.
    pub features: Option<&'a [String]>,
    /// Columns that are no features.
    pub ignore: &'a [String],
    /// Leave rows with missing cells out rather than refuse them.
    pub drop_missing: bool,
    /// Labels must be 0 or 1, and both must occur; where features are named, which is at a site, one of
    /// them will do.
    pub binary: bool,
}

/// More than this is not looked at to tell what is between cells.
const LONGEST_HEADER: usize = 1 << 20;

/// Takes the digest of what is read through it.
pub struct Digesting<R> {
    from: R,
    digest: Sha256,
}

impl<R> Digesting<R> {
    /// Nothing read yet.
    pub fn new(from: R) -> Self {
        Digesting { from, digest: Sha256::new() }
    }

    /// The digest of what was read.
    pub fn finish(self) -> Vec<u8> {
        self.digest.finalize().to_vec()
    }
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.digest.update(&buffer[..count]);
        Ok(count)
    }
}

/// Reads a table, or says in one sentence what is wrong and where.
pub fn read(path: &Path, bytes: impl Read, columns: &Columns<'_>) -> Result<RawTable, String> {
    let file = path.display();
    let (delimiter, bytes) =
        delimited(bytes).map_err(|error| format!("{file}: cannot be read: {error}"))?;
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .delimiter(delimiter)
        .buffer_capacity(1 << 16)
        .from_reader(bytes);
    let header = reader.headers().map_err(|error| format!("{file}: {}", explain(&error)))?.clone();
    let names: Vec<String> =
        header.iter().map(|name| name.trim_start_matches('\u{feff}').to_string()).collect();
    check_header(&names).map_err(|why| format!("{file}: line 1: {why}"))?;
    let find = |column: Option<&str>, what: &str| -> Result<Option<usize>, String> {
        column
            .map(|column| {
                names.iter().position(|name| name == column).ok_or_else(|| {
                    format!("{file}: no {what} column \"{column}\"; columns: {}", names.join(", "))
                })
            })
            .transpose()
    };
    let (label, client) = (find(columns.label, "label")?, find(columns.client, "partition")?);
    if label.is_some() && label == client {
        return Err(format!(
            "{file}: \"{}\" is both label and partition column",
            names[label.unwrap_or(0)]
        ));
    }
    for name in columns.ignore {
        find(Some(name), "ignored")?;
    }
    let is_feature = |column: &usize| {
        let special = Some(*column) == label || Some(*column) == client;
        !special && !columns.ignore.contains(&names[*column])
    };
    let features: Vec<usize> = match columns.features {
        None => (0..names.len()).filter(is_feature).collect(),
        Some(wanted) => wanted
            .iter()
            .map(|name| find(Some(name), "feature").map(|column| column.unwrap_or(0)))
            .collect::<Result<_, _>>()?,
    };
    if features.is_empty() {
        return Err(format!(
            "{file}: no column is left as a feature; columns: {}",
            names.join(", ")
        ));
    }
    let mut table = RawTable {
        features: features.iter().map(|&column| names[column].clone()).collect(),
        values: Vec::new(),
        labels: Vec::new(),
        clients: client.map(|_| Vec::new()),
    };
    let mut record = csv::StringRecord::new();
    let mut row = Vec::with_capacity(features.len());
    while reader.read_record(&mut record).map_err(|error| format!("{file}: {}", explain(&error)))? {
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |column: usize| -> Result<Option<f64>, String> {
            let name = &names[column];
            let allowed = match (Some(column) == label, columns.binary) {
                (true, true) => "0 or 1; write the two classes as 0 and 1".into(),
                (true, false) => "numbers".into(),
                (false, _) => {
                    format!("numbers; leave a column that is no feature out: ignore = [\"{name}\"]")
                }
            };
            number(record.get(column).unwrap_or_default(), &allowed)
                .map_err(|why| format!("{file}: line {line}, column \"{name}\": {why}"))
        };
        let missing = |column: usize| {
            format!(
                "{file}: line {line}, column \"{}\": the cell is missing; fill it, or leave such \
                 rows out with missing = \"drop\"",
                names[column]
            )
        };
        row.clear();
        let mut complete = true;
        for &column in features.iter().chain(&label) {
            match cell(column)? {
                Some(value) => row.push(value),
                None if columns.drop_missing => complete = false,
                None => return Err(missing(column)),
            }
        }
        let name = client.map(|column| record.get(column).unwrap_or_default());
        if name.is_some_and(str::is_empty) {
            match columns.drop_missing {
                true => complete = false,
                false => return Err(missing(client.unwrap_or(0))),
            }
        }
        if !complete {
            continue;
        }
        let y = if label.is_some() { row.pop().unwrap_or(0.0) } else { 0.0 };
        if columns.binary && y != 0.0 && y != 1.0 {
            return Err(format!(
                "{file}: line {line}, column \"{}\": found the label {y}; the logistic loss needs \
                 0 or 1",
                columns.label.unwrap_or_default()
            ));
        }
        table.values.extend_from_slice(&row);
        table.labels.push(y);
        if let (Some(clients), Some(name)) = (&mut table.clients, name) {
            clients.push(name.to_string());
        }
    }
    check_rows(&table, columns).map_err(|why| format!("{file}: {why}"))?;
    Ok(table)
}

fn check_header(names: &[String]) -> Result<(), String> {
    if names.iter().all(|name| name.is_empty() || name.parse::<f64>().is_ok()) {
        return Err("no header: the first line must name the columns".into());
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("two columns are called \"{}\"", pair[0])),
        None => Ok(()),
    }
}

fn check_rows(table: &RawTable, columns: &Columns<'_>) -> Result<(), String> {
    if table.labels.is_empty() {
        return Err("no rows are left".into());
    }
    if table.labels.len() > u32::MAX as usize {
        return Err(format!("found {} rows; at most {} can be used", table.labels.len(), u32::MAX));
    }
    let first = table.labels[0];
    let whole = columns.features.is_none();
    if columns.binary && whole && table.labels.iter().all(|y| *y == first) {
        return Err(format!(
            "every label in \"{}\" is {first}; the logistic loss needs both classes",
            columns.label.unwrap_or_default()
        ));
    }
    Ok(())
}

/// A cell as a number, or what is `allowed` instead; none where it is missing.
fn number(cell: &str, allowed: &str) -> Result<Option<f64>, String> {
    if ["", "na", "n/a", "nan"].iter().any(|missing| cell.eq_ignore_ascii_case(missing)) {
        return Ok(None);
    }
    match cell.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Some(value)),
        Ok(_) => Err(format!("found {cell}; allowed: finite numbers")),
        Err(_) if cell.replacen(',', ".", 1).parse::<f64>().is_ok() => {
            Err(format!("found \"{cell}\"; allowed: numbers with a decimal point, as in 0.5"))
        }
        Err(_) => Err(format!("found \"{cell}\"; allowed: {allowed}")),
    }
}

/// The character between cells, which is the most frequent one in the header, and the file from its
/// beginning. Without any of them it is a comma, and the file has one column.
fn delimited(mut bytes: impl Read) -> io::Result<(u8, impl Read)> {
    let mut header = Vec::new();
    let mut block = [0; 1 << 12];
    while !header.contains(&b'\n') && header.len() < LONGEST_HEADER {
        match bytes.read(&mut block)? {
            0 => break,
            count => header.extend_from_slice(&block[..count]),
        }
    }
    let line = header.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
    let delimiter = [b'|', b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',');
    Ok((delimiter, io::Cursor::new(header).chain(bytes)))
}

fn explain(error: &csv::Error) -> String {
    let line = error.position().map_or(String::new(), |at| format!("line {}: ", at.line()));
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{line}found {len} cells; the header has {expected_len} columns")
        }
        csv::ErrorKind::Utf8 { .. } => format!("{line}is not UTF-8 text"),
        _ => format!("{line}cannot be read as CSV: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str, drop_missing: bool) -> Result<RawTable, String> {
        let ignore = if text.starts_with("id,") { vec!["id".to_string()] } else { Vec::new() };
        let columns = Columns {
            label: Some("y"),
            client: Some("site"),
            features: None,
            ignore: &ignore,
            drop_missing,
            binary: true,
        };
        read(Path::new("t.csv"), text.as_bytes(), &columns)
    }

    #[test]
    fn columns_are_told_apart() {
        let table = table("id,a,y,site,b\nu1,1,0,x,2\nu2,3,1,y,4\n", false).unwrap();
        assert_eq!(table.features, ["a", "b"]);
        assert_eq!(table.values, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(table.labels, [0.0, 1.0]);
        assert_eq!(table.clients.unwrap(), ["x", "y"]);
    }

    #[test]
    fn messages_name_line_and_column() {
        for (text, parts) in [
            ("a,y,site\n1,0,x\n1,1\n", vec!["line 3", "2 cells"]),
            ("a,y,site\n1,0,x\ntwo,1,x\n", vec!["line 3", "\"a\"", "\"two\""]),
            ("a,y,site\n1,0,x\ninf,1,x\n", vec!["line 3", "\"a\"", "inf"]),
            ("a,y,site\n1,0,x\n,1,x\n", vec!["line 3", "\"a\"", "missing = \"drop\""]),
            ("a,b,site\n1,0,x\n", vec!["label", "\"y\"", "a, b, site"]),
            ("a,y,site\n1,0,x\n2,0,x\n", vec!["both classes"]),
            ("a,y,site\n1,0,x\n2,3,x\n", vec!["line 3", "0 or 1"]),
            ("a,a,y,site\n1,1,0,x\n", vec!["two columns"]),
            ("1,2,3\n1,0,1\n", vec!["header"]),
            ("a,y,site\n", vec!["no rows"]),
            ("a,y,site\n1,no,x\n", vec!["line 2", "\"y\"", "\"no\"", "0 or 1"]),
            ("a;y;site\n0,5;1;x\n", vec!["line 2", "\"0,5\"", "decimal point"]),
            ("a,y,site\ntwo,1,x\n", vec!["ignore = [\"a\"]"]),
        ] {
            let message = table(text, false).unwrap_err();
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
    }

    #[test]
    fn cells_are_told_apart_whatever_is_between_them() {
        for between in [",", ";", "\t", "|"] {
            let text = "a,y,site,b\n1,0,x,2\n3,1,y,4\n".replace(',', between);
            let table = table(&text, false).unwrap();
            assert_eq!((table.features.len(), table.values), (2, vec![1.0, 2.0, 3.0, 4.0]));
        }
    }

    #[test]
    fn rows_with_missing_cells_can_be_dropped() {
        let table = table("a,y,site\n1,0,x\nNA,1,x\n3,,x\n4,1,\n5,1,z\n", true).unwrap();
        assert_eq!(table.values, [1.0, 5.0]);
    }
}

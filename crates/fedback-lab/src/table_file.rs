//! A table read from a CSV file with a header, which is never in memory as a whole.

mod columns;
mod encoding;

use std::io::{self, Read};
use std::path::Path;

use fedback_core::base::{Marks, RawTable};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use columns::{Columns, Held, Identity};
pub use encoding::Encoding;

use crate::csv_file::{CsvFile, Row, is_missing, number};
use crate::spec::{KeyError, Missing};
use columns::Places;
use encoding::Categories;

/// What a group is called of which nothing is known.
const NO_GROUP: &str = "missing";

/// A table as it was read.
#[derive(Clone, Debug)]
pub struct TableFile {
    /// The rows that are used.
    pub raw: RawTable,
    /// What else is known of them.
    pub marks: Marks,
    /// Whom every row is about, as the beginning of a digest; where that was asked for.
    pub people: Option<Vec<u64>>,
    /// What became of the columns that are features.
    pub encodings: Vec<Encoding>,
    /// Rows in the file.
    pub rows: u64,
    /// Rows that were left out because a cell is missing.
    pub dropped: u64,
    /// Columns with missing cells.
    pub missing: Vec<MissingCells>,
}

/// Cells that a column lacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MissingCells {
    /// The column.
    pub column: String,
    /// How many.
    pub cells: u64,
}

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

/// Reads a table, or says in one sentence what is wrong and where, under the key that is to be
/// changed.
pub fn read(path: &Path, bytes: impl Read, columns: &Columns<'_>) -> Result<TableFile, KeyError> {
    let at = |key: &str, why: &str| KeyError::new(key, format!("{}: {why}", path.display()));
    let unlike = |why: String| at("problem.base", &why);
    let mut file = CsvFile::new(bytes).and_then(CsvFile::with_names).map_err(unlike)?;
    let names = file.names.clone();
    let places = columns.find(&names).map_err(|wrong| at(&wrong.key, &wrong.message))?;
    read_rows(&mut file, Reading::new(columns, &places, &names)).map_err(unlike)
}

fn read_rows(file: &mut CsvFile<impl Read>, mut reading: Reading<'_>) -> Result<TableFile, String> {
    while let Some(row) = file.next_row()? {
        reading.take(&row)?;
    }
    reading.finish()
}

/// A table that grows row by row.
struct Reading<'a> {
    columns: &'a Columns<'a>,
    places: &'a Places,
    names: &'a [String],
    /// Of the features that are one-hot, in the place of the feature.
    categories: Vec<Option<Categories>>,
    values: Vec<f64>,
    labels: Vec<f64>,
    clients: Vec<String>,
    groups: Vec<String>,
    cells: Vec<String>,
    held: Vec<bool>,
    people: Vec<u64>,
    rows: u64,
    /// By column.
    missing: Vec<u64>,
}

impl<'a> Reading<'a> {
    fn new(columns: &'a Columns<'a>, places: &'a Places, names: &'a [String]) -> Self {
        let one_hot = |column: &usize| columns.one_hot.contains(&names[*column]);
        let categories = places.features.iter().map(|c| one_hot(c).then(Categories::default));
        Reading {
            categories: categories.collect(),
            missing: vec![0; names.len()],
            columns,
            places,
            names,
            values: Vec::new(),
            labels: Vec::new(),
            clients: Vec::new(),
            groups: Vec::new(),
            cells: Vec::new(),
            held: Vec::new(),
            people: Vec::new(),
            rows: 0,
        }
    }

    fn take(&mut self, row: &Row<'_>) -> Result<(), String> {
        self.rows += 1;
        let places = self.places;
        let needed = places.features.iter().chain(&places.label).chain(&places.client);
        // What leaves together may be one of them.
        let other = |cell: &&usize| !needed.clone().any(|column| column == *cell);
        let needed = needed.clone().chain(places.cell.iter().filter(other));
        let mut complete = true;
        for &column in needed.filter(|column| is_missing(&row[**column])) {
            self.missing[column] += 1;
            // A mean can stand for a feature, not for a label, a client or what leaves together.
            complete &= self.columns.missing == Missing::Mean
                && places.features.contains(&column)
                && places.cell != Some(column);
            if self.columns.missing == Missing::Error {
                let fix = "fill it, leave such rows out with missing = \"drop\", or put the mean \
                           of the column there with missing = \"mean\"";
                return Err(self.at(row, column, &format!("the cell is missing; {fix}")));
            }
        }
        if !complete {
            return Ok(());
        }
        if let Some(identity) = self.columns.identity {
            let person = self.person(row, identity)?;
            self.people.push(person);
        }
        if let Some(column) = places.label {
            let label = self.label(&row[column]).map_err(|why| self.at(row, column, &why))?;
            self.labels.push(label);
        } else {
            self.labels.push(0.0);
        }
        for (feature, &column) in places.features.iter().enumerate() {
            let cell = &row[column];
            let value = match &mut self.categories[feature] {
                _ if is_missing(cell) => f64::NAN,
                Some(categories) => categories.place(cell),
                None => self.feature(cell, column).map_err(|why| self.at(row, column, &why))?,
            };
            self.values.push(value);
        }
        self.clients.extend(places.client.map(|column| row[column].to_string()));
        self.groups.extend(places.group.map(|column| match &row[column] {
            cell if is_missing(cell) => NO_GROUP.into(),
            cell => cell.to_string(),
        }));
        self.cells.extend(places.cell.map(|column| row[column].to_string()));
        let held = self.columns.held.as_ref().zip(places.held);
        self.held.extend(held.map(|(held, column)| row[column] == *held.value));
        Ok(())
    }

    /// Whom a row is about.
    fn person(&self, row: &Row<'_>, identity: Identity<'_>) -> Result<u64, String> {
        let own = &self.places.identity;
        if let (Identity::Column(_), [column]) = (identity, &own[..])
            && is_missing(&row[*column])
        {
            return Err(self.at(
                row,
                *column,
                "the cell is missing; it says whom the row is about",
            ));
        }
        let mut digest = Sha256::new();
        digest.update(match identity {
            Identity::Line => "line",
            Identity::Column(_) => "column",
        });
        for cell in own.iter().map(|column| &row[*column]) {
            digest.update((cell.len() as u64).to_le_bytes());
            digest.update(cell);
        }
        let digest = digest.finalize();
        Ok(u64::from_le_bytes(std::array::from_fn(|place| digest[place])))
    }

    fn at(&self, row: &Row<'_>, column: usize, why: &str) -> String {
        format!("line {}, column \"{}\": {why}", row.line, self.names[column])
    }

    fn label(&self, cell: &str) -> Result<f64, String> {
        if !self.columns.binary {
            return number(cell, "numbers");
        }
        match number(cell, "0 or 1; write the two classes as 0 and 1")? {
            y if y == 0.0 || y == 1.0 => Ok(y),
            y => Err(format!("found the label {y}; the logistic loss needs 0 or 1")),
        }
    }

    fn feature(&self, cell: &str, column: usize) -> Result<f64, String> {
        number(cell, "numbers").map_err(|why| {
            let name = &self.names[column];
            let text = cell.parse::<f64>().is_err() && !why.contains("decimal");
            match text && self.columns.features.is_none() {
                true => format!(
                    "{why}; leave a column that is no feature out: ignore = [\"{name}\"]; for a \
                     column of 0 and 1 per value: one_hot = [\"{name}\"]"
                ),
                false => why,
            }
        })
    }

    fn finish(self) -> Result<TableFile, String> {
        self.check()?;
        let used = self.labels.len() as u64;
        let names = self.places.features.iter().map(|column| self.names[*column].clone());
        let (encodings, raw_values) =
            encoding::encode(names.collect(), self.categories, self.values)?;
        let some = |is: bool, values: Vec<String>| is.then_some(values);
        let missing = self.names.iter().zip(&self.missing).filter(|(_, cells)| **cells > 0);
        Ok(TableFile {
            raw: RawTable {
                features: encodings.iter().flat_map(Encoding::features).collect(),
                values: raw_values,
                labels: self.labels,
                clients: some(self.places.client.is_some(), self.clients),
            },
            marks: Marks {
                groups: some(self.places.group.is_some(), self.groups),
                cells: some(self.places.cell.is_some(), self.cells),
                held: self.places.held.map(|_| self.held),
                fill: self.columns.missing == Missing::Mean,
                ..Marks::default()
            },
            people: self.columns.identity.map(|_| self.people),
            encodings,
            dropped: self.rows - used,
            rows: self.rows,
            missing: missing
                .map(|(column, cells)| MissingCells { column: column.clone(), cells: *cells })
                .collect(),
        })
    }

    fn check(&self) -> Result<(), String> {
        let rows = self.labels.len();
        if rows == 0 {
            return Err("no rows are left".into());
        }
        if rows > u32::MAX as usize {
            return Err(format!("found {rows} rows; at most {} can be used", u32::MAX));
        }
        let first = self.labels[0];
        let whole = self.columns.features.is_none();
        if self.columns.binary && whole && self.labels.iter().all(|y| *y == first) {
            return Err(format!(
                "every label in \"{}\" is {first}; the logistic loss needs both classes",
                self.columns.label.unwrap_or_default()
            ));
        }
        if let Some(held) = self.columns.held.as_ref().filter(|_| !self.held.contains(&true)) {
            return Err(format!(
                "no row has \"{}\" in the column \"{}\": nothing would be held out",
                held.value, held.column
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! From a `[problem.base]` of rows to tables: what is learned from, and what is held out.

use std::path::Path;

use fedback_core::base::{
    self, Base, Marks, Preparation, RawTable, Share, Standardization, Table, TableError,
};
use fedback_core::loss::Loss;
use fedback_core::stream::Seed;
use sha2::{Digest, Sha256};

use super::problem::build_weights;
use crate::credit;
use crate::measure::MOST_GROUPS;
use crate::spec::{Holdout, KeyError, Missing, Partition, Source, Spec, TableBase};
use crate::table_file::{self, Columns, Held, TableFile};
use crate::table_summary::TableSummary;

/// Data and weights, and what they were built from.
pub(super) struct BuiltTable {
    pub(super) base: Base,
    pub(super) weights: Vec<f64>,
    /// Weights and data of the rows that are held out.
    pub(super) held: Option<(Vec<f64>, Base)>,
    pub(super) summary: Option<TableSummary>,
    /// Of the file's bytes.
    pub(super) digest: Vec<u8>,
}

fn fail(key: &str, message: impl Into<String>) -> KeyError {
    KeyError::new(format!("problem.base.{key}"), message)
}

/// Reads, prepares and divides a table.
pub(super) fn build(
    spec: &Spec,
    table: &TableBase,
    loss: Loss,
    seed: Seed,
    directory: &Path,
) -> Result<BuiltTable, KeyError> {
    let problem = &spec.problem;
    if loss == Loss::Mean && table.intercept {
        let why = "the loss \"mean\" has no linear model for an intercept; leave it out";
        return Err(fail("intercept", why));
    }
    let labelled = table.label.is_some() || table.source.is_some();
    if loss != Loss::Mean && !labelled && table.path.is_some() {
        return Err(fail("label", "is missing; the losses squared and logistic predict a column"));
    }
    let partition = match (&table.partition, problem.clients) {
        (Some(partition), _) => partition.clone(),
        (None, Some(equal)) => Partition::Equal { equal },
        (None, None) => {
            return Err(fail(
                "partition",
                "is missing; allowed: { column = \"…\" }, { equal = … } or { dirichlet = …, \
                 clients = … }",
            ));
        }
    };
    let binary = matches!(loss, Loss::Logistic { .. });
    let columns = Columns {
        label: table.label.as_deref(),
        client: match &partition {
            Partition::Column { column } => Some(column),
            Partition::Equal { .. } | Partition::Dirichlet { .. } => None,
        },
        features: None,
        ignore: &table.ignore,
        one_hot: &table.one_hot,
        group: spec.measure.group.as_deref(),
        cell: problem.response.column(),
        held: match &table.holdout {
            Some(Holdout::Column { column, value }) => Some(Held { column, value }),
            Some(Holdout::Share(_)) | None => None,
        },
        missing: table.missing,
        identity: None,
        binary,
    };
    let Rows { file, name, constants, digest } = read(table, &columns, directory)?;
    let how = Preparation {
        shuffle: table.shuffle,
        standardize: table.standardize && constants.is_none(),
        intercept: table.intercept,
        partition: match partition {
            Partition::Column { .. } => base::Partition::Column,
            Partition::Equal { equal } => base::Partition::Equal(equal.0 as usize),
            Partition::Dirichlet { dirichlet, clients } => base::Partition::Dirichlet {
                concentration: dirichlet.0,
                clients: clients.0 as usize,
            },
        },
        by_class: binary,
    };
    // Who is held out is a matter of the problem: other seeds of a run leave it alone.
    let share = match table.holdout {
        Some(Holdout::Share(of_rows)) => {
            Some(Share { of_rows, seed: Seed(problem.seed.map_or(0, |seed| seed.0)) })
        }
        Some(Holdout::Column { .. }) | None => None,
    };
    let TableFile { raw, marks, encodings, rows, dropped, missing, people: _ } = file;
    let marks = Marks { share, ..marks };
    let mut split = Table::split(raw, marks, &how, seed).map_err(unusable)?;
    split.training.standardization = split.training.standardization.take().or(constants);
    if table.holdout.is_some() && split.held.is_none() {
        let why = "no client has so many rows that one would be held out: raise the share";
        return Err(fail("holdout", why));
    }
    let names = split.training.client_names.as_deref();
    let clients = split.training.clients();
    if let Some(given) = problem.clients.filter(|given| given.0 != clients as u64) {
        return Err(KeyError::new(
            "problem.clients",
            format!("found {}; the partition makes {clients}: leave it out or correct it", given.0),
        ));
    }
    let shares = Some(split.training.row_shares());
    let weights = build_weights(problem, clients, names, shares, seed)?;
    let label = columns.label.or(table.source.map(|_| credit::LABEL));
    let summary = TableSummary::new(&split, label, binary);
    if let (Some(column), true) = (columns.group, summary.groups.len() > MOST_GROUPS) {
        let found = format!("the column \"{column}\" has {} values", summary.groups.len());
        let fix = "name a column of few values; for a quantity, add one of classes to the table";
        let why = format!("{found}; at most {MOST_GROUPS} groups are measured: {fix}");
        return Err(KeyError::new("measure.group", why));
    }
    let summary = TableSummary { file: name, rows, dropped, missing, encodings, ..summary };
    let held = match split.held {
        Some(held) => Some((held_weights(&weights, &held)?, Base::Table(held))),
        None => None,
    };
    let base = Base::Table(split.training);
    Ok(BuiltTable { base, weights, held, summary: Some(summary), digest })
}

/// The weights of clients with rows that are held out, as shares of what they have together.
fn held_weights(weights: &[f64], held: &Table) -> Result<Vec<f64>, KeyError> {
    let has_rows = |client: usize| !held.block(client).1.is_empty();
    let own = |(client, p): (usize, &f64)| if has_rows(client) { *p } else { 0.0 };
    let own: Vec<f64> = weights.iter().enumerate().map(own).collect();
    let total: f64 = own.iter().sum();
    match total > 0.0 {
        true => Ok(own.into_iter().map(|p| p / total).collect()),
        false => Err(fail("holdout", "only clients of weight 0 have rows that are held out")),
    }
}

/// What was read, before it is divided.
struct Rows {
    file: TableFile,
    /// How the file is called.
    name: String,
    /// Set where the rows are standardised already.
    constants: Option<Standardization>,
    /// Of the file's bytes.
    digest: Vec<u8>,
}

fn read(table: &TableBase, columns: &Columns<'_>, directory: &Path) -> Result<Rows, KeyError> {
    let (name, path) = match (&table.path, table.source) {
        (Some(path), None) => (path.clone(), directory.join(path)),
        (None, Some(Source::Credit)) => return read_credit(table, columns),
        (Some(_), Some(_)) => {
            return Err(fail("source", "is given beside path; allowed: one of them"));
        }
        (None, None) => {
            let why = "is missing; needed: path = \"….csv\", or source = \"credit\"";
            return Err(fail("path", why));
        }
    };
    if path.is_dir() {
        return Err(fail("path", format!("{} is a directory; needed: a CSV file", path.display())));
    }
    let file = std::fs::File::open(&path)
        .map_err(|error| fail("path", format!("{} cannot be read: {error}", path.display())))?;
    let mut file = table_file::Digesting::new(file);
    let read = table_file::read(&path, &mut file, columns)?;
    Ok(Rows { file: read, name, constants: None, digest: file.finish() })
}

/// The credit table, whose columns are known.
fn read_credit(table: &TableBase, columns: &Columns<'_>) -> Result<Rows, KeyError> {
    if let Some(label) = columns.label.filter(|label| *label != credit::LABEL) {
        let known = format!("the source \"credit\" has \"{}\": leave label out", credit::LABEL);
        return Err(fail("label", format!("found \"{label}\"; {known}")));
    }
    let known = "the source \"credit\" knows its features";
    for (key, given) in [
        ("ignore", !table.ignore.is_empty()),
        ("one_hot", !table.one_hot.is_empty()),
        ("missing", table.missing == Missing::Mean),
        ("holdout", columns.held.is_some()),
    ] {
        if given {
            let but = if key == "holdout" { "; allowed here: a share" } else { "" };
            return Err(fail(key, format!("{known}: leave {key} out{but}")));
        }
    }
    if columns.group.is_some() {
        return Err(KeyError::new("measure.group", format!("{known}: leave it out")));
    }
    let place = credit::place().map_err(|why| fail("source", why))?;
    let bytes = credit::load(&place).map_err(|why| fail("source", why))?;
    let read = credit::read(&place, &bytes, columns.client, columns.binary)?;
    // Rows that are held out have no part in the constants, which then come with the division.
    let at_once = table.standardize && table.holdout.is_none();
    let (raw, constants): (RawTable, _) = credit::prepare(read.raw, at_once).map_err(unusable)?;
    let file = TableFile { raw, ..read };
    let name = place.display().to_string();
    Ok(Rows { file, name, constants, digest: Sha256::digest(&bytes).to_vec() })
}

pub(super) fn unusable(error: TableError) -> KeyError {
    match error {
        TableError::ConstantColumn(column) => fail(
            "standardize",
            format!(
                "column \"{column}\" is the same in every row; leave it out with ignore = \
                 [\"{column}\"], or do not standardise"
            ),
        ),
        TableError::TooLarge(column) => fail(
            "standardize",
            format!("the values of column \"{column}\" are too large to be squared; rescale it"),
        ),
        TableError::NothingKnown(column) => fail(
            "missing",
            format!("column \"{column}\" has no value in any row that is learned from; ignore it"),
        ),
        TableError::NothingToLearnFrom(client) => fail(
            "holdout",
            format!("every row of client \"{client}\" is held out; leave it rows to learn from"),
        ),
        TableError::Misshapen { features, rows, values } => fail(
            "path",
            format!("{values} numbers for {rows} rows of {features} features; one each is needed"),
        ),
        TableError::TooFewRows { rows, clients } => {
            fail("partition", format!("{rows} rows cannot be divided among {clients} clients"))
        }
    }
}

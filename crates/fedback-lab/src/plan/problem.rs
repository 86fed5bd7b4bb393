//! From `[problem]` to a federation.

use std::path::Path;

use fedback_core::base::{
    self, Base, Gaussian, Preparation, RawTable, Standardization, Table, TableError,
};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::stream::Seed;
use sha2::{Digest, Sha256};

use super::response;
use super::sizes::MOST_NUMBERS;
use crate::credit;
use crate::draw;
use crate::spec::{
    self, KeyError, Missing, NamedWeights, Partition, PerClient, Problem, Source, Spec, Weights,
};
use crate::table_file;

/// More clients than this have no stream of their own.
pub(super) const MOST_CLIENTS: u64 = u32::MAX as u64;

/// A problem and what it was built from.
pub(super) struct BuiltProblem {
    pub(super) federation: Federation,
    /// A digest of the data file, where there is one.
    pub(super) data: Vec<u8>,
}

/// Checks and builds `[problem]`.
pub(super) fn build(spec: &Spec, directory: &Path) -> Result<BuiltProblem, KeyError> {
    let problem = &spec.problem;
    let seed = Seed(problem.seed.unwrap_or(spec.seed).0);
    // Data under a custom loss are built as under the one that asks least of them.
    let loss = loss(&problem.loss).unwrap_or(Loss::Mean);
    if problem.stable_point.is_some() && problem.custom_part().is_none() {
        let why = "the stable point of a problem that is built in is solved for: leave it out";
        return Err(KeyError::new("problem.stable_point", why));
    }
    let (base, weights, data) = match &problem.base {
        spec::Base::Gaussian(gaussian) => {
            let (base, weights) = build_gaussian(problem, gaussian, seed)?;
            (base, weights, Vec::new())
        }
        spec::Base::Table(table) => build_table(problem, table, loss, seed, directory)?,
        spec::Base::Custom(_) | spec::Base::Sites(_) => {
            let why = "its rows come from elsewhere: it is not built in";
            return Err(KeyError::new("problem.base.kind", why));
        }
    };
    let response = response::build(problem, &base, &weights, seed)?;
    let federation = Federation::new(weights, base, response, loss)?;
    let federation = response::rebase(problem, federation)?;
    Ok(BuiltProblem { federation, data })
}

/// The loss, where it is built in.
pub(super) fn loss(loss: &spec::Loss) -> Option<Loss> {
    match loss {
        spec::Loss::Mean => Some(Loss::Mean),
        spec::Loss::Squared(penalty) => Some(Loss::Squared { l2: penalty.l2.0 }),
        spec::Loss::Logistic(penalty) => Some(Loss::Logistic { l2: penalty.l2.0 }),
        spec::Loss::Custom => None,
    }
}

fn build_gaussian(
    problem: &Problem,
    gaussian: &spec::GaussianBase,
    seed: Seed,
) -> Result<(Base, Vec<f64>), KeyError> {
    let clients = count_clients(problem, gaussian)?;
    if 3.0 * clients as f64 * gaussian.dim.0 as f64 > MOST_NUMBERS {
        let why =
            format!("{clients} clients × {} coordinates do not fit in memory", gaussian.dim.0);
        return Err(KeyError::new("problem.base.dim", why));
    }
    let weights = build_weights(problem, clients, None, seed)?;
    let dim = gaussian.dim.0 as usize;
    let shape = draw::Shape { weights: &weights, dim, seed };
    let mean = shape
        .means(&gaussian.mean)
        .map_err(|message| KeyError::new("problem.base.mean", message))?;
    Ok((Base::Gaussian(Gaussian { dim, mean, noise: gaussian.noise.0 }), weights))
}

/// `clients`, or the length of the first list that tells.
fn count_clients(problem: &Problem, gaussian: &spec::GaussianBase) -> Result<usize, KeyError> {
    let listed = |values: &PerClient| match values {
        PerClient::List(entries) => Some(entries.len()),
        _ => None,
    };
    let from_weights = match &problem.weights {
        Some(Weights::List(weights)) => Some(weights.len()),
        _ => None,
    };
    let from_response = problem.response.sensitivity().and_then(listed);
    let given = problem.clients.map(|clients| clients.0 as usize);
    let clients = given.or(from_weights).or(listed(&gaussian.mean)).or(from_response);
    match clients {
        Some(0) => Err(KeyError::new("problem.clients", "there are no clients; needed: 1 or more")),
        Some(clients) if clients as u64 > MOST_CLIENTS => Err(KeyError::new(
            "problem.clients",
            format!("found {clients}; allowed: up to {MOST_CLIENTS}"),
        )),
        Some(clients) => Ok(clients),
        None => Err(KeyError::new(
            "problem.clients",
            "is missing, and no list says how many clients there are",
        )),
    }
}

pub(super) fn build_weights(
    problem: &Problem,
    clients: usize,
    row_shares: Option<Vec<f64>>,
    seed: Seed,
) -> Result<Vec<f64>, KeyError> {
    let fail = |message: String| Err(KeyError::new("problem.weights", message));
    let default = if row_shares.is_some() { NamedWeights::Rows } else { NamedWeights::Uniform };
    match problem.weights.as_ref().unwrap_or(&Weights::Named(default)) {
        Weights::Named(NamedWeights::Uniform) => Ok(vec![1.0 / clients as f64; clients]),
        Weights::Named(NamedWeights::Rows) => match row_shares {
            Some(shares) => Ok(shares),
            None => fail(
                "\"rows\" needs a table; allowed here: \"uniform\", a list, \
                          { variance = … }"
                    .into(),
            ),
        },
        Weights::List(list) => {
            if list.len() != clients {
                return fail(format!(
                    "the list has {} entries; needed: one per client, {clients}",
                    list.len()
                ));
            }
            let sum: f64 = list.iter().map(|weight| weight.0).sum();
            if (sum - 1.0).abs() > 1e-9 {
                return fail(format!("the list sums to {sum}; needed: 1 (within 1e-9)"));
            }
            Ok(list.iter().map(|weight| weight.0 / sum).collect())
        }
        Weights::Spread { variance } => {
            let n = clients as f64;
            let limit = 1.0 / n - 1.0 / (n * n);
            if variance.0 > 0.0 && variance.0 >= limit {
                return fail(format!(
                    "variance = {} cannot be reached by {clients} clients; allowed: below 1/N − \
                     1/N² = {limit}",
                    variance.0
                ));
            }
            match draw::weights(clients, variance.0, seed) {
                Some(weights) => Ok(weights),
                None => fail(format!("no draw reaches the variance {}; lower it", variance.0)),
            }
        }
    }
}

fn build_table(
    problem: &Problem,
    table: &spec::TableBase,
    loss: Loss,
    seed: Seed,
    directory: &Path,
) -> Result<(Base, Vec<f64>, Vec<u8>), KeyError> {
    let fail = |key: &str, message: String| KeyError::new(format!("problem.base.{key}"), message);
    if loss == Loss::Mean && table.intercept {
        let why = "the loss \"mean\" has no linear model for an intercept; leave it out";
        return Err(fail("intercept", why.into()));
    }
    let labelled = table.label.is_some() || table.source.is_some();
    if loss != Loss::Mean && !labelled && table.path.is_some() {
        let why = "is missing; the losses squared and logistic predict a column";
        return Err(fail("label", why.into()));
    }
    let partition = match (&table.partition, problem.clients) {
        (Some(partition), _) => partition.clone(),
        (None, Some(equal)) => Partition::Equal { equal },
        (None, None) => {
            return Err(fail(
                "partition",
                "is missing; allowed: { column = \"…\" }, { equal = … } or { dirichlet = …, \
                 clients = … }"
                    .into(),
            ));
        }
    };
    let client = match &partition {
        Partition::Column { column } => Some(column.as_str()),
        _ => None,
    };
    let binary = matches!(loss, Loss::Logistic { .. });
    let Rows { raw, constants, digest } = read_rows(table, client, binary, directory)?;
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
    let mut built = Table::new(raw, &how, seed).map_err(unusable)?;
    built.standardization = built.standardization.or(constants);
    let clients = built.clients();
    if let Some(given) = problem.clients.filter(|given| given.0 != clients as u64) {
        return Err(KeyError::new(
            "problem.clients",
            format!("found {}; the partition makes {clients}: leave it out or correct it", given.0),
        ));
    }
    let weights = build_weights(problem, clients, Some(built.row_shares()), seed)?;
    Ok((Base::Table(built), weights, digest))
}

/// What was read, before it is divided.
struct Rows {
    raw: RawTable,
    /// Set where the rows are standardised already.
    constants: Option<Standardization>,
    /// Of the file's bytes.
    digest: Vec<u8>,
}

fn read_rows(
    table: &spec::TableBase,
    client: Option<&str>,
    binary: bool,
    directory: &Path,
) -> Result<Rows, KeyError> {
    let fail = |key: &str, message: String| KeyError::new(format!("problem.base.{key}"), message);
    let wrong = |message: String| KeyError::new("problem.base", message);
    let path = match (&table.path, table.source) {
        (Some(path), None) => directory.join(path),
        (None, Some(Source::Credit)) => return read_credit(table, client, binary),
        (Some(_), Some(_)) => {
            let why = "is given beside path; allowed: one of them";
            return Err(fail("source", why.into()));
        }
        (None, None) => {
            let why = "is missing; needed: path = \"….csv\", or source = \"credit\"";
            return Err(fail("path", why.into()));
        }
    };
    if path.is_dir() {
        return Err(fail("path", format!("{} is a directory; needed: a CSV file", path.display())));
    }
    let file = std::fs::File::open(&path)
        .map_err(|error| fail("path", format!("{} cannot be read: {error}", path.display())))?;
    let columns = table_file::Columns {
        label: table.label.as_deref(),
        client,
        features: None,
        ignore: &table.ignore,
        drop_missing: table.missing == Missing::Drop,
        binary,
    };
    let mut file = table_file::Digesting::new(file);
    let raw = table_file::read(&path, &mut file, &columns).map_err(wrong)?;
    Ok(Rows { raw, constants: None, digest: file.finish() })
}

fn read_credit(
    table: &spec::TableBase,
    client: Option<&str>,
    binary: bool,
) -> Result<Rows, KeyError> {
    let fail = |key: &str, message: String| KeyError::new(format!("problem.base.{key}"), message);
    if let Some(label) = table.label.as_deref().filter(|label| *label != credit::LABEL) {
        let known = format!("the source \"credit\" has \"{}\": leave label out", credit::LABEL);
        return Err(fail("label", format!("found \"{label}\"; {known}")));
    }
    if !table.ignore.is_empty() {
        let why = "the source \"credit\" knows its features: leave ignore out";
        return Err(fail("ignore", why.into()));
    }
    let place = credit::place().map_err(|why| fail("source", why))?;
    let bytes = credit::load(&place).map_err(|why| fail("source", why))?;
    let raw = credit::read(&place, &bytes, client, binary)
        .map_err(|message| KeyError::new("problem.base", message))?;
    let (raw, constants) = credit::prepare(raw, table.standardize).map_err(unusable)?;
    Ok(Rows { raw, constants, digest: Sha256::digest(&bytes).to_vec() })
}

pub(super) fn unusable(error: TableError) -> KeyError {
    let fail = |key: &str, message: String| KeyError::new(format!("problem.base.{key}"), message);
    match error {
        TableError::ConstantColumn(column) => fail(
            "standardize",
            format!(
                "column \"{column}\" is the same in every row; remove it or do not standardise"
            ),
        ),
        TableError::TooLarge(column) => fail(
            "standardize",
            format!("the values of column \"{column}\" are too large to be squared; rescale it"),
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

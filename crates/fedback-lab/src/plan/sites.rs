//! `base.kind = "sites"`: rows that only their sites can read.
//!
//! Whoever plans such a run needs three things of the rows: how many every client has, and the mean and
//! the standard deviation of every feature. Sites tell sums per client ([`SiteTables`]), the server
//! folds them in client order ([`Census`]) and writes the result into the spec: `base.rows`, `mean`, `sd`.
//! From there on the spec is complete: the same everywhere, recorded, part of the plan's hash. One
//! table with all rows, divided by a column, is standardised by the very same sums.

use std::path::{Path, PathBuf};

use fedback_core::base::{Base, RawTable, Standardization, Table, average_of_sums};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::stream::Seed;

use super::custom::count_clients;
use super::problem::{build_weights, loss};
use super::table::unusable;
use super::{Shape, SitePlan, memory, response};
use crate::error::Error;
use crate::spec::{self, KeyError, Missing, Point, SitesBase, Spec};
use crate::table_file::{self, Identity};

/// Where a number of a spec comes from that nobody typed.
const GATHERED: &str = "is missing; the Flower app gathers it from the sites";

fn fail(key: &str, message: impl Into<String>) -> KeyError {
    KeyError::new(format!("problem.base.{key}"), message)
}

/// What an outline takes from a spec whose statistics were gathered.
pub(super) fn shape(spec: &Spec, base: &SitesBase) -> Result<Shape, KeyError> {
    check(spec, base)?;
    let problem = &spec.problem;
    let clients = count_clients(problem)?;
    let rows = base.rows.as_ref().ok_or_else(|| fail("rows", GATHERED))?;
    if rows.len() != clients {
        let why = format!("the list has {} entries; there are {clients} clients", rows.len());
        return Err(fail("rows", why));
    }
    let standardization = standardization(base)?;
    let total = rows.iter().map(|rows| u128::from(rows.0)).sum::<u128>() as f64;
    let shares = rows.iter().map(|rows| rows.0 as f64 / total).collect();
    let seed = Seed(problem.seed.unwrap_or(spec.seed).0);
    Ok(Shape {
        weights: build_weights(problem, clients, None, Some(shares), seed)?.into(),
        dim: base.coordinates().len(),
        client_names: None,
        coordinates: Some(base.coordinates()),
        standardization,
        table: None,
        data: Vec::new(),
    })
}

fn check(spec: &Spec, base: &SitesBase) -> Result<(), KeyError> {
    let mut names: Vec<&String> = base.features.iter().chain(&base.label).collect();
    names.sort();
    if base.features.is_empty() {
        return Err(fail("features", "the list is empty; name the columns of a row"));
    }
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(fail("features", format!("\"{}\" is listed twice, or is the label", pair[0])));
    }
    if base.missing == Missing::Mean {
        let why = "found \"mean\", which no site knows of all rows; allowed here: error, drop";
        return Err(fail("missing", why));
    }
    if spec.measure.group.is_some() {
        let why = "rows at sites are not measured by group: leave it out";
        return Err(KeyError::new("measure.group", why));
    }
    if let spec::Response::Retention(_) = spec.problem.response {
        let why = "found \"retention\"; which rows an update rests on is then known only once they are \
                   drawn: not for rows at sites";
        return Err(KeyError::new("problem.response.kind", why));
    }
    match loss(&spec.problem.loss) {
        None => {
            Err(KeyError::new("problem.loss.kind", "rows at sites need a loss that is built in"))
        }
        Some(Loss::Mean) if base.intercept => {
            let why = "the loss \"mean\" has no linear model for an intercept; leave it out";
            Err(fail("intercept", why))
        }
        Some(Loss::Squared { .. } | Loss::Logistic { .. }) if base.label.is_none() => {
            Err(fail("label", "is missing; the losses squared and logistic predict a column"))
        }
        Some(_) => Ok(()),
    }
}

/// The gathered constants; none where rows are used as they are.
fn standardization(base: &SitesBase) -> Result<Option<Standardization>, KeyError> {
    if !base.standardize {
        return Ok(None);
    }
    let mean = base.mean.as_ref().ok_or_else(|| fail("mean", GATHERED))?;
    let sd = base.sd.as_ref().ok_or_else(|| fail("sd", GATHERED))?;
    let features = base.features.len();
    for (key, found) in [("mean", mean.len()), ("sd", sd.len())] {
        if found != features {
            let why = format!("the list has {found} entries; there are {features} features");
            return Err(fail(key, why));
        }
    }
    let mean = mean.iter().map(|number| number.0).collect();
    Ok(Some(Standardization { mean, sd: sd.iter().map(|number| number.0).collect() }))
}

/// A client's number, and its rows.
type Numbered = (usize, RawTable);

/// The rows of the clients that one site holds.
#[derive(Clone, Debug)]
pub struct SiteTables {
    held: Vec<(usize, RawTable)>,
    /// Whom the rows of every client held are about, in the same order; none where nobody asked.
    people: Vec<Option<Vec<u64>>>,
}

impl SiteTables {
    /// Reads the file of every client that the site holds.
    pub fn read(spec: &Spec, files: &[(usize, PathBuf)], origin: &str) -> Result<Self, Error> {
        SiteTables::read_people(spec, files, origin, None)
    }

    /// The same, with whom the rows are about.
    pub fn read_people(
        spec: &Spec,
        files: &[(usize, PathBuf)],
        origin: &str,
        identity: Option<Identity<'_>>,
    ) -> Result<Self, Error> {
        let wrong = |error: KeyError| Error::input(origin, error);
        let spec::Base::Sites(base) = &spec.problem.base else {
            let why = "found another kind; tables of sites go with \"sites\"";
            return Err(wrong(fail("kind", why)));
        };
        check(spec, base).map_err(wrong)?;
        let clients = count_clients(&spec.problem).map_err(wrong)?;
        let columns = table_file::Columns {
            label: base.label.as_deref(),
            client: None,
            features: Some(&base.features),
            ignore: &[],
            one_hot: &[],
            group: None,
            cell: None,
            held: None,
            missing: base.missing,
            identity,
            binary: matches!(loss(&spec.problem.loss), Some(Loss::Logistic { .. })),
        };
        let mut held: Vec<(Numbered, Option<Vec<u64>>)> = Vec::new();
        for (client, path) in files {
            if *client >= clients || held.iter().any(|((known, _), _)| known == client) {
                let why = format!("client {client} twice, or not one of 0 to {}", clients - 1);
                return Err(Error::input("data", why));
            }
            let file = std::fs::File::open(path).map_err(|error| {
                Error::input("data", format!("{} cannot be read: {error}", path.display()))
            })?;
            let table = table_file::read(path, file, &columns);
            let table = table.map_err(|wrong| Error::input("data", wrong.message))?;
            held.push(((*client, table.raw), table.people));
        }
        held.sort_by_key(|((client, _), _)| *client);
        let (held, people) = held.into_iter().unzip();
        Ok(SiteTables { held, people })
    }

    /// Whom a client's rows are about, one number a row; none where nobody asked.
    pub fn people(&self, client: usize) -> Option<&[u64]> {
        let place = self.held.iter().position(|(held, _)| *held == client)?;
        self.people[place].as_deref()
    }

    /// Every client held, with its rows.
    pub fn held(&self) -> impl Iterator<Item = (usize, &RawTable)> {
        self.held.iter().map(|(client, table)| (*client, table))
    }

    /// For every client held: its number, its count of rows, and the sum of every feature.
    pub fn sums(&self) -> Vec<(usize, u64, Vec<f64>)> {
        let held = self.held.iter();
        held.map(|(client, table)| (*client, table.labels.len() as u64, table.sums())).collect()
    }

    /// For every client held: its number, and the sums of squared distances to a mean.
    pub fn squares(&self, mean: &[f64]) -> Vec<(usize, Vec<f64>)> {
        self.held.iter().map(|(client, table)| (*client, table.squares(mean))).collect()
    }

    /// The site's part of a problem whose statistics were gathered.
    pub fn site(
        &self,
        point: &Point,
        directory: &Path,
        origin: &str,
    ) -> Result<(SitePlan, Federation), Error> {
        self.build(point, directory).map_err(|error| Error::input(origin, error))
    }

    fn build(&self, point: &Point, directory: &Path) -> Result<(SitePlan, Federation), KeyError> {
        let problem = &point.spec.problem;
        let (spec::Base::Sites(base), Some(loss)) = (&problem.base, loss(&problem.loss)) else {
            return Err(fail("kind", "tables of sites go with \"sites\""));
        };
        let shape = shape(&point.spec, base)?;
        for (client, table) in &self.held {
            let counted = base.rows.as_ref().map_or(0, |rows| rows[*client].0);
            let found = table.labels.len();
            if counted != found as u64 {
                let why = format!(
                    "client {client} had {counted} rows when sums were gathered, now {found}"
                );
                return Err(fail("rows", why));
            }
        }
        let table = Table::at_site(
            self.held.clone(),
            shape.weights.len(),
            base.coordinates(),
            base.intercept,
            standardization(base)?,
        );
        let base = Base::Table(table);
        let seed = Seed(problem.seed.unwrap_or(point.spec.seed).0);
        let response = response::build(problem, &base, loss, &shape.weights, seed)?;
        let federation = Federation::new(shape.weights.clone(), base, response, loss)?;
        let federation = response::rebase(problem, federation)?;
        let federation = memory::remembering(federation, &problem.response)?;
        Ok((SitePlan::new(point, &shape, directory)?, federation))
    }
}

/// What the sites said of their rows, folded in client order.
#[derive(Clone, Debug, PartialEq)]
pub struct Census {
    /// Every client's count of rows.
    pub rows: Vec<u64>,
    /// The mean of every feature.
    pub mean: Vec<f64>,
}

impl Census {
    /// From every client's count and sums, in client order.
    pub fn new(rows: Vec<u64>, sums: Vec<Vec<f64>>) -> Self {
        let count = rows.iter().sum::<u64>() as f64;
        let features = sums.first().map_or(0, Vec::len);
        Census { mean: average_of_sums(sums, features, count), rows }
    }

    /// The standard deviations, from every client's sums of squares, in client order.
    pub fn deviations(
        &self,
        squares: Vec<Vec<f64>>,
        features: &[String],
    ) -> Result<Vec<f64>, KeyError> {
        let count = self.rows.iter().sum::<u64>() as f64;
        let constants = Standardization::of_sums(self.mean.clone(), squares, count, features);
        Ok(constants.map_err(unusable)?.sd)
    }
}

//! The checked, built thing that a spec becomes: one conversion, after which nothing is doubted.

use std::path::Path;

use fedback_core::base::{self, Base, Gaussian, Preparation, Table, TableError};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{self, Protocol, Scheme};
use fedback_core::response::{self, Shift};
use fedback_core::stream::{STREAM_FORMAT, Seed};
use fedback_theory::stable;
use sha2::{Digest, Sha256};

use crate::draw::{self, Shape};
use crate::error::Error;
use crate::spec::{
    Aggregate, Algorithm, Deploy, KeyError, Measure, Missing, NamedStart, NamedWeights, PFedAvg,
    Partition, PerClient, Point, Problem, Response, SchemeName, Spec, Start, StepSize, Weights,
};
use crate::{spec, table_file};

/// A plan that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The spec it came from.
    pub spec: Spec,
    /// What a sweep set to get here, as JSON.
    pub set: serde_json::Map<String, serde_json::Value>,
    /// Where relative paths start.
    pub directory: String,
    /// The problem.
    pub federation: Federation,
    /// The algorithm.
    pub protocol: Protocol,
    /// θ before the first round.
    pub start: Vec<f64>,
    /// θ^PS, where it is asked for and exists.
    pub stable_point: Option<Vec<f64>>,
    /// Names everything that decides the bits: canonical spec, data, stream format, version.
    pub hash: String,
}

/// Limits of the streams' indices and keys.
const MOST_CLIENTS: u64 = u32::MAX as u64;
const MOST_STEPS: u64 = 1 << 53;

impl Plan {
    /// Checks and builds one point of a spec; `origin` is how messages call it.
    pub fn new(point: Point, directory: &Path, origin: &str) -> Result<Self, Error> {
        let Point { spec, set } = point;
        let fail = |error: KeyError| Error::input(origin, error);
        let built = build_problem(&spec, directory).map_err(fail)?;
        let Algorithm::PFedavg(algorithm) = &spec.algorithm;
        let protocol = build_protocol(algorithm, &built.federation).map_err(fail)?;
        check_sizes(&spec, &protocol).map_err(fail)?;
        check_measure(&spec.measure, &built.federation).map_err(fail)?;
        let (start, stable_point) =
            build_start(algorithm, &built.federation, spec.measure.distance).map_err(fail)?;
        let hash = hash(&spec, &built.data);
        let set = set
            .into_iter()
            .map(|(key, value)| (key, serde_json::to_value(value).unwrap_or_default()))
            .collect();
        Ok(Plan {
            spec,
            set,
            directory: directory.display().to_string(),
            federation: built.federation,
            protocol,
            start,
            stable_point,
            hash,
        })
    }

    /// The seed of everything random in the run.
    pub fn seed(&self) -> Seed {
        Seed(self.spec.seed.0)
    }

    /// Whether a record is due after `round` rounds.
    pub fn is_due(&self, round: u64) -> bool {
        round.is_multiple_of(self.spec.measure.every.0) || round == self.spec.rounds.0
    }
}

fn hash(spec: &Spec, data: &[u8]) -> String {
    let mut digest = Sha256::new();
    for part in [
        spec.canonical().as_bytes(),
        &STREAM_FORMAT.to_le_bytes(),
        env!("CARGO_PKG_VERSION").as_bytes(),
        data,
    ] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

struct BuiltProblem {
    federation: Federation,
    /// A digest of the data file, where there is one.
    data: Vec<u8>,
}

fn build_problem(spec: &Spec, directory: &Path) -> Result<BuiltProblem, KeyError> {
    let problem = &spec.problem;
    let seed = Seed(problem.seed.unwrap_or(spec.seed).0);
    let loss = match &problem.loss {
        spec::Loss::Mean => Loss::Mean,
        spec::Loss::Squared(penalty) => Loss::Squared { l2: penalty.l2.0 },
        spec::Loss::Logistic(penalty) => Loss::Logistic { l2: penalty.l2.0 },
    };
    let (base, weights, data) = match &problem.base {
        spec::Base::Gaussian(gaussian) => {
            let (base, weights) = build_gaussian(problem, gaussian, loss, seed)?;
            (base, weights, Vec::new())
        }
        spec::Base::Table(table) => build_table(problem, table, loss, seed, directory)?,
    };
    let response = build_response(problem, &base, &weights, seed)?;
    Ok(BuiltProblem { federation: Federation { weights, base, response, loss }, data })
}

fn build_gaussian(
    problem: &Problem,
    gaussian: &spec::GaussianBase,
    loss: Loss,
    seed: Seed,
) -> Result<(Base, Vec<f64>), KeyError> {
    if loss != Loss::Mean {
        return Err(KeyError::new(
            "problem.loss.kind",
            "normal data have no label; allowed with the base \"gaussian\": mean",
        ));
    }
    let clients = count_clients(problem, gaussian)?;
    let weights = build_weights(problem, clients, None, seed)?;
    let dim = gaussian.dim.0 as usize;
    let shape = Shape { weights: &weights, dim, seed };
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
    let from_response = match &problem.response {
        Response::None => None,
        Response::Location(location) => listed(&location.sensitivity),
        Response::BestResponse(best) => listed(&best.sensitivity),
    };
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

fn build_weights(
    problem: &Problem,
    clients: usize,
    rows: Option<&Table>,
    seed: Seed,
) -> Result<Vec<f64>, KeyError> {
    let fail = |message: String| Err(KeyError::new("problem.weights", message));
    let default = if rows.is_some() { NamedWeights::Rows } else { NamedWeights::Uniform };
    match problem.weights.as_ref().unwrap_or(&Weights::Named(default)) {
        Weights::Named(NamedWeights::Uniform) => Ok(vec![1.0 / clients as f64; clients]),
        Weights::Named(NamedWeights::Rows) => match rows {
            Some(table) => Ok(table.row_shares()),
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
    if loss != Loss::Mean && table.label.is_none() {
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
    let path = directory.join(&table.path);
    if path.is_dir() {
        return Err(fail("path", format!("{} is a directory; needed: a CSV file", path.display())));
    }
    let bytes = std::fs::read(&path)
        .map_err(|error| fail("path", format!("{} cannot be read: {error}", path.display())))?;
    let columns = table_file::Columns {
        label: table.label.as_deref(),
        client: match &partition {
            Partition::Column { column } => Some(column),
            _ => None,
        },
        ignore: &table.ignore,
        drop_missing: table.missing == Missing::Drop,
        binary: matches!(loss, Loss::Logistic { .. }),
    };
    let raw = table_file::read(&path, &bytes, &columns)
        .map_err(|message| KeyError::new("problem.base", message))?;
    let how = Preparation {
        shuffle: table.shuffle,
        standardize: table.standardize,
        intercept: table.intercept,
        partition: match partition {
            Partition::Column { .. } => base::Partition::Column,
            Partition::Equal { equal } => base::Partition::Equal(equal.0 as usize),
            Partition::Dirichlet { dirichlet, clients } => base::Partition::Dirichlet {
                concentration: dirichlet.0,
                clients: clients.0 as usize,
            },
        },
        by_class: columns.binary,
    };
    let built = Table::new(&raw, &how, seed).map_err(|error| match error {
        TableError::ConstantColumn(column) => fail(
            "standardize",
            format!(
                "column \"{column}\" is the same in every row; remove it or do not standardise"
            ),
        ),
        TableError::TooFewRows { rows, clients } => {
            fail("partition", format!("{rows} rows cannot be divided among {clients} clients"))
        }
    })?;
    let clients = built.clients();
    if let Some(given) = problem.clients.filter(|given| given.0 != clients as u64) {
        return Err(KeyError::new(
            "problem.clients",
            format!("found {}; the partition makes {clients}: leave it out or correct it", given.0),
        ));
    }
    let weights = build_weights(problem, clients, Some(&built), seed)?;
    Ok((Base::Table(built), weights, Sha256::digest(&bytes).to_vec()))
}

fn build_response(
    problem: &Problem,
    base: &Base,
    weights: &[f64],
    seed: Seed,
) -> Result<Shift, KeyError> {
    let fail =
        |key: &str, message: String| KeyError::new(format!("problem.response.{key}"), message);
    let intercept = matches!(base, Base::Table(table) if table.intercept);
    let features = base.dim() - usize::from(intercept);
    match &problem.response {
        Response::None => Ok(Shift::None),
        Response::Location(location) => {
            let sensitivity = Shape { weights, dim: features, seed }
                .sensitivities(&location.sensitivity)
                .map_err(|message| fail("sensitivity", message))?;
            Ok(response::location(&sensitivity, features, intercept))
        }
        Response::BestResponse(best) => {
            let Base::Table(table) = base else {
                let why = "moves named columns; allowed with the base \"gaussian\": none, location";
                return Err(fail("kind", format!("best-response {why}")));
            };
            let names = &table.coordinates[..features];
            let mut moving = Vec::new();
            for feature in &best.features {
                let column = names.iter().position(|name| name == feature).ok_or_else(|| {
                    let columns = names.join(", ");
                    fail("features", format!("no column \"{feature}\"; features: {columns}"))
                })?;
                if moving.contains(&column) {
                    return Err(fail("features", format!("\"{feature}\" is listed twice")));
                }
                moving.push(column);
            }
            if moving.is_empty() {
                let why = "the list is empty; name the columns that move, or use kind = \"none\"";
                return Err(fail("features", why.into()));
            }
            let sensitivity = Shape { weights, dim: moving.len(), seed }
                .sensitivities(&best.sensitivity)
                .map_err(|message| fail("sensitivity", message))?;
            Ok(response::best_response(&sensitivity, &moving, base.dim()))
        }
    }
}

fn build_protocol(algorithm: &PFedAvg, federation: &Federation) -> Result<Protocol, KeyError> {
    let fail = |key: &str, message: String| KeyError::new(format!("algorithm.{key}"), message);
    let clients = federation.clients();
    let cohort = || match algorithm.cohort {
        Some(cohort) => Ok(cohort.0 as usize),
        None => {
            Err(fail("cohort", "is missing; every scheme but \"full\" needs its size K".into()))
        }
    };
    let scheme = match algorithm.scheme {
        SchemeName::Full => match algorithm.cohort {
            None => Scheme::Full,
            Some(cohort) => {
                let why = "the scheme \"full\" uses every client: leave cohort out";
                return Err(fail("cohort", format!("found {}; {why}", cohort.0)));
            }
        },
        SchemeName::WithReplacement => Scheme::WithReplacement { cohort: cohort()? },
        SchemeName::WithoutReplacement => {
            let cohort = cohort()?;
            if cohort > clients {
                return Err(fail(
                    "cohort",
                    format!("found {cohort}; without replacement allowed: 1 to N = {clients}"),
                ));
            }
            Scheme::WithoutReplacement { cohort }
        }
    };
    if algorithm.scale_objectives && algorithm.scheme != SchemeName::WithoutReplacement {
        let why = "is for the scheme \"without-replacement\" only; the others need no scaling";
        return Err(fail("scale_objectives", why.into()));
    }
    Ok(Protocol {
        scheme,
        local_steps: algorithm.local_steps.0 as usize,
        batch: algorithm.batch.0 as usize,
        step_size: match algorithm.step_size {
            StepSize::Constant { constant } => protocol::StepSize::Constant(constant.0),
            StepSize::Decaying { beta, gamma } => {
                protocol::StepSize::Decaying { beta: beta.0, gamma: gamma.0 }
            }
        },
        deploy: match algorithm.deploy {
            Deploy::Step => protocol::Deploy::Step,
            Deploy::Round => protocol::Deploy::Round,
        },
        aggregate: match algorithm.aggregate {
            Aggregate::Deltas => protocol::Aggregate::Deltas,
            Aggregate::Iterates => protocol::Aggregate::Iterates,
        },
        scale_objectives: algorithm.scale_objectives,
    })
}

/// Refuses sizes that would overflow a step counter or an index, long before memory runs out.
fn check_sizes(spec: &Spec, protocol: &Protocol) -> Result<(), KeyError> {
    let steps = spec.rounds.0.checked_mul(protocol.local_steps as u64);
    if steps.is_none_or(|steps| steps > MOST_STEPS) {
        let why = format!("rounds · local_steps is above 2^53 = {MOST_STEPS}");
        return Err(KeyError::new("rounds", why));
    }
    let draws = (protocol.local_steps as u64).checked_mul(protocol.batch as u64);
    if draws.is_none_or(|draws| draws > MOST_STEPS) {
        return Err(KeyError::new("algorithm.batch", "local_steps · batch is above 2^53"));
    }
    Ok(())
}

fn check_measure(measure: &Measure, federation: &Federation) -> Result<(), KeyError> {
    let logistic = matches!(federation.loss, Loss::Logistic { .. });
    for (key, on) in [("accuracy", measure.accuracy), ("auc", measure.auc)] {
        if on && !logistic {
            return Err(KeyError::new(
                format!("measure.{key}"),
                "needs the loss \"logistic\"; switch it off",
            ));
        }
    }
    Ok(())
}

type StartAndStablePoint = (Vec<f64>, Option<Vec<f64>>);

fn build_start(
    algorithm: &PFedAvg,
    federation: &Federation,
    distance: bool,
) -> Result<StartAndStablePoint, KeyError> {
    let dim = federation.dim();
    let fail = |message: String| KeyError::new("algorithm.start", message);
    let stable = |start: &[f64]| stable::stable_point(federation, start);
    let start = match &algorithm.start {
        Start::Named(NamedStart::Zeros) => vec![0.0; dim],
        Start::Number(number) => vec![*number; dim],
        Start::List(list) if list.len() == dim => list.clone(),
        Start::List(list) => {
            let found = list.len();
            return Err(fail(format!("the list has {found} entries; θ has {dim} coordinates")));
        }
        Start::Named(NamedStart::Stable) => {
            let point = stable(&vec![0.0; dim]).ok_or_else(|| {
                fail("\"stable\", but no stable point was found; `fedback solve` says why".into())
            })?;
            return Ok((point.clone(), Some(point)));
        }
    };
    let stable_point = if distance { stable(&start) } else { None };
    Ok((start, stable_point))
}

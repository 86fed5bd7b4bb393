//! From `[problem]` to a federation.

use std::path::Path;

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::stream::Seed;

use super::sizes::MOST_NUMBERS;
use super::table::{self, BuiltTable};
use super::{memory, response};
use crate::draw;
use crate::spec::{
    self, KeyError, NamedWeights, NonNegative, PerClient, Problem, Spec, Weights, in_order,
};
use crate::table_summary::TableSummary;

/// More clients than this have no stream of their own.
pub(super) const MOST_CLIENTS: u64 = u32::MAX as u64;

/// A problem and what it was built from.
pub(super) struct BuiltProblem {
    pub(super) federation: Federation,
    /// The same clients with the rows that are held out, where there are any.
    pub(super) holdout: Option<Federation>,
    /// What the table was found to hold.
    pub(super) table: Option<TableSummary>,
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
    let built = match &problem.base {
        spec::Base::Gaussian(gaussian) => {
            if let Some(column) = &spec.measure.group {
                let why = format!("found \"{column}\"; normal data have no columns: leave it out");
                return Err(KeyError::new("measure.group", why));
            }
            let (base, weights) = build_gaussian(problem, gaussian, seed)?;
            BuiltTable { base, weights, held: None, summary: None, digest: Vec::new() }
        }
        spec::Base::Table(table) => table::build(spec, table, loss, seed, directory)?,
        spec::Base::Custom(_) | spec::Base::Sites(_) => {
            let why = "its rows come from elsewhere: it is not built in";
            return Err(KeyError::new("problem.base.kind", why));
        }
    };
    let response = response::build(problem, &built.base, loss, &built.weights, seed)?;
    let holdout = match built.held {
        Some((weights, held)) => {
            let held = Federation::new(weights, held, response.clone(), loss)?;
            let held = response::rebase(problem, held)?;
            Some(memory::remembering(held, &problem.response)?)
        }
        None => None,
    };
    let federation = Federation::new(built.weights, built.base, response, loss)?;
    let federation = response::rebase(problem, federation)?;
    let federation = memory::remembering(federation, &problem.response)?;
    Ok(BuiltProblem { federation, holdout, table: built.summary, data: built.digest })
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
    let weights = build_weights(problem, clients, None, None, seed)?;
    let dim = gaussian.dim.0 as usize;
    let shape = draw::Shape { weights: &weights, dim, names: None, seed };
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
    let from_response = problem.response.each().and_then(|(_, values)| listed(values));
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
    names: Option<&[String]>,
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
        Weights::List(list) => listed_weights(list, clients).or_else(fail),
        Weights::ByName { by_name } => {
            let listed = in_order(by_name, None, names);
            listed.and_then(|list| listed_weights(&list, clients)).or_else(fail)
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

/// Weights that are listed must sum to one.
fn listed_weights(list: &[NonNegative], clients: usize) -> Result<Vec<f64>, String> {
    if list.len() != clients {
        let found = list.len();
        return Err(format!("the list has {found} entries; needed: one per client, {clients}"));
    }
    let sum: f64 = list.iter().map(|weight| weight.0).sum();
    if (sum - 1.0).abs() > 1e-9 {
        return Err(format!("the weights sum to {sum}; needed: 1 (within 1e-9)"));
    }
    Ok(list.iter().map(|weight| weight.0 / sum).collect())
}

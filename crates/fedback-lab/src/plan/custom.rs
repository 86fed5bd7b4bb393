//! From a `[problem]` of which a part is custom to what a run needs of it.

use std::path::Path;

use fedback_core::base::Base;
use fedback_core::loss::Loss;
use fedback_core::response::{Response, Shift};
use fedback_core::stream::Seed;

use super::problem::{BuiltProblem, MOST_CLIENTS, build, build_weights, loss};
use super::{Elsewhere, Populations, Shape, sites};
use crate::spec::{self, All, Batch, KeyError, Problem, Spec, Weights};

/// The data and how they react, where they are built in.
type Population = Option<(Base, Shift)>;

impl Populations for Elsewhere {
    fn build(spec: &Spec, directory: &Path) -> Result<(Self, Shape), KeyError> {
        check_batch(spec)?;
        let problem = &spec.problem;
        let (population, shape) = population(spec, directory)?;
        let stable_point = problem.stable_point.as_ref();
        let populations = Elsewhere {
            population,
            loss: loss(&problem.loss),
            intercept: problem.base.has_intercept(),
            stable_point: stable_point.map(|point| point.iter().map(|x| x.0).collect()),
        };
        Ok((populations, shape))
    }

    fn loss(&self) -> Option<Loss> {
        None
    }

    fn stable_point(&self, _start: &[f64]) -> Option<Vec<f64>> {
        self.stable_point.clone()
    }
}

/// Refuses `batch = "all"` where a population cannot be listed.
fn check_batch(spec: &Spec) -> Result<(), KeyError> {
    let why = match &spec.problem.base {
        _ if spec.algorithm.rounds().batch != Batch::All(All::All) => return Ok(()),
        spec::Base::Table(_) | spec::Base::Sites(_) => return Ok(()),
        spec::Base::Custom(_) => "the observations of a custom base cannot be listed",
        spec::Base::Gaussian(_) => "the expectation of a custom loss over normal data is not known",
    };
    let fix = "allowed here: a whole number, 1 or more";
    Err(KeyError::new("algorithm.batch", format!("found \"all\"; {why}; {fix}")))
}

/// Checks and builds a `[problem]` of which a part is custom.
fn population(spec: &Spec, directory: &Path) -> Result<(Population, Shape), KeyError> {
    let problem = &spec.problem;
    let (population, shape) = match &problem.base {
        spec::Base::Custom(base) => (None, shape(spec, base)?),
        spec::Base::Sites(base) => (None, sites::shape(spec, base)?),
        _ => {
            let BuiltProblem { federation, holdout, table, data } = build(spec, directory)?;
            let why = "only losses that are built in are measured on such rows: leave it out";
            if holdout.is_some() {
                return Err(KeyError::new("problem.base.holdout", why));
            }
            if spec.measure.group.is_some() {
                return Err(KeyError::new("measure.group", why));
            }
            let Response::Shift(shift) = federation.response() else {
                let kind = problem.response.kind();
                let why = format!(
                    "found \"{kind}\"; with a custom loss only what moves all rows of a client alike \
                     is built in: none, location and best-response without range, saturating"
                );
                return Err(KeyError::new("problem.response.kind", why));
            };
            if federation.memory().is_some() {
                let why = "only problems that are built in whole have populations that remember: \
                           leave it out";
                return Err(KeyError::new("problem.response.memory", why));
            }
            let shape = Shape::of(&federation, table, data);
            (Some((federation.base().clone(), shift.clone())), shape)
        }
    };
    match &problem.stable_point {
        Some(point) if point.len() != shape.dim => Err(KeyError::new(
            "problem.stable_point",
            format!("the list has {} entries; θ has {} coordinates", point.len(), shape.dim),
        )),
        _ => Ok((population, shape)),
    }
}

fn shape(spec: &Spec, base: &spec::CustomBase) -> Result<Shape, KeyError> {
    let problem = &spec.problem;
    if problem.response != spec::Response::None {
        let why = "the observations of a custom base react in their own way: leave response out";
        return Err(KeyError::new("problem.response", why));
    }
    if base.intercept && matches!(problem.loss, spec::Loss::Mean | spec::Loss::Custom) {
        let why = "only the losses squared and logistic have an intercept; leave it out";
        return Err(KeyError::new("problem.base.intercept", why));
    }
    if base.intercept && base.dim.0 == 1 {
        let why = "found 1, which is the intercept alone; θ has a coordinate a feature besides";
        return Err(KeyError::new("problem.base.dim", why));
    }
    let clients = count_clients(problem)?;
    let seed = Seed(problem.seed.unwrap_or(spec.seed).0);
    Ok(Shape {
        weights: build_weights(problem, clients, None, None, seed)?.into(),
        dim: base.dim.0 as usize,
        client_names: None,
        coordinates: None,
        standardization: None,
        table: None,
        data: Vec::new(),
    })
}

/// The number of clients whose data lie elsewhere.
pub(super) fn count_clients(problem: &Problem) -> Result<usize, KeyError> {
    let from_weights = match &problem.weights {
        Some(Weights::List(weights)) => Some(weights.len() as u64),
        _ => None,
    };
    let clients = problem.clients.map(|clients| clients.0).or(from_weights);
    let clients = clients.filter(|clients| (1..=MOST_CLIENTS).contains(clients));
    clients.map(|clients| clients as usize).ok_or_else(|| {
        let why = format!("needed with this base: a number from 1 to {MOST_CLIENTS}");
        KeyError::new("problem.clients", why)
    })
}

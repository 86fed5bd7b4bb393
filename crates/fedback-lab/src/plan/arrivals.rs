//! From `latency`, `deadline` and `correct` to arrivals.

use std::path::Path;
use std::sync::Arc;

use fedback_core::arrivals::{self, Arrivals};
use fedback_core::stream::{Purpose, Seed};
use fedback_engine::backend::check_arrivals;
use fedback_engine::cohort::CohortSampler;
use fedback_theory::inclusion::inclusion;

use super::{Outline, Shape};
use crate::draw;
use crate::error::Error;
use crate::spec::{KeyError, Latency, PerClient, RoundKeys, SchemeName, Spec};
use crate::trace_file;
use crate::words::no_inclusion;

/// When clients answer, and what that makes of the coefficients of the first.
#[derive(Clone, Debug)]
pub struct PlannedArrivals {
    /// The latencies and the deadline.
    pub arrivals: Arrivals,
    /// π_i, where coefficients are corrected by it.
    pub inclusion: Option<Arc<[f64]>>,
}

impl Outline {
    /// A sampler of cohorts that knows who arrives first, where that is described.
    pub fn sampler(&self) -> CohortSampler {
        let sampler = CohortSampler::new(&self.protocol, self.weights.clone());
        match &self.arrivals {
            None => sampler,
            Some(PlannedArrivals { arrivals, inclusion }) => {
                sampler.with_arrivals(arrivals.clone(), inclusion.clone())
            }
        }
    }

    /// Whether it can be run in memory: of first arrivals it must be known when clients answer.
    pub fn check_arrivals(&self) -> Result<(), Error> {
        Ok(check_arrivals(self.protocol.scheme, self.arrivals.is_some())?)
    }
}

fn fail(key: &str, message: impl Into<String>) -> KeyError {
    KeyError::new(format!("algorithm.{key}"), message)
}

/// Arrivals with what they make of coefficients, and the digest of the trace, where there are any.
/// `algorithm` is the spec's.
pub(super) fn build(
    spec: &Spec,
    algorithm: &RoundKeys,
    shape: &Shape,
    directory: &Path,
) -> Result<(Option<PlannedArrivals>, Vec<u8>), KeyError> {
    let (arrivals, data) = describe(spec, algorithm, shape, directory)?;
    let Some(arrivals) = arrivals else { return Ok((None, data)) };
    let inclusion = match algorithm.correct {
        true => Some(corrections(algorithm, shape, &arrivals)?),
        false => None,
    };
    Ok((Some(PlannedArrivals { arrivals, inclusion }), data))
}

/// The same without coefficients, which no site needs.
pub(super) fn describe(
    spec: &Spec,
    algorithm: &RoundKeys,
    shape: &Shape,
    directory: &Path,
) -> Result<(Option<Arrivals>, Vec<u8>), KeyError> {
    check(algorithm)?;
    let Some(latency) = &algorithm.latency else { return Ok((None, Vec::new())) };
    let seed = Seed(spec.problem.seed.unwrap_or(spec.seed).0);
    let drawn =
        draw::Shape { weights: &shape.weights, dim: 1, names: shape.client_names.as_deref(), seed };
    let positive = |key: &str, values: &PerClient, purpose: Purpose| {
        let key = format!("latency.{key}");
        let values = drawn.vectors(values, purpose).map_err(|why| fail(&key, why))?;
        match values.iter().position(|value| *value <= 0.0) {
            None => Ok(values),
            Some(client) => Err(fail(
                &key,
                format!("found {} for client {client}; allowed: above 0", values[client]),
            )),
        }
    };
    let mut data = Vec::new();
    let latency = match latency {
        Latency::Exponential(exponential) => arrivals::Latency::Exponential {
            mean: positive("mean", &exponential.mean, Purpose::Speeds)?,
        },
        Latency::Lognormal(lognormal) => arrivals::Latency::Lognormal {
            median: positive("median", &lognormal.median, Purpose::Speeds)?,
            sigma: positive("sigma", &lognormal.sigma, Purpose::Spreads)?,
        },
        Latency::Trace(trace) => {
            let path = directory.join(&trace.path);
            let read = trace_file::read(&path, &shape.client_labels());
            let read = read.map_err(|why| fail("latency.path", why))?;
            data = read.digest;
            arrivals::Latency::Trace(read.trace)
        }
    };
    let deadline = algorithm.deadline.map(|deadline| deadline.0);
    Ok((Some(Arrivals { latency: Arc::new(latency), deadline }), data))
}

/// What goes with first arrivals, and what with them only.
fn check(algorithm: &RoundKeys) -> Result<(), KeyError> {
    if algorithm.scheme != SchemeName::FirstArrivals {
        let given = [
            ("correct", algorithm.correct),
            ("latency", algorithm.latency.is_some()),
            ("deadline", algorithm.deadline.is_some()),
        ];
        return match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((key, _)) => {
                Err(fail(key, "is for the scheme \"first-arrivals\" only; leave it out"))
            }
        };
    }
    Ok(())
}

/// π of every client, none of whom must be cut off for good.
fn corrections(
    algorithm: &RoundKeys,
    shape: &Shape,
    arrivals: &Arrivals,
) -> Result<Arc<[f64]>, KeyError> {
    let cohort = algorithm.cohort.map_or(1, |cohort| cohort.0 as usize);
    let found = inclusion(arrivals, cohort);
    let found = found.map_err(|why| fail("correct", no_inclusion(why)))?;
    let never = found.iter().zip(shape.weights.iter()).position(|(pi, p)| *pi <= 0.0 && *p > 0.0);
    match never {
        None => Ok(found.into()),
        Some(client) => Err(fail(
            "correct",
            format!(
                "client {} is never among the first {cohort}: no coefficient makes up for that; \
                 raise algorithm.deadline or algorithm.cohort",
                shape.client_labels()[client]
            ),
        )),
    }
}

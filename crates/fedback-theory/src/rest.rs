//! Where rounds of one step size rest, and how far that is from the stable point.
//!
//! Clients that make several local steps drift towards points of their own, so that the average rests where
//! their drifts cancel, not where their gradients do. Exact where the problem is affine. Otherwise the
//! noise-free round's own fixed point is sought from where the linearised round has it.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, ServerRule};
use nalgebra::{DMatrix, DVector};
use serde::Serialize;

use crate::cohort::Arrived;
use crate::limit::{LARGE_BUDGET, NoMap, RoundMap};
use crate::newton;
use crate::round::Walk;

/// A place of rest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rest {
    /// η.
    pub step_size: f64,
    /// Where rounds rest on average.
    pub point: Vec<f64>,
    /// That less the stable point.
    pub bias: Vec<f64>,
    /// √trace Cov θ around it.
    pub spread: f64,
}

/// Why there is no place of rest, or none is known.
#[derive(Clone, Debug, PartialEq)]
pub enum NoRest {
    /// Rounds cannot be linearised.
    NoMap(NoMap),
    /// A round of this step size multiplies squared errors by this, where that is finite.
    Grows {
        /// η.
        size: f64,
        /// The factor.
        by: Option<f64>,
    },
    /// The rounds' fixed point was not found.
    NotFound,
}

/// Where rounds of the step size `size` rest near the stable point `point`.
pub fn rest(
    federation: &Federation,
    protocol: &Protocol,
    arrived: Option<&Arrived>,
    point: &[f64],
    size: f64,
) -> Result<Rest, NoRest> {
    let map = RoundMap::within(LARGE_BUDGET, federation, protocol, arrived, point);
    let mut map = map.map_err(NoRest::NoMap)?;
    let by = map.mean_square_radius(size);
    if by.is_none_or(|by| by >= 1.0) {
        return Err(NoRest::Grows { size, by });
    }
    let floor = map.floor(size).ok_or(NoRest::NotFound)?;
    let bias = match federation.is_affine() || protocol.local.keeps() {
        true => floor.bias,
        false => {
            let plain = Protocol { server: ServerRule::Average, ..*protocol };
            let walk = Walk::new(federation, &plain, arrived);
            let sizes = vec![size; protocol.local_steps];
            let moved = |before: &DVector<f64>| {
                let mut state = before.as_slice().to_vec();
                walk.round(federation, &mut state, &sizes);
                DVector::from_vec(state) - before
            };
            let point = DVector::from_column_slice(point);
            let begin = DVector::from_vec(walk.long_at((&point + floor.bias).as_slice()));
            let found = newton::root(&begin, f64::INFINITY, |at| {
                let at = DVector::from_column_slice(at);
                (moved(&at), derivative(&at, moved))
            });
            let found = found.ok_or(NoRest::NotFound)?.0;
            found.rows(0, point.len()) - point
        }
    };
    Ok(Rest {
        step_size: size,
        point: point.iter().zip(bias.iter()).map(|(p, b)| p + b).collect(),
        bias: bias.as_slice().to_vec(),
        spread: floor.covariance.trace().max(0.0).sqrt(),
    })
}

/// A function's derivative, by central differences.
fn derivative(at: &DVector<f64>, function: impl Fn(&DVector<f64>) -> DVector<f64>) -> DMatrix<f64> {
    let width = 1e-6 * (1.0 + at.norm());
    let column = |j: usize| {
        let mut aside = DVector::zeros(at.len());
        aside[j] = width;
        (function(&(at + &aside)) - function(&(at - &aside))) / (2.0 * width)
    };
    DMatrix::from_columns(&(0..at.len()).map(column).collect::<Vec<_>>())
}

//! The performatively optimal point θ^PO: the minimiser of f(θ; θ), the reaction included.
//!
//! Closed form where the risk is quadratic. Otherwise the performative risk need not be convex, and
//! the best of several starts is taken: the stable points (so that the price of stability is never
//! negative), the run's start, zeros, the static minimiser (as if nothing reacted), and points around
//! it along the coordinates that react.

use fedback_core::federation::Federation;
use fedback_core::risk::Quadratic;
use nalgebra::DVector;

use crate::direct;
use crate::newton;
use crate::stable::is_same;

/// The best point found.
#[derive(Clone, Debug)]
pub struct OptimalPoint {
    /// θ^PO.
    pub theta: Vec<f64>,
    /// f(θ^PO; θ^PO).
    pub risk: f64,
    /// How many local minima the starts led to; one for a closed form.
    pub minima: usize,
}

/// The minimiser of f(θ; θ), or none where the risk has no minimum or not a single one.
pub fn optimal_point(federation: &Federation, starts: &[&[f64]]) -> Option<OptimalPoint> {
    match federation.is_affine() {
        true => quadratic(federation),
        false => best_of(federation, starts),
    }
}

fn quadratic(federation: &Federation) -> Option<OptimalPoint> {
    let Quadratic { centre, is_minimum, value, .. } = Quadratic::new(federation);
    let finite = value.is_finite() && centre.iter().all(|c| c.is_finite());
    let theta = centre.as_slice().to_vec();
    (is_minimum && finite).then_some(OptimalPoint { theta, risk: value, minima: 1 })
}

fn best_of(federation: &Federation, starts: &[&[f64]]) -> Option<OptimalPoint> {
    let mut minima: Vec<OptimalPoint> = Vec::new();
    let given = starts.iter().copied().map(DVector::from_column_slice);
    // At a kink the gradient does not vanish, and Newton's method does not end.
    let rough = federation.response().has_kinks();
    let risk = |at: &[f64]| federation.risk(at, at);
    for start in given.chain(crate::starts::starts(federation)) {
        let found = newton::minimise(&start, |at| federation.performative(at));
        let found = match rough {
            true => direct::minimise(found.as_ref().unwrap_or(&start), risk),
            false => found,
        };
        let Some(theta) = found.map(|found| found.as_slice().to_vec()) else { continue };
        if !minima.iter().any(|minimum| is_same(&minimum.theta, &theta)) {
            let risk = federation.risk(&theta, &theta);
            minima.push(OptimalPoint { theta, risk, minima: 1 });
        }
    }
    let count = minima.len();
    let best = minima.into_iter().min_by(|a, b| a.risk.total_cmp(&b.risk))?;
    Some(OptimalPoint { minima: count, ..best })
}

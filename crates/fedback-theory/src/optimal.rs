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
use crate::stable::{is_same, norm};
use crate::starts::{far_out, starts};

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

/// What is known of the minimiser of f(θ; θ).
#[derive(Clone, Debug)]
pub enum Optimum {
    /// It is there.
    At(OptimalPoint),
    /// There is none: the risk falls for ever on the way that leads through this point, as where those who
    /// are served badly are driven away.
    AtInfinity(OptimalPoint),
    /// None was found, or not a single one.
    Unknown,
}

/// The minimiser of f(θ; θ), or none where the risk has no minimum or not a single one.
pub fn optimal_point(federation: &Federation, starts: &[&[f64]]) -> Option<OptimalPoint> {
    match optimum(federation, starts) {
        Optimum::At(point) => Some(point),
        Optimum::AtInfinity(_) | Optimum::Unknown => None,
    }
}

/// The same, or what there is to say instead.
pub fn optimum(federation: &Federation, starts: &[&[f64]]) -> Optimum {
    match federation.is_affine() {
        true => quadratic(federation).map_or(Optimum::Unknown, Optimum::At),
        false => best_of(federation, starts),
    }
}

fn quadratic(federation: &Federation) -> Option<OptimalPoint> {
    let Quadratic { centre, is_minimum, value, .. } = Quadratic::new(federation);
    let finite = value.is_finite() && centre.iter().all(|c| c.is_finite());
    let theta = centre.as_slice().to_vec();
    (is_minimum && finite).then_some(OptimalPoint { theta, risk: value, minima: 1 })
}

/// Starts from which the risk alone is looked at.
const MOST_DIRECT: usize = 4;

fn best_of(federation: &Federation, given: &[&[f64]]) -> Optimum {
    let mut minima: Vec<OptimalPoint> = Vec::new();
    let given = given.iter().copied().map(DVector::from_column_slice);
    let risk = |at: &[f64]| federation.risk(at, at);
    let add = |minima: &mut Vec<OptimalPoint>, theta: Vec<f64>| {
        if !minima.iter().any(|minimum| is_same(&minimum.theta, &theta)) {
            minima.push(OptimalPoint { risk: risk(&theta), theta, minima: 1 });
        }
    };
    // At a kink the gradient does not vanish, and Newton's method does not end.
    let rough = federation.response().has_kinks();
    let (mut stuck, mut lost) = (Vec::new(), Vec::new());
    let starts = given.chain(starts(federation)).chain(far_out(federation));
    for start in starts {
        match newton::descend(&start, |at| federation.performative(at)) {
            Ok(theta) => add(&mut minima, theta.as_slice().to_vec()),
            Err(_) if rough => stuck.push(start),
            Err(end) => lost.push(end),
        }
    }
    if rough {
        stuck.extend(minima.iter().map(|found| DVector::from_column_slice(&found.theta)));
        stuck.sort_by(|a, b| risk(a.as_slice()).total_cmp(&risk(b.as_slice())));
        stuck.truncate(MOST_DIRECT);
        let found = stuck.iter().filter_map(|start| direct::minimise(start, risk));
        let found: Vec<DVector<f64>> = found.collect();
        minima.clear();
        found.iter().for_each(|theta| add(&mut minima, theta.as_slice().to_vec()));
    }
    // Searches that lead outwards for ever, to a lower risk than any that ended.
    let lost = lost.into_iter().map(|end| end.as_slice().to_vec());
    let lost = lost.map(|theta| OptimalPoint { risk: risk(&theta), theta, minima: 1 });
    let lost = lost.filter(|end| end.risk.is_finite() && falls(federation, end));
    let lost = lost.min_by(|a, b| a.risk.total_cmp(&b.risk));
    let count = minima.len();
    let best = minima.into_iter().min_by(|a, b| a.risk.total_cmp(&b.risk));
    match best {
        None => lost.map_or(Optimum::Unknown, Optimum::AtInfinity),
        Some(best) if lost.as_ref().is_some_and(|lost| lost.risk < best.risk) => {
            lost.map_or(Optimum::Unknown, Optimum::AtInfinity)
        }
        Some(best) if falls(federation, &best) => Optimum::AtInfinity(best),
        Some(best) => Optimum::At(OptimalPoint { minima: count, ..best }),
    }
}

/// Whether a point is on the way to risks that are no higher further and further out. Below a certain size
/// it is not looked at: there a multiple is no other point.
fn falls(federation: &Federation, found: &OptimalPoint) -> bool {
    let at = |times: f64| {
        let further: Vec<f64> = found.theta.iter().map(|t| times * t).collect();
        federation.risk(&further, &further)
    };
    // Coordinates that are zero but for rounding must not decide.
    let level = found.risk + 1e-14 * (1.0 + found.risk.abs());
    norm(&found.theta) > 1.0 && at(2.0) <= level && at(8.0) <= level
}

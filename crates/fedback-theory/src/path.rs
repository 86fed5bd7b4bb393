//! Where the noise-free path of small steps goes: θ′ = −F(θ) from a start.
//!
//! Several stable points are normal where people leave; which of them a run comes to is decided by where it
//! starts. The flow is followed by Heun's method with steps that keep its error small. Where F jumps it may
//! end at a place that is no root: to both sides F points towards it.

use fedback_core::federation::Federation;
use nalgebra::DVector;

use crate::stable::{Stability, StablePoint, distance, norm};

/// Where the path ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// At a stable point, by its place in the list.
    At(usize),
    /// At a place where F jumps from one side to the other.
    Jump(Vec<f64>),
    /// Not known.
    Unknown,
}

/// Steps at most.
const MOST: usize = 20_000;
/// The error of a step, in units of the model's size.
const TOLERANCE: f64 = 1e-5;
/// A step that is so short in units of the model's size has come to a place where F jumps.
const STUCK: f64 = 1e-10;
/// This close to an attracting point, in units of its size, the path ends there.
const CLOSE: f64 = 1e-4;

/// Follows the path from a start, among the stable points that are known.
pub(crate) fn follow(federation: &Federation, start: &[f64], points: &[StablePoint]) -> End {
    let slope = |at: &DVector<f64>| federation.gradient(at.as_slice(), at.as_slice());
    let mut theta = DVector::from_column_slice(start);
    let mut here = slope(&theta);
    let mut length = 0.1 / here.norm().max(1.0);
    for _ in 0..MOST {
        if !theta.iter().chain(&here).all(|number| number.is_finite()) {
            return End::Unknown;
        }
        let close = |point: &StablePoint| {
            let near = distance(&point.theta, theta.as_slice());
            near <= CLOSE * (1.0 + norm(&point.theta))
        };
        if let Some(place) = points.iter().position(close) {
            let repels = points[place].stability() == Stability::Repelling;
            let rests = here.norm() * length <= TOLERANCE * TOLERANCE;
            if !repels || rests {
                return End::At(place);
            }
        }
        let size = 1.0 + theta.norm();
        let ahead = &theta - &here * length;
        let there = slope(&ahead);
        let error = 0.5 * length * (&there - &here).norm() / size;
        if error > TOLERANCE {
            length *= 0.5;
            let jumps = here.norm() > 1e-6 && here.norm() * length <= STUCK * size;
            if jumps && here.dot(&there) < 0.0 {
                return End::Jump(theta.as_slice().to_vec());
            }
            continue;
        }
        theta -= (&here + &there) * (0.5 * length);
        here = slope(&theta);
        if error < 0.25 * TOLERANCE {
            length *= 1.5;
        }
    }
    End::Unknown
}

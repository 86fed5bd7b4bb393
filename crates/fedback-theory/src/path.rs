//! Where the noise-free path of small steps goes: θ′ = −F(θ) from a start.
//!
//! Several stable points are normal where people leave; which of them a run comes to is decided by where it
//! starts. The flow is followed by Heun's method with steps that keep its error small. Where F jumps, the path may
//! end at a place that is no root: to both sides F points towards it, and some average of the two
//! vanishes (Filippov's rest of a sliding flow). Such a path gets nowhere however long it runs, which is how the
//! place is noticed; whether it is one is then looked at.

use fedback_core::federation::Federation;
use nalgebra::DVector;

use crate::stable::{Stability, StablePoint, distance, norm};

/// Where the path ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// At a stable point, by its place in the list.
    At(usize),
    /// At a place where F jumps from one side to the other.
    Jump(Jump),
    /// Not known.
    Unknown,
}

/// A place where the averaged gradient changes sign without a root.
#[derive(Clone, Debug, PartialEq)]
pub struct Jump {
    /// Where.
    pub theta: Vec<f64>,
    /// The averaged gradient on the side where the path was when it was seen to rest.
    pub before: Vec<f64>,
    /// The averaged gradient on the other side.
    pub behind: Vec<f64>,
}

/// Steps at most.
const MOST: usize = 20_000;
/// The error of a step, in units of the model's size.
const TOLERANCE: f64 = 1e-5;
/// This close to an attracting point, in units of its size, the path ends there.
const CLOSE: f64 = 1e-4;
/// Steps after which it is asked how far they have led.
const WHILE: usize = 200;
/// Steps that have led no further than this share of their lengths have led nowhere.
const NOWHERE: f64 = 0.1;
/// An average of two sides this small against them is none.
const REST: f64 = 1e-3;

/// Follows the path from a start, among the stable points that are known.
pub(crate) fn follow(federation: &Federation, start: &[f64], points: &[StablePoint]) -> End {
    let slope = |at: &DVector<f64>| federation.gradient(at.as_slice(), at.as_slice());
    let mut theta = DVector::from_column_slice(start);
    let mut here = slope(&theta);
    let mut length = 0.1 / here.norm().max(1.0);
    let (mut since, mut steps, mut way) = (theta.clone(), 0, 0.0);
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
            continue;
        }
        (steps, way) = (steps + 1, way + here.norm() * length);
        if steps == WHILE {
            if (&theta - &since).norm() <= NOWHERE * way
                && let Some(jump) = jump(&slope, &theta, &here, length)
            {
                return End::Jump(jump);
            }
            (since, steps, way) = (theta.clone(), 0, 0.0);
        }
        theta -= (&here + &there) * (0.5 * length);
        here = slope(&theta);
        if error < 0.25 * TOLERANCE {
            length *= 1.5;
        }
    }
    End::Unknown
}

/// The place not far ahead where F turns round at once, if it rests there.
fn jump(
    slope: &impl Fn(&DVector<f64>) -> DVector<f64>,
    theta: &DVector<f64>,
    here: &DVector<f64>,
    length: f64,
) -> Option<Jump> {
    let at = |way: f64| slope(&(theta - here * way));
    let against = |there: &DVector<f64>| here.dot(there) < 0.0;
    let lengths = (0..8).map(|doubled| length * f64::from(1 << (2 * doubled)));
    let (mut near, mut far) = (0.0, lengths.into_iter().find(|way| against(&at(*way)))?);
    for _ in 0..80 {
        let middle = 0.5 * (near + far);
        if middle <= near || middle >= far {
            break;
        }
        if against(&at(middle)) { far = middle } else { near = middle }
    }
    let (before, behind) = (at(near), at(far));
    let across = &behind - &before;
    // The shortest average of the two; where F is continuous they are one and the same.
    let part = (-before.dot(&across) / across.norm_squared()).clamp(0.0, 1.0);
    let rest = &before + &across * part;
    let size = before.norm().max(behind.norm());
    (across.norm() > 0.1 * size && rest.norm() <= REST * size).then(|| Jump {
        theta: (theta - here * near).as_slice().to_vec(),
        before: before.as_slice().to_vec(),
        behind: behind.as_slice().to_vec(),
    })
}

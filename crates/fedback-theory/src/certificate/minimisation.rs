//! Does repeated minimisation settle: θ ← argmin f(·; θ)?
//!
//! On affine problems the spectral radius of H⁻¹J decides for every start. Otherwise it decides near a
//! stable point, and whether the start leads there is found by doing it.

use nalgebra::DVector;

use super::Answer;
use super::outlook::{Case, distance, short};
use crate::stable::{StablePoint, minimiser};

/// Minimisations that are tried.
const MOST_ITERATIONS: usize = 100;
/// A radius closer to one than this is one.
const ROUNDING: f64 = 1e-9;

/// Whether it settles from the start of the case; `radius` is that of every point of an affine problem
/// without stable point.
pub(super) fn minimisation(case: &Case<'_>, everywhere: Option<f64>) -> Answer {
    if case.federation.is_affine() {
        let radius = case.points.first().and_then(|p| p.minimisation_radius).or(everywhere);
        return match radius {
            Some(radius) => by_radius(radius),
            None => Answer::unknown("the radius of repeated minimisation is not known"),
        };
    }
    let mut theta = DVector::from_column_slice(case.start);
    let mut moves: Vec<f64> = Vec::new();
    for _ in 0..MOST_ITERATIONS {
        let Some(next) = minimiser(case.federation, theta.as_slice(), &theta) else {
            let why = "the risk for the data of one deployment has no minimum within reach";
            return Answer::unknown(why);
        };
        let moved = (&next - &theta).norm() / (1.0 + theta.norm());
        theta = next;
        moves.push(moved);
        if moved <= 1e-9 {
            break;
        }
    }
    let end = nearest(case, theta.as_slice());
    let radius = end.and_then(|(point, _)| point.minimisation_radius);
    let there = end.is_some_and(|(_, apart)| apart <= 1e-3 * (1.0 + theta.norm()));
    let arrived = moves.last().is_some_and(|last| *last <= 1e-9) && there;
    match radius {
        Some(radius) if arrived && radius < 1.0 - ROUNDING => by_radius(radius),
        Some(radius) if arrived => Answer {
            settles: Some(false),
            why: format!("it rests at a stable point that repels it (radius {})", short(radius)),
        },
        Some(radius) if radius < 1.0 - ROUNDING && shrinking(&moves) => Answer {
            settles: Some(true),
            why: format!("slowly: each multiplies the error by {} at last", short(radius)),
        },
        _ => Answer {
            settles: Some(false),
            why: format!(
                "after {} minimisations from this start it still moves by {} of its size",
                moves.len(),
                short(moves.last().copied().unwrap_or(f64::NAN))
            ),
        },
    }
}

/// Whether the second half of the moves is a geometric decrease.
fn shrinking(moves: &[f64]) -> bool {
    let late = &moves[moves.len() / 2..];
    late.len() > 10
        && late.windows(2).all(|pair| pair[1] < pair[0])
        && late.last().is_some_and(|last| *last < 1e-2)
}

fn nearest<'a>(case: &'a Case<'_>, theta: &[f64]) -> Option<(&'a StablePoint, f64)> {
    let apart = case.points.iter().map(|point| (point, distance(&point.theta, theta)));
    apart.min_by(|a, b| a.1.total_cmp(&b.1))
}

pub(super) fn by_radius(radius: f64) -> Answer {
    let settles = radius < 1.0 - ROUNDING;
    let words = if settles { "below 1 it settles" } else { "it needs a radius below 1" };
    Answer {
        settles: Some(settles),
        why: format!("each minimisation multiplies the error by {}: {words}", short(radius)),
    }
}

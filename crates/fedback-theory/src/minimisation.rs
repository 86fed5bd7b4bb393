//! Does repeated minimisation settle: θ ← T(θ) = argmin f(·; θ)?
//!
//! On affine problems the spectral radius of H⁻¹J decides for every start. Otherwise it decides near a
//! stable point, and whether a start leads there is found by doing it. Waiting until it rests takes as
//! many minimisations as the radius is close to one, so plain ones are only done until they contract:
//! Newton's method, T′ = −H⁻¹J being known, says where they would end, and
//! V(x) = Σ_k |A^k (x − end)|², A = T′(end), which a linear T lowers by |x − end|² each time, must fall by
//! half of that along the last of the path and at points between its last one and the end. The same of
//! T² shows that a path ends in a cycle of two. What neither shows is not known.

use fedback_core::federation::Federation;
use nalgebra::{DMatrix, DVector};

use crate::round::geometric;
use crate::spectrum;
use crate::stable::{StablePoint, minimiser};

/// What repeated minimisation does from a start.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimisation {
    /// Yes, no, or not known.
    pub settles: Option<bool>,
    /// Why.
    pub why: Why,
    /// Where it ends, or the last model that was looked at; none where it was not done.
    pub end: Option<Vec<f64>>,
}

/// Why repeated minimisation settles, why not, or why that is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Each minimisation multiplies the error by this number at last.
    Radius(f64),
    /// It rests at a stable point that repels it with this radius.
    Rests(f64),
    /// It ends in a cycle of two models.
    Cycle,
    /// Every stable point that was found repels it, with this radius or a larger one.
    Repelled(f64),
    /// So many minimisations show nothing.
    Moves {
        /// How many.
        minimisations: usize,
        /// How far the last one moved, in units of its size.
        by: f64,
    },
    /// The risk for the data of one deployment has no minimum within reach.
    NoMinimum,
    /// The radius is not known.
    NoRadius,
}

/// A radius closer to one than this is one.
const ROUNDING: f64 = 1e-9;
/// A move in units of the model's size that is none.
const AT_REST: f64 = 1e-10;
/// Plain minimisations at most; the path is looked at after powers of two, this one the first.
const MOST: usize = 128;
const FIRST_LOOK: usize = 8;
/// Newton steps to the end of a path that contracts.
const NEWTON: usize = 8;
/// Moves of the path that must contract.
const LOOK_BACK: usize = 3;
/// How often the way from the path to its end is halved, a point each.
const HALVINGS: i32 = 8;

impl Minimisation {
    /// By the radius at the point in question, or everywhere.
    pub(crate) fn by_radius(radius: Option<f64>) -> Self {
        match radius {
            Some(radius) => Minimisation {
                settles: Some(radius < 1.0 - ROUNDING),
                why: Why::Radius(radius),
                end: None,
            },
            None => Minimisation::unknown(Why::NoRadius),
        }
    }

    fn unknown(why: Why) -> Self {
        Minimisation { settles: None, why, end: None }
    }

    /// From a start, by doing it.
    pub(crate) fn from_start(federation: &Federation, start: &[f64]) -> Self {
        let (end, found) = follow(federation, DVector::from_column_slice(start));
        Minimisation { end: Some(end.as_slice().to_vec()), ..found }
    }

    /// The same where the stable points are known: what none of them attracts cannot settle.
    pub(crate) fn among(self, points: &[StablePoint]) -> Self {
        let radii = points.iter().map(|point| point.minimisation_radius.unwrap_or(0.0));
        let least = radii.min_by(f64::total_cmp).unwrap_or(0.0);
        match self.settles.is_none() && self.why != Why::NoMinimum && least > 1.0 + ROUNDING {
            true => Minimisation { settles: Some(false), why: Why::Repelled(least), ..self },
            false => self,
        }
    }
}

/// Repeats minimisation from a start: where that ends, and what it shows.
fn follow(federation: &Federation, start: DVector<f64>) -> (DVector<f64>, Minimisation) {
    let (mut path, mut by) = (vec![start], f64::NAN);
    for count in 1..=MOST {
        let last = &path[count - 1];
        let Some(next) = minimiser(federation, last.as_slice(), last) else {
            return (last.clone(), Minimisation::unknown(Why::NoMinimum));
        };
        by = (&next - last).norm() / (1.0 + last.norm());
        if by <= AT_REST {
            let found = at_rest(federation, &next);
            return (next, found);
        }
        path.push(next);
        if count >= FIRST_LOOK
            && count.is_power_of_two()
            && let Some(found) = attractor(federation, &path)
        {
            return found;
        }
    }
    (path.swap_remove(MOST), Minimisation::unknown(Why::Moves { minimisations: MOST, by }))
}

/// What to make of a model that minimisation does not move.
fn at_rest(federation: &Federation, theta: &DVector<f64>) -> Minimisation {
    let radius = derivative(federation, theta, theta).and_then(|a| spectrum::radius(&a));
    let found = Minimisation::by_radius(radius);
    match (found.settles, radius) {
        (Some(false), Some(radius)) => Minimisation { why: Why::Rests(radius), ..found },
        _ => found,
    }
}

/// T′ at `deployed`, of which `minimiser` is the value.
fn derivative(
    federation: &Federation,
    minimiser: &DVector<f64>,
    deployed: &DVector<f64>,
) -> Option<DMatrix<f64>> {
    let field = federation.mean_field(minimiser.as_slice(), deployed.as_slice());
    field.curvature.lu().solve(&-field.reaction)
}

/// Where a path is drawn to, and what that means: a stable point, by one minimisation after the other
/// or by every second one, or one of a cycle of two.
fn attractor(
    federation: &Federation,
    path: &[DVector<f64>],
) -> Option<(DVector<f64>, Minimisation)> {
    let (once, twice) = (Round { federation, period: 1 }, Round { federation, period: 2 });
    let last = path.last()?;
    if let Some((end, slope)) = once.fixed_point(last)
        && (once.draws(path, &end, &slope) || twice.draws(path, &end, &(&slope * &slope)))
    {
        let found = at_rest(federation, &end);
        return Some((end, found));
    }
    let (end, slope) = twice.fixed_point(last)?;
    let apart = (once.after(&end)?.0 - &end).norm() > AT_REST.sqrt() * (1.0 + end.norm());
    let cycle = Minimisation { settles: Some(false), why: Why::Cycle, end: None };
    (apart && twice.draws(path, &end, &slope)).then_some((end, cycle))
}

/// So many minimisations at a time.
struct Round<'a> {
    federation: &'a Federation,
    period: usize,
}

impl Round<'_> {
    /// What the round makes of a model, and its derivative there.
    fn after(&self, theta: &DVector<f64>) -> Option<(DVector<f64>, DMatrix<f64>)> {
        let start = (theta.clone(), DMatrix::identity(theta.len(), theta.len()));
        (0..self.period).try_fold(start, |(at, slope), _| {
            let next = minimiser(self.federation, at.as_slice(), &at)?;
            let slope = derivative(self.federation, &next, &at)? * slope;
            Some((next, slope))
        })
    }

    /// A point that the round does not move, by Newton's method, and the round's derivative there.
    fn fixed_point(&self, start: &DVector<f64>) -> Option<(DVector<f64>, DMatrix<f64>)> {
        let mut theta = start.clone();
        let identity = DMatrix::identity(theta.len(), theta.len());
        for _ in 0..NEWTON {
            let (at, slope) = self.after(&theta)?;
            let left = at - &theta;
            if left.norm() <= AT_REST * (1.0 + theta.norm()) {
                return Some((theta, slope));
            }
            theta += (&identity - slope).lu().solve(&left)?;
        }
        None
    }

    /// Whether V falls along the path and between its last point and its end.
    fn draws(&self, path: &[DVector<f64>], end: &DVector<f64>, slope: &DMatrix<f64>) -> bool {
        let contracts = spectrum::radius(slope).is_some_and(|radius| radius < 1.0 - ROUNDING);
        let identity = || DMatrix::identity(end.len(), end.len());
        let sum = contracts.then(|| geometric(&slope.transpose(), identity())).flatten();
        let Some(sum) = sum else { return false };
        let value = |x: &DVector<f64>| x.dot(&(&sum * x));
        let falls = |from: &DVector<f64>, to: &DVector<f64>| {
            let (from, to) = (from - end, to - end);
            let arrived = from.norm() <= AT_REST.sqrt() * (1.0 + end.norm());
            arrived || value(&to) <= value(&from) - 0.5 * from.norm_squared()
        };
        let (last, moves) = (path.len() - 1, LOOK_BACK * self.period);
        let mut late = (last - moves..last).step_by(self.period);
        let mut between = (0..HALVINGS).map(|n| end + (&path[last] - end) * 0.5f64.powi(n));
        late.all(|k| falls(&path[k], &path[k + self.period]))
            && between.all(|from| self.after(&from).is_some_and(|(to, _)| falls(&from, &to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_solves_its_equation() {
        // Far from normal: powers grow before they fall. S = I + AᵀSA.
        let slope = DMatrix::from_row_slice(2, 2, &[0.99, 50.0, 0.0, -0.7]);
        let sum = geometric(&slope.transpose(), DMatrix::identity(2, 2)).unwrap();
        let again = DMatrix::identity(2, 2) + slope.transpose() * &sum * &slope;
        assert!((&sum - again).amax() < 1e-12 * sum.amax());
        assert!(geometric(&(slope * 1.1), DMatrix::identity(2, 2)).is_none());
    }
}

//! Newton's method with safeguards: minimisers and roots of smooth functions of a few variables.
//!
//! General optimisers were weighed and left out: every function here has exact second derivatives
//! and the two loops below need them in their own ways.

use fedback_core::population::Performative;
use nalgebra::{Cholesky, DMatrix, DVector};

const LIMIT: usize = 300;
/// How often a direction is halved.
const HALVINGS: i32 = 40;

/// A step is nothing when it moves no digit that matters.
fn negligible(step: &DVector<f64>, point: &DVector<f64>) -> bool {
    step.norm() <= 1e-11 * (1.0 + point.norm())
}

/// A local minimiser of a risk reached from `start`: Newton's direction on the Hessian made positive
/// definite, halved until the risk falls. None where it falls forever.
pub(crate) fn minimise(
    start: &DVector<f64>,
    function: impl Fn(&[f64]) -> Performative,
) -> Option<DVector<f64>> {
    descend(start, function).ok()
}

/// The same, or else the point to which the search has come.
pub(crate) fn descend(
    start: &DVector<f64>,
    function: impl Fn(&[f64]) -> Performative,
) -> Result<DVector<f64>, DVector<f64>> {
    let mut point = start.clone();
    let mut here = function(point.as_slice());
    for _ in 0..LIMIT {
        let derivatives = here.gradient.iter().chain(here.hessian.iter());
        if !derivatives.chain([&here.risk]).all(|number| number.is_finite()) {
            return Err(point);
        }
        let Some((direction, convex)) = descent(&here) else { return Err(point) };
        if convex && negligible(&direction, &point) {
            return Ok(point);
        }
        let slope = direction.dot(&here.gradient);
        // Where the risk cannot show the decrease any more, the gradient decides.
        let exhausted = convex && -slope <= 1e-14 * (1.0 + here.risk.abs());
        let halvings = if exhausted { 0 } else { HALVINGS };
        let lower = (0..halvings).map(|count| 0.5f64.powi(count)).find_map(|length| {
            let candidate = &point + &direction * length;
            let there = function(candidate.as_slice());
            (there.risk <= here.risk + 1e-4 * length * slope).then_some((candidate, there))
        });
        let Some(lower) = lower else {
            let found = polish(point.clone(), |at| {
                let there = function(at);
                (there.gradient, there.hessian)
            });
            return found.map(|(point, _)| point).ok_or(point);
        };
        (point, here) = lower;
    }
    Err(point)
}

/// Newton's direction on H + τ I with the smallest τ of a geometric sequence that makes it positive
/// definite, and whether τ was zero. At a stationary point that is no minimum, a way out. None where
/// that τ is too large to be represented.
fn descent(here: &Performative) -> Option<(DVector<f64>, bool)> {
    let scale = here.hessian.amax().max(f64::MIN_POSITIVE);
    if let Some(factor) = Cholesky::new(here.hessian.clone()) {
        return Some((-factor.solve(&here.gradient), true));
    }
    if here.gradient.norm() <= 1e-9 * scale {
        let eigen = here.hessian.clone().symmetric_eigen();
        let (worst, value) = eigen.eigenvalues.argmin();
        if value < -1e-9 * scale {
            return Some((eigen.eigenvectors.column(worst).into_owned(), false));
        }
    }
    let first = (1e-10 * scale).max(1e-290);
    let ridges = std::iter::successors(Some(first), |ridge| Some(10.0 * ridge));
    ridges.take_while(|ridge| ridge.is_finite()).find_map(|ridge| {
        let identity = DMatrix::identity(here.gradient.len(), here.gradient.len());
        let factor = Cholesky::new(&here.hessian + identity * ridge)?;
        // A ridge that only repairs rounding leaves the direction Newton's own.
        Some((-factor.solve(&here.gradient), ridge <= 1e-8 * scale))
    })
}

/// Full Newton steps while the residual shrinks. A root is where the steps die out; steps that do
/// not are on their way to infinity.
fn polish(
    mut point: DVector<f64>,
    function: impl Fn(&[f64]) -> (DVector<f64>, DMatrix<f64>),
) -> Option<(DVector<f64>, usize)> {
    let (mut residual, mut derivative) = function(point.as_slice());
    for steps in 0..20 {
        let step = derivative.clone().lu().solve(&residual)?;
        let next = &point - &step;
        let (there, next_derivative) = function(next.as_slice());
        if there.norm() >= residual.norm() {
            let settled = step.norm() <= 1e-6 * (1.0 + point.norm());
            return settled.then_some((point, steps));
        }
        (point, residual, derivative) = (next, there, next_derivative);
    }
    None
}

/// A root of F reached from `start` along the flow θ′ = −F(θ): implicit steps whose length grows as
/// the residual falls (pseudo-transient continuation, Kelley and Keyes 1998), which begin as the
/// flow and end as Newton's method. `caution` is the first step length in units of 1/|F′|;
/// infinite makes it Newton's method from the beginning. Also the iterations that it took.
pub(crate) fn root(
    start: &DVector<f64>,
    caution: f64,
    function: impl Fn(&[f64]) -> (DVector<f64>, DMatrix<f64>),
) -> Option<(DVector<f64>, usize)> {
    let mut point = start.clone();
    let (mut residual, mut derivative) = function(point.as_slice());
    let identity = DMatrix::identity(point.len(), point.len());
    let mut length = caution / derivative.norm().max(f64::MIN_POSITIVE);
    for iterations in 1..=LIMIT {
        if residual.norm() == 0.0 {
            return Some((point, iterations));
        }
        if !residual.norm().is_finite() || !derivative.norm().is_finite() {
            return None;
        }
        let newton = derivative.clone().lu().solve(&residual);
        if newton.as_ref().is_some_and(|step| negligible(step, &point)) {
            let (point, more) = polish(point, function)?;
            return Some((point, iterations + more));
        }
        let mut trials = 0;
        loop {
            let system = &identity * (1.0 / length) + &derivative;
            let step = system.lu().solve(&residual)?;
            let next = &point - &step;
            let (there, next_derivative) = function(next.as_slice());
            let growth = there.norm() / residual.norm();
            // The flow itself may pass over a ridge of |F|, so some growth is let through; but an
            // implicit step that is too long shows as growth, and is tried again shorter.
            let tolerated = if length.is_finite() { 1.5 } else { 1.0 };
            if growth.is_finite() && (growth <= tolerated || trials >= 40) {
                length /= growth.clamp(0.1, 2.0);
                (point, residual, derivative) = (next, there, next_derivative);
                break;
            }
            trials += 1;
            if trials > 60 {
                return None;
            }
            length = if length.is_finite() { length * 0.25 } else { 1.0 / derivative.norm() };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rosenbrock(at: &[f64]) -> Performative {
        let (x, y) = (at[0], at[1]);
        Performative {
            risk: (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2),
            gradient: DVector::from_vec(vec![
                -2.0 * (1.0 - x) - 400.0 * x * (y - x * x),
                200.0 * (y - x * x),
            ]),
            hessian: DMatrix::from_row_slice(
                2,
                2,
                &[2.0 - 400.0 * (y - 3.0 * x * x), -400.0 * x, -400.0 * x, 200.0],
            ),
        }
    }

    #[test]
    fn finds_a_curved_minimum() {
        let found = minimise(&DVector::from_vec(vec![-1.2, 1.0]), rosenbrock).unwrap();
        assert!((found - DVector::from_element(2, 1.0)).norm() < 1e-10);
    }

    #[test]
    fn leaves_a_saddle() {
        // x²/2 − y²/2 + y⁴/4 started at its saddle: the minima are y = ±1.
        let found = minimise(&DVector::zeros(2), |at| {
            let (x, y) = (at[0], at[1]);
            Performative {
                risk: 0.5 * x * x - 0.5 * y * y + 0.25 * y.powi(4),
                gradient: DVector::from_vec(vec![x, y.powi(3) - y]),
                hessian: DMatrix::from_diagonal(&DVector::from_vec(vec![1.0, 3.0 * y * y - 1.0])),
            }
        });
        assert!((found.unwrap()[1].abs() - 1.0).abs() < 1e-10);
    }

    #[test]
    fn a_minimum_at_infinity_is_not_found() {
        let found = minimise(&DVector::zeros(1), |at| {
            let e = (-at[0]).exp();
            Performative {
                risk: e,
                gradient: DVector::from_element(1, -e),
                hessian: DMatrix::from_element(1, 1, e),
            }
        });
        assert!(found.is_none());
    }

    #[test]
    fn the_flow_ends_at_the_attracting_root() {
        // F = x³ − x attracts at ±1 and repels at 0; Newton from 0.1 goes to 0.
        let cubic = |at: &[f64]| {
            let x = at[0];
            (
                DVector::from_element(1, x.powi(3) - x),
                DMatrix::from_element(1, 1, 3.0 * x * x - 1.0),
            )
        };
        let start = DVector::from_element(1, 0.1);
        assert!((root(&start, 0.1, cubic).unwrap().0[0] - 1.0).abs() < 1e-12);
        assert!(root(&start, f64::INFINITY, cubic).unwrap().0[0].abs() < 1e-12);
    }
    /// Ends at every size; with no direction where none can be represented.
    #[test]
    fn a_huge_saddle_has_an_end() {
        let size = 1.7e308;
        let here = Performative {
            risk: 0.0,
            gradient: DVector::from_element(2, 1e300),
            hessian: DMatrix::from_row_slice(2, 2, &[-size, size, size, -size]),
        };
        assert!(descent(&here).is_none());
    }
}

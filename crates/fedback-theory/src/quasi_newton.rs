//! A minimiser of a function whose second derivatives are not known: BFGS with halved steps (Nocedal and
//! Wright, *Numerical Optimization*, 6.1).

use nalgebra::{Cholesky, DMatrix, DVector};

const LIMIT: usize = 200;
const HALVINGS: i32 = 30;
/// A step in units of the point's size that is none.
const AT_REST: f64 = 1e-6;
/// The same where the function shows no decrease any more.
const NEARLY: f64 = 1e-3;
/// How far a minimum may be, in units of the start's size.
const FAR: f64 = 1e6;

/// A local minimiser reached from `start`; none where there is none within reach. `curvature` is about what
/// second derivatives are there; what is not positive definite is not used.
pub(crate) fn minimise(
    start: &DVector<f64>,
    curvature: &DMatrix<f64>,
    function: impl Fn(&DVector<f64>) -> f64,
    gradient: impl Fn(&DVector<f64>) -> DVector<f64>,
) -> Option<DVector<f64>> {
    let (mut point, mut here, mut slope) = (start.clone(), function(start), gradient(start));
    let identity = DMatrix::identity(start.len(), start.len());
    let guess = Cholesky::new((curvature + curvature.transpose()) * 0.5);
    let mut measured = guess.is_some();
    let unknown = |slope: &DVector<f64>| &identity / slope.norm().max(1.0);
    let mut inverse = guess.map_or_else(|| unknown(&slope), |guess| guess.inverse());
    for _ in 0..LIMIT {
        let size = 1.0 + point.norm();
        if !here.is_finite() || !slope.norm().is_finite() || size > FAR * (1.0 + start.norm()) {
            return None;
        }
        let direction = -(&inverse * &slope);
        if measured && direction.norm() <= AT_REST * size || slope.norm() == 0.0 {
            return Some(point);
        }
        let fall = direction.dot(&slope);
        let lower = (0..HALVINGS).map(|n| 0.5f64.powi(n)).find_map(|length| {
            let next = &point + &direction * length;
            let there = function(&next);
            (there <= here + 1e-4 * length * fall).then_some((next, there))
        });
        let Some((next, there)) = lower else {
            let rests = measured && direction.norm() <= NEARLY * size;
            if rests || !measured {
                return rests.then_some(point);
            }
            // What was learnt of the curvature misleads: once more along the gradient.
            (inverse, measured) = (unknown(&slope), false);
            continue;
        };
        let next_slope = gradient(&next);
        let (moved, turned) = (&next - &point, &next_slope - &slope);
        let curvature = moved.dot(&turned);
        if curvature > 1e-12 * moved.norm() * turned.norm() {
            if !measured {
                inverse = &identity * (curvature / turned.norm_squared());
            }
            let part = &identity - &moved * turned.transpose() / curvature;
            inverse = &part * inverse * part.transpose() + &moved * moved.transpose() / curvature;
            measured = true;
        }
        (point, here, slope) = (next, there, next_slope);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_curved_minimum() {
        let rosenbrock =
            |at: &DVector<f64>| (1.0 - at[0]).powi(2) + 100.0 * (at[1] - at[0] * at[0]).powi(2);
        let gradient = |at: &DVector<f64>| {
            let inner = at[1] - at[0] * at[0];
            let first = -2.0 * (1.0 - at[0]) - 400.0 * at[0] * inner;
            DVector::from_vec(vec![first, 200.0 * inner])
        };
        for guess in [DMatrix::zeros(2, 2), DMatrix::identity(2, 2) * 100.0] {
            let start = DVector::from_vec(vec![-1.2, 1.0]);
            let found = minimise(&start, &guess, rosenbrock, gradient).unwrap();
            assert!((found - DVector::from_element(2, 1.0)).norm() < 1e-5);
        }
    }

    #[test]
    fn a_minimum_at_infinity_is_not_found() {
        let falls = |at: &DVector<f64>| (-at[0]).exp();
        let (start, flat) = (DVector::zeros(1), DMatrix::zeros(1, 1));
        let found = minimise(&start, &flat, falls, |at| DVector::from_element(1, -falls(at)));
        assert!(found.is_none());
        let line = |at: &DVector<f64>| -at[0];
        let found = minimise(&start, &flat, line, |_| DVector::from_element(1, -1.0));
        assert!(found.is_none());
    }
}

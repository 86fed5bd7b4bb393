//! A minimiser of a risk that has kinks or jumps, by looking at the risk alone.
//!
//! Nelder and Mead's simplex, begun anew around the best point until that no longer helps, and then a look
//! along every coordinate. A library for this was weighed: `argmin` has the simplex, and fifty more solvers;
//! what is needed is forty lines.

use nalgebra::DVector;

/// Evaluations at most.
const MOST: usize = 40_000;
/// A gain that is none, in units of the risk's size.
const NOTHING: f64 = 1e-13;
/// Larger models are on their way to infinity.
const FAR: f64 = 1e6;

/// A local minimiser reached from `start`; none where the risk falls forever.
pub(crate) fn minimise(start: &DVector<f64>, risk: impl Fn(&[f64]) -> f64) -> Option<DVector<f64>> {
    let mut best = (risk(start.as_slice()), start.clone());
    let (mut size, mut left) = (0.1 * (1.0 + start.norm()), MOST);
    while left > 0 && size > 1e-9 * (1.0 + best.1.norm()) {
        let found = simplex(&best.1, size, &risk, &mut left);
        if !(found.0.is_finite() && found.1.norm() < FAR) {
            return None;
        }
        let gained = best.0 - found.0;
        if found.0 < best.0 {
            best = found;
        }
        if gained <= NOTHING * (1.0 + best.0.abs()) {
            size *= 0.1;
        }
    }
    Some(best.1)
}

/// One simplex, from its first size until it has shrunk to a point.
fn simplex(
    centre: &DVector<f64>,
    size: f64,
    risk: &impl Fn(&[f64]) -> f64,
    left: &mut usize,
) -> (f64, DVector<f64>) {
    let dim = centre.len();
    let mut judge = |at: &DVector<f64>| {
        *left = left.saturating_sub(1);
        let value = risk(at.as_slice());
        if value.is_nan() { f64::INFINITY } else { value }
    };
    let mut corners = vec![(judge(centre), centre.clone())];
    for j in 0..dim {
        let mut corner = centre.clone();
        corner[j] += size;
        corners.push((judge(&corner), corner));
    }
    for _ in 0..400 * (dim + 1) {
        corners.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (lowest, highest) = (corners[0].0, corners[dim].0);
        let extent = (&corners[dim].1 - &corners[0].1).norm();
        let flat = highest - lowest <= NOTHING * (1.0 + lowest.abs());
        if flat && extent <= 1e-8 * (1.0 + corners[0].1.norm()) || !lowest.is_finite() {
            break;
        }
        let middle = corners[..dim].iter().map(|(_, at)| at).sum::<DVector<f64>>() / dim as f64;
        let mut along = |by: f64| {
            let at = &middle + (&corners[dim].1 - &middle) * by;
            (judge(&at), at)
        };
        let reflected = along(-1.0);
        let better = if reflected.0 < lowest {
            let expanded = along(-2.0);
            Some(if expanded.0 < reflected.0 { expanded } else { reflected })
        } else if reflected.0 < corners[dim - 1].0 {
            Some(reflected)
        } else {
            let contracted = if reflected.0 < highest { along(-0.5) } else { along(0.5) };
            (contracted.0 < highest.min(reflected.0)).then_some(contracted)
        };
        match better {
            Some(better) => corners[dim] = better,
            None => {
                let first = corners[0].1.clone();
                for corner in &mut corners[1..] {
                    corner.1 = &first + (&corner.1 - &first) * 0.5;
                    corner.0 = judge(&corner.1);
                }
            }
        }
    }
    corners.swap_remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minimum_on_a_kink_is_found() {
        // |x − 1| + 10 |y + 2 − x|: the kinks meet at (1, −1).
        let risk = |at: &[f64]| (at[0] - 1.0).abs() + 10.0 * (at[1] + 2.0 - at[0]).abs();
        let found = minimise(&DVector::from_vec(vec![4.0, 3.0]), risk).unwrap();
        assert!((found[0] - 1.0).abs() < 1e-6 && (found[1] + 1.0).abs() < 1e-6, "{found}");
    }

    #[test]
    fn a_risk_that_falls_forever_has_none() {
        assert!(minimise(&DVector::zeros(1), |at| -at[0]).is_none());
    }
}

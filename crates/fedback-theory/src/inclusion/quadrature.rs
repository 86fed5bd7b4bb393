//! Integrals of functions with many values, by the rule of Gauss and Legendre on panels that are
//! halved until halving changes nothing, and until the sum of all values is what it is known to be:
//! a peak between the nodes would be missed by both otherwise.

/// Nodes of the rule on a panel.
const NODES: usize = 12;
/// What halving may change.
const TOLERANCE: f64 = 2e-14;
/// What the sum of all values may be off, in units of the whole.
const WHOLE: f64 = 1e-12;
/// How often a panel is halved at most.
const DEEPEST: usize = 40;
/// Panels after which no more are halved.
const MOST_PANELS: usize = 5000;

/// Nodes and weights on [0, 1] that integrate polynomials of degree 2n − 1 exactly: roots of the
/// Legendre polynomial by Newton's method.
pub(super) fn gauss_legendre(n: usize) -> Vec<(f64, f64)> {
    (0..n)
        .map(|k| {
            let count = n as f64;
            let mut x = libm::cos(std::f64::consts::PI * (k as f64 + 0.75) / (count + 0.5));
            let mut slope = 1.0;
            for _ in 0..100 {
                // P_n and P_{n−1} by their recurrence, P_n′ = n (x P_n − P_{n−1}) / (x² − 1).
                let (mut before, mut here) = (1.0, x);
                for degree in 2..=n {
                    let degree = degree as f64;
                    let next = ((2.0 * degree - 1.0) * x * here - (degree - 1.0) * before) / degree;
                    (before, here) = (here, next);
                }
                slope = count * (x * here - before) / (x * x - 1.0);
                let step = here / slope;
                x -= step;
                if step.abs() < 1e-15 {
                    break;
                }
            }
            (0.5 * (1.0 - x), 1.0 / ((1.0 - x * x) * slope * slope))
        })
        .collect()
}

/// Whether a sum of all values is what it is known to be.
pub(super) fn is_whole(found: f64, before: f64, after: f64) -> bool {
    (found - (after - before)).abs() <= WHOLE * after.max(1.0)
}

/// ∫ over [low, high] by one rule, added to `sum`; `integrand` adds a multiple of its values.
pub(super) fn rule(
    nodes: &[(f64, f64)],
    (low, high): (f64, f64),
    integrand: &dyn Fn(f64, f64, &mut [f64]),
    sum: &mut [f64],
) {
    for (node, weight) in nodes {
        integrand(low + (high - low) * node, weight * (high - low), sum);
    }
}

/// ∫ over [low, high], panel by panel, added to `sum`, and whether it is certain. `total` is an
/// antiderivative of the sum of all values, where one is known.
pub(super) fn adaptive(
    ends: (f64, f64),
    integrand: &dyn Fn(f64, f64, &mut [f64]),
    total: Option<&dyn Fn(f64) -> f64>,
    sum: &mut [f64],
) -> bool {
    let nodes = gauss_legendre(NODES);
    let count = sum.len();
    let panel = |ends: (f64, f64)| {
        let mut values = vec![0.0; count];
        rule(&nodes, ends, integrand, &mut values);
        values
    };
    let mut left = vec![(ends, panel(ends), 0)];
    let (mut certain, mut panels) = (true, 0);
    while let Some(((low, high), whole, depth)) = left.pop() {
        let middle = 0.5 * (low + high);
        let (lower, upper) = (panel((low, middle)), panel((middle, high)));
        let halves: Vec<f64> = lower.iter().zip(&upper).map(|(l, u)| l + u).collect();
        let still = whole.iter().zip(&halves).all(|(w, h)| (w - h).abs() <= TOLERANCE);
        let known =
            |total: &dyn Fn(f64) -> f64| is_whole(halves.iter().sum(), total(low), total(high));
        let found = still && total.is_none_or(known);
        panels += 1;
        if found || depth >= DEEPEST || panels >= MOST_PANELS {
            certain &= found;
            sum.iter_mut().zip(&halves).for_each(|(sum, half)| *sum += half);
        } else {
            left.push(((middle, high), upper, depth + 1));
            left.push(((low, middle), lower, depth + 1));
        }
    }
    certain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_are_exact() {
        for n in 1..=16 {
            let nodes = gauss_legendre(n);
            assert!((nodes.iter().map(|(_, w)| w).sum::<f64>() - 1.0).abs() < 1e-14);
            let degree = 2 * n - 1;
            let power: f64 = nodes.iter().map(|(x, w)| w * x.powi(degree as i32)).sum();
            assert!((power - 1.0 / (degree as f64 + 1.0)).abs() < 1e-14, "{n}: {power}");
        }
    }

    #[test]
    fn steep_functions_are_found() {
        let mut sum = [0.0, 0.0];
        let integrand = |x: f64, weight: f64, sum: &mut [f64]| {
            sum[0] += weight / (1.0 + libm::exp(-400.0 * (x - 0.3)));
            sum[1] += weight * x;
        };
        assert!(adaptive((0.0, 1.0), &integrand, None, &mut sum));
        // ∫ 1/(1 + e^(−a(x−b))) = (ln(1 + e^(a(1−b))) − ln(1 + e^(−ab)))/a, here 1 − b to rounding.
        assert!((sum[0] - 0.7).abs() < 1e-13 && (sum[1] - 0.5).abs() < 1e-14, "{sum:?}");
    }

    /// A peak between all nodes is found because it is missing from the sum.
    #[test]
    fn peaks_are_not_missed() {
        let width = 1e-5;
        let z = |x: f64| (x - 0.371_234) / width;
        let integrand = |x: f64, weight: f64, sum: &mut [f64]| {
            sum[0] += weight * libm::exp(-0.5 * z(x) * z(x));
        };
        let area = width * libm::sqrt(2.0 * std::f64::consts::PI);
        let total = |x: f64| area * 0.5 * libm::erfc(-z(x) * std::f64::consts::FRAC_1_SQRT_2);
        let (mut blind, mut seeing) = ([0.0], [0.0]);
        adaptive((0.0, 1.0), &integrand, None, &mut blind);
        assert!(adaptive((0.0, 1.0), &integrand, Some(&total), &mut seeing));
        assert!(blind[0] < 1e-9 && (seeing[0] / area - 1.0).abs() < 1e-6, "{blind:?} {seeing:?}");
    }

    /// What cannot be integrated is given up, and said to be.
    #[test]
    fn noise_has_an_end() {
        let integrand = |x: f64, weight: f64, sum: &mut [f64]| sum[0] += weight / (x - x);
        assert!(!adaptive((0.0, 1.0), &integrand, Some(&|x| x), &mut [0.0]));
    }
}

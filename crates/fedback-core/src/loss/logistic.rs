//! The logistic loss log(1 + eᵐ) − y m of a margin m, for labels 0 and 1.
//!
//! Written in e^−|m|, which neither overflows nor loses the small probabilities of large margins.

use super::MarginLoss;
use crate::exp::exp_neg;

/// log(1 + eᵐ) − y m.
#[derive(Clone, Copy, Debug)]
pub struct Logistic;

/// 1 / (1 + e⁻ᵐ).
#[inline(always)]
fn sigmoid(margin: f64) -> f64 {
    let e = exp_neg(margin.abs());
    let numerator = if margin >= 0.0 { 1.0 } else { e };
    numerator / (1.0 + e)
}

impl MarginLoss for Logistic {
    #[inline(always)]
    fn value(self, margin: f64, label: f64) -> f64 {
        margin.max(0.0) + libm::log1p(exp_neg(margin.abs())) - label * margin
    }

    #[inline(always)]
    fn slope(self, margin: f64, label: f64) -> f64 {
        sigmoid(margin) - label
    }

    #[inline(always)]
    fn curvature(self, margin: f64, _label: f64) -> f64 {
        let e = exp_neg(margin.abs());
        e / ((1.0 + e) * (1.0 + e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_at_huge_margins() {
        for (margin, label, value, slope) in [
            (1e4, 1.0, 0.0, 0.0),
            (1e4, 0.0, 1e4, 1.0),
            (-1e4, 1.0, 1e4, -1.0),
            (-1e4, 0.0, 0.0, 0.0),
        ] {
            assert_eq!(Logistic.value(margin, label), value);
            assert_eq!(Logistic.slope(margin, label), slope);
            assert_eq!(Logistic.curvature(margin, label), 0.0);
        }
    }

    #[test]
    fn derivatives_match_differences() {
        let h = 1e-5;
        for margin in [-30.0, -3.0, -0.1, 0.0, 0.7, 12.0] {
            for label in [0.0, 1.0] {
                let slope = (Logistic.value(margin + h, label) - Logistic.value(margin - h, label))
                    / (2.0 * h);
                assert!((slope - Logistic.slope(margin, label)).abs() < 1e-9);
                let curvature = (Logistic.slope(margin + h, label)
                    - Logistic.slope(margin - h, label))
                    / (2.0 * h);
                assert!((curvature - Logistic.curvature(margin, label)).abs() < 1e-9);
            }
        }
    }
}

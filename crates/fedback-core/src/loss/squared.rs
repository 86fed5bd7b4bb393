//! The squared loss (y − m)² / 2 of a margin m.

use super::MarginLoss;

/// (y − m)² / 2.
#[derive(Clone, Copy, Debug)]
pub struct Squared;

impl MarginLoss for Squared {
    #[inline(always)]
    fn value(self, margin: f64, label: f64) -> f64 {
        0.5 * (label - margin) * (label - margin)
    }

    #[inline(always)]
    fn slope(self, margin: f64, label: f64) -> f64 {
        margin - label
    }

    #[inline(always)]
    fn curvature(self, _margin: f64, _label: f64) -> f64 {
        1.0
    }
}

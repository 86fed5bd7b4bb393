//! Gradient descent, the local work of P-FedAvg (Jin et al., "Performative Federated Learning",
//! section 2.4): w ← w − η g.
//!
//! With constant steps and E > 1 the average rests beside the stable point, by O(η (E − 1)), because
//! clients drift towards points of their own.

use fedback_core::simd::Number;

use super::{Coordinate, Rule, StepSizes};

/// w ← w − η g.
#[derive(Clone, Copy, Debug)]
pub struct Descent;

impl Rule for Descent {
    const READS: bool = false;

    #[inline(always)]
    fn step<N: Number>(self, at: Coordinate<N>, gradient: N, size: StepSizes<N>) -> N {
        at.w - size.gradient * gradient
    }
}

//! FedProx (Li et al., "Federated Optimization in Heterogeneous Networks", 2020): a spring of
//! strength μ pulls the local model back to the one broadcast, w ← w − η (g + μ (w − θ)).
//!
//! Drift is less, never none, and so is usually the distance to the stable point at rest. The spring is
//! no part of the objective and is not scaled with it.

use fedback_core::simd::Number;

use super::{Coordinate, Rule, StepSizes};

/// w ← w − η (g + μ (w − θ)), with this μ.
#[derive(Clone, Copy, Debug)]
pub struct Proximal(pub f64);

impl Rule for Proximal {
    const READS: bool = true;

    #[inline(always)]
    fn step<N: Number>(self, at: Coordinate<N>, gradient: N, size: StepSizes<N>) -> N {
        let spring = at.w.like(self.0) * (at.w - at.theta);
        at.w - (size.gradient * gradient + size.plain * spring)
    }
}

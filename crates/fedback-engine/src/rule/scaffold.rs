//! SCAFFOLD (Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
//! 2020, option II): a client keeps c_i, the average of its gradients in its last round, and steps
//! along g − c_i + c, where c = Σ p_i c_i is sent with θ.
//!
//! At rest every client's corrected gradient is the same, so that it does not drift: the average
//! rests on the stable point itself, for any number of local steps, any scheme, any deployment. After
//! a round of steps of total size Ση, c_i ← c_i − c + (θ − w_i)/Ση. A client that is not in the
//! cohort keeps its c_i.

use fedback_core::simd::Number;

use super::{Coordinate, Rule, StepSizes};

/// w ← w − η (g − c_i + c).
#[derive(Clone, Copy, Debug)]
pub struct Scaffold;

impl Rule for Scaffold {
    const READS: bool = true;

    #[inline(always)]
    fn step<N: Number>(self, at: Coordinate<N>, gradient: N, size: StepSizes<N>) -> N {
        at.w - (size.gradient * gradient + size.plain * at.control)
    }

    #[inline(always)]
    fn control(self, sent: f64, kept: f64) -> f64 {
        sent - kept
    }

    #[inline(always)]
    fn keep(self, control: f64, delta: f64, total: f64) -> f64 {
        -(control + delta / total)
    }
}

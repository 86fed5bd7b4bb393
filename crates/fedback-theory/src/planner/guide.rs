//! A rule of thumb: the best E where noise is all that is left.
//!
//! By the law of large t the error is (Q + E R)/(a² T) to leading order (see [`crate::asymptotic`] for
//! Q and R), so that T ~ (Q + E R)/(a² A) steps are needed, and T (1 + C/E) is least at
//! E* = √(C Q/R). Bias and the way from the start do not enter.

use fedback_core::protocol::Scheme;

use super::Task;
use super::rows::gradient_covariance;

/// E*; none where sampling adds no noise (R = 0), so that noise does not limit E.
pub fn noise_limited_local_steps(
    task: &Task<'_>,
    scheme: Scheme,
    communication: f64,
) -> Option<f64> {
    let Task { federation, protocol, stable_point, .. } = *task;
    let n = federation.clients() as f64;
    let (mut noise, mut drawn) = (0.0, 0.0);
    for (i, &p) in federation.weights.iter().enumerate().filter(|(_, p)| **p > 0.0) {
        let (own, spread) = match scheme {
            Scheme::Full => (p * p, 0.0),
            Scheme::WithReplacement { cohort } => {
                let k = cohort as f64;
                (p * p + p * (1.0 - p) / k, p / k)
            }
            Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => {
                let k = cohort as f64;
                let finite = if n > 1.0 { (n - k) / (n - 1.0) } else { 0.0 };
                (n / k * p * p, n / k * finite * p * p)
            }
        };
        let gradient = federation.population(i).expand(stable_point, stable_point).gradient;
        let covariance = gradient_covariance(federation, i, stable_point);
        noise += own * covariance.trace() / protocol.batch as f64;
        drawn += spread * gradient.norm_squared();
    }
    (drawn > 0.0).then(|| (communication * noise / drawn).sqrt())
}

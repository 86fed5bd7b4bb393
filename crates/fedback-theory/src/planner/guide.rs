//! Rules of thumb where noise is all that is left: the best E, and how many steps it takes.
//!
//! By the law of large t the error is (Q + E R)/(a² T) to leading order (see [`crate::asymptotic`] for
//! Q and R), so that T ~ (Q + E R)/(a² A) steps are needed, and T (1 + C/E) is least at
//! E* = √(C Q/R). Bias and the way from the start do not enter.

use fedback_core::protocol::{Protocol, Scheme};

use super::Task;
use crate::asymptotic::Field;

/// E*; none where sampling adds no noise (R = 0), so that noise does not limit E.
pub fn noise_limited_local_steps(
    task: &Task<'_>,
    scheme: Scheme,
    communication: f64,
) -> Option<f64> {
    let (noise, drawn) = noises(task, scheme);
    (drawn > 0.0).then(|| (communication * noise / drawn).sqrt())
}

/// (Q + R)/(a² A): the steps that an accuracy takes in the end, with E = 1 and the best decay.
pub fn noise_limited_steps(task: &Task<'_>, scheme: Scheme, target: f64) -> f64 {
    let (noise, drawn) = noises(task, scheme);
    (noise + drawn) / (task.margin * task.margin * target)
}

/// Steps below which noise keeps everything above the target, roughly, so that they need not be
/// looked at. To move the mean of client i by m in T steps with gradients of size g and noise S adds
/// a variance of at least S m²/(g² T) (Cauchy–Schwarz), so all clients together need
/// T ≥ S M²/(A Σ g_i²), M = |θ⁰ − θ^PS| − √A; a quarter of it, since gradients change on the way.
pub(super) fn fewest_steps(task: &Task<'_>, target: f64) -> f64 {
    let Task { federation, protocol, stable_point, start, .. } = *task;
    let away: f64 = start.iter().zip(stable_point).map(|(s, c)| (s - c) * (s - c)).sum();
    let moved = (away.sqrt() - target.sqrt()).max(0.0);
    let (mut noise, mut slopes) = (f64::INFINITY, 0.0);
    for i in (0..federation.clients()).filter(|i| federation.weights()[*i] > 0.0) {
        slopes += federation.population(i).expand(start, start).gradient.norm_squared();
        noise = noise.min(federation.population(i).gradient_covariance(stable_point).trace());
    }
    0.25 * noise / protocol.batch.size() * moved * moved / (target * slopes)
}

/// The traces of Q and R.
fn noises(task: &Task<'_>, scheme: Scheme) -> (f64, f64) {
    let Task { federation, protocol, stable_point, .. } = *task;
    let descent = Protocol { scheme, scale_objectives: false, ..*protocol };
    let fields = Field::all(federation, &descent, stable_point);
    let own = fields.iter().map(|field| field.own.trace()).sum();
    (own, fields.iter().map(|field| field.drawn.trace()).sum())
}

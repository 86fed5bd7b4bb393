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

/// The traces of Q and R.
fn noises(task: &Task<'_>, scheme: Scheme) -> (f64, f64) {
    let Task { federation, protocol, stable_point, .. } = *task;
    let descent = Protocol { scheme, scale_objectives: false, ..*protocol };
    let fields = Field::all(federation, &descent, stable_point);
    let own = fields.iter().map(|field| field.own.trace()).sum();
    (own, fields.iter().map(|field| field.drawn.trace()).sum())
}

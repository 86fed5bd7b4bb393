//! An algorithm in the numbers that kernels know it by (`kernels/problem.h`, `kernels/rule.h`).

use fedback_core::protocol::{Aggregate, Deploy, LocalRule, Protocol, Scheme, ServerRule};
use fedback_engine::backend::Course;

use crate::layout::Problem;

/// What kernels are told of an algorithm.
pub(crate) fn described(course: &Course) -> Problem {
    let Course { protocol, seed, state, .. } = course;
    // Batches go with the problem, step sizes with every launch.
    let Protocol {
        scheme,
        local_steps,
        batch: _,
        step_size: _,
        local,
        server,
        deploy,
        aggregate,
        scale_objectives,
        clip,
    } = *protocol;
    let layout = state.layout();
    let mut problem = Problem {
        seed: seed.0,
        repetitions: state.repetitions.len() as u64,
        kept: layout.kept as u64,
        own: layout.own as u64,
        local_steps: local_steps as u64,
        scheme: match scheme {
            Scheme::Full | Scheme::FirstArrivals { .. } => 0,
            Scheme::WithReplacement { .. } => 1,
            Scheme::WithoutReplacement { .. } => 2,
        },
        cohort: scheme.cohort().unwrap_or(0) as u64,
        scaled: u64::from(scale_objectives),
        deployed_once: u64::from(deploy == Deploy::Round),
        iterates: u64::from(aggregate == Aggregate::Iterates),
        clipped: u64::from(clip.is_some()),
        ..Problem::default()
    };
    match local {
        LocalRule::Descent => {}
        LocalRule::Proximal { proximal } => (problem.rule, problem.proximal) = (1, proximal),
        LocalRule::Scaffold => problem.rule = 2,
    }
    match server {
        ServerRule::Average => {}
        ServerRule::Momentum { rate, beta } => {
            (problem.server, problem.rate, problem.beta1) = (1, rate, beta);
        }
        ServerRule::Adam { rate, beta1, beta2, tau } => {
            (problem.server, problem.rate, problem.tau) = (2, rate, tau);
            (problem.beta1, problem.beta2) = (beta1, beta2);
        }
    }
    problem
}

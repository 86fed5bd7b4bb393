//! Rounds of populations that remember, against numbers derived elsewhere.

mod radii;
mod rest;
mod unrolled;

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::memory::Memory;
use fedback_core::protocol::{Batch, Deploy, LocalRule, Protocol, Scheme, ServerRule, StepSize};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::exact::ExactCurve;
use fedback_theory::stable::stable_point;
use unrolled::{Problem, distances};

/// Three clients of one coordinate.
fn three(memory: Memory) -> Federation {
    Federation::new(
        vec![0.5, 0.3, 0.2],
        Base::Gaussian(Gaussian { dim: 1, mean: vec![1.0, 2.0, 4.0], noise: 1.0 }),
        location(&Sensitivity::Scalar(vec![0.2, 0.5, 0.9]), 1, false),
        Loss::Mean,
    )
    .unwrap()
    .remembering(memory, &[0.0])
    .unwrap()
}

/// E|θ − θ^PS|² after these rounds from a start at zero.
fn curve<const N: usize>(
    federation: &Federation,
    protocol: &Protocol,
    rounds: [u64; N],
) -> [f64; N] {
    let point = stable_point(federation, &vec![0.0; federation.dim()]).unwrap();
    let start = vec![0.0; federation.dim()];
    let mut curve = ExactCurve::new(federation, protocol, None, &start, Some(&point)).unwrap();
    let mut done = 0;
    rounds.map(|round| {
        (done..round).for_each(|_| curve.advance());
        done = round;
        curve.moments().distance_sq.unwrap()
    })
}

fn close(found: &[f64], expected: &[f64], within: f64) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < within * (1.0 + expected), "{found} {expected}");
    }
}

#[test]
fn moments_under_inertia_are_those_of_another_derivation() {
    let federation = three(Memory::Inertia { rate: 0.3 });
    for (scheme, expected) in [
        (Scheme::Full, [7.9529376, 2.7017509, 0.1105136, 0.0278800]),
        (Scheme::WithReplacement { cohort: 2 }, [8.0079520, 2.8678188, 0.5079168, 0.5024276]),
        (Scheme::WithoutReplacement { cohort: 2 }, [7.9601937, 2.7454720, 0.2819214, 0.2480973]),
    ] {
        let usual = Protocol::p_fedavg(scheme, 3, StepSize::Constant(0.1));
        let protocol = Protocol { deploy: Deploy::Round, ..usual };
        let found = curve(&federation, &protocol, [1, 5, 20, 400]);
        close(&found, &expected, 6e-8);
    }
}

/// Three clients of two coordinates that mix, or one that does not.
fn clients(mixing: bool, memory: Option<Memory>) -> Problem {
    let weights = vec![0.5, 0.3, 0.2];
    match mixing {
        true => Problem {
            weights,
            dim: 2,
            mean: vec![1.0, 2.0, 5.0, 4.0, 2.0, -1.0],
            moves: vec![
                vec![vec![0.4, 0.9], vec![-0.9, 0.4]],
                vec![vec![0.1, -1.2], vec![0.5, 0.3]],
                vec![vec![-0.5, 0.0], vec![0.7, -1.0]],
            ],
            noise: 0.8,
            memory,
            past: vec![0.5, -2.0],
        },
        false => Problem {
            weights,
            dim: 1,
            mean: vec![1.0, 2.0, 4.0],
            moves: vec![vec![vec![0.2]], vec![vec![-1.5]], vec![vec![0.9]]],
            noise: 1.0,
            memory,
            past: vec![-1.0],
        },
    }
}

const MEMORIES: [Option<Memory>; 4] = [
    None,
    Some(Memory::Inertia { rate: 0.35 }),
    Some(Memory::Delay { deployments: 2 }),
    Some(Memory::Staggered { parts: 3 }),
];

const SCHEMES: [Scheme; 3] =
    [Scheme::Full, Scheme::WithReplacement { cohort: 2 }, Scheme::WithoutReplacement { cohort: 2 }];

const ALGORITHMS: [(LocalRule, ServerRule); 5] = [
    (LocalRule::Descent, ServerRule::Average),
    (LocalRule::Proximal { proximal: 0.7 }, ServerRule::Average),
    (LocalRule::Scaffold, ServerRule::Average),
    (LocalRule::Descent, ServerRule::Momentum { rate: 0.6, beta: 0.5 }),
    (LocalRule::Scaffold, ServerRule::Momentum { rate: 0.6, beta: 0.5 }),
];

/// Every protocol that exact moments are about.
fn protocols() -> impl Iterator<Item = Protocol> {
    let schemes = SCHEMES.into_iter().flat_map(|scheme| ALGORITHMS.map(|rules| (scheme, rules)));
    schemes.flat_map(|(scheme, (local, server))| {
        let usual = Protocol::p_fedavg(scheme, 3, StepSize::Constant(0.15));
        let usual = Protocol { local, server, ..usual };
        let sampled = Protocol { batch: Batch::Sampled(2), ..usual };
        let all = Protocol { batch: Batch::All, ..usual };
        [sampled, all].into_iter().flat_map(|protocol| {
            [Deploy::Step, Deploy::Round].map(|deploy| Protocol { deploy, ..protocol })
        })
    })
}

#[test]
fn moments_are_those_of_all_steps_and_cohorts_one_by_one() {
    for (mixing, memory) in [true, false].into_iter().flat_map(|m| MEMORIES.map(|k| (m, k))) {
        let problem = clients(mixing, memory);
        let federation = problem.federation();
        let start = vec![0.0; problem.dim];
        let point = stable_point(&federation, &start).unwrap();
        for protocol in protocols() {
            let expected = distances(&problem, &protocol, &start, &point, &[1, 2, 12]);
            let found = curve(&federation, &protocol, [1, 2, 12]);
            for (found, expected) in found.iter().zip(&expected) {
                let apart = (found - expected).abs();
                assert!(
                    apart < 1e-10 * expected + 1e-13,
                    "{memory:?} {protocol:?} {found} {expected}"
                );
            }
        }
    }
}

#[test]
fn moments_of_scaled_objectives_and_decaying_steps_are_those_as_well() {
    for memory in MEMORIES {
        let problem = clients(true, memory);
        let federation = problem.federation();
        let point = stable_point(&federation, &[0.0, 0.0]).unwrap();
        for deploy in [Deploy::Step, Deploy::Round] {
            let scheme = Scheme::WithoutReplacement { cohort: 2 };
            let step_size = StepSize::Decaying { beta: 2.0, gamma: 12.0 };
            let usual = Protocol::p_fedavg(scheme, 4, step_size);
            let protocol = Protocol { deploy, scale_objectives: true, ..usual };
            let expected = distances(&problem, &protocol, &[0.0, 0.0], &point, &[1, 2, 12]);
            let found = curve(&federation, &protocol, [1, 2, 12]);
            close(&found, &expected, 1e-10);
        }
    }
}

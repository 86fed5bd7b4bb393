//! Populations that remember: every kernel against the loop spelled out over lists of deployments.

#[allow(dead_code, reason = "other tests need the rest of it")]
mod problems;

use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::memory::Memory;
use fedback_core::protocol::{
    Batch, Deploy, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Outcome, Response, Strategic, Wants};
use fedback_core::stream::Seed;
use fedback_engine::backend::{Course, Device, assemble};

use problems::{gaussians, tables};

const MEMORIES: [Memory; 4] = [
    Memory::Inertia { rate: 0.3 },
    Memory::Delay { deployments: 1 },
    Memory::Delay { deployments: 4 },
    Memory::Staggered { parts: 3 },
];

fn protocol(local_steps: usize, batch: Batch, deploy: Deploy) -> Protocol {
    let usual = Protocol::p_fedavg(Scheme::Full, local_steps, StepSize::Constant(0.15));
    Protocol { batch, deploy, ..usual }
}

/// Lanes, matrices, and rows under responses of every kind.
fn problems() -> Vec<Federation> {
    let mut all: Vec<Federation> = [1, 5].into_iter().flat_map(gaussians).collect();
    for loss in [Loss::Logistic { l2: 0.3 }, Loss::Squared { l2: 0.4 }, Loss::Mean] {
        all.extend(tables(3, loss != Loss::Mean, loss));
    }
    let logistic = tables(3, true, Loss::Logistic { l2: 0.3 })[0].clone();
    let lured = Strategic {
        features: vec![0, 2],
        wants: Wants::Positive,
        threshold: 0.1,
        budget: 0.8,
        share: 0.7,
        smoothing: 0.2,
    };
    let listening = Outcome { strength: vec![0.5, -0.4, 0.3, 0.9, -1.0] };
    for response in [Response::Strategic(lured), Response::Outcome(listening)] {
        all.push(logistic.with_response(response).unwrap());
    }
    all
}

fn start(dim: usize) -> Vec<f64> {
    (0..dim).map(|j| 0.8 - 0.3 * j as f64).collect()
}

fn past(dim: usize) -> Vec<f64> {
    (0..dim).map(|j| 0.2 * j as f64 - 0.5).collect()
}

fn remembering(problem: &Federation, memory: Memory) -> Federation {
    problem.clone().remembering(memory, &past(problem.dim())).unwrap()
}

/// θ after so many rounds.
fn run(problem: &Federation, protocol: Protocol, rounds: u64) -> Vec<f64> {
    let weights = problem.weights().clone();
    let course = Course::new(protocol, weights, Seed(3), &start(problem.dim()), 2);
    let course = course.remembering(problem.past());
    let mut backend = assemble(problem, course, Device::Cpu).unwrap();
    backend.advance(Round(rounds), false).unwrap();
    let repetitions = &backend.state().repetitions;
    assert!(repetitions.iter().all(|repetition| repetition.failed.is_none()));
    repetitions[1].theta().to_vec()
}

/// What a population answers to, from all that was ever deployed to it, the newest last.
fn answered(memory: Memory, deployed: &[Vec<f64>], dim: usize) -> Vec<Vec<f64>> {
    let late = |by: usize| match deployed.len() > by {
        true => deployed[deployed.len() - 1 - by].clone(),
        false => past(dim),
    };
    match memory {
        Memory::Delay { deployments } => vec![late(deployments)],
        Memory::Staggered { parts } => (0..parts).map(late).collect(),
        Memory::Inertia { rate } => {
            let mut s = past(dim);
            for phi in deployed {
                s.iter_mut().zip(phi).for_each(|(s, phi)| *s += rate * (phi - *s));
            }
            vec![s]
        }
    }
}

/// The same rounds of whole populations, by the definition.
fn spelled_out(problem: &Federation, memory: Memory, protocol: Protocol, rounds: u64) -> Vec<f64> {
    let dim = problem.dim();
    let mut theta = start(dim);
    let mut deployed = vec![Vec::new(); problem.clients()];
    for _ in 0..rounds {
        let mut moved = vec![0.0; dim];
        if protocol.deploy == Deploy::Round {
            deployed.iter_mut().for_each(|seen| seen.push(theta.clone()));
        }
        for (client, seen) in deployed.iter_mut().enumerate() {
            let mut w = theta.clone();
            for _ in 0..protocol.local_steps {
                if protocol.deploy == Deploy::Step {
                    seen.push(w.clone());
                }
                let models = answered(memory, seen, dim);
                let mut gradient = vec![0.0; dim];
                for model in &models {
                    let own = problem.population(client).expand(&w, model).gradient;
                    let share = 1.0 / models.len() as f64;
                    gradient.iter_mut().zip(&own).for_each(|(sum, own)| *sum += share * own);
                }
                w.iter_mut().zip(&gradient).for_each(|(w, slope)| *w -= 0.15 * slope);
            }
            let p = problem.weights()[client];
            moved.iter_mut().zip(w.iter().zip(&theta)).for_each(|(m, (w, t))| *m += p * (w - t));
        }
        theta.iter_mut().zip(&moved).for_each(|(theta, moved)| *theta += moved);
    }
    theta
}

fn assert_close(found: &[f64], expected: &[f64], most: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() < most * (1.0 + expected.abs()),
            "{what}: {found} {expected}"
        );
    }
}

#[test]
fn whole_populations_answer_to_what_they_remember() {
    for (n, problem) in problems().iter().enumerate() {
        for memory in MEMORIES {
            for deploy in [Deploy::Round, Deploy::Step] {
                let protocol = protocol(3, Batch::All, deploy);
                let found = run(&remembering(problem, memory), protocol, 6);
                let expected = spelled_out(problem, memory, protocol, 6);
                assert_close(&found, &expected, 1e-11, &format!("{n} {memory:?} {deploy:?}"));
            }
        }
    }
}

/// With one step a round and all clients, a broadcast is a local step: kernels of both deployments draw the
/// same observations and come to the same models, but for rounding.
#[test]
fn both_deployments_agree_where_they_are_the_same() {
    for (n, problem) in problems().iter().enumerate() {
        for memory in MEMORIES {
            let problem = remembering(problem, memory);
            let [round, step] = [Deploy::Round, Deploy::Step]
                .map(|deploy| run(&problem, protocol(1, Batch::Sampled(3), deploy), 9));
            assert_close(&round, &step, 1e-11, &format!("{n} {memory:?}"));
        }
    }
}

/// What is remembered at once is no memory: the bits are those of problems that never had one, and a
/// long delay answers to the past alone.
#[test]
fn memories_that_forget_at_once_leave_no_trace() {
    let forgetful = [
        Memory::Inertia { rate: 1.0 },
        Memory::Delay { deployments: 0 },
        Memory::Staggered { parts: 1 },
    ];
    for problem in problems() {
        for deploy in [Deploy::Round, Deploy::Step] {
            let protocol = protocol(3, Batch::Sampled(2), deploy);
            let usual = run(&problem, protocol, 5);
            for memory in forgetful {
                assert_eq!(run(&remembering(&problem, memory), protocol, 5), usual);
            }
            let late = run(&remembering(&problem, Memory::Delay { deployments: 99 }), protocol, 5);
            assert_ne!(late, usual);
        }
    }
}

/// An observation of a staggered population belongs to each part with the same chance, and what else becomes
/// of it does not depend on that.
#[test]
fn staggered_batches_are_the_populations_on_average() {
    for (n, problem) in problems().iter().enumerate() {
        let problem = remembering(problem, Memory::Staggered { parts: 3 });
        let dim = problem.dim();
        let repetitions = 20_000;
        let once = |batch| Protocol {
            scheme: Scheme::Full,
            step_size: StepSize::Constant(1.0),
            ..protocol(1, batch, Deploy::Round)
        };
        let of = |batch, repetitions| {
            let weights = problem.weights().clone();
            let course = Course::new(once(batch), weights, Seed(8), &start(dim), repetitions);
            let course = course.remembering(problem.past());
            let mut backend = assemble(&problem, course, Device::Cpu).unwrap();
            backend.advance(Round(1), false).unwrap();
            let all = &backend.state().repetitions;
            all.iter().map(|one| one.theta().to_vec()).collect::<Vec<_>>()
        };
        let expected = &of(Batch::All, 1)[0];
        let drawn = of(Batch::Sampled(2), repetitions);
        for j in 0..dim {
            let mean = drawn.iter().map(|theta| theta[j]).sum::<f64>() / repetitions as f64;
            let square = drawn.iter().map(|theta| (theta[j] - mean).powi(2)).sum::<f64>();
            let error = square.sqrt() / repetitions as f64;
            let away = (mean - expected[j]).abs() / error.max(1e-12);
            assert!(away < 4.5, "{n}, coordinate {j}: {away} standard errors");
        }
    }
}

/// What clients keep by their rule and what their populations remember do not mix; absent clients keep
/// both.
#[test]
fn scaffold_and_servers_that_optimise_remember_too() {
    let [problem, ..] = gaussians(2);
    let problem = remembering(&problem, Memory::Staggered { parts: 2 });
    for deploy in [Deploy::Round, Deploy::Step] {
        let scheme = Scheme::WithoutReplacement { cohort: 2 };
        let protocol = Protocol {
            scheme,
            local: LocalRule::Scaffold,
            server: ServerRule::Momentum { rate: 0.5, beta: 0.4 },
            ..protocol(2, Batch::Sampled(2), deploy)
        };
        let weights = problem.weights().clone();
        let course = Course::new(protocol, weights.clone(), Seed(3), &start(2), 1);
        let course = course.remembering(problem.past());
        let mut backend = assemble(&problem, course, Device::Cpu).unwrap();
        for round in 1..8 {
            let before = backend.state().repetitions[0].clone();
            backend.advance(Round(round), false).unwrap();
            let now = &backend.state().repetitions[0];
            let layout = now.layout();
            // What is sent is the average of what clients keep by their rule.
            for j in 0..2 {
                let kept = |client: usize| now.kept_by(ClientId(client as u32))[j];
                let mean: f64 = (0..5).map(|client| weights[client] * kept(client)).sum();
                assert!((layout.parts(now.broadcast()).control[j] - mean).abs() < 1e-12);
            }
            let moved = (0..5).map(ClientId).filter(|c| before.kept_by(*c) != now.kept_by(*c));
            assert_eq!(moved.count(), 2);
            match deploy {
                Deploy::Round => {
                    assert_eq!(layout.parts(now.broadcast()).past, before.theta());
                }
                Deploy::Step => {
                    let worked = (0..5).map(ClientId);
                    for client in worked.filter(|c| before.kept_by(*c) != now.kept_by(*c)) {
                        assert_ne!(now.kept_by(client)[2..], before.kept_by(client)[2..]);
                    }
                }
            }
        }
    }
}

/// A state without the past is no state of such a problem.
#[test]
fn a_course_without_a_past_is_refused() {
    let problem = remembering(&gaussians(1)[0], Memory::Delay { deployments: 2 });
    let protocol = protocol(1, Batch::All, Deploy::Round);
    let course = Course::new(protocol, problem.weights().clone(), Seed(1), &[0.0], 1);
    assert!(assemble(&problem, course, Device::Cpu).is_err());
}

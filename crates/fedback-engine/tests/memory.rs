//! Populations that remember: every kernel against the loop spelled out over lists of deployments.

#[allow(dead_code, reason = "other tests need the rest of it")]
mod problems;

use fedback_core::base::Base;
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::memory::Memory;
use fedback_core::protocol::{
    Batch, Deploy, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{By, Law, Outcome, Response, Retention, Strategic, Turnout, Wants};
use fedback_core::stream::Seed;
use fedback_engine::backend::{Course, assemble};

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
    let mut backend = assemble(problem, course).unwrap();
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
        Memory::Renewal { .. } => unreachable!("nobody leaves here"),
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
            let mut backend = assemble(&problem, course).unwrap();
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

fn leaving(by: By) -> Federation {
    let retention = Retention {
        by,
        law: Law::Exponential,
        rate: vec![0.9, 1.5, 2.0, 0.4, 1.1],
        floor: 0.05,
        renewal: 0.3,
        turnout: Turnout::Fixed,
    };
    let problem = &tables(3, true, Loss::Logistic { l2: 0.3 })[0];
    problem.with_response(Response::Retention(retention)).unwrap()
}

/// Shares after a deployment: ((1 − ν) q + ν s) ρ, and what they sum to.
fn renewed(shares: &[f64], base: &[f64], losses: &[f64], rate: f64) -> Vec<f64> {
    let stays = |loss: f64| 0.05 + 0.95 * (-rate * loss).exp();
    let part = |((q, s), loss): ((&f64, &f64), &f64)| (0.7 * q + 0.3 * s) * stays(*loss);
    let parts: Vec<f64> = shares.iter().zip(base).zip(losses).map(part).collect();
    let total: f64 = parts.iter().sum();
    parts.iter().map(|part| part / total).collect()
}

/// Labels of one client leave and come back slowly, whether rounds or its own steps are deployed.
#[test]
fn cells_are_renewed_at_every_deployment() {
    let problem = leaving(By::Label);
    let Base::Table(table) = problem.base() else { panic!("a table") };
    let (loss, rates, dim) = (problem.loss(), [0.9, 1.5, 2.0, 0.4, 1.1], problem.dim());
    for deploy in [Deploy::Round, Deploy::Step] {
        let protocol = protocol(2, Batch::All, deploy);
        let found = run(&problem, protocol, 4);
        let base: Vec<Vec<f64>> = (0..5)
            .map(|client| {
                let labels = table.block(client).1;
                let ones = labels.iter().sum::<f64>() / labels.len() as f64;
                vec![1.0 - ones, ones]
            })
            .collect();
        let (mut theta, mut shares) = (start(dim), base.clone());
        for _ in 0..4 {
            let mut moved = vec![0.0; dim];
            for client in 0..5 {
                let mut w = theta.clone();
                for step in 0..2 {
                    if step == 0 || deploy == Deploy::Step {
                        let mut losses = vec![0.0; 2];
                        let mut count = [0.0; 2];
                        for (x, label) in table.rows_of(client) {
                            losses[label as usize] += loss.value(&w, x, label);
                            count[label as usize] += 1.0;
                        }
                        losses.iter_mut().zip(count).for_each(|(l, n)| *l /= f64::max(n, 1.0));
                        let own = renewed(&shares[client], &base[client], &losses, rates[client]);
                        shares[client] = own;
                    }
                    let labels = table.block(client).1;
                    let mut gradient = vec![0.0; dim];
                    for (x, label) in table.rows_of(client) {
                        let same = labels.iter().filter(|other| **other == label).count() as f64;
                        let share = shares[client][label as usize] / same;
                        loss.add_gradient(&w, x, label, share, &mut gradient);
                    }
                    for j in 0..dim {
                        let ridge = if j + 1 < dim { 0.3 * w[j] } else { 0.0 };
                        gradient[j] += ridge;
                    }
                    w.iter_mut().zip(&gradient).for_each(|(w, slope)| *w -= 0.15 * slope);
                }
                let p = problem.weights()[client];
                moved
                    .iter_mut()
                    .zip(w.iter().zip(&theta))
                    .for_each(|(m, (w, t))| *m += p * (w - t));
            }
            theta.iter_mut().zip(&moved).for_each(|(theta, moved)| *theta += moved);
        }
        assert_close(&found, &theta, 1e-12, &format!("{deploy:?}"));
    }
}

/// Samples of cells that are renewed have the mean of the whole population in their shares.
#[test]
fn batches_of_renewed_cells_have_their_mean() {
    let problem = leaving(By::Label);
    let dim = problem.dim();
    let of = |batch, repetitions| {
        let protocol =
            Protocol { step_size: StepSize::Constant(1.0), ..protocol(1, batch, Deploy::Round) };
        let weights = problem.weights().clone();
        let course = Course::new(protocol, weights, Seed(8), &start(dim), repetitions);
        let course = course.remembering(problem.past());
        let mut backend = assemble(&problem, course).unwrap();
        backend.advance(Round(1), false).unwrap();
        let all = &backend.state().repetitions;
        all.iter().map(|one| one.theta().to_vec()).collect::<Vec<_>>()
    };
    let (expected, drawn) = (&of(Batch::All, 1)[0], of(Batch::Sampled(2), 20_000));
    for j in 0..dim {
        let mean = drawn.iter().map(|theta| theta[j]).sum::<f64>() / 20_000.0;
        let square = drawn.iter().map(|theta| (theta[j] - mean).powi(2)).sum::<f64>();
        let away = (mean - expected[j]).abs() / (square.sqrt() / 20_000.0);
        assert!(away < 4.5, "coordinate {j}: {away} standard errors");
    }
}

/// Clients' weights are renewed by broadcasts, also where local steps are deployed.
#[test]
fn weights_are_renewed_by_broadcasts() {
    let problem = leaving(By::Client);
    let rates = [0.9, 1.5, 2.0, 0.4, 1.1];
    let base: Vec<f64> = problem.weights().to_vec();
    for deploy in [Deploy::Round, Deploy::Step] {
        let protocol = protocol(2, Batch::All, deploy);
        let weights = problem.weights().clone();
        let course = Course::new(protocol, weights, Seed(3), &start(problem.dim()), 1);
        let course = course.remembering(problem.past());
        let mut backend = assemble(&problem, course).unwrap();
        let mut shares = base.clone();
        for round in 1..5 {
            let theta = backend.state().repetitions[0].theta().to_vec();
            let parts = (0..5).map(|client| {
                let loss = problem.base_loss(client, &theta).0;
                let stays = 0.05 + 0.95 * (-rates[client] * loss).exp();
                (0.7 * shares[client] + 0.3 * base[client]) * stays
            });
            let parts: Vec<f64> = parts.collect();
            shares = parts.iter().map(|part| part / parts.iter().sum::<f64>()).collect();
            backend.advance(Round(round), false).unwrap();
            let now = &backend.state().repetitions[0];
            let found = now.layout().parts(now.broadcast()).past.to_vec();
            assert_close(&found, &shares, 1e-13, &format!("{deploy:?}"));
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
        let mut backend = assemble(&problem, course).unwrap();
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
    assert!(assemble(&problem, course).is_err());
}

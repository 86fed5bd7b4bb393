//! Whole rounds against plain careful loops over `rand`'s generators.

use std::sync::Arc;

use fedback_bench::{Candidate, Clock, least, report};
use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Aggregate, Deploy, Protocol, Round, Scheme, StepSize};
use fedback_core::response::{Sensitivity, best_response, location};
use fedback_core::stream::{Purpose, Seed, Stream};
use fedback_engine::simulate::Simulation;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;

const TRIES: usize = 15;

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("one thread");
    gaussian();
    logistic();
    threads();
    many_clients();
}

fn protocol(scheme: Scheme, local_steps: usize, batch: usize) -> Protocol {
    Protocol {
        scheme,
        local_steps,
        batch,
        step_size: StepSize::Decaying { beta: 20.0, gamma: 1000.0 },
        deploy: Deploy::Step,
        aggregate: Aggregate::Deltas,
        scale_objectives: false,
    }
}

fn gaussian_federation(clients: usize) -> Federation {
    let spread = |k: usize| (k as f64 + 0.5) / clients as f64 - 0.5;
    Federation {
        weights: vec![1.0 / clients as f64; clients],
        base: Base::Gaussian(Gaussian {
            dim: 1,
            mean: (0..clients).map(|k| 10.0 + 2.0 * spread(k)).collect(),
            noise: 1.0,
        }),
        response: location(
            &Sensitivity::Scalar((0..clients).map(|k| 0.9 + spread(k)).collect()),
            1,
            false,
        ),
        loss: Loss::Mean,
    }
}

fn simulate(federation: &Federation, protocol: Protocol, repetitions: usize, rounds: u64) -> f64 {
    let weights: Arc<[f64]> = federation.weights.as_slice().into();
    let start = vec![0.0; repetitions * federation.dim()];
    let mut simulation =
        Simulation::new(federation, protocol, weights, Seed(7), Round(0), &start, &[]);
    simulation.advance(Round(rounds), false).expect("built-in work does not fail");
    simulation.repetitions().map(|repetition| repetition.theta[0]).sum()
}

/// The plain loop: one generator, one client after the other.
fn plain_gaussian(federation: &Federation, rounds: u64, local_steps: u64) -> f64 {
    let Base::Gaussian(base) = &federation.base else { return f64::NAN };
    let sensitivity: Vec<f64> =
        (0..federation.clients()).map(|i| federation.response.diagonal(i, 0)).collect();
    let mut rng = SmallRng::seed_from_u64(7);
    let mut theta = 0.0;
    for round in 0..rounds {
        let mut next = 0.0;
        for (i, p) in federation.weights.iter().enumerate() {
            let mut w = theta;
            for step in round * local_steps..(round + 1) * local_steps {
                let size = 20.0 / (step as f64 + 1000.0);
                let noise: f64 = rng.sample(StandardNormal);
                w -= size * (w - (base.mean[i] + sensitivity[i] * w + base.noise * noise));
            }
            next += p * w;
        }
        theta = next;
    }
    theta
}

fn gaussian() {
    let federation = gaussian_federation(25);
    for (scheme, title) in [
        (Scheme::Full, "Gaussian, N = 25, E = 5, full, one repetition"),
        (
            Scheme::WithReplacement { cohort: 20 },
            "the same with replacement, K = 20 (per cohort step)",
        ),
    ] {
        let rounds = 20_000;
        let steps = (rounds * 25 * 5) as f64;
        let members = match scheme {
            Scheme::Full => 25.0,
            // Distinct members of twenty draws from twenty-five.
            _ => 25.0 * (1.0 - (24.0f64 / 25.0).powi(20)),
        };
        let mut candidates = [
            Candidate::new("plain loop", steps, || plain_gaussian(&federation, rounds, 5)),
            Candidate::new("fedback", rounds as f64 * members * 5.0, || {
                simulate(&federation, protocol(scheme, 5, 1), 1, rounds)
            }),
        ];
        let best = least(&mut candidates, TRIES, Clock::Cpu);
        report(title, "client step", &candidates, &best);
    }
}

fn credit_like(rows: usize) -> Federation {
    let mut draws = Stream::for_problem(Seed(1), Purpose::Means).draws();
    let values: Vec<f64> = (0..rows * 10).map(|_| draws.normal()).collect();
    let labels = values.chunks(10).map(|x| (x[0] - x[3] + draws.normal() > 0.0) as u8 as f64);
    let raw = RawTable {
        features: (0..10).map(|j| format!("x{j}")).collect(),
        labels: labels.collect(),
        values,
        clients: None,
    };
    let how = Preparation {
        shuffle: false,
        standardize: true,
        intercept: true,
        partition: Partition::Equal(10),
        by_class: true,
    };
    let table = Table::new(raw, &how, Seed(0)).expect("a proper table");
    let sensitivity = Sensitivity::Scalar((0..10).map(|k| 0.9 + 0.02 * k as f64).collect());
    Federation {
        weights: vec![0.1; 10],
        base: Base::Table(table),
        response: best_response(&sensitivity, &[0, 5, 7], 11),
        loss: Loss::Logistic { l2: 0.05 },
    }
}

/// The plain loop on rows: copy nothing, one pass for the margin, one for the gradient.
fn plain_logistic(federation: &Federation, rounds: u64, local_steps: u64, batch: usize) -> f64 {
    let Base::Table(table) = &federation.base else { return f64::NAN };
    let dim = table.dim;
    let mut rng = SmallRng::seed_from_u64(7);
    let mut theta = vec![0.0; dim];
    let (mut next, mut w) = (vec![0.0; dim], vec![0.0; dim]);
    let (mut shift, mut gradient) = (vec![0.0; dim], vec![0.0; dim]);
    for round in 0..rounds {
        next.fill(0.0);
        for (client, p) in federation.weights.iter().enumerate() {
            let (rows, labels) = table.block(client);
            w.copy_from_slice(&theta);
            for step in round * local_steps..(round + 1) * local_steps {
                let size = 20.0 / (step as f64 + 1000.0);
                federation.response.apply(client, &w, &mut shift);
                let moved: f64 = shift.iter().zip(&w).map(|(s, t)| s * t).sum();
                gradient.fill(0.0);
                let mut slopes = 0.0;
                for _ in 0..batch {
                    let row = rng.random_range(0..labels.len());
                    let x = &rows[row * dim..][..dim];
                    let margin: f64 = x.iter().zip(&w).map(|(x, t)| x * t).sum::<f64>() + moved;
                    let slope = 1.0 / (1.0 + (-margin).exp()) - labels[row];
                    slopes += slope;
                    gradient.iter_mut().zip(x).for_each(|(g, x)| *g += slope * x);
                }
                for j in 0..dim {
                    let penalty = if j + 1 < dim { 0.05 * w[j] } else { 0.0 };
                    w[j] -= size * ((gradient[j] + slopes * shift[j]) / batch as f64 + penalty);
                }
            }
            next.iter_mut().zip(&w).for_each(|(n, w)| *n += p * w);
        }
        theta.copy_from_slice(&next);
    }
    theta[0]
}

fn logistic() {
    let federation = credit_like(18_350);
    for (batch, title) in
        [(4, "Logistic, d = 11, 10 clients, batch 4, E = 5, full"), (16, "the same with batch 16")]
    {
        let rounds = 1_000;
        let samples = (rounds * 10 * 5 * batch as u64) as f64;
        let mut candidates = [
            Candidate::new("plain loop", samples, || plain_logistic(&federation, rounds, 5, batch)),
            Candidate::new("fedback", samples, || {
                simulate(&federation, protocol(Scheme::Full, 5, batch), 1, rounds)
            }),
        ];
        let best = least(&mut candidates, TRIES, Clock::Cpu);
        report(title, "sample gradient", &candidates, &best);
    }
}

fn threads() {
    let pools: Vec<_> = [1, 2]
        .map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("a pool"))
        .into();
    let small = gaussian_federation(25);
    let large = gaussian_federation(100_000);
    for (title, federation, repetitions, rounds) in [
        ("Threads: 20 repetitions, N = 25", &small, 20, 4_000),
        ("Threads: one repetition, N = 100,000", &large, 1, 10),
    ] {
        let units = (repetitions as u64 * rounds) as f64;
        let work = |pool: usize| {
            pools[pool]
                .install(|| simulate(federation, protocol(Scheme::Full, 5, 1), repetitions, rounds))
        };
        let mut candidates = [
            Candidate::new("one thread", units, || work(0)),
            Candidate::new("two threads", units, || work(1)),
        ];
        let best = least(&mut candidates, TRIES, Clock::Wall);
        report(title, "round", &candidates, &best);
        println!("\nspeed-up {:.2}", best[0] / best[1]);
    }
}

fn many_clients() {
    let federations = [1_000, 10_000, 100_000, 1_000_000].map(gaussian_federation);
    for (scheme, title) in [
        (Scheme::WithReplacement { cohort: 100 }, "Cost of a round, cohort 100 with replacement"),
        (Scheme::WithoutReplacement { cohort: 100 }, "Cost of a round, cohort 100 without"),
    ] {
        let names = ["N = 1,000", "N = 10,000", "N = 100,000", "N = 1,000,000"];
        // Set-up is linear in N and not part of a round: build once, then advance.
        let mut simulations: Vec<_> = federations
            .iter()
            .map(|federation| {
                let weights: Arc<[f64]> = federation.weights.as_slice().into();
                let protocol = protocol(scheme, 5, 1);
                Simulation::new(federation, protocol, weights, Seed(7), Round(0), &[0.0], &[])
            })
            .collect();
        let rounds = 2_000;
        let mut candidates: Vec<Candidate<'_>> = simulations
            .iter_mut()
            .zip(names)
            .map(|(simulation, name)| {
                Candidate::new(name, rounds as f64, move || {
                    let until = Round(simulation.round().0 + rounds);
                    simulation.advance(until, false).expect("built-in work does not fail");
                    simulation.repetitions().map(|r| r.theta[0]).sum()
                })
            })
            .collect();
        let best = least(&mut candidates, TRIES, Clock::Cpu);
        report(title, "round", &candidates, &best);
    }
}

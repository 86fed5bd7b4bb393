//! What a device does in a second, beside this machine's processor on the same problems.
//!
//! A unit is a step of a client on normal data, and a sample gradient on rows. Rounds are closed by the
//! backends that runs have, transfers included; the least of some tries counts. Both come to the same
//! bits, which is looked at in passing.

use clap::Parser;
use fedback_bench::timing::timed;
use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Batch, Protocol, Round, Scheme, StepSize};
use fedback_core::response::Shift;
use fedback_core::stream::{Purpose, Seed, Stream};
use fedback_cuda::{Cuda, Gpu};
use fedback_engine::backend::{Backend, Course, assemble};

#[derive(Parser)]
#[command(about = "Measures a device beside the processor")]
struct Args {
    /// Tries of each, of which the least counts.
    #[arg(long, default_value_t = 5)]
    tries: usize,
    /// Divides the repetitions, for a look at a small device.
    #[arg(long, default_value_t = 1)]
    smaller: u64,
}

/// A problem, an algorithm, and how often it is repeated.
struct Workload {
    name: String,
    problem: Federation,
    protocol: Protocol,
    repetitions: u64,
    rounds: u64,
    /// Units of a round, by the members that a cohort has on average.
    units: f64,
}

fn main() -> Result<(), String> {
    let args = Args::parse();
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    println!("### {}\n", gpu.name());
    println!("| workload | repetitions | device, G units/s | processor, G units/s | ratio |");
    println!("|---|---:|---:|---:|---:|");
    for workload in workloads(args.smaller) {
        let device = rate(&workload, args.tries, &mut |course| {
            let backend = Cuda::new(&gpu, &workload.problem, course);
            Ok(Box::new(backend.map_err(|error| error.to_string())?))
        })?;
        let processor = rate(&workload, args.tries.min(2), &mut |course| {
            assemble(&workload.problem, course).map_err(|error| error.to_string())
        })?;
        let Workload { name, repetitions, .. } = &workload;
        let (device, processor) = (device * 1e-9, processor * 1e-9);
        let ratio = device / processor;
        println!("| {name} | {repetitions} | {device:.3} | {processor:.3} | {ratio:.1} |");
    }
    Ok(())
}

/// Makes a backend of a run.
type Make<'a> = dyn FnMut(Course) -> Result<Box<dyn Backend + 'a>, String> + 'a;

/// Units a second: of the same rounds again and again, after one slice that warms up.
fn rate(workload: &Workload, tries: usize, make: &mut Make<'_>) -> Result<f64, String> {
    let Workload { problem, protocol, repetitions, rounds, units, .. } = workload;
    let start = vec![0.0; problem.dim()];
    let weights = problem.weights().clone();
    let mut backend = make(Course::new(*protocol, weights, Seed(7), &start, *repetitions))?;
    let mut least = f64::INFINITY;
    for slice in 0..=tries as u64 {
        let until = Round((slice + 1) * rounds);
        let (closed, seconds) = timed(|| backend.advance(until, false));
        closed.map_err(|error| error.to_string())?;
        if slice > 0 {
            least = least.min(seconds.wall);
        }
    }
    Ok(units * *rounds as f64 * *repetitions as f64 / least)
}

fn workloads(smaller: u64) -> Vec<Workload> {
    let mut all = Vec::new();
    let (clients, steps) = (25, 5);
    let draws = Stream::for_problem(Seed(1), Purpose::Means);
    let normal = |clients: usize| {
        let mean = (0..clients as u64).map(|n| 10.0 * draws.uniform(n)).collect();
        let base = Base::Gaussian(Gaussian { dim: 1, mean, noise: 1.0 });
        let values = (0..clients as u64).map(|n| 0.9 * draws.uniform(1000 + n)).collect();
        let shift = Shift::Diagonal { dim: 1, values };
        federation(clients, base, shift, Loss::Mean)
    };
    let size = StepSize::Decaying { beta: 20.0, gamma: 1000.0 };
    // Of K = 10 draws with replacement from 25, so many are different on average.
    let different = clients as f64 * (1.0 - (1.0 - 1.0 / clients as f64).powi(10));
    for (scheme, name, members) in [
        (Scheme::Full, "normal, everybody", clients as f64),
        (Scheme::WithReplacement { cohort: 10 }, "normal, with replacement", different),
        (Scheme::WithoutReplacement { cohort: 10 }, "normal, without replacement", 10.0),
    ] {
        for repetitions in [64, 4096, 65_536] {
            all.push(Workload {
                name: name.into(),
                problem: normal(clients),
                protocol: Protocol::p_fedavg(scheme, steps, size),
                repetitions: (repetitions / smaller).max(1),
                rounds: 400,
                units: members * steps as f64,
            });
        }
    }
    let rows = |clients: usize, each: usize, dim: usize, loss: Loss| {
        let uniform = |n: u64| 2.0 * draws.uniform(n) - 1.0;
        let raw = RawTable {
            features: (0..dim).map(|j| format!("x{j}")).collect(),
            values: (0..(clients * each * dim) as u64).map(|n| 0.1 * uniform(n)).collect(),
            labels: (0..clients * each).map(|row| (row % 2) as f64).collect(),
            clients: None,
        };
        let how = Preparation {
            shuffle: false,
            standardize: false,
            intercept: false,
            partition: Partition::Equal(clients),
            by_class: false,
        };
        let table = Table::new(raw, &how, Seed(1)).map_err(|error| format!("{error:?}"));
        let shift = Shift::Diagonal { dim, values: vec![0.01; clients * dim] };
        federation(clients, Base::Table(table.unwrap_or_else(|why| panic!("{why}"))), shift, loss)
    };
    for (name, each, dim, clients, batch, repetitions) in [
        ("logistic, d = 11", 1836, 11, 10, 4, 4096),
        ("logistic, d = 11", 1836, 11, 10, 16, 4096),
        ("ridge, d = 1000", 200, 1000, 100, 32, 16),
    ] {
        let loss = match dim {
            11 => Loss::Logistic { l2: 0.001 },
            _ => Loss::Squared { l2: 0.001 },
        };
        let usual = Protocol::p_fedavg(Scheme::Full, 5, StepSize::Constant(0.01));
        all.push(Workload {
            name: format!("{name}, batch {batch}"),
            problem: rows(clients, each, dim, loss),
            protocol: Protocol { batch: Batch::Sampled(batch), ..usual },
            repetitions: (repetitions / smaller).max(1),
            rounds: 20,
            units: (clients * 5 * batch) as f64,
        });
    }
    all
}

fn federation(clients: usize, base: Base, shift: Shift, loss: Loss) -> Federation {
    let weights = vec![1.0 / clients as f64; clients];
    Federation::new(weights, base, shift, loss).unwrap_or_else(|misfit| panic!("{misfit}"))
}

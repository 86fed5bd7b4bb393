//! Time against every size of a problem, and memory against clients, with the fitted exponents;
//! and what a second thread brings.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use clap::Parser;
use fedback_bench::side::{Job, engine};
use fedback_bench::timing::{Tries, timed};
use fedback_bench::workload::{Kind, Sizes, Workload};
use fedback_core::protocol::Round;
use fedback_engine::backend::Backend;
use fedback_lab::figure::{Axis, Figure, Series};

#[derive(Parser)]
#[command(about = "Measures how time and memory grow")]
struct Args {
    /// How often everything is measured; the least counts.
    #[arg(long, default_value_t = 9)]
    tries: usize,
    /// The folder that results are written to.
    #[arg(long)]
    out: PathBuf,
}

/// A size that grows while the others stay.
struct Curve {
    name: &'static str,
    kind: Kind,
    /// The exponent that the work itself has.
    must: f64,
    values: &'static [usize],
    sizes: fn(usize) -> Sizes,
}

const TENS: &[usize] = &[1, 3, 10, 30, 100, 300, 1000];

fn one() -> Sizes {
    Sizes { repetitions: Some(1), ..Sizes::default() }
}

const CURVES: [Curve; 8] = [
    Curve {
        name: "clients, all of them working",
        kind: Kind::Gaussian,
        must: 1.0,
        values: &[100, 300, 1000, 3000, 10_000, 30_000, 100_000],
        sizes: |n| Sizes { clients: Some(n), ..one() },
    },
    Curve {
        name: "clients, 1000 of them working",
        kind: Kind::Million,
        must: 0.0,
        values: &[3000, 10_000, 30_000, 100_000, 300_000, 1_000_000],
        sizes: |n| Sizes { clients: Some(n), ..one() },
    },
    Curve {
        name: "cohort",
        kind: Kind::Million,
        must: 1.0,
        values: &[30, 100, 300, 1000, 3000, 10_000, 30_000],
        sizes: |k| Sizes {
            clients: Some(100_000),
            cohort: Some(k),
            without_replacement: true,
            ..one()
        },
    },
    Curve {
        name: "coordinates, normal",
        kind: Kind::Gaussian,
        must: 1.0,
        values: TENS,
        sizes: |d| Sizes { dim: Some(d), ..one() },
    },
    Curve {
        name: "coordinates, rows",
        kind: Kind::Ridge,
        must: 1.0,
        values: &[10, 30, 100, 300, 1000, 3000],
        sizes: |d| Sizes { dim: Some(d), clients: Some(20), rows: Some(100), ..one() },
    },
    Curve {
        name: "local steps",
        kind: Kind::Gaussian,
        must: 1.0,
        values: TENS,
        sizes: |e| Sizes { local_steps: Some(e), ..one() },
    },
    Curve {
        name: "batch",
        kind: Kind::Credit,
        must: 1.0,
        values: TENS,
        sizes: |b| Sizes { batch: Some(b), ..one() },
    },
    Curve {
        name: "repetitions",
        kind: Kind::Gaussian,
        must: 1.0,
        values: TENS,
        sizes: |r| Sizes { repetitions: Some(r), ..Sizes::default() },
    },
];

fn main() -> Result<(), String> {
    let args = Args::parse();
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().map_err(|e| e.to_string())?;
    let mut csv = String::from("curve,size,value,unit\n");
    let mut series = Vec::new();
    println!(
        "### Growth\n\n| against | from | to | exponent | must be |\n|---|---:|---:|---:|---:|"
    );
    for curve in &CURVES {
        let time = |&size: &usize| (size as f64, seconds_a_round(curve, size, args.tries));
        let points: Vec<(f64, f64)> = curve.values.iter().map(time).collect();
        add(curve.name, "s a round", curve.must, &points, &mut csv, &mut series);
    }
    let program = bytes(10)?;
    let mut memory = Vec::new();
    for clients in [10_000, 30_000, 100_000, 300_000, 1_000_000] {
        memory.push((clients as f64, bytes(clients)? - program));
    }
    add("memory against clients", "bytes", 1.0, &memory, &mut csv, &mut series);
    let write = |name: &str, text: String| {
        let path = args.out.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write("scaling.csv", csv)?;
    let figure = Figure {
        title: "What grows how fast".into(),
        subtitle: "time a round and memory, as shares of those at the largest size".into(),
        x: Axis::log("share of the largest size"),
        y: Axis::log("share of the time or memory"),
        series,
    };
    write("scaling.svg", figure.to_svg())?;
    threads(args.tries);
    Ok(())
}

/// The least seconds of a round, once the engine is set up.
fn seconds_a_round(curve: &Curve, size: usize, tries: usize) -> f64 {
    let workload = Workload::new(curve.kind, &(curve.sizes)(size));
    let mut simulation = workload.simulation(7, workload.repetitions);
    let mut until = 0;
    let mut advance = |rounds: u64| {
        until += rounds;
        timed(|| simulation.advance(Round(until), false)).1.cpu / rounds as f64
    };
    advance(1);
    let rounds = (0.005 / advance(1).max(1e-9)).ceil() as u64;
    (0..tries).map(|_| advance(rounds)).fold(f64::INFINITY, f64::min)
}

/// Bytes that a run with so many clients of two rows each stays in. A process of its own tells: what
/// this one has freed before would hide some.
fn bytes(clients: usize) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program.with_file_name("workload"))
        .args(["million", "--tries", "1", "--rounds", "1", "--clients", &clients.to_string()])
        .output()
        .map_err(|error| format!("workload: {error}"))?;
    let line: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("workload printed no JSON: {error}"))?;
    line["resident_bytes"].as_f64().ok_or_else(|| "no memory is told on this system".into())
}

/// Prints a curve's exponent and adds its points to the file and the figure.
fn add(
    name: &str,
    unit: &str,
    must: f64,
    points: &[(f64, f64)],
    csv: &mut String,
    series: &mut Vec<Series>,
) {
    for (size, value) in points {
        let _ = writeln!(csv, "\"{name}\",{size},{value:e},{unit}");
    }
    let exponent = exponent(&points[points.len() / 2..]);
    let ((first, _), &(last, largest)) = (points[0], points.last().unwrap_or(&points[0]));
    println!("| {name} | {first} | {last} | {exponent:.2} | {must} |");
    let shares = points.iter().map(|(size, value)| (size / last, value / largest)).collect();
    series.push(Series::line(format!("{name}: {exponent:.2}"), series.len(), shares));
}

/// The slope of log y over log x, by least squares.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let logs = || points.iter().map(|(x, y)| (x.ln(), y.ln()));
    let (mean_x, mean_y) =
        (logs().map(|l| l.0).sum::<f64>() / n, logs().map(|l| l.1).sum::<f64>() / n);
    let covariance: f64 = logs().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    covariance / logs().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum::<f64>()
}

/// One thread and two, taking turns. Only an idle machine can tell.
fn threads(tries: usize) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    if load > 1.5 {
        eprintln!("scaling: the load is {load}, others want the cores: run it again when idle");
    }
    let pools = [1, 2].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build());
    let [Ok(one_thread), Ok(two_threads)] = pools else { return };
    let many = |n| Sizes { clients: Some(n), ..one() };
    let cases = [
        (
            "64 repetitions, N = 25",
            Kind::Gaussian,
            Sizes { rounds: Some(1000), ..Sizes::default() },
        ),
        (
            "one repetition, N = 100,000",
            Kind::Gaussian,
            Sizes { rounds: Some(20), ..many(100_000) },
        ),
        (
            "one repetition, 10,000 clients with rows",
            Kind::Million,
            Sizes { cohort: Some(10_000), rounds: Some(10), ..many(100_000) },
        ),
        ("one repetition, ridge", Kind::Ridge, one()),
    ];
    println!("\n### Two threads\n\n| | one, ms | two, ms | speed-up |\n|---|---:|---:|---:|");
    for (name, kind, sizes) in cases {
        let workload = Workload::new(kind, &sizes);
        let Workload { rounds, repetitions, .. } = workload;
        let mut walls = [Tries::default(), Tries::default()];
        for seed in 0..tries as u64 {
            for (pool, walls) in [&one_thread, &two_threads].into_iter().zip(&mut walls) {
                let job = Job { seed, rounds, repetitions };
                let began = Instant::now();
                std::hint::black_box(pool.install(|| engine(&workload, &job)));
                walls.0.push(began.elapsed().as_secs_f64());
            }
        }
        let [one, two] = walls.map(|walls| walls.least());
        println!("| {name} | {:.1} | {:.1} | {:.2} |", 1e3 * one, 1e3 * two, one / two);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_slopes_of_logarithms() {
        let points = [1.0, 2.0, 5.0, 9.0].map(|x: f64| (x, 3.0 * x.powf(1.7)));
        assert!((exponent(&points) - 1.7).abs() < 1e-12);
    }
}

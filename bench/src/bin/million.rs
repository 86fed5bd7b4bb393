//! A million clients from a file: what set-up and memory cost beside reading the file, and what a
//! round of a cohort costs beside the same in a small federation.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use fedback_bench::memory;
use fedback_bench::timing::timed;
use fedback_core::protocol::Round;
use fedback_core::stream::{Purpose, Seed, Stream};
use fedback_engine::backend::Backend;
use fedback_engine::backend::Course;
use fedback_engine::simulate::Simulation;
use fedback_lab::experiment::Experiment;
use fedback_lab::spec::Document;

#[derive(Parser)]
#[command(about = "Measures set-up, memory and rounds of very many clients from a file")]
struct Args {
    /// Federations of so many clients, with two rows each.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000])]
    clients: Vec<usize>,
    /// Clients a round.
    #[arg(long, default_value_t = 1000)]
    cohort: usize,
    /// Where the files are written, and removed again.
    #[arg(long)]
    folder: Option<PathBuf>,
}

const FEATURES: usize = 10;

fn main() -> Result<(), String> {
    let args = Args::parse();
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().map_err(|e| e.to_string())?;
    let folder = args.folder.unwrap_or_else(std::env::temp_dir);
    if let [clients] = args.clients[..] {
        let path = folder.join(format!("fedback-million-{}.csv", std::process::id()));
        let result = one(clients, args.cohort, &path);
        let _ = std::fs::remove_file(&path);
        println!("{}", result?);
        return Ok(());
    }
    println!("### Many clients, two rows of d = 11 each, cohort {}\n", args.cohort);
    println!(
        "| clients | file, MB | reading it, s | plan, s | engine, s | memory | peak | us a round |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    for clients in args.clients {
        // A process of its own, since freed memory would hide some that is needed.
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let status = Command::new(program)
            .args(["--clients", &clients.to_string(), "--cohort", &args.cohort.to_string()])
            .arg("--folder")
            .arg(&folder)
            .status()
            .map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{clients} clients failed"));
        }
    }
    println!(
        "\nReading: the bytes and the numbers of every line. Memory as multiples of the rows and"
    );
    println!("labels, d + 1 numbers a row: after set-up, and the most at once.");
    Ok(())
}

fn one(clients: usize, cohort: usize, path: &Path) -> Result<String, String> {
    write(2 * clients, path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file = std::fs::metadata(path).map_or(0, |file| file.len()) as f64;
    let spec = spec(clients, cohort, path);
    memory::forget_peak();
    let before = memory::resident().unwrap_or(0);
    let (experiment, planning) =
        timed(|| Document::parse(&spec, "million").and_then(|spec| Experiment::new(&spec)));
    let experiment = experiment.map_err(|error| error.to_string())?;
    let plan = &experiment.plans[0];
    let (mut simulation, setting_up) = timed(|| {
        let weights = plan.federation().weights().clone();
        let course = Course::new(plan.protocol, weights, plan.seed(), &plan.start, 1);
        Simulation::new(plan.federation(), course)
    });
    let mut least = f64::INFINITY;
    for until in 1..=50u64 {
        let (_, seconds) = timed(|| simulation.advance(Round(20 * until), false));
        least = least.min(seconds.cpu / 20.0);
    }
    let (resident, peak) = (memory::resident(), memory::peak());
    let (sum, reading) = timed(|| read(path));
    std::hint::black_box(sum.map_err(|error| error.to_string())?);
    let data = (2 * clients * (FEATURES + 2) * 8) as f64;
    let more = |bytes: Option<u64>| bytes.unwrap_or(0).saturating_sub(before) as f64 / data;
    Ok(format!(
        "| {clients} | {:.1} | {:.2} | {:.2} | {:.3} | {:.2} | {:.2} | {:.1} |",
        file * 1e-6,
        reading.cpu,
        planning.cpu,
        setting_up.cpu,
        more(resident),
        more(peak),
        least * 1e6
    ))
}

/// Rows of normal features with a label, six digits each.
fn write(rows: usize, path: &Path) -> std::io::Result<()> {
    let mut draws = Stream::for_problem(Seed(1), Purpose::Means).draws();
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    let names: Vec<String> = (0..FEATURES).map(|j| format!("x{j}")).collect();
    writeln!(out, "{},y", names.join(","))?;
    for _ in 0..rows {
        let mut first = 0.0;
        for j in 0..FEATURES {
            let x = draws.normal();
            first = if j == 0 { x } else { first };
            write!(out, "{x:.6},")?;
        }
        writeln!(out, "{}", u8::from(first + draws.normal() > 0.0))?;
    }
    out.flush()
}

/// The least that reading takes: the bytes, and every number of every line.
fn read(path: &Path) -> std::io::Result<f64> {
    let text = std::fs::read_to_string(path)?;
    let numbers =
        |line: &str| line.split(',').filter_map(|cell| cell.parse::<f64>().ok()).sum::<f64>();
    Ok(text.lines().skip(1).map(numbers).sum())
}

fn spec(clients: usize, cohort: usize, path: &Path) -> String {
    format!(
        r#"
rounds = 1000
name = "million"
[problem.base]
kind = "table"
path = "{}"
label = "y"
partition = {{ equal = {clients} }}
intercept = true
[problem.response]
kind = "best-response"
features = ["x0", "x5", "x7"]
sensitivity = {{ low = 0.9, high = 1.1 }}
[problem.loss]
kind = "logistic"
l2 = 0.05
[algorithm]
kind = "p-fedavg"
scheme = "with-replacement"
cohort = {cohort}
local_steps = 5
batch = 4
step_size = {{ beta = 20.0, gamma = 1000.0 }}
[measure]
every = 1000
distance = false
risk = false
"#,
        path.display()
    )
}

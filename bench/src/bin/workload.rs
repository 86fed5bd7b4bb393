//! One workload through the engine (or the plain loop), as one JSON line.
//!
//! `workload gaussian`, `workload ridge --dim 200 --tries 3`, `workload million --threads 2`, …

use clap::Parser;
use fedback_bench::memory;
use fedback_bench::side::{Job, Side};
use fedback_bench::timing::{Tries, timed};
use fedback_bench::workload::{Kind, Sizes, Workload};
use serde_json::json;

#[derive(Parser)]
#[command(about = "Times one workload and prints one JSON line")]
struct Args {
    /// The workload.
    #[arg(value_enum)]
    kind: Kind,
    #[command(flatten)]
    sizes: Sizes,
    /// How often it is run; the least time counts.
    #[arg(long, default_value_t = 9)]
    tries: u64,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Time the plain loop instead (full participation, one thread).
    #[arg(long)]
    plain: bool,
    /// Only write the problem into this folder, for a peer to be run by hand.
    #[arg(long)]
    write: Option<std::path::PathBuf>,
    /// Answer jobs on standard input, as a peer does.
    #[arg(long)]
    serve: bool,
}

fn main() -> Result<(), String> {
    let args = Args::parse();
    rayon::ThreadPoolBuilder::new()
        .num_threads(args.threads)
        .build_global()
        .map_err(|error| error.to_string())?;
    let (workload, building) = timed(|| Workload::new(args.kind, &args.sizes));
    if let Some(folder) = args.write {
        return workload.write(&folder).map_err(|error| format!("{}: {error}", folder.display()));
    }
    let mut side = if args.plain { Side::Plain(&workload) } else { Side::Engine(&workload) };
    if args.serve {
        return serve(&mut side);
    }
    let (rounds, repetitions) = (workload.rounds, workload.repetitions);
    let (mut cpu, mut wall) = (Tries::default(), Tries::default());
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for seed in 0..args.tries {
        let done = side.run(&Job { seed, rounds, repetitions })?;
        cpu.0.push(done.seconds.cpu);
        wall.0.push(done.seconds.wall);
        for theta in &done.thetas {
            sum += theta[0];
            squares += theta.iter().map(|t| t * t).sum::<f64>();
            count += 1.0;
        }
    }
    let units = workload.units(rounds, repetitions);
    let line = json!({
        "workload": args.kind.name(),
        "side": if args.plain { "plain" } else { "fedback" },
        "threads": args.threads,
        "sizes": workload.sizes(),
        "unit": workload.unit(),
        "units": units,
        "cpu_seconds": cpu.least(),
        "cpu_median": cpu.median(),
        "wall_seconds": wall.least(),
        "spread": cpu.spread(),
        "nanoseconds_a_unit": cpu.least() * 1e9 / units,
        "building_seconds": building.cpu,
        "data_bytes": workload.data_bytes(),
        "resident_bytes": memory::resident(),
        "peak_bytes": memory::peak(),
        "mean_first_coordinate": sum / count,
        "mean_squared_norm": squares / count,
    });
    println!("{line}");
    Ok(())
}

fn serve(side: &mut Side<'_>) -> Result<(), String> {
    println!("{}", json!({ "fedback": env!("CARGO_PKG_VERSION") }));
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let job = serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
        println!("{}", json!(side.run(&job)?));
    }
    Ok(())
}

//! The limits of one core, and where the ridge workload stands against them.
//!
//! A sample gradient of a linear model needs every number of its row once from wherever the row
//! lies (8d bytes) and four operations a coordinate (a multiplication and an addition for the
//! margin, the same for the gradient): 4d. Whatever takes longer is the limit.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Parser;
use fedback_bench::limits::{Path, arithmetic, read_bandwidth, row_bandwidth};
use fedback_bench::side::{Job, Side};
use fedback_bench::timing::Tries;
use fedback_bench::workload::{Kind, Sizes, Workload};

#[derive(Parser)]
#[command(about = "Measures the limits of one core and compares the ridge workload with them")]
struct Args {
    /// How often everything is measured; the best counts.
    #[arg(long, default_value_t = 15)]
    tries: usize,
    /// The folder that results are written to.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> Result<(), String> {
    let args = Args::parse();
    let mut csv = String::from("limit,path,value,unit\n");
    let mut record = |limit: &str, path: Path, value: f64, unit: &str| {
        let _ = writeln!(csv, "{limit},{},{:.3},{unit}", path.name(), value * 1e-9);
    };
    let workload = Workload::new(Kind::Ridge, &Sizes::default());
    let (bytes, dim) = (workload.data_bytes() as usize, workload.federation.dim());
    let places = [("L1", 24 << 10), ("L2", 512 << 10), ("L3", 6 << 20), ("memory", 256 << 20)];
    println!("### One core\n");
    println!("| path | L1 | L2 | L3 | memory | rows | * then + | fused |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let (mut fastest_rows, mut fastest_apart, mut fastest_fused) = (0.0f64, 0.0f64, 0.0f64);
    for path in Path::ALL.into_iter().filter(|path| path.is_here()) {
        print!("| {} ", path.name());
        for (place, bytes) in places {
            let bandwidth = read_bandwidth(path, bytes, args.tries);
            print!("| {:.1} ", bandwidth * 1e-9);
            record(place, path, bandwidth, "GB/s");
        }
        let rows = row_bandwidth(path, bytes, dim, args.tries);
        let apart = arithmetic(path, false, args.tries);
        // Without the instruction, fusing is a call into a library: no limit of the core.
        let together =
            if path == Path::Portable { 0.0 } else { arithmetic(path, true, args.tries) };
        println!("| {:.1} | {:.1} | {:.1} |", rows * 1e-9, apart * 1e-9, together * 1e-9);
        record("rows", path, rows, "GB/s");
        record("multiply then add", path, apart, "GFLOP/s");
        record("fused", path, together, "GFLOP/s");
        fastest_rows = fastest_rows.max(rows);
        fastest_apart = fastest_apart.max(apart);
        fastest_fused = fastest_fused.max(together);
    }
    println!("\nReads in GB/s; rows: whole rows of the ridge table in random order; arithmetic in");
    println!("GFLOP/s.");
    let mut tries = Tries::default();
    let Workload { rounds, repetitions, .. } = workload;
    for seed in 0..args.tries as u64 {
        let done = Side::Engine(&workload).run(&Job { seed, rounds, repetitions })?;
        tries.0.push(done.seconds.cpu);
    }
    let ours = tries.least() * 1e9 / workload.units(rounds, repetitions);
    let memory = 8.0 * dim as f64 / fastest_rows * 1e9;
    println!("\n### Ridge, d = {dim}, {:.0} MB of rows\n", bytes as f64 * 1e-6);
    println!("| | ns a sample gradient | share reached |\n|---|---:|---:|");
    println!("| fedback | {ours:.0} | |");
    println!(
        "| reading the row, {} bytes | {memory:.0} | {:.0} % |",
        8 * dim,
        100.0 * memory / ours
    );
    for (name, rate) in [("apart", fastest_apart), ("fused", fastest_fused)] {
        let time = 4.0 * dim as f64 / rate * 1e9;
        println!("| {} operations, {name} | {time:.0} | {:.0} % |", 4 * dim, 100.0 * time / ours);
    }
    let _ = writeln!(csv, "ridge,fedback,{ours:.3},ns");
    match args.out {
        Some(folder) => std::fs::write(folder.join("roofline.csv"), csv)
            .map_err(|error| format!("{}: {error}", folder.display())),
        None => Ok(()),
    }
}

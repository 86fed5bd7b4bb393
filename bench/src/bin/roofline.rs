//! The limits of one core, and where the ridge workload stands against them.
//!
//! A sample gradient of a linear model needs every number of its row once from wherever the row
//! lies (8d bytes) and four operations a coordinate (a multiplication and an addition for the
//! margin, the same for the gradient): 4d. Whatever takes longer is the limit. Streaming from memory
//! is what the machine can do; the rows of a batch lie anywhere in a client's table, some of them
//! still in a cache, and reading just them shows what that costs and saves.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Parser;
use fedback_bench::limits::{Path, arithmetic, read_bandwidth, row_bandwidth};
use fedback_bench::side::{Job, Side};
use fedback_bench::timing::Tries;
use fedback_bench::workload::{Kind, Sizes, Workload};
use fedback_core::base::Table;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

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
    let dim = workload.federation.dim();
    let (table, rows) = reads(&workload);
    let places = [("L1", 24 << 10), ("L2", 512 << 10), ("L3", 6 << 20), ("memory", 256 << 20)];
    println!("### One core\n");
    println!("| path | L1 | L2 | L3 | memory | rows | rows ahead | * then + | fused |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    // The best of all paths: memory, rows, rows ahead, apart, fused.
    let mut best = [0.0f64; 5];
    for path in Path::ALL.into_iter().filter(|path| path.is_here()) {
        let read = places.map(|(_, bytes)| read_bandwidth(path, bytes, args.tries));
        let [plain, ahead] =
            [false, true].map(|ahead| row_bandwidth(path, &table, dim, &rows, ahead, args.tries));
        let apart = arithmetic(path, false, args.tries);
        // Without the instruction, fusing is a call into a library: no limit of the core.
        let fused = if path == Path::Portable { apart } else { arithmetic(path, true, args.tries) };
        print!("| {} ", path.name());
        for value in read.into_iter().chain([plain, ahead, apart, fused]) {
            print!("| {:.1} ", value * 1e-9);
        }
        println!("|");
        for ((place, _), value) in places.into_iter().zip(read) {
            record(place, path, value, "GB/s");
        }
        record("rows", path, plain, "GB/s");
        record("rows ahead", path, ahead, "GB/s");
        record("multiply then add", path, apart, "GFLOP/s");
        record("fused", path, fused, "GFLOP/s");
        for (best, value) in best.iter_mut().zip([read[3], plain, ahead, apart, fused]) {
            *best = best.max(value);
        }
    }
    println!(
        "\nReads in GB/s. Rows: those of the ridge workload, whole and in its order; ahead: the"
    );
    println!("next one fetched meanwhile. Arithmetic in GFLOP/s.");
    let ours = ridge(&workload, args.tries)?;
    let _ = writeln!(csv, "ridge,fedback,{ours:.3},ns");
    println!("\n### Ridge, d = {dim}, {:.0} MB of rows\n", workload.data_bytes() as f64 * 1e-6);
    println!("| | ns a sample gradient | share reached |\n|---|---:|---:|");
    println!("| fedback | {ours:.0} | |");
    let (bytes, operations) = (8.0 * dim as f64, 4.0 * dim as f64);
    for (name, units, rate) in [
        ("reading 8d bytes, streamed from memory", bytes, best[0]),
        ("reading the same rows", bytes, best[1]),
        ("reading the same rows, fetched ahead", bytes, best[2]),
        ("4d operations, apart", operations, best[3]),
        ("4d operations, fused", operations, best[4]),
    ] {
        let time = units / rate * 1e9;
        println!("| {name} | {time:.0} | {:.0} % |", 100.0 * time / ours);
    }
    match args.out {
        Some(folder) => std::fs::write(folder.join("roofline.csv"), csv)
            .map_err(|error| format!("{}: {error}", folder.display())),
        None => Ok(()),
    }
}

/// A table of the workload's shape, and the rows that one round of it reads, in order.
fn reads(workload: &Workload) -> (Vec<f64>, Vec<usize>) {
    let clients = workload.federation.clients();
    let count = workload.table().map_or(1, Table::len);
    let draws = workload.protocol.local_steps * workload.protocol.batch.size() as usize;
    let each = count / clients;
    let mut rng = SmallRng::seed_from_u64(1);
    let rows = (0..clients * draws).map(|k| k / draws * each + rng.random_range(0..each)).collect();
    (vec![1.0; count * workload.federation.dim()], rows)
}

/// Nanoseconds of our side a sample gradient.
fn ridge(workload: &Workload, tries: usize) -> Result<f64, String> {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().map_err(|e| e.to_string())?;
    let Workload { rounds, repetitions, .. } = *workload;
    let mut times = Tries::default();
    for seed in 0..tries as u64 {
        let done = Side::Engine(workload).run(&Job { seed, rounds, repetitions })?;
        times.0.push(done.seconds.cpu);
    }
    Ok(times.least() * 1e9 / workload.units(rounds, repetitions))
}

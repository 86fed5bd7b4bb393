//! Instructions per client step and per sample gradient, counted by callgrind.
//!
//! Counts do not depend on how busy the machine is: a regression shows on a noisy one. Every
//! workload is run at two lengths, and the difference taken, so that start and set-up cancel. The
//! stored counts are in `bench/results/instructions.csv`; `--check` compares with them and fails
//! where one has grown by more than three in a hundred.

use std::process::{Command, ExitCode};

use clap::Parser;

#[derive(Parser)]
#[command(about = "Counts instructions by callgrind")]
struct Args {
    /// Compare with the stored counts instead of storing new ones.
    #[arg(long)]
    check: bool,
    /// The stored counts.
    #[arg(long, default_value = "bench/results/instructions.csv")]
    stored: std::path::PathBuf,
}

/// A workload: its name, its arguments, and the two lengths.
const WORKLOADS: [(&str, &[&str], [u64; 2]); 18] = [
    ("gaussian", &["gaussian", "--repetitions", "1"], [20, 220]),
    ("gaussian, cohort 20", &["gaussian", "--repetitions", "1", "--cohort", "20"], [20, 220]),
    ("gaussian, d = 10", &["gaussian", "--repetitions", "1", "--dim", "10"], [5, 25]),
    ("logistic, batch 4", &["credit", "--repetitions", "1", "--rows", "100"], [5, 55]),
    (
        "logistic, batch 16",
        &["credit", "--repetitions", "1", "--rows", "100", "--batch", "16"],
        [5, 25],
    ),
    ("outcome, batch 4", &credit("outcome", "4"), [5, 55]),
    ("outcome, batch 16", &credit("outcome", "16"), [5, 25]),
    ("strategic, batch 4", &credit("strategic", "4"), [5, 55]),
    ("strategic, batch 16", &credit("strategic", "16"), [5, 25]),
    ("leaving by row, batch 4", &credit("leaving-by-row", "4"), [5, 55]),
    ("leaving by row, batch 16", &credit("leaving-by-row", "16"), [5, 25]),
    ("ridge", &["ridge", "--clients", "10", "--rows", "50"], [1, 3]),
    ("gaussian, fedprox", &["gaussian", "--repetitions", "1", "--algorithm", "fedprox"], [20, 220]),
    (
        "gaussian, scaffold",
        &["gaussian", "--repetitions", "1", "--algorithm", "scaffold"],
        [20, 220],
    ),
    ("gaussian, adam", &["gaussian", "--repetitions", "1", "--algorithm", "adam"], [20, 220]),
    (
        "logistic, batch 4, fedprox",
        &["credit", "--repetitions", "1", "--rows", "100", "--algorithm", "fedprox"],
        [5, 55],
    ),
    (
        "logistic, batch 4, scaffold",
        &["credit", "--repetitions", "1", "--rows", "100", "--algorithm", "scaffold"],
        [5, 55],
    ),
    (
        "ridge, scaffold",
        &["ridge", "--clients", "10", "--rows", "50", "--algorithm", "scaffold"],
        [1, 3],
    ),
];

/// Rows of the credit table that react one by one.
const fn credit(response: &'static str, batch: &'static str) -> [&'static str; 9] {
    ["credit", "--repetitions", "1", "--rows", "100", "--response", response, "--batch", batch]
}

/// The paths that valgrind can follow: it knows no AVX-512.
const PATHS: [&str; 2] = ["portable", "avx2"];

/// Growth that is let pass.
const ALLOWED: f64 = 1.03;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("instructions: {message}");
            ExitCode::from(2)
        }
    }
}

/// Whether no count has grown.
fn run(args: &Args) -> Result<bool, String> {
    let stored = if args.check {
        std::fs::read_to_string(&args.stored)
            .map_err(|error| format!("{}: {error}", args.stored.display()))?
    } else {
        String::new()
    };
    let mut csv = String::from("workload,path,unit,instructions\n");
    let mut good = true;
    println!("| workload | path | instructions | a | stored |\n|---|---|---:|---|---:|");
    for (name, arguments, lengths) in WORKLOADS {
        for path in PATHS {
            let [short, long] = lengths.map(|rounds| count(path, arguments, rounds));
            let ((short, fewer, unit), (long, more, _)) = (short?, long?);
            let each = (long - short) / (more - fewer);
            let before = stored_count(&stored, name, path);
            let verdict = match before {
                Some(before) if each > ALLOWED * before => " **more**",
                _ => "",
            };
            good &= verdict.is_empty();
            let before = before.map_or(String::new(), |before| format!("{before:.2}"));
            println!("| {name} | {path} | {each:.2} | {unit} | {before}{verdict} |");
            // Names have commas in them.
            csv += &format!("\"{name}\",{path},{unit},{each:.3}\n");
        }
    }
    if !args.check {
        std::fs::write(&args.stored, csv)
            .map_err(|error| format!("{}: {error}", args.stored.display()))?;
    }
    Ok(good)
}

fn stored_count(stored: &str, name: &str, path: &str) -> Option<f64> {
    let start = format!("\"{name}\",{path},");
    let line = stored.lines().find_map(|line| line.strip_prefix(&start))?;
    line.rsplit(',').next()?.parse().ok()
}

/// Instructions, units and the unit's name of one run.
fn count(path: &str, arguments: &[&str], rounds: u64) -> Result<(f64, f64, String), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program.with_file_name("workload"))
        .args(arguments)
        .args(["--tries", "1", "--rounds", &rounds.to_string()])
        .env("FEDBACK_SIMD", path)
        .output()
        .map_err(|error| format!("valgrind: {error}; install the package valgrind"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    let collected = messages
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .and_then(|(_, number)| number.trim().parse().ok())
        .ok_or_else(|| format!("valgrind counted nothing: {messages}"))?;
    let line: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("workload printed no JSON: {error}: {messages}"))?;
    let units = line["units"].as_f64().unwrap_or(f64::NAN);
    Ok((collected, units, line["unit"].as_str().unwrap_or_default().into()))
}

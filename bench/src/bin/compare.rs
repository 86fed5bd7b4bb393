//! Our side and the peers on the same problems: agreement first, then times, taking turns.
//!
//! `dev/bench` builds, installs and calls this, pinned to one core, which children inherit.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use fedback_bench::bars::{self, Group};
use fedback_bench::limits;
use fedback_bench::side::{Job, Peer, Side, disagreement, engine};
use fedback_bench::timing::Tries;
use fedback_bench::workload::{Kind, Sizes, Workload};

#[derive(Parser)]
#[command(about = "Compares fedback with its peers")]
struct Args {
    /// The folder that results are written to.
    #[arg(long)]
    out: PathBuf,
    /// How often everyone runs; the least time counts.
    #[arg(long, default_value_t = 15)]
    tries: u64,
    /// The folder of the peers' Python environments; without it there are no peers but plain loops.
    #[arg(long)]
    environments: Option<PathBuf>,
    /// The folder of the peers' scripts.
    #[arg(long, default_value = "bench/peers")]
    scripts: PathBuf,
    /// Only the cases whose names begin with this.
    #[arg(long, default_value = "")]
    only: String,
    #[command(flatten)]
    sizes: Sizes,
}

/// A peer: its name, environment, script, further argument, and the rounds of one repetition that it
/// runs where it is too slow for the whole workload.
struct Contender {
    name: &'static str,
    environment: &'static str,
    script: &'static str,
    argument: Option<&'static str>,
    rounds: Option<u64>,
}

const fn contender(
    name: &'static str,
    environment: &'static str,
    script: &'static str,
    argument: Option<&'static str>,
    rounds: Option<u64>,
) -> Contender {
    Contender { name, environment, script, argument, rounds }
}

const CONTENDERS: [Contender; 7] = [
    contender("numpy", "arrays", "with_numpy.py", None, None),
    contender("numba", "arrays", "with_numba.py", None, None),
    contender("jax", "arrays", "with_jax.py", Some("64"), None),
    contender("jax-float32", "arrays", "with_jax.py", Some("32"), None),
    contender("fedjax", "arrays", "with_fedjax.py", None, Some(10)),
    contender("pfl", "pfl", "with_pfl.py", None, Some(10)),
    contender("flower", "flower", "with_flower.py", None, Some(3)),
];

/// Standard errors that answers may lie apart.
const ALLOWED: f64 = 5.0;

fn cases() -> Vec<(&'static str, Kind, Sizes)> {
    let sixteen = Sizes { batch: Some(16), rounds: Some(200), ..Sizes::default() };
    vec![
        ("gaussian", Kind::Gaussian, Sizes::default()),
        ("credit-batch-4", Kind::Credit, Sizes::default()),
        ("credit-batch-16", Kind::Credit, sixteen),
        ("ridge", Kind::Ridge, Sizes::default()),
    ]
}

fn main() {
    let args = Args::parse();
    if let Err(message) = compare(&args) {
        eprintln!("compare: {message}");
        std::process::exit(1);
    }
}

fn compare(args: &Args) -> Result<(), String> {
    let scratch = std::env::temp_dir().join(format!("fedback-bench-{}", std::process::id()));
    let result = cases_in(args, &scratch);
    let _ = std::fs::remove_dir_all(&scratch);
    result
}

fn cases_in(args: &Args, scratch: &Path) -> Result<(), String> {
    // One thread, also where this is not pinned to a core.
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().map_err(text)?;
    std::fs::create_dir_all(&args.out).map_err(text)?;
    let mut csv = String::from(
        "workload,side,unit,rounds,repetitions,least_ns,median_ns,spread,ratio,standard_errors\n",
    );
    let (mut groups, mut notes) = (Vec::new(), Vec::new());
    for (name, kind, sizes) in cases().into_iter().filter(|case| case.0.starts_with(&args.only)) {
        let sizes = args.sizes.or(&sizes);
        let workload = Workload::new(kind, &sizes);
        let folder = scratch.join(name);
        std::fs::create_dir_all(&folder).map_err(text)?;
        workload.write(&folder).map_err(text)?;
        let mut entrants = enter(args, &workload, &folder, &mut notes);
        entrants.extend(forced(&workload, &sizes, &folder)?);
        let mut agreeing = Vec::new();
        for mut entrant in entrants {
            match check(name, &workload, &mut entrant)? {
                None => agreeing.push(entrant),
                Some(reason) => skip(&entrant.name, &reason, &mut notes),
            }
        }
        let mut entrants = agreeing;
        let measured = measure(&mut entrants, args.tries)?;
        groups.push(report(name, &workload, &entrants, &measured, &mut csv));
        std::fs::write(args.out.join("compare.csv"), &csv).map_err(text)?;
        drop(entrants);
        let _ = std::fs::remove_dir_all(&folder);
    }
    let chart =
        bars::svg("Nanoseconds of one core, and how many times ours (bars: logarithmic)", &groups);
    std::fs::write(args.out.join("compare.svg"), chart).map_err(text)?;
    std::fs::write(args.out.join("peers.txt"), notes.join("\n") + "\n").map_err(text)?;
    Ok(())
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Somebody who takes part in a case.
struct Entrant<'a> {
    name: String,
    side: Side<'a>,
    rounds: u64,
    repetitions: usize,
    standard_errors: f64,
    /// Whether it is our own code, which has to give the very same answers.
    twin: bool,
}

/// Everybody who can: our side, the plain loop, and the peers that start. The others are named.
fn enter<'a>(
    args: &Args,
    workload: &'a Workload,
    folder: &Path,
    notes: &mut Vec<String>,
) -> Vec<Entrant<'a>> {
    let (rounds, repetitions) = (workload.rounds, workload.repetitions);
    let entrant = |name: &str, side, rounds, repetitions| Entrant {
        name: name.into(),
        side,
        rounds,
        repetitions,
        standard_errors: 0.0,
        twin: name == "fedback",
    };
    let mut entrants = vec![
        entrant("fedback", Side::Engine(workload), rounds, repetitions),
        entrant("plain loop", Side::Plain(workload), rounds, repetitions),
    ];
    let Some(environments) = &args.environments else { return entrants };
    for contender in CONTENDERS {
        let python = environments.join(contender.environment).join("bin/python");
        let mut command = Command::new(python);
        command.arg(args.scripts.join(contender.script)).arg(folder).args(contender.argument);
        match Peer::start(contender.name, command, folder) {
            Ok((peer, version)) => {
                note(format!("{}: {version}", contender.name), notes);
                let side = Side::Peer(Box::new(peer));
                let (rounds, repetitions) = match contender.rounds {
                    Some(few) => (few.min(rounds), 1),
                    None => (rounds, repetitions),
                };
                entrants.push(entrant(contender.name, side, rounds, repetitions));
            }
            Err(reason) => skip(contender.name, &reason, notes),
        }
    }
    entrants
}

/// Our side again, in processes in which each path of the kernels is forced in turn.
fn forced<'a>(
    workload: &Workload,
    sizes: &Sizes,
    folder: &Path,
) -> Result<Vec<Entrant<'a>>, String> {
    let program = std::env::current_exe().map_err(text)?.with_file_name("workload");
    let mut entrants = Vec::new();
    for path in limits::Path::ALL.into_iter().filter(|path| path.is_here()) {
        let name = format!("fedback-{}", path.name());
        let mut command = Command::new(&program);
        command.arg(workload.kind.name()).args(sizes.arguments()).arg("--serve");
        command.env("FEDBACK_SIMD", path.name());
        let (peer, _) = Peer::start(&name, command, folder)?;
        entrants.push(Entrant {
            name,
            side: Side::Peer(Box::new(peer)),
            rounds: workload.rounds,
            repetitions: workload.repetitions,
            standard_errors: 0.0,
            twin: true,
        });
    }
    Ok(entrants)
}

fn skip(name: &str, reason: &str, notes: &mut Vec<String>) {
    eprintln!("compare: {name} is skipped: {reason}");
    note(format!("{name} was skipped: {reason}"), notes);
}

/// Keeps what belongs to the record, once.
fn note(line: String, notes: &mut Vec<String>) {
    if !notes.contains(&line) {
        notes.push(line);
    }
}

/// Refuses to time a side whose answers are not ours; returns why where it has none. It runs what
/// will be timed, until it has eight repetitions; we run the same rounds with many more. A path of
/// our own kernels has to give the very same answers.
fn check(
    name: &str,
    workload: &Workload,
    entrant: &mut Entrant<'_>,
) -> Result<Option<String>, String> {
    let Entrant { rounds, repetitions, .. } = *entrant;
    let mut thetas = Vec::new();
    for seed in 1000.. {
        match entrant.side.run(&Job { seed, rounds, repetitions }) {
            Ok(done) => thetas.extend(done.thetas),
            Err(reason) => return Ok(Some(reason)),
        }
        if thetas.len() >= 8 || entrant.twin {
            break;
        }
    }
    let apart = if entrant.twin {
        let same = Job { seed: 1000, rounds, repetitions };
        if !close(&engine(workload, &same), &thetas) {
            return Err(format!("{name}: {} gives other answers", entrant.name));
        }
        0.0
    } else {
        let many = Job { seed: 1, rounds, repetitions: repetitions.max(64) };
        disagreement(&engine(workload, &many), &thetas)
    };
    if apart > ALLOWED {
        return Err(format!(
            "{name}: {} does not agree: {apart:.1} standard errors, {ALLOWED} are allowed",
            entrant.name
        ));
    }
    eprintln!("{name}: {} agrees within {apart:.1} standard errors", entrant.name);
    entrant.standard_errors = apart;
    Ok(None)
}

/// Whether numbers are the same, but for their way through text.
fn close(ours: &[Vec<f64>], theirs: &[Vec<f64>]) -> bool {
    let pairs = || ours.iter().flatten().zip(theirs.iter().flatten());
    ours.len() == theirs.len() && pairs().all(|(a, b)| (a - b).abs() <= 1e-14 * a.abs())
}

fn measure(entrants: &mut [Entrant<'_>], tries: u64) -> Result<Vec<Tries>, String> {
    let mut measured = vec![Tries::default(); entrants.len()];
    for seed in 0..tries {
        for (tries, entrant) in measured.iter_mut().zip(entrants.iter_mut()) {
            let Entrant { rounds, repetitions, .. } = *entrant;
            tries.0.push(entrant.side.run(&Job { seed, rounds, repetitions })?.seconds.cpu);
        }
    }
    Ok(measured)
}

/// Prints a table, adds to the CSV file, and returns the bars of the chart.
fn report(
    name: &str,
    workload: &Workload,
    entrants: &[Entrant<'_>],
    measured: &[Tries],
    csv: &mut String,
) -> Group {
    let unit = workload.unit();
    println!("\n### {name}: {}\n", workload.sizes());
    println!("| side | ns a {unit} | spread | times ours | standard errors |");
    println!("|---|---:|---:|---:|---:|");
    let nanoseconds = |k: usize, seconds: f64| {
        seconds * 1e9 / workload.units(entrants[k].rounds, entrants[k].repetitions)
    };
    let ours = nanoseconds(0, measured[0].least());
    let mut bars = Vec::new();
    for (k, (entrant, tries)) in entrants.iter().zip(measured).enumerate() {
        let Entrant { name: side, rounds, repetitions, standard_errors, .. } = entrant;
        let (least, median) = (nanoseconds(k, tries.least()), nanoseconds(k, tries.median()));
        let (spread, ratio) = (tries.spread(), least / ours);
        println!(
            "| {side} | {least:.2} | {:.0} % | {ratio:.2} | {standard_errors:.1} |",
            100.0 * spread
        );
        let _ = writeln!(
            csv,
            "{name},{side},{unit},{rounds},{repetitions},{least:.4},{median:.4},{spread:.4},\
             {ratio:.4},{standard_errors:.2}"
        );
        bars.push((side.clone(), least));
    }
    Group { title: format!("{name}, ns a {unit}"), bars }
}

//! The same bits: what many small runs of all kinds come to, compared with what was recorded.
//!
//! `bits/expected.csv` has the SHA-256 of all final models and of the curve of every spec in
//! `bits/specs.rs`. A difference means that recorded runs no longer resume to the same bits.
//!
//! With `FEDBACK_RENEW_BITS=1` in the environment the file is written anew: after a change of the random
//! streams, say. `FEDBACK_BINARY` names another binary to run, such as one of an earlier commit.

mod binary;
mod hashing;
#[path = "bits/specs.rs"]
mod specs;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use fedback::core::simd::Simd;

use specs::Case;

const EXPECTED: &str = "bits/expected.csv";

/// Specs that take different ways through the engine.
const VARIED: [&str; 14] = [
    "gaussian-1-number",
    "gaussian-3-vectors",
    "gaussian-5-matrices",
    "gaussian-19-uniform",
    "mean-2",
    "mean-14",
    "squared-1",
    "squared-12",
    "logistic-4",
    "logistic-16",
    "logistic-70",
    "many-clients",
    "many-clients-with-rows",
    "long-fold",
];

/// A folder with all specs and the tables they name.
fn folder(cases: &[Case]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let specs = cases.iter().map(|case| (format!("{}.toml", case.name), case.toml.clone()));
    for (name, text) in specs.chain(specs::tables()) {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The hashes of a run of the case, as a line of the file would have them, or why there are none.
fn run(folder: &Path, case: &Case, threads: Option<&str>, path: Option<&str>) -> String {
    let spec = format!("{}.toml", case.name);
    let mut command =
        binary::command(folder, &["run", &spec, "--json", "--store", "none", "--quiet"]);
    command.args(threads.iter().flat_map(|threads| ["--threads", threads]));
    match path {
        Some(path) => command.env("FEDBACK_SIMD", path),
        None => &mut command,
    };
    let output = command.output().unwrap();
    if !output.status.success() {
        return format!("failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    hashing::hashes(&serde_json::from_slice(&output.stdout).unwrap()).join(",")
}

/// What `work` gives for every item, in their order, by a few threads.
fn each<T: Sync>(items: &[T], work: impl Fn(&T) -> String + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let k = next.fetch_add(1, Ordering::Relaxed);
            match items.get(k) {
                Some(item) => done.push((k, work(item))),
                None => return done,
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let mut done: Vec<(usize, String)> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        started.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    done.sort();
    done.into_iter().map(|(_, result)| result).collect()
}

fn renewing() -> bool {
    std::env::var_os("FEDBACK_RENEW_BITS").is_some_and(|value| value == "1")
}

fn renew(cases: &[Case], found: &[String]) {
    let mut text = "name,theta,curve\n".to_owned();
    let failed = found.iter().filter(|hashes| hashes.starts_with("failed"));
    assert_eq!(failed.clone().count(), 0, "{:#?}", failed.collect::<Vec<_>>());
    for (case, hashes) in cases.iter().zip(found) {
        text += &format!("{},{hashes}\n", case.name);
    }
    std::fs::write(binary::beside(EXPECTED), text).unwrap();
}

#[test]
fn runs_come_to_the_recorded_bits() {
    let cases = specs::cases();
    let folder = folder(&cases);
    let found = each(&cases, |case| run(folder.path(), case, None, None));
    if renewing() {
        return renew(&cases, &found);
    }
    let expected = hashing::expected(EXPECTED);
    let mut wrong = Vec::new();
    for (case, found) in cases.iter().zip(&found) {
        match expected.get(&case.name).map(|hashes| hashes.join(",")) {
            Some(hashes) if hashes == *found => {}
            Some(_) if found.starts_with("failed") => wrong.push(format!("{} {found}", case.name)),
            Some(hashes) => wrong.push(format!("{}: {}", case.name, difference(&hashes, found))),
            None => wrong.push(format!("{}: not in {EXPECTED}", case.name)),
        }
    }
    let known = |name: &String| cases.iter().any(|case| case.name == *name);
    let gone = expected.keys().filter(|name| !known(name));
    wrong.extend(gone.map(|name| format!("{name}: no such spec")));
    let report = wrong.join("\n");
    assert!(wrong.is_empty(), "{} of {} specs differ:\n{report}", wrong.len(), cases.len());
}

/// Which of the two hashes differ.
fn difference(expected: &str, found: &str) -> &'static str {
    let same = |part: fn(&str) -> Option<&str>| part(expected) == part(found);
    match (same(|line| line.split(',').next()), same(|line| line.split(',').nth(1))) {
        (true, _) => "another curve, the same models",
        (false, true) => "other models, the same curve",
        (false, false) => "other models, another curve",
    }
}

#[test]
fn threads_and_paths_change_no_bit() {
    if renewing() {
        return;
    }
    let cases = specs::cases();
    let folder = folder(&cases);
    let expected = hashing::expected(EXPECTED);
    let mut ways = vec![("1", None), ("3", None), ("3", Some("portable"))];
    let paths = [("avx2", Simd::Avx2), ("avx512", Simd::Avx512)];
    let available = paths.into_iter().filter(|(_, path)| path.is_available());
    ways.extend(available.map(|(name, _)| ("1", Some(name))));
    let named = |name: &str| cases.iter().find(|case| case.name == name).expect("a spec");
    let all: Vec<(&Case, (&str, Option<&str>))> =
        VARIED.iter().flat_map(|name| ways.iter().map(|way| (named(name), *way))).collect();
    let found =
        each(&all, |&(case, (threads, path))| run(folder.path(), case, Some(threads), path));
    let wrong = all.iter().zip(&found).filter(|((case, _), found)| {
        expected.get(&case.name).is_none_or(|hashes| hashes.join(",") != **found)
    });
    let wrong: Vec<String> =
        wrong.map(|((case, way), found)| format!("{} {way:?}: {found}", case.name)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

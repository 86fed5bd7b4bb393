//! A recorded run outlives its data and the version that wrote it.

mod binary;

use std::path::Path;
use std::process::Output;

use fedback::lab::event::Ending;
use fedback::lab::store::{Store, StoredRun};
use serde_json::Value;
use tempfile::TempDir;

fn fedback(folder: &Path, args: &[&str]) -> Output {
    binary::command(folder, args).arg("--quiet").output().unwrap()
}

/// What a command prints; it must succeed.
fn printed(folder: &Path, args: &[&str]) -> String {
    let output = fedback(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a command that must be refused.
fn refused(folder: &Path, args: &[&str]) -> String {
    let output = fedback(folder, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    said
}

/// Two runs on the example table, and what they said of themselves.
fn two_runs() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    printed(here, &["new", "banks.toml", "--kind", "table"]);
    for rounds in ["rounds=10", "rounds=20"] {
        printed(here, &["run", "banks.toml", "--set", rounds, "--set", "measure.client_risk=true"]);
    }
    folder
}

/// Writes the store anew, as if its runs had been other ones.
fn change(folder: &Path, change: impl Fn(&mut StoredRun)) {
    let (path, other) = (folder.join("fedback.db"), folder.join("other.db"));
    let (old, new) = (Store::open(&path).unwrap(), Store::open(&other).unwrap());
    for id in old.ids().unwrap() {
        let mut run = old.load(id).unwrap();
        change(&mut run);
        new.insert(&run).unwrap();
    }
    drop((old, new));
    std::fs::rename(other, path).unwrap();
}

fn interrupt_the_first(run: &mut StoredRun) {
    if run.id.0 == 1 {
        run.ending = Some(Ending::Interrupted);
    }
}

fn everything_read(folder: &Path) -> Vec<String> {
    let mut all: Vec<String> = ["csv", "json", "svg", "theta"]
        .iter()
        .map(|format| printed(folder, &["export", "1", "--format", format]))
        .collect();
    all.push(printed(folder, &["compare", "1", "2", "--json"]));
    all.push(printed(folder, &["runs", "--json"]));
    all.push(printed(folder, &["show", "1"]));
    all.push(printed(folder, &["show", "1", "2"]));
    all
}

#[test]
fn a_run_is_read_without_its_table() {
    let folder = two_runs();
    let before = everything_read(folder.path());
    std::fs::remove_file(folder.path().join("banks.csv")).unwrap();
    assert_eq!(everything_read(folder.path()), before);
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::rename(folder.path().join("fedback.db"), elsewhere.path().join("fedback.db")).unwrap();
    assert_eq!(everything_read(elsewhere.path()), before);
}

#[test]
fn only_going_on_and_replaying_need_the_table() {
    let folder = two_runs();
    let (here, table) = (folder.path(), folder.path().join("banks.csv"));
    let rows = std::fs::read_to_string(&table).unwrap();
    change(here, interrupt_the_first);
    std::fs::remove_file(&table).unwrap();
    // A run that has ended is shown as it ended.
    printed(here, &["resume", "2"]);
    for command in ["resume", "replay"] {
        let said = refused(here, &[command, "1"]);
        assert!(
            said.contains("run 1: problem.base.path: ") && said.contains("banks.csv"),
            "{said}"
        );
        assert!(said.contains("show, export and compare do not"), "{said}");
    }
    std::fs::write(&table, format!("{rows}birch,0.5,6,3000,0\n")).unwrap();
    for command in ["resume", "replay"] {
        let said = refused(here, &[command, "1"]);
        assert!(said.contains("its data file has changed"), "{said}");
    }
    printed(here, &["export", "1", "--format", "csv"]);
    std::fs::write(&table, rows).unwrap();
    printed(here, &["resume", "1"]);
    printed(here, &["replay", "1"]);
}

#[test]
fn another_version_reads_and_goes_on() {
    let folder = two_runs();
    let before = everything_read(folder.path());
    change(folder.path(), |run| run.run.version = "9.8.7".into());
    assert_eq!(everything_read(folder.path()).len(), before.len());
    change(folder.path(), interrupt_the_first);
    printed(folder.path(), &["resume", "1"]);
    printed(folder.path(), &["replay", "1"]);
}

#[test]
fn other_arithmetic_is_read_and_does_not_go_on() {
    let folder = two_runs();
    change(folder.path(), |run| {
        let mut facts: Value = serde_json::from_str(run.run.facts.as_ref().unwrap()).unwrap();
        facts["arithmetic_format"] = 7.into();
        run.run.facts = Some(facts.to_string());
    });
    everything_read(folder.path());
    let said = refused(folder.path(), &["replay", "1"]);
    assert!(said.contains("arithmetic format 7") && said.contains("use that version"), "{said}");
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, args)).unwrap()
}

/// Two runs on normal data, under a sweep, with tags and a note.
fn swept() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    printed(here, &["new"]);
    let run = ["run", "experiment.toml", "--set", "rounds=10", "--set", "seed=3"];
    let sweep = ["--set", "sweep={\"algorithm.local_steps\"=[1,2]}"];
    printed(here, &[&run[..], &sweep, &["--tag", "paper", "--note", "for Ada"]].concat());
    folder
}

#[test]
fn a_shown_run_is_a_spec_that_runs_to_the_same_bits() {
    let folder = swept();
    let text = printed(folder.path(), &["show", "2"]);
    for line in ["# note: for Ada", "# tags: paper", "# seed: 3", "# set: rounds = 10, seed = 3, "]
    {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}: {text}");
    }
    std::fs::write(folder.path().join("again.toml"), text).unwrap();
    let again = json(folder.path(), &["run", "again.toml", "--json"]);
    let exported = json(folder.path(), &["export", "2", "--format", "json"]);
    for field in ["curve", "exact", "final_theta", "seed", "spec", "version"] {
        assert_eq!(again[field], exported[field], "{field}");
    }
}

#[test]
fn what_differs_is_shown() {
    let folder = swept();
    let differs = json(folder.path(), &["show", "1", "2", "--json"]);
    assert_eq!(differs["runs"], serde_json::json!([1, 2]));
    assert_eq!(differs["differs"]["spec.algorithm.local_steps"], serde_json::json!([1, 2]));
    let text = printed(folder.path(), &["show", "1", "2"]);
    let first = text.lines().nth(1).unwrap_or_default();
    assert_eq!(first.split_whitespace().collect::<Vec<_>>(), ["algorithm.local_steps", "1", "2"]);
}

#[test]
fn lists_that_differ_are_shown_as_numbers() {
    let folder = two_runs();
    let text = printed(folder.path(), &["show", "1", "2"]);
    let risks = text.lines().find(|line| line.contains("client_risk")).unwrap();
    let is_number = |word: &&str| word.trim_end_matches(';').parse::<f64>().is_ok();
    // Three banks in each of two runs.
    assert_eq!(risks.split_whitespace().filter(is_number).count(), 6, "{risks}");
    assert!(!text.contains(['{', '[']), "{text}");
}

#[test]
fn notes_and_tags_change() {
    let folder = swept();
    let here = folder.path();
    printed(here, &["note", "1", "for Grace", "--tag", "wide", "--untag", "paper"]);
    let shown = json(here, &["show", "1", "--json"]);
    assert_eq!((&shown["note"], &shown["tags"]), (&"for Grace".into(), &vec!["wide"].into()));
    let said = refused(here, &["note", "1", "--untag", "paper"]);
    assert!(said.contains("--untag paper: run 1 has no such tag; it has: wide"), "{said}");
    refused(here, &["note", "1"]);
    refused(here, &["note", "1", "--tag", "two words"]);
    refused(here, &["note", "9", "nobody"]);
}

#[test]
fn runs_are_removed_when_asked_twice() {
    let folder = swept();
    let said = refused(folder.path(), &["rm", "1"]);
    assert!(said.contains("add --yes"), "{said}");
    assert_eq!(printed(folder.path(), &["rm", "1", "1", "--yes"]), "removed 1 run\n");
    refused(folder.path(), &["show", "1"]);
    printed(folder.path(), &["show", "2"]);
}

#[test]
fn a_bundle_is_a_run_elsewhere() {
    let folder = two_runs();
    let bundle = folder.path().join("run.bundle");
    let path = bundle.to_str().unwrap();
    let said = refused(folder.path(), &["export", "1", "--format", "bundle"]);
    assert!(said.contains("--out: is missing"), "{said}");
    printed(folder.path(), &["note", "1", "for Ada"]);
    printed(folder.path(), &["export", "1", "--format", "bundle", "--out", path]);
    let said = refused(folder.path(), &["export", "1", "--format", "bundle", "--out", path]);
    assert!(said.contains("is there already"), "{said}");
    let elsewhere = tempfile::tempdir().unwrap();
    for expected in ["imported as run 1\n", "imported as run 2\n"] {
        assert_eq!(printed(elsewhere.path(), &["import", path]), expected);
    }
    let fields = |folder: &Path| {
        let run = json(folder, &["export", "1", "--format", "json"]);
        (run, json(folder, &["show", "1", "--json"]))
    };
    assert_eq!(fields(elsewhere.path()), fields(folder.path()));
    refused(elsewhere.path(), &["import", "nothing.bundle"]);
    let empty = tempfile::tempdir().unwrap();
    std::fs::write(empty.path().join("spec.toml"), "rounds = 1").unwrap();
    refused(empty.path(), &["import", "spec.toml"]);
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 1);
}

#[test]
fn csv_has_what_the_screen_has() {
    let folder = swept();
    let csv = printed(folder.path(), &["export", "2", "--format", "csv"]);
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let ends = ["name", "seed", "version", "rounds", "algorithm.local_steps"];
    assert_eq!(header[2..5], ["distance_sq_mean", "distance_sq_sd", "distance_sq_exact"]);
    assert_eq!(header[header.len() - 5..], ends);
    let last: Vec<&str> = csv.lines().last().unwrap().split(',').collect();
    assert_eq!(last.len(), header.len());
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(last[last.len() - 5..], ["gaussian", "3", version, "10", "2"]);
}

#[test]
fn compared_runs_are_named_by_what_differs() {
    let folder = swept();
    let here = folder.path();
    printed(here, &["run", "experiment.toml", "--set", "rounds=10", "--set", "seed=3"]);
    let labels = |args: &[&str]| -> Vec<Value> {
        let compared = json(here, &[&["compare"], args, &["--json"]].concat());
        compared["runs"].as_array().unwrap().iter().map(|run| run["label"].clone()).collect()
    };
    assert_eq!(labels(&["1", "2"]), ["local_steps 1", "local_steps 2"]);
    assert_eq!(labels(&["1", "1"]), ["gaussian (run 1)", "gaussian (run 1)"]);
    printed(here, &["note", "1", "--tag", "narrow"]);
    assert_eq!(labels(&["1", "2"]), ["paper narrow", "paper"]);
    printed(here, &["run", "experiment.toml", "--set", "rounds=10", "--set", "name=other"]);
    assert_eq!(labels(&["2", "4"]), ["gaussian", "other"]);
}

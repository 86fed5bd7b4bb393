//! A store that an earlier version wrote: its runs go on to the bits they were on their way to.
//!
//! `stores/interrupted.db` is of format 2, written by commit fc47d7c. Its runs: 1, normal
//! data drawn with replacement; 2, a logistic model on `people.csv`; 3, first arrivals, all three
//! killed half-way by SIGKILL; 4, done; 5, diverged. `stores/expected.csv` has the SHA-256 of
//! the final models and of the curve of each, resumed to its end by the binary that had begun it,
//! which are also those of a run that nobody disturbed.

mod binary;
mod hashing;

use std::path::Path;

use serde_json::Value;

/// The run whose rows are in a table.
const TABLE: &str = "2";
const DONE: &str = "4";
const FAILED: &str = "5";

/// A copy of the store, in a folder with the table.
fn copied() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["interrupted.db", "people.csv"] {
        let copy = folder.path().join(name);
        let bytes = std::fs::read(binary::beside("stores").join(name)).unwrap();
        std::fs::write(copy, bytes).unwrap();
    }
    let store = rusqlite::Connection::open(folder.path().join("interrupted.db")).unwrap();
    let sql = "UPDATE run SET directory = ?1 WHERE id = ?2";
    assert_eq!(store.execute(sql, [folder.path().to_str().unwrap(), TABLE]), Ok(1));
    folder
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let mut command = binary::command(folder, args);
    let output = command.args(["--store", "interrupted.db", "--quiet"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// State and hashes that are expected of a run.
fn expected(run: &str) -> Vec<String> {
    hashing::expected("stores/expected.csv").remove(run).expect("a run of the store")
}

#[test]
fn interrupted_runs_of_an_earlier_version_resume_to_the_same_bits() {
    let folder = copied();
    for run in ["1", "2", "3"] {
        let resumed = json(folder.path(), &["resume", run, "--json"]);
        assert!(resumed["resumed_from"].as_u64().unwrap() > 300_000, "run {run}");
        assert_eq!(hashing::hashes(&resumed)[..], expected(run)[1..], "run {run}");
        let exported = json(folder.path(), &["export", run, "--format", "json"]);
        assert_eq!(hashing::hashes(&exported)[..], expected(run)[1..], "run {run}, exported");
    }
    let runs = json(folder.path(), &["runs", "--json"]);
    let done = runs.as_array().unwrap().iter().filter(|run| run["state"] == "done");
    assert_eq!(done.count(), 4);
}

/// `stores/format-4.db` was written by commit 9092102: one run of SCAFFOLD, which is done.
#[test]
fn checksums_of_format_4_are_those_of_today() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::fs::read(binary::beside("stores").join("format-4.db")).unwrap();
    std::fs::write(folder.path().join("interrupted.db"), store).unwrap();
    let mut stored = json(folder.path(), &["export", "1", "--format", "json"]);
    assert_eq!(stored["curve"].as_array().unwrap().len(), 5);
    let shown = binary::command(folder.path(), &["show", "1", "--store", "interrupted.db"]);
    let spec = { shown }.output().unwrap().stdout;
    std::fs::write(folder.path().join("spec.toml"), spec).unwrap();
    let mut again = json(folder.path(), &["run", "spec.toml", "--json"]);
    for run in [&mut stored, &mut again] {
        run.as_object_mut().unwrap().remove("seconds");
    }
    assert_eq!(stored, again);
}

/// `stores/format-5.db` was written by commit d232d61: one run, done, with a tag and a note.
/// Whoever writes to it gives its labels checksums.
#[test]
fn labels_of_format_5_are_kept_and_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::fs::read(binary::beside("stores").join("format-5.db")).unwrap();
    std::fs::write(folder.path().join("interrupted.db"), store).unwrap();
    let read = json(folder.path(), &["runs", "--json"]);
    assert_eq!((&read[0]["state"], &read[0]["tags"][0]), (&"done".into(), &"pilot".into()));
    let note = ["note", "1", "second look", "--store", "interrupted.db"];
    assert!(binary::command(folder.path(), &note).status().unwrap().success());
    let written = json(folder.path(), &["runs", "--json"]);
    assert_eq!(
        (&written[0]["note"], &written[0]["tags"]),
        (&"second look".into(), &read[0]["tags"])
    );
    let store = rusqlite::Connection::open(folder.path().join("interrupted.db")).unwrap();
    assert_eq!(store.execute("UPDATE run SET started = '2020'", []), Ok(1));
    let list = ["runs", "--store", "interrupted.db"];
    let output = binary::command(folder.path(), &list).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]), "{said}");
    assert!(said.contains("warning: ") && said.contains("run 1: its start, end"), "{said}");
}

/// `stores/format-6.db` was written by commit 96cecb1: one run that ends by its movement, interrupted
/// at a record. It goes on to its end; and what was damaged before is not made good by an update.
#[test]
fn runs_of_format_6_go_on_and_damage_stays_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("interrupted.db");
    std::fs::copy(binary::beside("stores").join("format-6.db"), &path).unwrap();
    let resumed = json(folder.path(), &["resume", "1", "--json"]);
    let rounds = |run: &Value| run["curve"].as_array().unwrap().last().unwrap()["round"].clone();
    assert_eq!(rounds(&resumed), 700_000);
    assert!(resumed["resumed_from"].as_u64().unwrap() < 700_000);
    std::fs::copy(binary::beside("stores").join("format-6.db"), &path).unwrap();
    let store = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(store.execute("UPDATE run SET tags = 'other'", []), Ok(1));
    drop(store);
    let note = ["note", "1", "mine", "--store", "interrupted.db"];
    let output = binary::command(folder.path(), &note).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("run 1: its start, end"), "{said}");
}

#[test]
fn runs_of_an_earlier_version_have_no_times_to_draw_over() {
    let folder = copied();
    let args = ["compare", DONE, "--x", "time", "--out", "time.svg", "--store", "interrupted.db"];
    let output = binary::command(folder.path(), &args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--x: found time") && said.contains("older version"), "{said}");
}

#[test]
fn states_of_an_earlier_version_are_listed() {
    let folder = copied();
    let runs = json(folder.path(), &["runs", "--json"]);
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 5);
    for run in runs {
        assert_eq!(run["state"], expected(&run["id"].to_string())[0], "{run}");
    }
}

#[test]
fn ended_runs_of_an_earlier_version_are_exported() {
    let folder = copied();
    for run in [DONE, FAILED] {
        let exported = json(folder.path(), &["export", run, "--format", "json"]);
        assert_eq!(hashing::hashes(&exported)[..], expected(run)[1..], "run {run}");
    }
}

#[test]
fn a_run_of_an_earlier_version_replays_to_the_same_bits() {
    let folder = copied();
    let replayed = json(folder.path(), &["replay", DONE, "--json"]);
    assert_eq!(replayed["same"], true);
    assert_eq!(hashing::hashes(&replayed)[..], expected(DONE)[1..]);
}

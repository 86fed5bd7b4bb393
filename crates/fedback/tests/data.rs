//! `fedback data credit` and `source = "credit"`, without a network and without the real table.

use std::ffi::OsStr;
use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fedback::core::base::Base;
use fedback::lab::credit::{self, FEATURES, LABEL, ROWS};
use fedback::lab::experiment::Experiment;
use fedback::lab::spec::Document;
use fedback::theory::degeneracy;
use serde_json::Value;

/// A folder with a cache of its own.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Home(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedback"));
        command.args(args).current_dir(&self.0).env("XDG_CACHE_HOME", self.0.path().join("cache"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// A folder whose `python3` is this script.
    fn python(&self, script: &str) -> PathBuf {
        let folder = self.0.path().join("bin");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("python3"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(folder.join("python3"), fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    fn cached(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path().join("cache/fedback"));
        entries.map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
    }
}

/// Made-up people with the columns and the size of the real table; one in seven misses a cell.
fn table() -> Vec<u8> {
    let mut text = format!(",{LABEL},{}\n", FEATURES.join(","));
    for k in 0..ROWS {
        text.push_str(&format!("{},{}", k + 1, u8::from(k * k % 13 == 1)));
        for j in 0..FEATURES.len() {
            match k % 7 == 3 && j == 4 {
                true => text.push_str(",NA"),
                false => text.push_str(&format!(",{}", (k * (2 * j + 3) + k / 11) % (50 + j))),
            }
        }
        text.push('\n');
    }
    text.into_bytes()
}

fn archive(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap().into_inner()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const SPEC: &str = r#"
rounds = 3
[problem.base]
kind = "table"
source = "credit"
partition = { equal = 10 }
shuffle = true
standardize = true
intercept = true
[problem.response]
kind = "best-response"
features = ["age", "DebtRatio"]
sensitivity = { low = 0.9, high = 1.1 }
[problem.loss]
kind = "logistic"
l2 = 0.05
[algorithm]
kind = "p-fedavg"
scheme = "full"
step_size = { constant = 0.1 }
"#;

/// From a wheel to an exported model that scores raw rows.
#[test]
fn from_a_wheel_to_a_model() {
    let home = Home::new();
    home.file("spec.toml", SPEC.as_bytes());
    let missing = home.run(&["run", "spec.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    for part in ["problem.base.source", "fedback data credit"] {
        assert!(complaint(&missing).contains(part), "{}", complaint(&missing));
    }
    let inner = archive("credit_data.csv", &table());
    home.file("made.whl", &archive("whynot/simulators/credit/credit_data.zip", &inner));
    let taken = home.run(&["data", "credit", "--from", "made.whl", "--json"]);
    assert!(taken.status.success() && complaint(&taken).contains("warning"), "{taken:?}");
    let taken: Value = serde_json::from_slice(&taken.stdout).unwrap();
    assert_eq!((&taken["verified"], &taken["written"]), (&false.into(), &true.into()));
    assert_eq!(fs::read(taken["path"].as_str().unwrap()).unwrap(), table());
    let again = home.run(&["data", "credit", "--from", "made.whl", "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["written"], false);

    let run = home.run(&["run", "spec.toml", "--json"]);
    let run: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((&run["clients"], &run["dim"]), (&10.into(), &11.into()));
    let model = home.run(&["export", "1", "--format", "theta"]);
    let model: Value = serde_json::from_slice(&model.stdout).unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    // Constants are those of all complete rows, not of the rows that are kept.
    let complete = (0..ROWS).filter(|k| k % 7 != 3).map(|k| ((3 * k + k / 11) % 50) as f64);
    let mean = complete.clone().sum::<f64>() / complete.count() as f64;
    assert!((number(&model["standardization"]["mean"][0]) - mean).abs() < 1e-9);
    let slope = number(&model["average"][0]) / number(&model["standardization"]["sd"][0]);
    assert_eq!(number(&model["raw_units"]["coefficients"][0]), slope);
}

/// Without its data the credit figure is refused where it is all that was asked for.
#[test]
fn without_data_there_is_nothing_to_reproduce() {
    let home = Home::new();
    let alone = home.run(&["reproduce", "credit", "--out", "page"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(complaint(&alone).contains("`fedback data credit`"), "{}", complaint(&alone));
    assert!(!home.0.path().join("page").exists());
    let other = home.run(&["reproduce", "credit", "cohort", "--quick", "--out", "page"]);
    assert!(other.status.success() && complaint(&other).contains("credit is left out: "));
}

/// A cache may have any name that the system allows.
#[test]
fn paths_need_not_be_text() {
    let home = Home::new();
    let cache = home.0.path().join(OsStr::from_bytes(b"caf\xe9"));
    home.file("cs-training.csv", &table());
    let mut command = home.command(&["data", "credit", "--from", "cs-training.csv", "--json"]);
    let output = command.env("XDG_CACHE_HOME", &cache).output().unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    let taken: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&taken["rows"], &taken["written"]), (&ROWS.into(), &true.into()));
    assert!(cache.join("fedback/credit.csv").exists());
}

#[test]
fn specs_name_one_source_and_its_label() {
    let home = Home::new();
    home.file("spec.toml", SPEC.as_bytes());
    for (set, parts) in [
        ("problem.base.path=a.csv", ["problem.base.source", "one of them"]),
        ("problem.base.source=debit", ["problem.base.source", "credit"]),
        ("problem.base.label=age", ["problem.base.label", LABEL]),
        ("problem.base.ignore=[\"age\"]", ["problem.base.ignore", "leave ignore out"]),
    ] {
        let output = home.run(&["solve", "spec.toml", "--set", set]);
        let message = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    home.file("spec.toml", SPEC.replace("source = \"credit\"\n", "").as_bytes());
    let output = home.run(&["solve", "spec.toml"]);
    assert!(complaint(&output).contains("source = \"credit\""), "{}", complaint(&output));
}

#[test]
fn other_files_are_refused_and_nothing_is_written() {
    let home = Home::new();
    let short = table();
    home.file("short.csv", &short[..short.len() / 2]);
    home.file("other.zip", &archive("readme.txt", b"hello"));
    home.file("broken.whl", b"PK\x03\x04 and no more");
    home.file("binary.csv", &[0, 159, 146, 150]);
    for name in ["short.csv", "other.zip", "broken.whl", "binary.csv", "none.csv", "."] {
        let output = home.run(&["data", "credit", "--from", name]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", complaint(&output));
        assert!(complaint(&output).contains(name), "{}", complaint(&output));
        assert_eq!(home.cached(), Vec::<PathBuf>::new());
    }
}

/// The real table, where this machine has it. With one sensitivity for all, the stable point is the
/// static fit, here by Newton's method in plain Python, with the intercept moved by |θ_S|².
#[test]
fn the_real_table_has_its_stable_point() {
    if !credit::is_there() {
        eprintln!("skipped: no credit data here; get them with `fedback data credit`");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let spec = root.join("experiments/paper/credit-perdomo.toml");
    let mut document = Document::read(&spec).unwrap();
    document.set("problem.response.sensitivity=1.0").unwrap();
    let plan = Experiment::new(&document).unwrap().plans.remove(0);
    let Base::Table(table) = plan.federation().base() else { panic!("no table") };
    assert_eq!(table.len(), 18_357);
    let fit = [
        -0.00671, -0.38075, 1.76312, -0.04754, -0.44586, 0.01241, 1.64067, 0.09822, 0.00247,
        0.09328, -0.39103,
    ];
    let moved: f64 = [0, 5, 7].map(|j: usize| fit[j] * fit[j]).iter().sum();
    let stable = plan.stable_point.clone().unwrap();
    for (j, (found, expected)) in stable.iter().zip(fit).enumerate() {
        let expected = expected + if j == 10 { moved } else { 0.0 };
        assert!((found - expected).abs() < 1.5e-5, "coordinate {j}: {found} and {expected}");
    }
    assert!((plan.federation().risk(&stable, &stable) - 0.610).abs() < 1e-4);
    let found = degeneracy::degeneracy(plan.federation(), Some(&stable), None);
    assert!(found.absorbed && found.stable_minus_static_features.unwrap() < 1e-6, "{found:?}");
}

/// A damaged table in the cache is not run on.
#[test]
fn a_damaged_cache_is_noticed() {
    let home = Home::new();
    home.file("spec.toml", SPEC.as_bytes());
    fs::create_dir_all(home.0.path().join("cache/fedback")).unwrap();
    home.file("cache/fedback/credit.csv", b",SeriousDlqin2yrs\n1,0\n");
    let output = home.run(&["solve", "spec.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("anew with `fedback data credit`"));
}

fn advises(output: &Output) {
    let message = complaint(output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in ["pip download --no-deps whynot==0.12.0", "--from cs-training.csv", "terms"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn without_python_pip_or_network_the_way_is_shown() {
    let home = Home::new();
    let empty = home.0.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let with = |path: &Path| home.command(&["data", "credit"]).env("PATH", path).output().unwrap();
    let output = with(&empty);
    advises(&output);
    assert!(complaint(&output).contains("python3 cannot be started"));
    let output = with(&home.python("echo 'No module named pip' >&2; exit 1"));
    advises(&output);
    assert!(complaint(&output).contains("No module named pip"));
    assert_eq!(home.cached(), Vec::<PathBuf>::new());
}

/// What pip brings must be what was verified, to the byte.
#[test]
fn another_wheel_from_pip_is_refused() {
    let home = Home::new();
    let inner = archive("credit_data.csv", &table());
    let wheel = archive("whynot/simulators/credit/credit_data.zip", &inner);
    let wheel = home.file("made.whl", &wheel);
    // The folder is the last argument but one.
    let script = format!(
        "while [ $# -gt 2 ]; do shift; done\n/bin/cp '{}' \"$1/whynot.whl\"",
        wheel.display()
    );
    let output = home.command(&["data", "credit"]).env("PATH", home.python(&script)).output();
    let output = output.unwrap();
    advises(&output);
    for part in ["SHA-256", "nothing was written"] {
        assert!(complaint(&output).contains(part), "{}", complaint(&output));
    }
    assert_eq!(home.cached(), Vec::<PathBuf>::new());
}

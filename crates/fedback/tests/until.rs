//! Runs that end when the model no longer moves.

mod binary;

use std::path::Path;
use std::process::Output;

use serde_json::Value;

const SPEC: &str = r#"
seed = 3
rounds = 400
repetitions = 3
[problem]
weights = [0.5, 0.3, 0.2]
base = { kind = "gaussian", mean = [1.0, 2.0, 4.0] }
response = { kind = "location", sensitivity = [0.2, 0.5, 0.9] }
loss = { kind = "mean" }
[algorithm]
kind = "p-fedavg"
scheme = "full"
batch = "all"
step_size = { constant = 0.2 }
[measure]
every = 10
"#;

fn fedback(folder: &Path, args: &[&str]) -> Output {
    std::fs::write(folder.join("spec.toml"), SPEC).unwrap();
    binary::command(folder, args).output().unwrap()
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let output = fedback(folder, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn curve(run: &Value) -> &Vec<Value> {
    run["curve"].as_array().unwrap()
}

#[test]
fn a_run_ends_when_it_no_longer_moves_with_the_numbers_of_one_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let whole = json(here, &["run", "spec.toml"]);
    let early = json(here, &["run", "spec.toml", "--set", "until={movement=1e-6}"]);
    let (all, some) = (curve(&whole), curve(&early));
    assert!(some.len() < all.len() && some.len() > 3, "{} of {}", some.len(), all.len());
    for (one, other) in some.iter().zip(all) {
        assert_eq!((&one["round"], &one["risk"]), (&other["round"], &other["risk"]));
    }
    let movement = |record: &Value| record["movement"]["mean"].as_f64().unwrap();
    let last = some.len() - 1;
    assert!(movement(&some[last]) < 1e-6 && movement(&some[last - 1]) >= 1e-6);
    assert_eq!(early["exact"].as_array().unwrap().len(), some.len());
    // It is done: nothing is left to resume, and it replays to its bits.
    let shown = json(here, &["show", "2"]);
    assert_eq!((&shown["state"], &shown["round"]), (&"done".into(), &some[last]["round"]));
    assert_eq!(json(here, &["resume", "2"])["final_theta"], early["final_theta"]);
    assert_eq!(json(here, &["replay", "2"])["same"], true);
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (until, word) in [("{movement=0}", "until.movement"), ("{steps=3}", "until")] {
        let args = ["run", "spec.toml", "--set", &format!("until={until}")];
        let refused = fedback(folder.path(), &args);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(word), "{said}");
    }
    assert!(!folder.path().join("fedback.db").exists());
}

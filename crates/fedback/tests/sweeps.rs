//! Sweeps as a user writes them: keys that vary together, budgets instead of rounds, what is refused.

mod binary;

use std::path::Path;
use std::process::Output;

use serde_json::Value;

const SPEC: &str = r#"
seed = 3
[problem]
weights = [0.5, 0.3, 0.2]
base = { kind = "gaussian", mean = [1.0, 2.0, 4.0] }
response = { kind = "location", sensitivity = [0.2, 0.5, 0.9] }
loss = { kind = "mean" }
[algorithm]
kind = "p-fedavg"
scheme = "with-replacement"
cohort = 2
local_steps = 5
batch = 4
step_size = { constant = 0.1 }
[measure]
every = 1000
"#;

fn fedback(set: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["run", "spec.toml", "--json", "--store", "none"], set)
}

fn answer(folder: &Path, args: &[&str], set: &[&str]) -> Output {
    if !folder.join("spec.toml").exists() {
        std::fs::write(folder.join("spec.toml"), SPEC).unwrap();
    }
    let mut command = binary::command(folder, args);
    for assignment in set {
        command.args(["--set", assignment]);
    }
    command.output().unwrap()
}

/// What each point set, and the last round that it recorded.
fn points(set: &[&str]) -> Vec<(Value, u64)> {
    let output = fedback(set);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = match json.get("points") {
        Some(points) => points.as_array().unwrap().clone(),
        None => vec![json],
    };
    let last = |point: &Value| point["curve"].as_array().unwrap().last().unwrap()["round"].as_u64();
    all.iter().map(|point| (point["set"].clone(), last(point).unwrap())).collect()
}

#[test]
fn keys_with_commas_vary_together() {
    let sweep = r#"sweep={"rounds, algorithm.local_steps"=[[100, 1], [20, 5]], "seed"=[1, 2]}"#;
    let found = points(&[sweep]);
    let expected = [(100, 1, 1), (100, 1, 2), (20, 5, 1), (20, 5, 2)];
    assert_eq!(found.len(), expected.len());
    for ((set, last), (rounds, local_steps, seed)) in found.iter().zip(expected) {
        let own = serde_json::json!({
            "rounds": rounds, "algorithm.local_steps": local_steps, "seed": seed,
        });
        assert_eq!((set, *last), (&own, rounds));
    }
}

#[test]
fn a_budget_says_how_many_rounds_there_are() {
    // A round takes 5 steps, 2 · 5 · 4 gradients, and 2 · 5 deployments, or 2.
    for (set, rounds) in [
        (&["budget={steps=104}"][..], 20),
        (&["budget={communications=7}"], 7),
        (&["budget={sample_gradients=400}"], 10),
        (&["budget={deployments=99}"], 9),
        (&["budget={deployments=99}", r#"algorithm.deploy="round""#], 49),
    ] {
        assert_eq!(points(set)[0].1, rounds, "{set:?}");
    }
    let swept = points(&["budget={steps=60}", r#"sweep={"algorithm.local_steps"=[1, 7]}"#]);
    assert_eq!(swept.iter().map(|(_, last)| *last).collect::<Vec<_>>(), [60, 8]);
}

/// What `plan` writes counts its rounds, and can be run.
#[test]
fn a_plan_for_a_budget_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let plan = ["plan", "spec.toml", "--accuracy", "1", "--repetitions", "20", "--quiet"];
    let set = ["budget={steps=500}", r#"algorithm.scheme="without-replacement""#];
    let planned = answer(folder.path(), &[&plan[..], &["--output", "planned.toml"]].concat(), &set);
    assert!(planned.status.success(), "{}", String::from_utf8_lossy(&planned.stderr));
    let run = answer(folder.path(), &["run", "planned.toml", "--store", "none"], &[]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (set, message) in [
        (&[][..], "rounds: is missing; or say budget = { steps = … }"),
        (&["rounds=5", "budget={steps=50}"], "budget: rounds are given as well"),
        (&["budget={steps=4}"], "budget.steps: found 4; one round takes 5"),
        (&["budget={steps=4}"], ": allow at least that"),
        (
            &["budget={steps=60}", r#"sweep={"algorithm.local_steps"=[1, 70]}"#],
            "one round takes 70: allow at least that (where algorithm.local_steps = 70)",
        ),
        (&["budget={stepps=50}"], "budget"),
        (
            &["budget={steps=50,deployments=3}"],
            "budget: found steps, deployments; allowed: one of steps",
        ),
        (
            &["budget={sample_gradients=50}", r#"algorithm.batch="all""#],
            "budget.sample_gradients: batch = \"all\" takes no samples",
        ),
        (
            &[r#"sweep={"rounds, seed"=[[1, 2], [3]]}"#],
            "sweep.\"rounds, seed\": found [3] in the list; allowed: lists of 2 values",
        ),
        (&[r#"sweep={"rounds, seed"=[[1, 2]], "seed"=[1]}"#], "seed is swept twice"),
        (&[r#"sweep={"seed, seed"=[[1, 2]]}"#], "names a key twice"),
        (&[r#"sweep={"rounds, "=[[1, 2]]}"#], "is no key; allowed: names joined by dots"),
        (&[r#"sweep={"rounds, format"=[[1, 2]]}"#], "cannot be swept"),
    ] {
        let output = fedback(set);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{set:?}: {said}");
        assert!(said.contains(message), "{set:?}: {said}");
    }
}

/// The cells of a CSV that quotes nothing, by line and header.
fn cells(output: &Output) -> Vec<std::collections::HashMap<String, String>> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_string));
    let header: Vec<String> = lines.next().unwrap().collect();
    lines.map(|line| header.iter().cloned().zip(line).collect()).collect()
}

#[test]
fn a_sweep_is_a_tidy_table() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = r#"sweep={"algorithm.local_steps"=[1, 5], "algorithm.batch"=[2, 4]}"#;
    let set = ["rounds=40", "repetitions=4", "measure.every=20", sweep];
    let table = cells(&answer(folder.path(), &["run", "spec.toml", "--csv"], &set));
    assert_eq!(table.len(), 4);
    let line = &table[3];
    for (name, cell) in [
        ("run", "4"),
        ("name", "spec"),
        ("state", "done"),
        ("seed", "3"),
        ("algorithm.local_steps", "5"),
        ("algorithm.batch", "4"),
        ("repetitions", "4"),
        ("rounds", "40"),
        ("steps", "200"),
        ("uploads", "80"),
        ("sample_gradients", "1600"),
        ("deployments", "400"),
    ] {
        assert_eq!(line[name], cell, "{name}");
    }
    let number = |name: &str| line[name].parse::<f64>().unwrap();
    assert!(number("risk_best") <= number("risk_final") && number("risk_final_se") > 0.0);
    assert!((number("risk_final") - number("risk_exact")).abs() < 5.0 * number("risk_final_se"));
    // What was recorded says the same, by a range of runs.
    let again = cells(&answer(folder.path(), &["compare", "1-3", "4", "--csv"], &[]));
    let same = |one: &std::collections::HashMap<String, String>| {
        let kept = one.iter().filter(|(name, _)| *name != "seconds");
        kept.map(|(name, cell)| (name.clone(), cell.clone())).collect::<Vec<_>>()
    };
    for (mut run, mut read) in table.iter().map(same).zip(again.iter().map(same)) {
        run.sort();
        read.sort();
        assert_eq!(run, read);
    }
}

#[test]
fn every_record_counts_its_costs() {
    let folder = tempfile::tempdir().unwrap();
    let set = ["rounds=4", "measure.every=2"];
    let json: Value = serde_json::from_slice(
        &answer(folder.path(), &["run", "spec.toml", "--json"], &set).stdout,
    )
    .unwrap();
    let expected = serde_json::json!({
        "steps": 10, "communications": 2, "uploads": 4, "sample_gradients": 80, "rows_drawn": 80,
        "deployments": 20,
    });
    assert_eq!(json["curve"][1]["costs"], expected);
    let shown = answer(folder.path(), &["show", "1"], &[]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("# took: 20 steps, 8 uploads, 160 sample gradients, 40 deployments"));
    let bad = answer(folder.path(), &["compare", "3-1"], &[]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("as in 5-8"));
}

//! Algorithms as a user gives them: what is refused by name, and what theory does not answer.

use std::process::{Command, Output};

const SPEC: &str = r#"
rounds = 40
[problem]
weights = [0.5, 0.3, 0.2]
base = { kind = "gaussian", mean = [1.0, 2.0, 4.0] }
response = { kind = "location", sensitivity = [0.2, 0.5, 0.9] }
loss = { kind = "mean" }
[algorithm]
kind = "p-fedavg"
scheme = "full"
local_steps = 10
batch = "all"
step_size = { constant = 0.1 }
[measure]
every = 40
"#;

fn fedback(arguments: &[&str], set: &[&str]) -> (Output, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spec.toml"), SPEC).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedback"));
    command.current_dir(folder.path()).args(arguments);
    for assignment in set {
        command.args(["--set", assignment]);
    }
    let output = command.output().unwrap();
    let files = std::fs::read_dir(folder.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    (output, names.filter(|name| name != "spec.toml").collect())
}

#[test]
fn wrong_parts_are_refused_by_name() {
    let fedopt = r#"algorithm.kind="fedopt""#;
    for (set, message) in [
        (&[r#"algorithm.kind="fedprox""#][..], "algorithm.proximal: is missing"),
        (&[r#"algorithm.kind="fedprox""#, "algorithm.proximal=-1"], "algorithm.proximal: found -1"),
        (&[r#"algorithm.kind="fedprox""#, "algorithm.proximal=nan"], "algorithm.proximal: found"),
        (
            &[r#"algorithm.kind="fedprox""#, "algorithm.proximl=1"],
            "algorithm.proximl: unknown key; did you mean proximal?",
        ),
        (&["algorithm.proximal=1"], "algorithm.proximal: is for kind = \"fedprox\" only"),
        (&[r#"algorithm.server={kind="adam"}"#], "algorithm.server: is for kind = \"fedopt\" only"),
        (&[r#"algorithm.kind="scafold""#], "did you mean scaffold?"),
        (&[fedopt], "algorithm.server: is missing"),
        (&[fedopt, "algorithm.server=3"], "algorithm.server: found 3; allowed: a section"),
        (&[fedopt, r#"algorithm.server={kind="sgd"}"#], "algorithm.server.kind: found \"sgd\""),
        (
            &[fedopt, r#"algorithm.server={kind="momentum",rate=0}"#],
            "algorithm.server.rate: found 0",
        ),
        (
            &[fedopt, r#"algorithm.server={kind="momentum",beta=1}"#],
            "algorithm.server.beta: found 1",
        ),
        (
            &[fedopt, r#"algorithm.server={kind="adam",beta1=-0.1}"#],
            "algorithm.server.beta1: found",
        ),
        (&[fedopt, r#"algorithm.server={kind="adam",tau=0}"#], "algorithm.server.tau: found 0"),
        (
            &[fedopt, r#"algorithm.server={kind="adam",beta=0.9}"#],
            "algorithm.server.beta: unknown key",
        ),
        (&[r#"algorithm.batch="al""#], "algorithm.batch: found the text \"al\""),
        (&["algorithm.batch=0"], "algorithm.batch: found 0"),
        (&[r#"problem.loss.kind="logistic""#], "problem.loss.kind: normal data have no label"),
    ] {
        let (output, written) = fedback(&["run", "spec.toml", "--json"], set);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{set:?}: {said}");
        assert!(said.contains(message), "{set:?}: {said}");
        assert!(written.is_empty() && said.lines().count() == 1, "{set:?}: {written:?} {said}");
    }
}

/// Nothing is answered for P-FedAvg where another algorithm is asked about.
#[test]
fn theory_says_what_it_does_not_know() {
    let adam = [r#"algorithm.kind="fedopt""#, r#"algorithm.server={kind="adam"}"#];
    let asks = [
        &["exact", "spec.toml"][..],
        &["check", "spec.toml"],
        &["plan", "spec.toml", "--accuracy", "0.5"],
    ];
    for ask in asks {
        let (output, _) = fedback(ask, &adam);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{ask:?}: {said}");
        let named = said.contains("spec.toml: algorithm.server: found") && said.contains("Adam");
        assert!(named, "{ask:?}: {said}");
    }
    for set in [
        &[r#"algorithm.kind="scaffold""#][..],
        &[r#"algorithm.kind="fedprox""#, "algorithm.proximal=0.5"],
        &[r#"algorithm.kind="fedopt""#, r#"algorithm.server={kind="momentum"}"#],
        &adam,
    ] {
        let (output, _) = fedback(&["bounds", "spec.toml"], set);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{set:?}: {said}");
        assert!(said.contains("spec.toml: algorithm.kind: found"), "{set:?}: {said}");
        for ask in [&["solve", "spec.toml"][..], &["run", "spec.toml", "--store", "none"]] {
            assert!(fedback(ask, set).0.status.success(), "{ask:?} {set:?}");
        }
        if *set != adam {
            for ask in asks {
                assert!(fedback(ask, set).0.status.success(), "{ask:?} {set:?}");
            }
        }
    }
}

/// Sections of another kind keep the keys that all kinds have, and only these.
#[test]
fn a_sweep_goes_through_the_kinds() {
    let kinds =
        r#"sweep.algorithm=[{kind="fedprox",proximal=5},{kind="scaffold"},{kind="p-fedavg"}]"#;
    let start = [r#"algorithm={kind="fedprox",proximal=0.5}"#, "rounds=600", kinds];
    let (output, _) = fedback(&["run", "spec.toml", "--store", "none", "--json"], &start);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let errors = json["points"].as_array().unwrap().iter();
    let errors = errors.map(|point| point["final_theta"][0][0].as_f64().unwrap() - 10.0 / 3.0);
    for (found, expected) in errors.zip([0.1817348, 0.0, 0.4552883]) {
        assert!((found - expected).abs() < 1e-7, "{found} {expected}");
    }
}

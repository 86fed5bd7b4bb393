//! A binary with a response of its own has the commands that `fedback` has, and the page about it shows what
//! it does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_own-response");

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).into()
}

/// A folder with the example's spec and data.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["fear.toml", "applicants.csv"] {
        fs::copy(here().join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn own(folder: &Path, arguments: &str) -> Output {
    let words = arguments.split_whitespace();
    Command::new(BINARY).args(words).current_dir(folder).output().unwrap()
}

fn json(folder: &Path, arguments: &str) -> Value {
    let output = own(folder, arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {complaint}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What is said where nothing is done.
fn refused(folder: &Path, arguments: &str) -> String {
    let output = own(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    assert!(output.stdout.is_empty(), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// The rows of the example: client, features with the intercept, label.
fn rows() -> Vec<(usize, [f64; 3], f64)> {
    let text = fs::read_to_string(here().join("applicants.csv")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |cell: usize| cells[cell].parse::<f64>().unwrap();
        (usize::from(cells[0] == "west"), [number(1), number(2), 1.0], number(3))
    };
    text.lines().skip(1).map(row).collect()
}

/// F(θ), the share that remains and the risk where θ is deployed, by the definitions.
fn by_hand(theta: &[f64]) -> ([f64; 3], f64, f64) {
    let (rows, exit) = (rows(), [0.6, 0.2]);
    let (mut gradient, mut retained, mut risk) = ([0.0; 3], 0.0, 0.0);
    for client in 0..2 {
        let own: Vec<_> = rows.iter().filter(|row| row.0 == client).collect();
        let p = own.len() as f64 / rows.len() as f64;
        let dot = |x: &[f64; 3]| x.iter().zip(theta).map(|(x, t)| x * t).sum::<f64>();
        let sigmoid = |m: f64| 1.0 / (1.0 + (-m).exp());
        let stays = |x: &[f64; 3]| 1.0 - exit[client] * sigmoid(dot(x));
        let total: f64 = own.iter().map(|row| stays(&row.1)).sum();
        retained += p * total / own.len() as f64;
        for (_, x, label) in own {
            let moved = [x[0] - 0.8 * sigmoid(dot(x)), x[1], x[2]];
            let (share, margin) = (p * stays(x) / total, dot(&moved));
            risk += share * (margin.exp().ln_1p() - label * margin);
            for j in 0..3 {
                gradient[j] += share * (sigmoid(margin) - label) * moved[j];
            }
        }
    }
    for j in 0..2 {
        gradient[j] += 0.05 * theta[j];
        risk += 0.025 * theta[j] * theta[j];
    }
    (gradient, retained, risk)
}

#[test]
fn the_stable_point_is_a_root_of_what_the_rule_says() {
    let folder = folder();
    let solution = json(folder.path(), "solve fear.toml --json");
    let theta = numbers(&solution["stable_point"]);
    let (gradient, retained, risk) = by_hand(&theta);
    assert!(gradient.iter().all(|g| g.abs() < 1e-8), "{gradient:?}");
    let details = &solution["stable_point_details"][0];
    assert!((details["retained"].as_f64().unwrap() - retained).abs() < 1e-9);
    assert!((solution["risk_stable"].as_f64().unwrap() - risk).abs() < 1e-9);
    assert_eq!(solution["stability"], "attracting");
    // The optimum is better, and no neighbour is better still.
    let optimal = numbers(&solution["optimal_point"]);
    let best = by_hand(&optimal).2;
    assert!(best <= risk);
    for j in 0..3 {
        for by in [1e-3, -1e-3] {
            let mut aside = optimal.clone();
            aside[j] += by;
            assert!(by_hand(&aside).2 > best);
        }
    }
}

/// Long runs of small steps end at the stable point; who leaves is shown beside the risk.
#[test]
fn runs_settle_where_solve_says() {
    let folder = folder();
    let longer = "--set rounds=2000 --set algorithm.batch=16 --set measure.every=2000";
    let run = json(folder.path(), &format!("run fear.toml {longer} --json --store none"));
    let last = run["curve"].as_array().unwrap().last().unwrap();
    assert!(last["distance_sq"]["mean"].as_f64().unwrap() < 0.02, "{last}");
    let retained = last["retained"]["mean"].as_f64().unwrap();
    let stable = numbers(&run["stable_point"]);
    assert!((retained - by_hand(&stable).1).abs() < 0.01, "{retained}");
    assert!(last["base_risk"]["mean"].as_f64().unwrap() > 0.0);
    let check = json(folder.path(), "check fear.toml --json");
    assert!(check.is_object());
}

/// A run that was stopped goes on, and its bits are those of one that was not.
#[test]
fn runs_are_recorded_resumed_and_replayed() {
    let folder = folder();
    let whole = json(folder.path(), "run fear.toml --json");
    let again = json(folder.path(), "replay 1 --json");
    assert_eq!(whole["final_theta"], again["final_theta"]);
    let threads = json(folder.path(), "run fear.toml --json --threads 1 --store none");
    assert_eq!(whole["final_theta"], threads["final_theta"]);
    let runs = json(folder.path(), "runs --json");
    assert_eq!(runs[0]["state"], "done");
    let other = "--set problem.response.effort=0.5 --set seed=3";
    let other = json(folder.path(), &format!("run fear.toml {other} --json"));
    assert_ne!(whole["final_theta"], other["final_theta"]);
    let hash = |run: &str| json(folder.path(), &format!("show {run} --json"))["plan"].clone();
    assert!(hash("1").is_string() && hash("1") != hash("2"));
}

#[test]
fn what_is_wrong_is_said_by_its_key() {
    let folder = folder();
    let path = folder.path();
    let solve = |set: &str| refused(path, &format!("solve fear.toml --set problem.response.{set}"));
    assert!(solve("kind=faer").contains(
        "problem.response.kind: found \"faer\"; did you mean fear? (allowed: none, location"
    ));
    assert!(solve("kind=other").contains("retention, fear"));
    assert!(solve("column=debt").contains("problem.response.column: no column \"debt\""));
    assert!(solve("exit=2.0").contains("problem.response.exit: found 2; allowed: 0 to 1"));
    assert!(
        solve("efort=2.0").contains("problem.response.efort: unknown key; did you mean effort?")
    );
    let spec = fs::read_to_string(path.join("fear.toml")).unwrap();
    let (before, rest) = spec.split_once("base = ").unwrap();
    let normal = "base = { kind = \"gaussian\", mean = [1.0] }";
    let rest = rest.split_once('\n').unwrap().1.replace("\"logistic\", l2 = 0.05", "\"mean\"");
    fs::write(path.join("normal.toml"), format!("{before}{normal}\n{rest}")).unwrap();
    let said = refused(path, "solve normal.toml");
    assert!(said.contains("normal data have none"), "{said}");
}

/// The page's commands print what it shows, and its program is the example.
#[test]
fn the_page_shows_what_happens() {
    let page = here().join("../../how-to/own-response.md");
    let page = fs::read_to_string(page).unwrap();
    let program = fs::read_to_string(here().join("src/main.rs")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::copy(here().join("applicants.csv"), folder.path().join("applicants.csv")).unwrap();
    let (mut printed, mut compared) = (String::new(), 0);
    for block in page.split("```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').unwrap();
        match language {
            "rust" => assert!(program.contains(text), "not in src/main.rs:\n{text}"),
            "toml" if text.starts_with("# fear.toml\n") => {
                let spec = text.split_once('\n').unwrap().1;
                assert_eq!(spec, fs::read_to_string(here().join("fear.toml")).unwrap());
                fs::write(folder.path().join("fear.toml"), spec).unwrap();
            }
            "sh" if text.starts_with("own-response ") => {
                let output = own(folder.path(), text.trim().strip_prefix("own-response").unwrap());
                printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            }
            "text" => {
                for line in text.lines().filter(|line| *line != "…" && !line.contains(" s, ")) {
                    assert!(printed.contains(line), "{line}\nis not in\n{printed}");
                }
                compared += 1;
            }
            _ => {}
        }
    }
    assert!(compared >= 2);
}

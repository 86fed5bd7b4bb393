//! Tables as people have them: what is said of them, and what can be asked.

#[path = "../binary/mod.rs"]
mod binary;
mod parts;
mod scores;

use std::path::Path;
use std::process::Output;

use serde_json::Value;

const SPEC: &str = r#"
rounds = 40
repetitions = 2
[problem.base]
kind = "table"
path = "people.csv"
label = "default"
partition = { column = "bank" }
standardize = true
intercept = true
ignore = ["id", "sex"]
[problem.response]
kind = "best-response"
features = ["use"]
sensitivity = 0.5
[problem.loss]
kind = "logistic"
l2 = 0.05
[algorithm]
kind = "p-fedavg"
scheme = "full"
step_size = { constant = 0.2 }
[measure]
every = 20
accuracy = true
auc = true
client_risk = true
"#;

/// 90 rows of three banks.
fn people() -> String {
    let row = |k: usize| {
        let (bank, usage, age) =
            (["Zeta", "delta", "Epsilon"][k % 3], k * 37 % 101, 20 + k * 13 % 50);
        let sex = if k % 5 < 2 { "f" } else { "m" };
        let job = ["baker", "smith", "tailor"][k * 7 % 11 % 3];
        let label = u8::from(usage + k % 40 > 70);
        format!("{k},{bank},{sex},{job},{usage},{age},{label}\n")
    };
    (0..90).map(row).fold("id,bank,sex,job,use,age,default\n".into(), |text, row| text + &row)
}

/// The same, of which every tenth row misses a cell.
fn gaps() -> String {
    let gap = |(at, line): (usize, &str)| match at % 10 {
        7 => {
            let mut cells: Vec<&str> = line.split(',').collect();
            cells[4] = if at == 7 { "" } else { "NA" };
            cells.join(",") + "\n"
        }
        _ => format!("{line}\n"),
    };
    people().lines().enumerate().map(gap).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(table: &str) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        std::fs::write(folder.path().join("spec.toml"), SPEC).unwrap();
        std::fs::write(folder.path().join("people.csv"), table).unwrap();
        folder
    }

    /// With the column `job` ignored.
    fn plain() -> Self {
        let folder = Folder::new(&people());
        let spec = SPEC.replace("\"sex\"]", "\"sex\", \"job\"]");
        std::fs::write(folder.path().join("spec.toml"), spec).unwrap();
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, args: &[&str]) -> Output {
        binary::command(self.path(), args).env_remove("COLUMNS").output().unwrap()
    }

    /// What is printed, and what is said beside it.
    fn good(&self, args: &[&str]) -> (String, String) {
        let output = self.run(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.good(args).0).unwrap()
    }

    /// The message of a refusal, after which nothing is written.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(!self.path().join("fedback.db").exists(), "{args:?}");
        said
    }

    fn last(&self, args: &[&str]) -> Value {
        self.json(args)["curve"].as_array().unwrap().last().unwrap().clone()
    }
}

#[test]
fn what_was_read_is_said() {
    let folder = Folder::new(&gaps());
    let spec = SPEC.replace("ignore = [\"id\", \"sex\"]", "ignore = [\"id\", \"sex\", \"job\"]");
    let spec = spec.replace("intercept", "missing = \"drop\"\nintercept");
    std::fs::write(folder.path().join("spec.toml"), spec).unwrap();
    let table = folder.json(&["run", "spec.toml", "--json"])["table"].clone();
    assert_eq!(table["missing"], serde_json::json!([{ "column": "use", "cells": 9 }]));
    let counts = ["rows", "used", "dropped"].map(|key| table[key].as_u64().unwrap());
    assert_eq!(counts, [90, 81, 9]);
    assert_eq!(table["features"], serde_json::json!(["use", "age"]));
    let sentence = "people.csv: 81 of 90 rows are learned from, 9 left out for missing cells (use \
                    9); default is 1 in 43.2 % of them; 2 features: use, age; 3 clients, ";
    for command in ["run", "check", "solve"] {
        let said = folder.good(&[command, "spec.toml"]).1;
        assert!(said.contains(&format!("read {sentence}")), "{command}: {said}");
        let quiet = folder.good(&[command, "spec.toml", "--quiet"]).1;
        assert!(!quiet.contains("read"), "{command}: {quiet}");
    }
    assert!(folder.good(&["show", "1"]).0.contains(&format!("# table: {sentence}")));
    for command in ["solve", "check"] {
        assert_eq!(folder.json(&[command, "spec.toml", "--json"])["table"], table, "{command}");
    }
    assert_eq!(folder.json(&["show", "1", "--json"])["table"], table);
    let solved = folder.json(&["solve", "spec.toml", "--json"]);
    assert_eq!((&solved["format"], &solved["name"]), (&1.into(), &"spec".into()));
    assert_eq!(solved["coordinates"], serde_json::json!(["use", "age", "intercept"]));
    assert!(folder.good(&["solve", "spec.toml"]).0.contains("use, age, intercept"));
}

#[test]
fn lines_are_right_whatever_ends_them() {
    let wrong = people().replace("\n5,", "\n\n5,").replace("smith,2,", "smith,two,");
    let place = wrong.lines().position(|line| line.contains("two")).unwrap() + 1;
    for end in ["\n", "\r\n"] {
        let folder = Folder::new(&wrong.replace('\n', end));
        let said = folder.refused(&[
            "run",
            "spec.toml",
            "--set",
            "problem.base.ignore=[\"id\",\"sex\",\"job\"]",
        ]);
        assert!(
            said.contains(&format!("people.csv: line {place}, column \"use\": found \"two\"")),
            "{said}"
        );
    }
}

#[test]
fn values_go_by_name() {
    let folder = Folder::plain();
    let with = |value: &str| {
        let set = format!("problem.response.sensitivity={value}");
        folder.json(&["solve", "spec.toml", "--json", "--set", &set])["stable_point"].clone()
    };
    let listed = with("[2.5, 0.25, 1.0]");
    assert_eq!(with("{ by_name = { delta = 1.0, Epsilon = 2.5, Zeta = 0.25 } }"), listed);
    assert_eq!(with("{ by_name = { Epsilon = 2.5, Zeta = 0.25 }, default = 1.0 }"), listed);
    assert_ne!(with("{ by_name = { Epsilon = 0.25, Zeta = 2.5 }, default = 1.0 }"), listed);
    let set = "problem.response.sensitivity=[2.5, 0.25, 1.0]";
    let said = folder.good(&["solve", "spec.toml", "--set", set]).1;
    assert!(said.contains("sensitivity: Epsilon 2.5, Zeta 0.25, delta 1 ("), "{said}");
    let named = "problem.response.sensitivity={ by_name = { Zeta = 1 }, default = 2 }";
    assert!(!folder.good(&["solve", "spec.toml", "--set", named]).1.contains("sensitivity"));

    let latency = "algorithm={ kind = \"p-fedavg\", scheme = \"first-arrivals\", cohort = 2, \
                   latency = { kind = \"lognormal\", median = [3, 1, 2], sigma = 0.5 } }";
    let said = folder.good(&["solve", "spec.toml", "--set", latency]).1;
    assert!(said.contains("latency.median: Epsilon 3, Zeta 1, delta 2 ("), "{said}");
    assert!(!said.contains("latency.sigma"), "{said}");

    let weights = |value: &str| {
        let set = format!("problem.weights={value}");
        folder.json(&["solve", "spec.toml", "--json", "--set", &set])["stable_point"].clone()
    };
    let listed = weights("[0.5, 0.3, 0.2]");
    assert_eq!(weights("{ by_name = { delta = 0.2, Zeta = 0.3, Epsilon = 0.5 } }"), listed);

    let refused = |key: &str, value: &str| {
        folder.refused(&["run", "spec.toml", "--set", &format!("problem.{key}={value}")])
    };
    for (key, value, part) in [
        (
            "response.sensitivity",
            "{ by_name = { epsilon = 1.0 }, default = 0 }",
            "did you mean Epsilon?",
        ),
        (
            "response.sensitivity",
            "{ by_name = { Epsilon = 1.0 } }",
            "nothing for the client \"Zeta\"",
        ),
        (
            "response.sensitivity",
            "{ by_name = { Epsilon = \"x\" } }",
            "by_name.Epsilon: found the text",
        ),
        ("response.sensitivity", "{ by_name = 3 }", "by_name"),
        ("response.sensitivity", "{ by_name = {}, other = 3 }", "allowed"),
        (
            "weights",
            "{ by_name = { Epsilon = 0.5, Zeta = 0.5 } }",
            "nothing for the client \"delta\"",
        ),
        ("weights", "{ by_name = { Epsilon = 1, Zeta = 1, delta = 0 } }", "sum to 2"),
    ] {
        let said = refused(key, value);
        assert!(
            said.contains(&format!("spec.toml: problem.{key}")) && said.contains(part),
            "{said}"
        );
    }
    let unnamed = folder.refused(&[
        "run",
        "spec.toml",
        "--set",
        "problem.base.partition={ equal = 3 }",
        "--set",
        "problem.base.ignore=[\"id\",\"sex\",\"job\",\"bank\"]",
        "--set",
        named,
    ]);
    assert!(unnamed.contains("by_name needs clients with names"), "{unnamed}");
}

#[test]
fn missing_values_and_text_are_refused_unless_asked_for() {
    let folder = Folder::new(&gaps());
    let said = folder.refused(&["run", "spec.toml"]);
    assert!(said.contains("column \"job\"") && said.contains("one_hot = [\"job\"]"), "{said}");
    let job = "problem.base.one_hot=[\"job\"]";
    let said = folder.refused(&["run", "spec.toml", "--set", job]);
    assert!(said.contains("column \"use\": the cell is missing"), "{said}");
    assert!(said.contains("missing = \"mean\""), "{said}");
    let (_, said) =
        folder.good(&["run", "spec.toml", "--set", job, "--set", "problem.base.missing=mean"]);
    assert!(
        said.contains("90 of 90 rows are learned from, missing cells filled with means (use 9)")
    );
    for (set, part) in [
        ("problem.base.one_hot=[\"jobs\"]", "no one-hot column \"jobs\""),
        ("problem.base.one_hot=[\"sex\"]", "the one-hot column \"sex\" is no feature"),
        ("problem.base.missing=median", "allowed: error, drop, mean"),
    ] {
        let said = Folder::new(&people()).refused(&["run", "spec.toml", "--set", set]);
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn steps_that_are_too_large_are_said_before_the_first_round() {
    let folder = Folder::plain();
    let raw = ["run", "spec.toml", "--set", "problem.base.standardize=false"];
    let said = String::from_utf8(folder.run(&raw).stderr).unwrap();
    let part = "warning: the step size, 0.2 at the start, is above ";
    assert!(said.contains(part) && said.contains("or set standardize = true"), "{said}");
    assert!(folder.good(&["show", "1"]).0.contains("# warning: the step size, 0.2"));
    assert!(!folder.good(&["run", "spec.toml"]).1.contains("the step size"));
    let decaying = "algorithm.step_size={ beta = 2000.0, gamma = 20.0 }";
    let said = |rounds: &str| {
        let args = ["run", "spec.toml", "--set", decaying, "--set", rounds];
        String::from_utf8(folder.run(&args).stderr).unwrap()
    };
    let long = said("rounds=1000");
    assert!(long.contains("they grow until about round"), "{long}");
    let brief = said("rounds=10000");
    assert!(!brief.contains("they grow"), "{brief}");
    // The example that `new` writes, not standardised: what it multiplies by is not said to be 1.
    folder.good(&["new", "banks.toml", "--kind", "table"]);
    let raw = ["check", "banks.toml", "--set", "problem.base.standardize=false"];
    let checked = folder.good(&raw).0.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(checked.contains("a round does not shrink the mean squared error"), "{checked}");
    assert!(!checked.contains("by 1, which is above 1"), "{checked}");
}

/// Observations under two deployments, with anything between cells and at the ends of lines.
#[test]
fn fits_read_the_same_files() {
    let folder = Folder::plain();
    let rows = |shift: i64, name: &str| -> String {
        let row = |k: i64| {
            let client = ["Zeta", "delta"][k as usize % 2];
            format!("{client},{name},{},{}\n", (k * 37) % 101 + shift * (k % 2 + 1), k * 13 % 50)
        };
        (0..120).map(row).collect()
    };
    let data = "client,deployment,use,age\n".to_string() + &rows(0, "a") + &rows(5, "b");
    let thetas = "deployment,use,age\na,0,0\nb,1,0\n";
    let fit = |data: String, thetas: String, output: &str| {
        std::fs::write(folder.path().join("data.csv"), data).unwrap();
        std::fs::write(folder.path().join("thetas.csv"), thetas).unwrap();
        folder.run(&["fit", "data.csv", "--deployments", "thetas.csv", "--output", output])
    };
    let messy = |text: &str| text.replace(',', ";").replace('\n', "\r\n");
    let (one, other) =
        (fit(data.clone(), thetas.into(), "one"), fit(messy(&data), messy(thetas), "other"));
    assert!(one.status.success() && other.status.success(), "{other:?}");
    let spec =
        |name: &str| std::fs::read_to_string(folder.path().join(name).join("spec.toml")).unwrap();
    assert_eq!(spec("one").replace("\"one\"", "\"other\""), spec("other"));
    let named = spec("one");
    let named = named.split("[problem.response.sensitivity.by_name]\n").nth(1).unwrap();
    assert!(named.starts_with("Zeta = ") && named.contains("\ndelta = "), "{named}");
    let wrong = messy(&data.replace("delta,b,", "delta,b,x"));
    let line = wrong.lines().position(|line| line.contains(";x")).unwrap() + 1;
    let said = String::from_utf8(fit(wrong, messy(thetas), "third").stderr).unwrap();
    assert!(said.contains(&format!("data.csv: line {line}, column \"use\": found \"x")), "{said}");
    assert!(!folder.path().join("third").exists());
}

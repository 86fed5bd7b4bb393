//! `fedback fit` as a user runs it.

mod doubts;

use std::path::Path;
use std::process::{Command, Output};

use fedback::core::stream::{Purpose, Seed, Stream};
use fedback::lab::experiment::Experiment;
use fedback::lab::spec::Document;
use serde_json::Value;

/// What one row is made of: client, individual, deployment and label after three features.
struct Row {
    client: &'static str,
    deployment: &'static str,
    individual: usize,
    features: [f64; 3],
    label: u8,
}

const SENSITIVITY: [(&str, f64); 3] = [("alder", 0.4), ("birch", 0.9), ("cedar", 1.6)];
const THETAS: [(&str, [f64; 3]); 2] = [("old", [0.5, 0.0, 0.2]), ("new", [1.5, 0.8, -0.6])];

/// Three banks under two models; utilisation and lines respond, income does not.
fn rows() -> Vec<Row> {
    let mut draws = Stream::for_problem(Seed(12), Purpose::Data).draws();
    let mut rows = Vec::new();
    for (client, epsilon) in SENSITIVITY {
        for (deployment, theta) in THETAS {
            for individual in 0..200 {
                let mut features = [0; 3].map(|_| draws.normal());
                let score = features[0] + 0.5 * features[1] - features[2] + 1.5 * draws.normal();
                (0..2).for_each(|j| features[j] -= epsilon * theta[j]);
                let label = u8::from(score > 0.0);
                rows.push(Row { client, deployment, individual, features, label });
            }
        }
    }
    rows
}

fn csv(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let [a, b, c] = row.features;
        format!("{},{},{a:.4},{b:.4},{c:.4},{}\n", row.client, row.deployment, row.label)
    };
    "client,deployment,use,lines,income,label\n".to_string()
        + &rows.iter().map(line).collect::<String>()
}

fn thetas() -> String {
    let line = |(name, [a, b, c]): &(&str, [f64; 3])| format!("{name},{c},{a},{b}\n");
    // Another order than the data's.
    "deployment,income,use,lines\n".to_string() + &THETAS.iter().map(line).collect::<String>()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(data: &str, thetas: &str) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        std::fs::write(folder.path().join("data.csv"), data).unwrap();
        std::fs::write(folder.path().join("thetas.csv"), thetas).unwrap();
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn fedback(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fedback"))
            .args(args)
            .current_dir(self.path())
            .output()
            .unwrap()
    }

    fn fit(&self, args: &[&str]) -> Output {
        self.fedback(&[&["fit", "data.csv", "--deployments", "thetas.csv"], args].concat())
    }

    /// The JSON that `fit` prints.
    fn json(&self, args: &[&str]) -> Value {
        answer(&self.fit(&[&["--json"], args].concat()))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }
}

/// The JSON that a command printed; it must have succeeded.
fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn banks_are_fitted_and_their_spec_is_taken() {
    let folder = Folder::new(&csv(&rows()), &thetas());
    let json = folder.json(&[]);
    assert_eq!(json["response"], "best-response");
    assert_eq!(json["features"], serde_json::json!(["use", "lines"]));
    assert_eq!(json["shape"], "scalar");
    assert_eq!(json["reference"], "old");
    for (client, (name, epsilon)) in SENSITIVITY.iter().enumerate() {
        let found = &json["clients"][client];
        assert_eq!(found["name"], *name);
        let number = |key: &str| found[key].as_f64().unwrap();
        assert!((number("sensitivity") - epsilon).abs() < 4.0 * number("standard_error"));
        assert!(number("low") < number("sensitivity") && number("sensitivity") < number("high"));
        assert!(number("standard_error") < 0.15 && number("degrees_of_freedom") > 300.0);
        assert!(found["location"]["p_value"].as_f64().unwrap() > 0.01);
        assert!(found["bracket"]["low"].as_f64().unwrap() < number("sensitivity"));
        assert!(found["bracket"]["high"].as_f64().unwrap() > number("sensitivity"));
    }
    for command in ["solve", "run", "bounds"] {
        let output = folder.fedback(&[command, "fitted/spec.toml", "--store", "none"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(folder.read("fitted/shift.svg").contains("</svg>"));
    // The same bits again, and no folder twice.
    let (spec, resamples) = (folder.read("fitted/spec.toml"), folder.read("fitted/resamples.csv"));
    let again = folder.fit(&[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force"));
    assert!(folder.fit(&["--force", "--threads", "1"]).status.success());
    assert_eq!(spec, folder.read("fitted/spec.toml"));
    assert_eq!(resamples, folder.read("fitted/resamples.csv"));
}

/// The base moves from where it was recorded: under the reference θ the data are the rows themselves, and
/// under the other θ their means are those observed.
#[test]
fn the_fitted_spec_gives_back_the_data() {
    let folder = Folder::new(&csv(&rows()), &thetas());
    let json = folder.json(&["--shape", "vector", "--reference", "new"]);
    let experiment = Experiment::read(&folder.path().join("fitted/spec.toml")).unwrap();
    let plan = &experiment.plans[0];
    let mean = |federation: &fedback::core::federation::Federation,
                client: usize,
                theta: &[f64]| {
        let fedback::core::base::Base::Table(table) = federation.base() else { panic!("a table") };
        let mut shift = [0.0; 3];
        federation.shift().unwrap().apply(client, theta, &mut shift);
        let (rows, _) = table.block(client);
        [0, 1, 2].map(|j| {
            let values = rows.iter().skip(j).step_by(3);
            values.sum::<f64>() / (rows.len() / 3) as f64 + shift[j]
        })
    };
    for client in 0..3 {
        for (deployment, theta) in THETAS {
            let all = rows();
            let own: Vec<&Row> = all
                .iter()
                .filter(|row| row.client == SENSITIVITY[client].0 && row.deployment == deployment)
                .collect();
            let found = mean(plan.federation(), client, &theta);
            for j in 0..3 {
                let expected = own.iter().map(|row| row.features[j]).sum::<f64>() / 200.0;
                // Income is not fitted, and stays where the reference has it.
                let tolerance = if j < 2 { 1e-4 } else { 0.4 };
                assert!((found[j] - expected).abs() < tolerance, "{found:?} {expected}");
            }
        }
    }
    // Resamples move about the estimates, and agree under the reference θ.
    let resampled: Vec<_> = plan.resampled().unwrap().unwrap().collect();
    assert_eq!(resampled.len(), 400);
    let here = mean(plan.federation(), 1, &THETAS[1].1);
    let mut values = Vec::new();
    for federation in &resampled {
        let there = mean(federation, 1, &THETAS[1].1);
        (0..3).for_each(|j| assert!((here[j] - there[j]).abs() < 1e-9));
        values.push(-federation.shift().unwrap().diagonal(1, 0));
    }
    let average = values.iter().sum::<f64>() / 400.0;
    let estimate = json["clients"][1]["sensitivity"][0].as_f64().unwrap();
    let error = json["clients"][1]["standard_error"][0].as_f64().unwrap();
    assert!((average - estimate).abs() < 4.0 * error / 20.0);
    let spread = values.iter().map(|x| (x - average) * (x - average)).sum::<f64>() / 400.0;
    assert!((spread.sqrt() / error - 1.0).abs() < 0.15);
}

/// Whoever is identified is compared with themselves.
#[test]
fn individuals_sharpen_estimates() {
    let mut draws = Stream::for_problem(Seed(5), Purpose::Data).draws();
    let mut data = String::from("site,who,model,x\n");
    for who in 0..100 {
        let level = 5.0 * draws.normal();
        for (model, theta) in [("a", 0.0), ("b", 2.0)] {
            data += &format!("s,{who},{model},{:.4}\n", level + 0.7 * theta + 0.1 * draws.normal());
        }
    }
    let folder = Folder::new(&data, "model,x\na,0\nb,2\n");
    let columns = ["--client", "site", "--deployment", "model", "--individual", "who"];
    let json = folder.json(&columns);
    let client = &json["clients"][0];
    assert_eq!(json["response"], "location");
    assert_eq!(client["paired_individuals"], 100);
    assert!((client["sensitivity"].as_f64().unwrap() - 0.7).abs() < 0.03);
    assert!(client["standard_error"].as_f64().unwrap() < 0.01);
    assert_eq!(client["degrees_of_freedom"].as_f64().unwrap().round(), 99.0);
}

#[test]
fn a_matrix_needs_enough_deployments() {
    let thetas = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 2.0]];
    let mut draws = Stream::for_problem(Seed(6), Purpose::Data).draws();
    let mut data = String::from("client,deployment,x,y\n");
    for (k, theta) in thetas.iter().enumerate() {
        for _ in 0..200 {
            let x = draws.normal() + 0.5 * theta[0] - 1.0 * theta[1];
            let y = draws.normal() + 0.3 * theta[1];
            data += &format!("c,m{k},{x:.4},{y:.4}\n");
        }
    }
    let lines = |count: usize| -> String {
        let line = |k: usize| format!("m{k},{},{}\n", thetas[k][0], thetas[k][1]);
        "deployment,x,y\n".to_string() + &(0..count).map(line).collect::<String>()
    };
    let folder = Folder::new(&data, &lines(4));
    let json = folder.json(&[]);
    assert_eq!(json["shape"], "matrix");
    let cross = json["clients"][0]["sensitivity"][0][1].as_f64().unwrap();
    assert!((cross + 1.0).abs() < 0.4, "{cross}");
    assert!(json["clients"][0]["linearity"]["p_value"].as_f64().unwrap() > 0.001);
    let two: String = data
        .lines()
        .filter(|l| !l.contains("m2") && !l.contains("m3"))
        .fold(String::new(), |text, line| text + line + "\n");
    let folder = Folder::new(&two, &lines(2));
    let output = folder.fit(&["--shape", "matrix"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("needs 3 deployments"));
}

#[test]
fn bad_input_is_refused_in_words() {
    let (data, good) = (csv(&rows()), thetas());
    let without = |client: &str, deployment: &str, left: usize| {
        let mut seen = 0;
        let keep = |row: &&Row| {
            let hit = row.client == client && row.deployment == deployment;
            seen += usize::from(hit);
            !hit || seen <= left
        };
        let all = rows();
        let kept: Vec<&Row> = all.iter().filter(keep).collect();
        let line = |row: &&Row| {
            let [a, b, c] = row.features;
            format!("{},{},{a:.4},{b:.4},{c:.4},{}\n", row.client, row.deployment, row.label)
        };
        "client,deployment,use,lines,income,label\n".to_string()
            + &kept.iter().map(line).collect::<String>()
    };
    let with_individuals = || {
        let line = |row: &Row| {
            let [a, b, c] = row.features;
            let who = row.individual % 199;
            format!("{},{},{who},{a},{b},{c},{}\n", row.client, row.deployment, row.label)
        };
        "client,deployment,individual,use,lines,income,label\n".to_string()
            + &rows().iter().map(line).collect::<String>()
    };
    let one_deployment: String = data
        .lines()
        .filter(|line| !line.contains(",new,"))
        .map(|line| line.to_string() + "\n")
        .collect();
    let flat: String = (data.lines().enumerate())
        .map(|(at, line)| format!("{line},{}\n", if at == 0 { "flag" } else { "1" }))
        .collect();
    let same = "deployment,income,use,lines\nold,0.2,0.5,0\nnew,0.2,0.5,0\n".to_string();
    for (data, thetas, args, parts) in [
        (&one_deployment, &good, &[][..], vec!["thetas.csv", "one deployment", "old"]),
        (&without("birch", "new", 0), &good, &[], vec!["data.csv", "birch", "no rows", "new"]),
        (&without("birch", "new", 29), &good, &[], vec!["birch", "29 rows", "30"]),
        (
            &data,
            &"deployment,use,lines\nold,1,2\nnew,2,3\n".into(),
            &[],
            vec!["2 coordinates", "3 features", "income"],
        ),
        (&data, &good.replace("income", "wealth"), &[], vec!["no features of the data", "wealth"]),
        (&data, &good.replace("new,", "next,"), &[], vec!["line 202", "\"new\" has no θ"]),
        (&data, &same, &[], vec!["same θ"]),
        (
            &flat,
            &"deployment,income,use,lines,flag\nold,1,2,3,4\nnew,2,3,4,5\n".into(),
            &[],
            vec!["\"flag\" is the same in every row", "--ignore"],
        ),
        (
            &data.replacen("alder,old,", "alder,old,x", 1),
            &good,
            &[],
            vec!["line 2", "\"use\"", "found \"x"],
        ),
        (&with_individuals(), &good, &[], vec!["individual twice"]),
        (&data, &good, &["--client", "bank"], vec!["no column \"bank\"", "--client"]),
        (&data, &good, &["--label", "income", "--ignore", "nothing"], vec!["nothing"]),
        (
            &data,
            &good,
            &["--features", "wealth"],
            vec!["--features", "wealth", "use, lines, income"],
        ),
        (&data, &good, &["--shape", "matrix"], vec!["--shape", "deployments"]),
        (&data, &good, &["--reference", "next"], vec!["--reference", "old, new"]),
        (&data, &good, &["--confidence", "1.5"], vec!["--confidence", "1.5"]),
        (
            &data,
            &"deployment,income,use,lines\nold,0.2,0.5,0\nnew,0.9,0.5,0\n".into(),
            &["--features", "use,lines"],
            vec!["same in every deployment", "use, lines"],
        ),
        (&data, &good.replace("0.5", "half"), &[], vec!["thetas.csv", "line 2", "half"]),
        (
            &data.replacen("alder,old,", "alder,old,1e80,0,0,1\nalder,old,", 1),
            &good,
            &[],
            vec!["data.csv", "line 2", "\"use\"", "1e80", "allowed", "1e60", "units"],
        ),
        (
            &data,
            &"deployment,income,use,lines\nold,0.2,-1e61,0\nnew,0.9,0.5,0\n".into(),
            &[],
            vec!["thetas.csv", "line 2", "\"use\"", "-1e61", "1e60"],
        ),
        (
            &data,
            &"deployment,income,use,lines\nold,0.2,1e-160,0\nnew,0.9,0,1\n".into(),
            &[],
            vec!["thetas.csv", "\"use\"", "differ by 1e-160", "1e-60", "units"],
        ),
        (
            &data,
            &"deployment,income,use,lines\nold,0.2,0.5,0\nnew,0.9,0.5,1\n".into(),
            &["--response", "location", "--shape", "vector"],
            vec!["--shape", "not identified", "on use;", "--features lines,income"],
        ),
    ] {
        let folder = Folder::new(data, thetas);
        let output = folder.fit(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{parts:?}: {message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
        assert!(!folder.path().join("fitted").exists());
    }
}

/// z = m + ε (θ − θ_ref) is stable at (m − ε θ_ref) / (1 − ε).
#[test]
fn a_base_may_be_recorded_under_a_model() {
    let spec = r#"
        rounds = 1
        [problem]
        base = { kind = "gaussian", mean = [1.0], dim = 2 }
        response = { kind = "location", sensitivity = [0.5], reference = [2.0, -4.0] }
        loss = { kind = "mean" }
        [algorithm]
        kind = "p-fedavg"
        scheme = "full"
        step_size = { constant = 0.1 }
    "#;
    let plan = |set: &str| {
        let mut document = Document::parse(spec, "spec").unwrap();
        document.set(set).unwrap();
        Experiment::new(&document).map(|mut experiment| experiment.plans.remove(0))
    };
    let recorded = plan("seed=0").unwrap();
    let stable = recorded.stable_point.clone().unwrap();
    assert!((stable[0] - 0.0).abs() < 1e-12 && (stable[1] - 6.0).abs() < 1e-12, "{stable:?}");
    assert!(recorded.resampled().unwrap().is_none());
    let short = plan("problem.response.reference=[2.0]").unwrap_err().to_string();
    assert!(
        short.contains("problem.response.reference: the list has 1 entries; θ has 2"),
        "{short}"
    );
    let text = plan("problem.response.reference=[2.0, nan]").unwrap_err().to_string();
    assert!(text.contains("problem.response.reference"), "{text}");
    // What no run looks at does not decide what a run is; what it looks at does.
    let resampled = plan("problem.response.resamples=missing.csv").unwrap();
    assert_eq!(resampled.hash, recorded.hash);
    let why = resampled.resampled().err().unwrap().to_string();
    assert!(why.contains("missing.csv: cannot be read"), "{why}");
    assert_ne!(plan("problem.response.reference=[2.0, 4.0]").unwrap().hash, recorded.hash);
}

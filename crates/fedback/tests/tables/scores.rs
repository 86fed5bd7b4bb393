//! Rows scored with the model of a run.

use super::{Folder, people};

#[test]
fn rows_are_scored_without_the_table() {
    let folder = Folder::new(&people());
    let sets = ["--set", "problem.base.one_hot=[\"job\"]", "--set", "problem.base.missing=mean"];
    let run = folder.json(&[&["run", "spec.toml", "--json"][..], &sets].concat());
    let names = run["coordinates"].as_array().unwrap().clone();
    assert_eq!(names, ["job=smith", "job=tailor", "use", "age", "intercept"]);
    std::fs::remove_file(folder.path().join("people.csv")).unwrap();
    let rows = "name;age;job;use\r\n\"Ann; B\";40;smith;50\r\nBob;;baker;10\r\n";
    std::fs::write(folder.path().join("new.csv"), rows).unwrap();
    let csv = folder.good(&["score", "1", "new.csv"]).0;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "name,age,job,use,score,probability,prediction");
    assert!(lines[1].starts_with("Ann; B,40,smith,50,") && lines[2].starts_with("Bob,,baker,10,"));
    // By hand, with what `export --format theta` says.
    let theta = folder.json(&["export", "1", "--format", "theta"]);
    let raw = &theta["raw_units"];
    let c = |j: usize| raw["coefficients"][j].as_f64().unwrap();
    let expected = raw["constant"].as_f64().unwrap() + c(0) + 50.0 * c(2) + 40.0 * c(3);
    let cells: Vec<f64> = lines[1].split(',').skip(4).map(|cell| cell.parse().unwrap()).collect();
    assert!((cells[0] - expected).abs() < 1e-12, "{} {expected}", cells[0]);
    assert!((cells[1] - 1.0 / (1.0 + (-expected).exp())).abs() < 1e-12);
    assert_eq!(cells[2], f64::from(u8::from(expected > 0.0)));
    // The mean stands for what is missing.
    let mean = theta["standardization"]["mean"][3].as_f64().unwrap();
    let expected = raw["constant"].as_f64().unwrap() + 10.0 * c(2) + mean * c(3);
    let found: f64 = lines[2].split(',').nth(4).unwrap().parse().unwrap();
    assert!((found - expected).abs() < 1e-12);
    let (said, _) = folder.good(&["score", "1", "new.csv", "--out", "scores.csv"]);
    assert_eq!(said, "wrote 2 rows to scores.csv\n");
    assert_eq!(std::fs::read_to_string(folder.path().join("scores.csv")).unwrap(), csv);
    assert_ne!(folder.good(&["score", "1", "new.csv", "--repetition", "1"]).0, csv);

    for (rows, part) in [
        ("age,use\n1,2\n", "new.csv: no column \"job\", which the model needs; columns: age, use"),
        ("age,use,job\n1,2,tinker\n", "line 2, column \"job\": found \"tinker\""),
        ("age,use,job\n1,x,smith\n", "line 2, column \"use\": found \"x\""),
        ("age,use,job,score\n1,2,smith,3\n", "there is a column \"score\" already"),
    ] {
        std::fs::write(folder.path().join("new.csv"), rows).unwrap();
        let output = folder.run(&["score", "1", "new.csv", "--out", "other.csv"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(part), "{said}");
        assert!(!folder.path().join("other.csv").exists());
    }
    let output = folder.run(&["score", "1", "new.csv", "--out", "./new.csv"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("is the table itself"));
    let output = folder.run(&["score", "1", "new.csv", "--repetition", "2"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("--repetition: found 2"));
}

/// Scores of rows that were learned from are the margins that accuracy is counted by.
#[test]
fn scores_agree_with_measurements() {
    let folder = Folder::plain();
    let none = "problem.response={ kind = \"none\" }";
    let last =
        folder.last(&["run", "spec.toml", "--json", "--set", "repetitions=1", "--set", none]);
    let csv = folder.good(&["score", "1", "people.csv"]).0;
    let right = csv.lines().skip(1).filter(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        cells[6] == cells[9]
    });
    assert_eq!(last["accuracy"]["mean"].as_f64().unwrap(), right.count() as f64 / 90.0);
    // Rows that were dropped from a table have no score.
    let drop = "problem.base.missing=drop";
    folder.good(&["run", "spec.toml", "--set", drop]);
    std::fs::write(folder.path().join("new.csv"), "use,age\n1,2\n,3\n").unwrap();
    let (csv, said) = folder.good(&["score", "2", "new.csv"]);
    assert!(csv.ends_with("\n,3,,,\n") && said.contains("1 row has no score"), "{csv} {said}");
}

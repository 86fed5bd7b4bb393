//! Rows that are held out, and groups of rows.

use super::{Folder, people};

#[test]
fn held_out_rows_are_measured_and_not_learned_from() {
    let folder = Folder::plain();
    let held = ["run", "spec.toml", "--json", "--set", "problem.base.holdout=0.2"];
    let run = folder.json(&held);
    assert_eq!((&run["table"]["used"], &run["table"]["held_out"]), (&72.into(), &18.into()));
    let last = run["curve"].as_array().unwrap().last().unwrap();
    for name in ["risk", "accuracy", "auc"] {
        let (own, other) = (&last[name]["mean"], &last[format!("{name}_holdout")]["mean"]);
        assert!(own.is_number() && other.is_number() && own != other, "{name}: {last}");
    }
    assert_eq!(last["client_risk_holdout"].as_array().unwrap().len(), 3);
    // The same rows whatever the run's seed, others under another seed of the problem.
    let other =
        |set: &str| folder.json(&[&held[..], &["--set", set]].concat())["stable_point"].clone();
    assert_eq!(other("seed=9"), run["stable_point"]);
    assert_ne!(other("problem.seed=9"), run["stable_point"]);
    // The table on the screen, the CSV, and what a store keeps.
    let text = folder.good(&["run", "spec.toml", "--set", "problem.base.holdout=0.2"]).0;
    assert!(text.contains("risk_holdout") && text.contains("accuracy_holdout"), "{text}");
    let csv = folder.good(&["export", "1", "--format", "csv"]).0;
    assert!(csv.lines().next().unwrap().contains("client_risk_holdout Epsilon_mean"), "{csv}");
    std::fs::remove_file(folder.path().join("people.csv")).unwrap();
    assert_eq!(folder.json(&["export", "1", "--format", "json"])["curve"], run["curve"]);
}

/// What is learned is what a table without the held-out rows teaches.
#[test]
fn a_column_can_say_what_is_held_out() {
    let part = |line: &str| if line.contains(",baker,") { "test" } else { "train" };
    let marked = |(at, line): (usize, &str)| {
        format!("{line},{}\n", if at == 0 { "part" } else { part(line) })
    };
    let text: String = people().lines().enumerate().map(marked).collect();
    let folder = Folder::new(&text);
    let ignore = "problem.base.ignore=[\"id\",\"sex\",\"job\"]";
    let solve = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> = ["solve", "spec.toml", "--json"].into_iter().chain(sets).collect();
        folder.json(&args)["stable_point"].clone()
    };
    let column = "problem.base.holdout={ column = \"part\", value = \"test\" }";
    let held = solve(&[ignore, column]);
    let kept: String = people()
        .lines()
        .filter(|line| !line.contains(",baker,"))
        .map(|l| format!("{l}\n"))
        .collect();
    std::fs::write(folder.path().join("people.csv"), kept).unwrap();
    assert_eq!(solve(&[ignore]), held);

    std::fs::write(folder.path().join("people.csv"), text).unwrap();
    for (holdout, part) in [
        ("1.5", "allowed: a number above 0 and below 1"),
        ("0.001", "raise the share"),
        ("{ column = \"part\" }", "allowed"),
        ("{ column = \"part\", value = 1 }", "write it as text: \"1\""),
        ("{ column = \"parts\", value = \"x\" }", "no holdout column \"parts\""),
        ("{ column = \"part\", value = \"x\" }", "no row has \"x\" in the column \"part\""),
        ("{ column = \"bank\", value = \"Zeta\" }", "both partition and holdout"),
    ] {
        let set = format!("problem.base.holdout={holdout}");
        let ignored = ignore.replace("\"job\"]", "\"job\",\"part\"]");
        let said = folder.refused(&["run", "spec.toml", "--set", &ignored, "--set", &set]);
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn groups_are_measured() {
    let folder = Folder::plain();
    let sets = ["--set", "measure.group=sex", "--set", "problem.base.holdout=0.3"];
    let run = folder.json(&[&["run", "spec.toml", "--json"][..], &sets].concat());
    assert_eq!(run["table"]["groups"], serde_json::json!(["f", "m"]));
    let last = run["curve"].as_array().unwrap().last().unwrap();
    for rate in ["risk", "accuracy", "positive_rate", "true_positive_rate", "false_positive_rate"] {
        for part in ["", "_holdout"] {
            let groups = &last[format!("{rate}_by_group{part}")];
            let gap = last[format!("{rate}_gap{part}")]["mean"].as_f64().unwrap();
            assert!(gap >= 0.0 && groups.as_array().unwrap().len() == 2, "{rate}{part}: {last}");
        }
    }
    // A measurement changes nothing that is learned.
    let plain = folder.json(&["run", "spec.toml", "--json", "--set", "problem.base.holdout=0.3"]);
    assert_eq!(plain["final_theta"], run["final_theta"]);
    let text = folder.good(&[&["run", "spec.toml"][..], &sets].concat()).0;
    assert!(text.contains("by sex, held-out rows") && text.contains("  gap  "), "{text}");
    let csv = folder.good(&["export", "1", "--format", "csv"]).0;
    assert!(csv.contains("accuracy_by_group f_mean") && csv.contains("accuracy_gap_mean"), "{csv}");
    // One of several groups is not drawn as if it were all of them; a gap is.
    let drawn = folder.run(&["compare", "1", "--y", "risk_by_group"]);
    let said = String::from_utf8(drawn.stderr).unwrap();
    assert_eq!(drawn.status.code(), Some(2), "{said}");
    assert!(said.contains("all runs measured: ") && !said.contains("by_group,"), "{said}");
    folder.good(&["compare", "1", "--y", "risk_gap"]);
    let other = Folder::plain();
    let said = other.refused(&["run", "spec.toml", "--set", "measure.group=gender"]);
    assert!(said.contains("no group column \"gender\"; columns: id, bank, sex"), "{said}");
}

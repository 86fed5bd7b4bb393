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
    let table = &run["table"];
    assert_eq!(table["groups"], serde_json::json!(["f", "m"]));
    let rows = |name: &str| table[name].as_array().unwrap().iter().map(|n| n.as_u64().unwrap());
    assert_eq!(rows("group_rows").sum::<u64>(), 63);
    assert_eq!(rows("group_rows_held_out").sum::<u64>(), 27);
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
    let said = other.refused(&["run", "spec.toml", "--set", "measure.group=id"]);
    let why = "measure.group: the column \"id\" has 90 values; at most 50 groups are measured";
    assert!(said.contains(why), "{said}");
}

/// Whose values they are is said wherever they are shown.
#[test]
fn clients_and_groups_are_shown_by_name() {
    let folder = Folder::plain();
    let sets = ["--set", "measure.group=sex", "--set", "problem.base.holdout=0.3"];
    folder.good(&[&["run", "spec.toml"][..], &sets].concat());
    let other = "problem.base.holdout={ column = \"job\", value = \"baker\" }";
    let ignore = "problem.base.ignore=[\"id\",\"sex\"]";
    folder.good(&["run", "spec.toml", "--set", other, "--set", ignore]);
    let text = folder.good(&["show", "1"]).0;
    for part in [
        "# groups: f 25, m 38 rows learned from; f 11, m 16 held out\n",
        "# final client_risk: Epsilon: 0.",
        "# final accuracy_by_group: f: 0.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = folder.good(&["show", "1", "2"]).0;
    let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!(lines("problem.base.holdout"), 1, "{text}");
    assert!(text.contains("Epsilon: 0.") && text.contains("; Zeta: 0."), "{text}");
}

/// Rows of a group stand beside its values, and where there are few of them it is said.
#[test]
fn small_groups_are_named() {
    let few = |text: &str| text.replacen(",m,", ",NA,", 3);
    let folder = Folder::plain();
    std::fs::write(folder.path().join("people.csv"), few(&people())).unwrap();
    let (text, said) = folder.good(&["run", "spec.toml", "--set", "measure.group=sex"]);
    let small = "by \"sex\" some groups are small (missing 3 rows); below 25 rows";
    assert!(said.contains(small), "{said}");
    for line in ["  by sex    rows ", "  f           36 ", "  missing      3 "] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn one_group_has_no_gap() {
    let folder = Folder::plain();
    std::fs::write(folder.path().join("people.csv"), people().replace(",f,", ",m,")).unwrap();
    let group = ["--set", "measure.group=sex"];
    let run = folder.json(&[&["run", "spec.toml", "--json"][..], &group].concat());
    assert!(run["curve"][0]["risk_gap"]["mean"].is_null(), "{}", run["curve"][0]);
    let (_, said) = folder.good(&[&["run", "spec.toml"][..], &group].concat());
    assert!(
        said.contains("every row has \"m\" in the column \"sex\"; there are no gaps"),
        "{said}"
    );
}

//! Figures as a user asks for them: of recorded runs, and of plans.

mod binary;

use std::path::Path;
use std::process::Output;

const SPEC: &str = r#"
seed = 3
name = "study"
rounds = 40
repetitions = 8
[problem]
weights = [0.5, 0.3, 0.2]
base = { kind = "gaussian", mean = [1.0, 2.0, 4.0] }
response = { kind = "location", sensitivity = [0.2, 0.5, 0.9] }
loss = { kind = "mean" }
[algorithm]
kind = "p-fedavg"
scheme = "without-replacement"
cohort = 2
step_size = { beta = 4.0, gamma = 40.0 }
[measure]
every = 10
[sweep]
"algorithm.local_steps" = [1, 2, 5, 20]
"algorithm.cohort" = [1, 2, 3]
"#;

fn fedback(folder: &Path, args: &[&str]) -> Output {
    binary::command(folder, args).output().unwrap()
}

/// A folder with twelve runs: four E, three K each.
fn study() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("study.toml"), SPEC).unwrap();
    let ran = fedback(folder.path(), &["run", "study.toml"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    folder
}

fn svg(folder: &Path, args: &[&str]) -> String {
    let drawn = fedback(folder, &[&["compare"], args, &["--out", "figure.svg"]].concat());
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    std::fs::read_to_string(folder.join("figure.svg")).unwrap()
}

/// The texts of a figure, markup removed.
fn names(svg: &str) -> Vec<String> {
    let entries = svg.split("<g class=\"legend\" data-name=\"").skip(1);
    entries.map(|entry| entry.split('"').next().unwrap().to_string()).collect()
}

#[test]
fn twelve_curves_have_twelve_colours_and_one_entry_for_what_is_exact() {
    let folder = study();
    let curves = svg(folder.path(), &["1-12", "--x", "uploads", "--y", "risk"]);
    assert!(curves.contains(">uploads<") && curves.contains(">performative risk<"));
    let names = names(&curves);
    assert_eq!((names.len(), names[12].as_str()), (13, "exact"));
    assert_eq!(names[0], "local_steps 1, cohort 1");
    assert!(curves.contains("data-colour=\"r11\"") && curves.contains(">study<"));
}

#[test]
fn final_values_over_a_parameter() {
    let folder = study();
    let finals = svg(folder.path(), &["1-12", "--x", "local_steps"]);
    assert_eq!(names(&finals), ["cohort 1", "cohort 2", "cohort 3", "exact"]);
    assert_eq!(finals.matches("class=\"bars\"").count(), 3);
    assert!(finals.contains("data-x-scale=\"log\"") && finals.contains(">algorithm.local_steps<"));
}

#[test]
fn curves_over_time_have_nothing_exact_beside_them() {
    let folder = study();
    let over_time = svg(folder.path(), &["1-3", "--x", "time"]);
    assert_eq!(names(&over_time).len(), 3);
    assert!(over_time.contains(">time (seconds of work)<"), "{over_time}");
}

#[test]
fn small_multiples_share_axes_and_a_legend() {
    let folder = study();
    let panels = svg(folder.path(), &["1-12", "--panels", "algorithm.cohort", "--size", "double"]);
    assert_eq!(panels.matches("class=\"panel\"").count(), 3);
    let names = names(&panels);
    assert_eq!(names[..2], ["local_steps 1", "local_steps 2"]);
    assert_eq!(names.len(), 5);
    let domains: Vec<&str> = panels.split("data-y-domain=\"").skip(1).collect();
    assert!(domains.iter().all(|one| one.split('"').next() == domains[0].split('"').next()));
    assert!(panels.contains("width=\"178mm\"") && !panels.contains("var("));
    let two = svg(folder.path(), &["1-3", "--y", "risk,distance_sq"]);
    assert_eq!(two.matches("class=\"panel\"").count(), 2);
}

#[test]
fn a_heat_map_over_two_parameters() {
    let folder = study();
    let map = svg(folder.path(), &["1-12", "--x", "local_steps", "--map", "cohort"]);
    assert_eq!(map.matches("class=\"cell\"").count(), 12);
    assert!(!map.contains("runs a cell"));
}

/// What a heat map averages is said, and only seeds are averaged.
#[test]
fn a_cell_of_a_heat_map_averages_over_seeds_alone() {
    let folder = study();
    let again = |set: &str| {
        assert!(fedback(folder.path(), &["run", "study.toml", "--set", set]).status.success())
    };
    again("seed=4");
    let map = ["--x", "local_steps", "--map", "cohort", "--size", "single"];
    let drawn = svg(folder.path(), &[&["1-24"], &map[..]].concat());
    assert!(drawn.contains("mean of 2 runs a cell"), "{drawn}");
    let finals = svg(folder.path(), &["1-24", "--x", "local_steps"]);
    assert_eq!(names(&finals)[..2], ["cohort 1, seed 3", "cohort 2, seed 3"]);
    again("problem.base.noise=3.0");
    let refused = fedback(folder.path(), &[&["compare", "1-36"], &map[..]].concat());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let why = "--map: runs of algorithm.local_steps 1 and algorithm.cohort 1 differ in \
               problem.base.noise too; a cell averages over seeds alone";
    assert!(refused.status.code() == Some(2) && said.contains(why), "{said}");
}

#[test]
fn panels_of_one_measurement_share_their_axes() {
    let folder = study();
    let asked = ["1-12", "--panels", "cohort", "--y", "distance_sq,risk"];
    let panels = svg(folder.path(), &asked);
    let domains: Vec<&str> =
        panels.split("data-y-domain=\"").skip(1).filter_map(|one| one.split('"').next()).collect();
    assert_eq!(domains.len(), 6);
    assert!(domains[0] == domains[2] && domains[1] == domains[5], "{domains:?}");
    assert_ne!(domains[0], domains[1]);
    for label in ["cohort 1: squared distance to the stable point", "cohort 3: performative risk"] {
        assert!(panels.contains(&format!(">{label}<")), "{label}: {panels}");
    }
    let table = fedback(folder.path(), &[&["compare"], &asked[..]].concat()).stdout;
    let table = String::from_utf8(table).unwrap();
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head[4..10], ["distance_sq", "±", "sd", "exact", "risk", "±"], "{table}");
}

#[test]
fn curves_that_lie_on_each_other_have_one_entry() {
    let folder = study();
    assert!(fedback(folder.path(), &["run", "study.toml"]).status.success());
    let twice = svg(folder.path(), &["1", "13"]);
    assert_eq!(names(&twice), ["study (run 1) and study (run 13)", "exact"]);
    let panels = svg(folder.path(), &["1-24", "--panels", "cohort"]);
    assert_eq!(names(&panels)[..2], ["local_steps 1", "local_steps 2"]);
    let alone = svg(folder.path(), &["1-3", "--panels", "cohort"]);
    assert_eq!(names(&alone), ["simulated", "exact"]);
}

#[test]
fn what_cannot_be_drawn_is_refused_before_anything_is_written() {
    let folder = study();
    for (args, words) in [
        (&["--x", "banana"][..], &["--x", "banana", "uploads", "algorithm.cohort"][..]),
        (&["--y", "auc"], &["--y", "auc", "all runs measured: distance_sq, risk"]),
        (&["--panels", "rounds"], &["--panels", "algorithm.local_steps, algorithm.cohort"]),
        (&["--out", "figure.pdf"], &["figure.pdf", "are written as .svg", "savefig"]),
        (&["--map", "cohort"], &["--x", "is missing"]),
        (
            &["--map", "cohort", "--x", "local_steps", "--y", "risk,distance_sq"],
            &["--y", "risk,distance_sq", "one measurement"],
        ),
        (&["--map", "cohort", "--x", "cohort"], &["--map", "name another one"]),
    ] {
        let refused = fedback(folder.path(), &[&["compare", "1-12"], args].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
        assert!(!folder.path().join("fedback-compare.svg").exists());
    }
}

/// The solid line of a plan's figure, and what was planned: E and total cost.
fn planned(folder: &Path, options: &[&str]) -> (f64, Vec<(usize, f64)>) {
    let planned = fedback(folder, &[&["plan", "sites.toml", "--json"], options].concat());
    assert!(planned.status.success(), "{}", String::from_utf8_lossy(&planned.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&planned.stdout).unwrap();
    let mut cheapest = std::collections::BTreeMap::new();
    for one in answer["alternatives"].as_array().unwrap() {
        let least = cheapest.entry(one["local_steps"].as_u64().unwrap() as usize);
        let least = least.or_insert(f64::INFINITY);
        *least = one["total_time"].as_f64().unwrap().min(*least);
    }
    (answer["total_time"].as_f64().unwrap(), cheapest.into_iter().collect())
}

#[test]
fn the_curve_of_a_plan_is_what_a_search_for_each_e_finds() {
    let folder = tempfile::tempdir().unwrap();
    let sites = "[problem]\nclients = 10\nloss = { kind = \"mean\" }\n\
                 base = { kind = \"gaussian\", mean = { average = 10.0, variance = 0.6 } }\n\
                 response = { kind = \"location\", sensitivity = { average = 0.8, variance = 0.1 } }\n\
                 [algorithm]\nkind = \"p-fedavg\"\nscheme = \"full\"\n\
                 step_size = { beta = 10.0, gamma = 200.0 }\n";
    let sites = format!("seed = 7\nrounds = 400\nrepetitions = 2\n{sites}");
    std::fs::write(folder.path().join("sites.toml"), sites).unwrap();
    let free = ["--accuracy", "2", "--communication-cost", "10"];
    let waiting = ["--accuracy", "20", "--communication-cost", "100", "--straggler", "1"];
    for (options, line) in [(&free[..], "full"), (&waiting[..], "cheapest for each E")] {
        let options = [options, &["--repetitions", "2"]].concat();
        let figure = [&options[..], &["--figure", "cost.svg"]].concat();
        let (_, drawn) = planned(folder.path(), &figure);
        assert!((3..=16).contains(&drawn.len()), "{drawn:?}");
        for (local_steps, cost) in drawn {
            let only = local_steps.to_string();
            let (found, _) =
                planned(folder.path(), &[&options, &["--local-steps", &only][..]].concat());
            assert!(cost <= 1.05 * found && cost >= 0.95 * found, "E = {only}: {cost}, {found}");
        }
        let svg = std::fs::read_to_string(folder.path().join("cost.svg")).unwrap();
        assert_eq!(names(&svg)[0], line);
    }
}

//! What a mistake is answered with, and how answers fit a screen.

mod binary;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SPEC: &str = r#"
rounds = 4
repetitions = 2
[problem]
weights = [0.5, 0.5]
base = { kind = "gaussian", mean = [1.0, 4.0] }
response = { kind = "location", sensitivity = [0.5, 0.9] }
loss = { kind = "mean" }
[algorithm]
kind = "p-fedavg"
scheme = "with-replacement"
cohort = 1
step_size = { beta = 4.0, gamma = 20.0 }
"#;

const TABLE: &str = r#"
rounds = 4
[problem]
base = { kind = "table", path = "t.csv", label = "paid", partition = { column = "bank" } }
response = { kind = "none" }
loss = { kind = "logistic", l2 = 0.1 }
[algorithm]
kind = "p-fedavg"
scheme = "full"
step_size = { constant = 0.1 }
"#;

fn folder(spec: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spec.toml"), spec).unwrap();
    folder
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = binary::command(folder, args);
    command.env_remove("COLUMNS");
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

/// What is said to a mistake, which ends with exit code 2.
fn refused(folder: &Path, args: &[&str]) -> String {
    let output = run(folder, args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(!folder.join("fedback.db").exists(), "{args:?}");
    said
}

#[test]
fn slips_are_answered_with_what_was_meant() {
    let folder = folder(SPEC);
    for (assignment, guess) in [
        ("algorithm.scheme=without_replacement", "did you mean without-replacement?"),
        ("algorithm.E=5", "algorithm.E: unknown key; did you mean local_steps?"),
        ("algorithm.lr=5", "did you mean step_size?"),
        ("local_steps=5", "local_steps: unknown key; did you mean algorithm.local_steps?"),
        ("algorithm.every=5", "did you mean measure.every?"),
        ("algorithm.deploy=Step", "did you mean step?"),
        ("problem.rounds=5", "did you mean rounds?"),
    ] {
        let said = refused(folder.path(), &["run", "spec.toml", "--set", assignment]);
        assert!(said.contains(guess), "{assignment}: {said}");
    }
    let said = refused(folder.path(), &["--threads", "0", "run", "spec.toml"]);
    assert!(said.contains("--threads: found 0; allowed: 1 to"), "{said}");
}

#[test]
fn an_empty_key_of_a_sweep_is_answered_with_an_example() {
    let folder = folder(&format!("{SPEC}\n[sweep]\n\"\" = [{{ rounds = 5 }}]\n"));
    let said = refused(folder.path(), &["run", "spec.toml"]);
    assert!(said.contains("sweep.\"\": is empty; name a key"), "{said}");
}

#[test]
fn tables_with_semicolons_are_read_and_text_labels_explained() {
    let folder = folder(TABLE);
    let write = |text: &str| std::fs::write(folder.path().join("t.csv"), text).unwrap();
    write("bank;use;paid\na;1;0\na;2;1\nb;1.5;1\nb;3;0\n");
    let output = run(folder.path(), &["solve", "spec.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    write("bank,use,paid\na,1,no\na,2,yes\n");
    let said = refused(folder.path(), &["run", "spec.toml"]);
    assert!(said.contains("line 2, column \"paid\": found \"no\"; allowed: 0 or 1"), "{said}");
}

#[test]
fn a_store_in_pieces_is_called_damaged() {
    let folder = folder(SPEC);
    assert!(run(folder.path(), &["run", "spec.toml"]).status.success());
    let store = folder.path().join("fedback.db");
    let mut bytes = std::fs::read(&store).unwrap();
    bytes[4096..].fill(7);
    std::fs::write(&store, bytes).unwrap();
    let output = run(folder.path(), &["runs"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is damaged") && said.contains("backup"), "{said}");
}

/// Tables and paragraphs stay within the screen, whatever its width; numbers are the same.
#[test]
fn answers_fit_the_screen() {
    let sweep = "\n[measure]\nconsensus = true\n[sweep]\n\"algorithm.step_size\" = [\
                 { beta = 4.0, gamma = 20.0 }, { beta = 3.25, gamma = 17.5 }]\n";
    let folder = folder(&format!("{SPEC}{sweep}"));
    for args in [
        &["run", "spec.toml"][..],
        &["runs"],
        &["check", "spec.toml"],
        &["solve", "spec.toml"],
        &["bounds", "spec.toml"],
        &["compare", "1", "2"],
        &["exact", "spec.toml"],
    ] {
        for room in [60, 80, 200] {
            let mut command = command(folder.path(), args);
            let output = command.env("COLUMNS", room.to_string()).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success() && !text.is_empty(), "{args:?}");
            for line in text.lines() {
                assert!(line.chars().count() <= room, "{args:?} at {room}:\n{text}");
            }
        }
    }
}

/// What a command line is answered with is one line, as everything else is.
#[test]
fn a_wrong_command_line_is_answered_in_one_line() {
    let folder = folder(SPEC);
    for (args, what) in [
        (&["run", "spec.toml", "--bogus"][..], "unexpected argument '--bogus' found"),
        (&["rnu"], "tip: a similar subcommand exists: 'run"),
        (&["run"], "were not provided: <SPEC>; usage: fedback run <SPEC>"),
    ] {
        let output = command(folder.path(), args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.starts_with("error: ") && said.contains(what), "{said}");
    }
}

#[test]
fn columns_are_named_under_their_keys() {
    let folder = folder(TABLE);
    let rows = "bank,age,one,paid\na,31,1,0\na,47,1,1\nb,25,1,1\nb,52,1,0\n";
    std::fs::write(folder.path().join("t.csv"), rows).unwrap();
    for (set, what) in [
        ("measure.group=agee", "spec.toml: measure.group: "),
        ("measure.group=agee", "no group column \"agee\"; did you mean \"age\"? columns: bank"),
        ("problem.base.label=payed", "spec.toml: problem.base.label: "),
        ("problem.base.ignore=[\"x\"]", "spec.toml: problem.base.ignore: "),
        (
            "problem.base.standardize=true",
            "leave it out with ignore = [\"one\"], or do not standardise",
        ),
    ] {
        let args = ["run", "spec.toml", "--store", "none", "--set", set];
        let output = command(folder.path(), &args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(what), "{set}: {said}");
    }
}

#[test]
fn what_was_read_fits_the_screen() {
    let folder = folder(TABLE);
    let rows = "bank,age,income,paid\na,31,12,0\na,47,11,1\nb,25,14,1\nb,52,13,0\n";
    std::fs::write(folder.path().join("t.csv"), rows).unwrap();
    let set = ["--set", "problem.base.standardize=true"];
    let args = [&["run", "spec.toml", "--store", "none"][..], &set].concat();
    let mut run = command(folder.path(), &args);
    let output = run.env("COLUMNS", "80").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("read t.csv: 4 of 4 rows") && said.lines().count() > 1, "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}

#[test]
fn a_plan_out_of_reach_says_why_once_and_draws_nothing() {
    let folder = folder(SPEC);
    let args = ["plan", "spec.toml", "--accuracy", "1e-9", "--budget", "1000", "--figure", "f.svg"];
    let output = command(folder.path(), &args).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("is out of reach") && !printed.contains("budget"), "{printed}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("the budget of 1000 steps is too small").count(), 1, "{said}");
    assert!(!folder.path().join("f.svg").exists());
}

/// Exact values beside a run are left out where they would take minutes, and that is said.
#[test]
fn an_exact_curve_that_takes_long_is_left_out() {
    let folder = folder(SPEC);
    let long = ["--set", "algorithm.kind=scaffold", "--set", "rounds=100000000"];
    let long = [&long[..], &["--set", "measure.every=10000000"]].concat();
    let args = [&["run", "spec.toml", "--store", "none"][..], &long].concat();
    let mut run = command(folder.path(), &args);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(run.stderr.take().unwrap()).read_line(&mut said).unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(said.contains("exact values are left out beside this run"), "{said}");
}

const ROWS: &str = "age,use,bank,group,paid\n\
                    30,0.2,a,m,0\n40,0.5,a,f,1\n50,0.9,b,m,1\n60,0.1,b,f,0\n45,0.3,a,m,1\n";

/// A response, the key that it is refused under, and what is said besides.
const RESPONSES: [(&str, &str, &str); 28] = [
    ("kind='retention', by='client', rate=-1.0", "rate", "found -1 for client 0; allowed: 0 or"),
    ("kind='retention', by='client', rate=[1.0, -2.0]", "rate", "found -2 for client 1"),
    ("kind='retention', by='client', rate=[[1.0, 2.0], 1.0]", "rate", "allowed: a number per"),
    (
        "kind='retention', by='clients', rate=1.0",
        "by",
        "\"client\", \"label\", \"row\" or { column",
    ),
    ("kind='retention', by={ column = 'groop' }, rate=1.0", "by", "did you mean \"group\"?"),
    ("kind='retention', by='label', rate=1.0, floor=1.0", "floor", "0 or more and below 1"),
    ("kind='retention', by='label', rate=1.0, floor=-0.1", "floor", "found -0.1"),
    ("kind='retention', by='client', rate=1.0, weights='fixed'", "weights", "leave it out"),
    ("kind='retention', by='row', rate=1.0, weights='flow'", "weights", "did you mean follow?"),
    ("kind='retention', by='row', rate=1.0, law='logistic'", "tolerance", "at which half stay"),
    ("kind='retention', by='row', rate=1.0, tolerance=0.5", "tolerance", "law = \"logistic\""),
    ("kind='retention', by='row', rate=1.0, memory=0.3", "memory", "unknown key"),
    ("kind='strategic', features=['use'], wants='positive'", "budget", "or gain and cost"),
    ("kind='strategic', features=['use'], wants='less', budget=1.0", "wants", "negative"),
    ("kind='strategic', features=['used'], wants='positive', budget=1.0", "features", "age, use"),
    ("kind='strategic', features=[], wants='positive', budget=1.0", "features", "is empty"),
    ("kind='strategic', features=['use'], wants='positive', budget=-1.0", "budget", "found -1.0"),
    (
        "kind='strategic', features=['use'], wants='positive', budget=1.0, share=1.5",
        "share",
        "found 1.5; allowed: between 0 and 1",
    ),
    (
        "kind='strategic', features=['use'], wants='positive', budget=1.0, smoothing=-1.0",
        "smoothing",
        "found -1.0",
    ),
    ("kind='strategic', features=['use'], wants='positive', gain=1.0", "cost", "beside gain"),
    (
        "kind='strategic', features=['use'], wants='positive', gain=1.0, cost=0.0",
        "cost",
        "allowed: above 0",
    ),
    ("kind='outcome', strength=1.5", "strength", "found 1.5 for client 0; allowed: between -1"),
    ("kind='outcome', strength={ average = [0.1, 0.2], variance = 0.0 }", "strength", "per client"),
    ("kind='saturating', sensitivity=0.5, limit=0.0", "limit", "found 0; allowed: above 0"),
    (
        "kind='best-response', features=['use'], sensitivity=0.5, range={ use = [0.2, 1.0] }",
        "range",
        "use: found [0.2, 1], but rows have 0.1 to 0.9; allowed: a range that has them all",
    ),
    (
        "kind='best-response', features=['use'], sensitivity=0.5, range={ use = [1.0, 0.0] }",
        "range",
        "use: found [1, 0]; allowed: a smaller and a larger number",
    ),
    (
        "kind='location', sensitivity=0.5, range={ used = [0.0, 1.0] }",
        "range",
        "features: age, use",
    ),
    ("kind='location', sensitivity=0.5, range=[0.0, 1.0]", "range", "{ utilisation = [0.0, 1.0] }"),
];

#[test]
fn responses_that_make_no_sense_are_refused_by_name() {
    let spec =
        TABLE.replace("{ column = \"bank\" }", "{ column = \"bank\" }, ignore = [\"group\"]");
    let folder = folder(&spec);
    std::fs::write(folder.path().join("t.csv"), ROWS).unwrap();
    // Bounds are said in the units of the file, whatever it is standardised by.
    for standardize in ["false", "true"] {
        for (response, key, part) in RESPONSES {
            let response = format!("problem.response={{ {} }}", response.replace('\'', "\""));
            let standardize = format!("problem.base.standardize={standardize}");
            for verb in ["run", "solve"] {
                let args = [verb, "spec.toml", "--set", &response, "--set", &standardize];
                let said = refused(folder.path(), &args);
                let named = format!("error: spec.toml: problem.response.{key}: ");
                let named = said.starts_with(&named) && said.lines().count() == 1;
                assert!(named && said.contains(part), "{response}: {said}");
            }
        }
    }
}

#[test]
fn responses_that_data_have_nothing_for_are_refused() {
    let folder = folder(SPEC);
    std::fs::write(folder.path().join("t.csv"), ROWS).unwrap();
    std::fs::write(folder.path().join("table.toml"), TABLE).unwrap();
    let ignore = "problem.base.ignore=[\"group\"]";
    for (response, part) in [
        (
            "kind='retention', by='label', rate=1.0",
            "by: found \"label\"; normal data have no labels",
        ),
        ("kind='retention', by='row', rate=1.0", "by: found \"row\"; normal data have no labels"),
        ("kind='strategic', features=['x'], wants='positive', budget=1.0", "kind: strategic names"),
        ("kind='outcome', strength=0.5", "kind: \"outcome\" is about labels"),
        ("kind='location', sensitivity=0.5, range={ x = [0.0, 1.0] }", "range: names columns"),
    ] {
        let response = format!("problem.response={{ {} }}", response.replace('\'', "\""));
        let said = refused(folder.path(), &["run", "spec.toml", "--set", &response]);
        assert!(said.contains(&format!("problem.response.{part}")), "{response}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for (response, part) in [
        (
            "kind='retention', by='label', rate=1.0",
            "by: found \"label\"; the loss \"mean\" looks at",
        ),
        (
            "kind='strategic', features=['use'], wants='positive', budget=1.0",
            "losses: squared, log",
        ),
        ("kind='outcome', strength=0.5", "losses: squared, logistic"),
    ] {
        let response = format!("problem.response={{ {} }}", response.replace('\'', "\""));
        let loss = "problem.loss={ kind = \"mean\" }";
        let sets = ["--set", &response, "--set", ignore, "--set", loss];
        let said = refused(folder.path(), &[&["run", "table.toml"], &sets[..]].concat());
        assert!(said.contains(part), "{response}: {said}");
    }
}

/// A row of which it is not known what it leaves with is like one without a label.
#[test]
fn what_leaves_together_is_known_of_every_row() {
    let folder = folder(TABLE);
    let some = ROWS.replace("60,0.1,b,f,0", "60,0.1,b,,0");
    std::fs::write(folder.path().join("t.csv"), some).unwrap();
    let sets = [
        "--set",
        "problem.base.ignore=[\"group\"]",
        "--set",
        "problem.response={ kind = \"retention\", by = { column = \"group\" }, rate = 1.0 }",
    ];
    let said = refused(folder.path(), &[&["run", "spec.toml"], &sets[..]].concat());
    let names = ["t.csv: line 5, column \"group\": the cell is missing", "missing = \"drop\""];
    assert!(names.iter().all(|name| said.contains(name)), "{said}");
    for missing in ["drop", "mean"] {
        let missing = format!("problem.base.missing={missing}");
        let args = [&["run", "spec.toml", "--set", &missing], &sets[..]].concat();
        let output = run(folder.path(), &args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("read t.csv: 4 of 5 rows are learned from"), "{said}");
    }
}

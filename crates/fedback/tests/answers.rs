//! The same answers: what theory says of small specs of all kinds, compared with what was recorded.
//!
//! `answers/NAME.json` has what `exact`, `solve`, `bounds`, `check` and `plan` say of
//! `answers/NAME.toml` with `--json`, words left out and the exit code added; `plan` is asked where
//! there are `plan_options`. `answers/difference.rs` says how near a number must come.
//!
//! With `FEDBACK_RENEW_ANSWERS=1` in the environment the files are written anew; read the difference
//! before you commit it. `FEDBACK_BINARY` names another binary to ask, such as one of an earlier
//! commit.

mod binary;
#[path = "answers/difference.rs"]
mod difference;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use difference::{Difference, differences};

/// Stored answers that are known to be wrong: the spec, the path at or below which they are, the
/// reason.
const ALLOWED: [(&str, &str, &str); 2] = [
    (
        "plane-iterates",
        "plan",
        "averaged models of unequal weights are rescaled by every round, however small its steps: what \
         was promised was left in the end",
    ),
    (
        "line-slow",
        "check.own_steps.rounds",
        "more rounds are followed before the power law takes over: the tenth digit of 5.75e14 rounds",
    ),
];

/// Keys whose values are sentences, or are not the same twice.
const LEFT_OUT: [&str; 8] =
    ["reason", "why", "how", "tips", "words", "undefined", "objection", "seconds"];

/// What a plan says that does not depend on the setting it has found, and what that costs.
const KEPT_OF_PLAN: [&str; 12] = [
    "exit",
    "total_time",
    "accuracy",
    "planned_for",
    "start_distance_sq",
    "communication_cost",
    "straggler",
    "latency",
    "budget",
    "binding",
    "own_setting",
    "search_cut",
];

/// Enough for a simulation to show whether a plan holds.
const REPETITIONS: &str = "200";

fn folder() -> PathBuf {
    binary::beside("answers")
}

/// The names of all specs.
fn specs() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let specs = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let mut names: Vec<String> =
        specs.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// What is stored of a spec; nothing where it is new.
fn stored(spec: &str) -> Map<String, Value> {
    let text = std::fs::read_to_string(folder().join(format!("{spec}.json")));
    text.map_or_else(|_| Map::new(), |text| serde_json::from_str(&text).unwrap())
}

/// What the command prints, with its exit code.
fn ask(command: &str, spec: &str, options: &[String]) -> Value {
    let file = format!("{spec}.toml");
    let mut asked = binary::command(&folder(), &[command, &file, "--json", "--quiet"]);
    let output = asked.args(options).output().unwrap();
    let mut answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| json!({}));
    answer["exit"] = output.status.code().into();
    answer
}

fn without_words(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
            kept.map(|(key, value)| (key.clone(), without_words(value))).collect()
        }
        Value::Array(entries) => entries.iter().map(without_words).collect(),
        other => other.clone(),
    }
}

/// The command line's options of a plan: `{"accuracy": 0.1}` is `--accuracy 0.1`.
fn options(stored: &Map<String, Value>) -> Option<Vec<String>> {
    let options = stored.get("plan_options")?.as_object().unwrap();
    let written = options.iter().flat_map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        [format!("--{}", key.replace('_', "-")), value]
    });
    Some(written.chain(["--repetitions".to_owned(), REPETITIONS.to_owned()]).collect())
}

/// What is stored of a plan.
fn of_plan(answer: &Value) -> Value {
    let mut kept = answer.clone();
    if let Value::Object(fields) = &mut kept {
        fields.retain(|key, _| KEPT_OF_PLAN.contains(&key.as_str()));
    }
    kept["exact"] = answer["predicted"]["exact"].clone();
    kept["holds"] = answer["verified"]["holds"].clone();
    without_words(&kept)
}

fn renewing() -> bool {
    std::env::var_os("FEDBACK_RENEW_ANSWERS").is_some_and(|value| value == "1")
}

/// Stores an answer, a line for each command.
fn renew(spec: &str, command: &str, answer: Value) {
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = stored(spec);
    all.insert(command.to_owned(), answer);
    let order = ["plan_options", "exact", "solve", "bounds", "check", "plan"];
    let lines = order.iter().filter_map(|key| Some(format!("\"{key}\": {}", all.get(*key)?)));
    let text = format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"));
    std::fs::write(folder().join(format!("{spec}.json")), text).unwrap();
}

/// The differences between a found answer and the stored one, or the found one stored.
fn compared(spec: &str, command: &str, found: Value) -> Vec<Difference> {
    if renewing() {
        renew(spec, command, found);
        return Vec::new();
    }
    differences(spec, command, stored(spec).get(command), &found)
}

/// Fails unless all differences are allowed, and all that is allowed differs.
fn judge(command: &str, differences: Vec<Difference>) {
    let covers = |(spec, path, _): &(&str, &str, &str), difference: &Difference| {
        let below = difference.path.strip_prefix(path);
        difference.spec == *spec
            && below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let wrong = differences.iter().filter(|d| !ALLOWED.iter().any(|allowed| covers(allowed, d)));
    let mut wrong: Vec<String> = wrong.map(Difference::to_string).collect();
    let about = ALLOWED.iter().filter(|(_, path, _)| path.split('.').next() == Some(command));
    let idle = about.filter(|allowed| !differences.iter().any(|d| covers(allowed, d)));
    wrong.extend(
        idle.map(|(spec, path, _)| format!("{spec}: {path}: allowed to differ, but does not")),
    );
    assert!(wrong.is_empty() || renewing(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn answers_are_the_stored_ones(command: &str) {
    let answer = |spec: &String| compared(spec, command, without_words(&ask(command, spec, &[])));
    judge(command, specs().iter().flat_map(answer).collect());
}

#[test]
fn exact_answers_as_it_did() {
    answers_are_the_stored_ones("exact");
}

#[test]
fn solve_answers_as_it_did() {
    answers_are_the_stored_ones("solve");
}

#[test]
fn bounds_answers_as_it_did() {
    answers_are_the_stored_ones("bounds");
}

#[test]
fn check_answers_as_it_did() {
    answers_are_the_stored_ones("check");
}

/// A plan may be cheaper than it was, and must reach what it was asked for.
#[test]
fn plan_is_no_dearer_than_it_was() {
    let mut found = Vec::new();
    for spec in specs() {
        let Some(options) = options(&stored(&spec)) else { continue };
        let answer = ask("plan", &spec, &options);
        found.extend(compared(&spec, "plan", of_plan(&answer)));
        let (worst, accuracy) = (&answer["predicted"]["worst_after"], &answer["accuracy"]);
        if worst.as_f64() > accuracy.as_f64() {
            found.push(Difference::new(&spec, "plan.predicted.worst_after", accuracy, worst));
        }
    }
    judge("plan", found);
}

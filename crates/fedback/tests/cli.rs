//! The command as a user runs it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use fedback::lab::store::{RunId, Store};
use serde_json::Value;

const GAUSSIAN: &str = r#"
format = 1
name = "sites"
seed = 5
repetitions = 6
rounds = 40
[problem]
weights = [0.5, 0.3, 0.2]
[problem.base]
kind = "gaussian"
mean = [1.0, -2.0, 4.0]
[problem.response]
kind = "location"
sensitivity = [0.5, 0.9, -1.5]
[problem.loss]
kind = "mean"
[algorithm]
kind = "p-fedavg"
scheme = "with-replacement"
cohort = 2
local_steps = 3
step_size = { beta = 4.0, gamma = 20.0 }
[measure]
every = 10
consensus = true
"#;

/// The first two of three clients to arrive.
const FIRST: &str = r#"
seed = 7
rounds = 40
repetitions = 6

[problem]
weights = [0.5, 0.3, 0.2]
base = { kind = "gaussian", mean = [1.0, -2.0, 4.0] }
response = { kind = "location", sensitivity = [0.5, 0.9, -1.5] }
loss = { kind = "mean" }

[algorithm]
kind = "p-fedavg"
scheme = "first-arrivals"
cohort = 2
step_size = { beta = 4.0, gamma = 20.0 }
latency = { kind = "exponential", mean = 1.0 }
"#;

const TABLE: &str = r#"
rounds = 20
[problem]
[problem.base]
kind = "table"
path = "people.csv"
label = "default"
partition = { column = "bank" }
standardize = true
intercept = true
[problem.response]
kind = "best-response"
features = ["use"]
sensitivity = { low = 0.5, high = 1.5 }
[problem.loss]
kind = "logistic"
l2 = 0.05
[algorithm]
kind = "p-fedavg"
scheme = "full"
step_size = { constant = 0.2 }
[measure]
accuracy = true
auc = true
client_risk = true
"#;

fn people() -> String {
    let row = |k: usize| {
        let (bank, usage, age) = (["b", "a", "c"][k % 3], k * 37 % 101, 20 + k * 13 % 50);
        format!("{bank},{usage},{age},{}\n", u8::from(usage + k % 40 > 70))
    };
    (0..60).map(row).fold("bank,use,age,default\n".into(), |text, row| text + &row)
}

/// A folder with a spec, a table and nothing else.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(spec: &str) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        std::fs::write(folder.path().join("spec.toml"), spec).unwrap();
        std::fs::write(folder.path().join("people.csv"), people()).unwrap();
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedback"));
        // No cache: what a user has fetched must not decide what a test sees.
        let cache = self.path().join("no-cache");
        command.args(args).current_dir(self.path()).env("XDG_CACHE_HOME", cache);
        command.env_remove("COLUMNS");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Without what may differ between two runs of the same plan.
fn bits(mut json: Value) -> String {
    let object = json.as_object_mut().unwrap();
    object.remove("seconds");
    object.remove("resumed_from");
    json.to_string()
}

#[test]
fn a_replay_finds_every_bit_that_changed() {
    let folder = Folder::new(GAUSSIAN);
    let run = folder.json(&["run", "spec.toml", "--json"]);
    let mut again = folder.json(&["replay", "1", "--json"]);
    assert_eq!((&again["replayed"], &again["same"]), (&Value::from(1), &Value::from(true)));
    let object = again.as_object_mut().unwrap();
    object.remove("replayed");
    object.remove("same");
    assert_eq!(bits(again), bits(run.clone()));
    let said = folder.run(&["replay", "1"]);
    assert!(
        said.status.success()
            && text(&said.stdout).ends_with("run 1 again: the same, to the bit\n")
    );
    assert_eq!(folder.json(&["runs", "--json"]).as_array().unwrap().len(), 1);
    // One bit of one model in the file: the store is damaged, and nobody reads from it.
    let path = folder.path().join("fedback.db");
    let whole = std::fs::read(&path).unwrap();
    let theta = run["final_theta"][3][0].as_f64().unwrap().to_le_bytes();
    let place = whole.windows(8).position(|window| window == theta).unwrap();
    let mut flipped = whole.clone();
    flipped[place] ^= 1;
    std::fs::write(&path, flipped).unwrap();
    for ask in [
        &["replay", "1", "--json"][..],
        &["export", "1", "--format", "json"],
        &["compare", "1", "1"],
        &["runs"],
    ] {
        let output = folder.run(ask);
        assert_eq!(output.status.code(), Some(1), "{ask:?}");
        let said = text(&output.stderr);
        assert!(said.contains("fedback.db is damaged: run 1: its checkpoint"), "{said}");
        assert!(output.stdout.is_empty(), "{ask:?}");
    }
    // What was recorded so is no damage: there a replay finds it.
    std::fs::write(&path, whole).unwrap();
    let store = Store::open(&path).unwrap();
    let mut stored = store.load(RunId(1)).unwrap();
    let theta = &mut stored.checkpoint.as_mut().unwrap().server[3];
    *theta = f64::from_bits(theta.to_bits() ^ 1);
    store.remove(&[RunId(1)]).unwrap();
    store.insert(&stored).unwrap();
    let output = folder.run(&["replay", "1", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["same"], false);
    assert!(text(&output.stderr).contains("run 1 did not come out as it was recorded"));
    let unknown = folder.run(&["replay", "7"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn run_prints_the_contract() {
    let folder = Folder::new(GAUSSIAN);
    let json = folder.json(&["run", "spec.toml", "--json"]);
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    let expected = [
        "format",
        "name",
        "version",
        "seed",
        "set",
        "repetitions",
        "clients",
        "client_names",
        "dim",
        "coordinates",
        "stable_point",
        "curve",
        "exact",
        "final_theta",
        "seconds",
        "spec",
    ];
    assert_eq!(keys, expected);
    assert_eq!((&json["seed"], &json["spec"]["algorithm"]["cohort"]), (&5.into(), &2.into()));
    assert_eq!(json["exact"], folder.json(&["exact", "spec.toml", "--json"])["curve"]);
    let curve = json["curve"].as_array().unwrap();
    let rounds: Vec<u64> = curve.iter().map(|point| point["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [0, 10, 20, 30, 40]);
    assert_eq!(curve[2]["step"], 60);
    assert_eq!(curve[0]["consensus"]["mean"], 0.0);
    assert_eq!(curve[0]["distance_sq"]["sd"], 0.0);
    assert_eq!(json["final_theta"].as_array().unwrap().len(), 6);
    // θ^PS = Σ p m / (1 − Σ p ε) = 0.7 / 0.78.
    assert!((json["stable_point"][0].as_f64().unwrap() - 0.7 / 0.78).abs() < 1e-14);
    let exact = folder.json(&["exact", "spec.toml", "--json"]);
    assert!(exact.get("final_theta").is_none());
    assert!(exact["curve"][1]["risk"]["sd"].is_null());
    let solved = folder.json(&["solve", "spec.toml", "--json"]);
    assert_eq!(solved["stability"], "attracting");
    assert!((solved["minimisation_radius"].as_f64().unwrap() - 0.22).abs() < 1e-14);
    let runs = folder.json(&["runs", "--json"]);
    assert_eq!(runs[0]["state"], "done");
    assert_eq!((&runs[0]["id"], &runs[0]["round"]), (&1.into(), &40.into()));
}

#[test]
fn a_switched_off_measurement_is_left_out() {
    let folder = Folder::new(GAUSSIAN);
    let set = ["--set", "measure.risk=false", "--set", "measure.consensus=false", "--json"];
    let json = folder.json(&[&["run", "spec.toml", "--store", "none"], &set[..]].concat());
    let keys: Vec<&String> = json["curve"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["round", "step", "costs", "distance_sq"]);
    assert_eq!(folder.files(), ["people.csv", "spec.toml"]);
}

#[test]
fn tables_report_names_scores_and_clients() {
    let folder = Folder::new(TABLE);
    let json = folder.json(&["run", "spec.toml", "--json"]);
    assert_eq!(json["client_names"], serde_json::json!(["a", "b", "c"]));
    assert_eq!(json["coordinates"], serde_json::json!(["use", "age", "intercept"]));
    let last = json["curve"].as_array().unwrap().last().unwrap();
    assert!(last["accuracy"]["mean"].as_f64().unwrap() > 0.5);
    assert!((0.0..=1.0).contains(&last["auc"]["mean"].as_f64().unwrap()));
    let risks = last["client_risk"].as_array().unwrap();
    // Equal thirds of the rows: the risk is the mean of the clients' risks.
    let mean = risks.iter().map(|risk| risk["mean"].as_f64().unwrap()).sum::<f64>() / 3.0;
    assert!((mean - last["risk"]["mean"].as_f64().unwrap()).abs() < 1e-12);
    let refused = folder.run(&["exact", "spec.toml", "--json"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("logistic"));
    let arrays = folder.run(&["export", "1", "--format", "npz"]);
    assert_eq!(arrays.status.code(), Some(2));
    assert!(text(&arrays.stderr).contains("--out: is missing; arrays are written to a file"));
    assert!(folder.run(&["export", "1", "--format", "npz", "--out", "run.npz"]).status.success());
    // What is exported scores raw rows as the standardised model scores its own.
    let theta = folder.run(&["export", "1", "--format", "theta"]);
    let theta: Value = serde_json::from_slice(&theta.stdout).unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let (raw, constants) = (&theta["raw_units"], &theta["standardization"]);
    for (usage, age) in [(37.0, 33.0), (80.0, 21.0)] {
        let scaled =
            |x: f64, j: usize| (x - number(&constants["mean"][j])) / number(&constants["sd"][j]);
        let own = number(&theta["average"][0]) * scaled(usage, 0)
            + number(&theta["average"][1]) * scaled(age, 1)
            + number(&theta["average"][2]);
        let other = number(&raw["coefficients"][0]) * usage
            + number(&raw["coefficients"][1]) * age
            + number(&raw["constant"]);
        assert!((own - other).abs() < 1e-12);
    }
}

#[test]
fn sweeps_make_one_run_a_combination() {
    let folder = Folder::new(&format!(
        "{GAUSSIAN}\n[sweep]\n\"algorithm.local_steps\" = [1, 5]\nalgorithm = [\n  \
         {{ scheme = \"with-replacement\", cohort = 1 }},\n  \
         {{ scheme = \"without-replacement\", cohort = 3 }},\n]\n"
    ));
    let json = folder.json(&["run", "spec.toml", "--json"]);
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    assert_eq!(points[1]["set"]["algorithm.local_steps"], 1);
    assert_eq!(points[1]["set"]["algorithm"]["cohort"], 3);
    assert_eq!(points[3]["curve"][1]["step"], 50);
    assert_eq!(folder.json(&["runs", "--json"]).as_array().unwrap().len(), 4);
    let compared = folder.json(&["compare", "1", "3", "--json"]);
    assert_eq!(compared["runs"][1]["id"], 3);
    assert!(folder.files().contains(&"fedback-compare.svg".to_string()));
}

#[test]
fn another_kind_replaces_a_section() {
    let folder = Folder::new(GAUSSIAN);
    let set = "sweep.\"problem.response\"=[{kind=\"none\"},{kind=\"location\",sensitivity=0.5}]";
    let json = folder.json(&["solve", "spec.toml", "--json", "--set", set]);
    // Without a reaction the stable point is the weighted mean, 0.7.
    let stable = |k: usize| json["points"][k]["stable_point"][0].as_f64().unwrap();
    assert!((stable(0) - 0.7).abs() < 1e-14 && (stable(1) - 1.4).abs() < 1e-14);
}

#[test]
fn bounds_stand_side_by_side() {
    let folder = Folder::new(&GAUSSIAN.replace("-1.5", "-0.5"));
    let json = folder.json(&["bounds", "spec.toml", "--json"]);
    let keys = |version: &str| -> Vec<String> {
        json[version].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys("printed"), keys("corrected"));
    let number = |json: &Value, path: &str| json.pointer(path).unwrap().as_f64().unwrap();
    // Σ p|ε| = 0.62: δ is half of 1/0.62 − 1, and half of 0.38 is left.
    assert!((number(&json, "/delta") - 0.5 * (1.0 / 0.62 - 1.0)).abs() < 1e-14);
    assert!((number(&json, "/printed/mu_tilde") - 0.19).abs() < 1e-14);
    assert!(number(&json, "/printed/gamma") > number(&json, "/corrected/gamma"));
    assert!(json["printed"]["c9"].is_null());
    assert!(json["undefined"]["c9"].as_str().unwrap().contains("without replacement"));
    // T = υ/A − γ, 2⌊T/E⌋, T + C·T/E.
    let set = ["--accuracy", "0.5", "--communication-cost", "6", "--sigma", "2", "--delta", "0.1"];
    let json = folder.json(&[&["bounds", "spec.toml", "--json"], &set[..]].concat());
    assert_eq!(json["constants"]["sigma"]["origin"], "given");
    assert_eq!(json["delta"], 0.1);
    let at = |key: &str| number(&json, &format!("/corrected/{key}"));
    let cost = |key: &str| number(&json, &format!("/steps_to_accuracy/corrected/{key}"));
    assert_eq!(cost("steps"), at("upsilon") / 0.5 - at("gamma"));
    assert_eq!(cost("communications"), 2.0 * (cost("steps") / 3.0).floor());
    assert_eq!(cost("total_time"), cost("steps") + 6.0 * cost("steps") / 3.0);
    let table = Folder::new(TABLE);
    let json = table.json(&["bounds", "spec.toml", "--json"]);
    assert_eq!(json["constants"]["sigma"]["origin"], "estimated");
    assert!(json["delta"].is_null() && json["corrected"]["upsilon"].is_null());
    let report = text(&table.run(&["bounds", "spec.toml"]).stdout);
    assert!(report.contains("no delta is valid") && report.contains("no guarantee"), "{report}");
    let refused = folder.run(&["bounds", "spec.toml", "--mu", "-1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--mu"), "{}", text(&refused.stderr));
}

#[test]
fn a_store_that_vanishes_is_noticed_and_the_result_kept() {
    let folder = Folder::new(&GAUSSIAN.replace("rounds = 40", "rounds = 400000"));
    let mut command = folder.command(&["run", "spec.toml", "--json", "--quiet"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while round(&folder) == 0 {}
    std::fs::remove_file(folder.path().join("fedback.db")).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("fedback.db"), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["final_theta"].as_array().unwrap().len(), 6);
}

#[test]
fn threads_do_not_change_a_bit() {
    for spec in [GAUSSIAN, TABLE] {
        let folder = Folder::new(spec);
        let with = |threads| {
            bits(folder.json(&[
                "run",
                "spec.toml",
                "--json",
                "--threads",
                threads,
                "--store",
                "none",
            ]))
        };
        assert_eq!(with("1"), with("2"));
    }
}

/// Rounds closed by the only run of the folder's store, 0 while there is none.
fn round(folder: &Folder) -> u64 {
    folder.json(&["runs", "--json"])[0]["round"].as_u64().unwrap_or(0)
}

/// Starts a run and waits for its first checkpoint.
fn start(folder: &Folder) -> Child {
    let mut command = folder.command(&["run", "spec.toml"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while round(folder) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be disturbed");
    }
    child
}

#[cfg(unix)]
#[test]
fn killed_runs_resume_to_the_same_bits() {
    let long =
        GAUSSIAN.replace("rounds = 40", "rounds = 400000").replace("every = 10", "every = 999");
    let folder = Folder::new(&long);
    let mut child = start(&folder);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(folder.json(&["runs", "--json"])[0]["state"], "interrupted");
    let stopped = round(&folder);
    assert!(stopped > 0 && stopped < 400_000, "{stopped}");
    let resumed = folder.json(&["resume", "1", "--json"]);
    assert_eq!(resumed["resumed_from"].as_u64(), Some(stopped));
    let whole = folder.json(&["run", "spec.toml", "--json", "--store", "none"]);
    assert_eq!(bits(resumed), bits(whole.clone()));
    let exported = folder.run(&["export", "1", "--format", "json"]);
    assert_eq!(bits(serde_json::from_slice(&exported.stdout).unwrap()), bits(whole));
}

#[cfg(unix)]
#[test]
fn interrupted_runs_say_how_to_go_on() {
    let folder = Folder::new(&GAUSSIAN.replace("rounds = 40", "rounds = 40000000"));
    let mut child = start(&folder);
    let busy = folder.run(&["resume", "1"]);
    assert_eq!(busy.status.code(), Some(2), "{}", text(&busy.stderr));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let status = child.wait().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("fedback resume 1"), "{said}");
    assert_eq!(folder.json(&["runs", "--json"])[0]["state"], "interrupted");
}

#[test]
fn exactly_one_is_no_bad_input() {
    let folder = Folder::new(&GAUSSIAN.replace("[0.5, 0.9, -1.5]", "[1.0, 1.0, 1.0]"));
    let output = folder.run(&["run", "spec.toml", "--json"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("no stable point"));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["stable_point"].is_null() && json["curve"][1]["distance_sq"].is_null());
    assert_eq!(folder.json(&["solve", "spec.toml", "--json"])["stability"], "none");
}

#[test]
fn divergence_is_a_failure_with_a_cause() {
    let steps = "step_size = { constant = 40.0 }";
    let spec = GAUSSIAN.replace("step_size = { beta = 4.0, gamma = 20.0 }", steps);
    let folder = Folder::new(&spec.replace("rounds = 40", "rounds = 400"));
    let output = folder.run(&["run", "spec.toml", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("repetition 0") && said.contains("step size, 40"), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["final_theta"][0].is_null());
    assert_eq!(json["failed"].as_array().unwrap().len(), 6);
    assert_eq!(folder.json(&["runs", "--json"])[0]["state"], "failed");
}

/// Wrong input: what is changed in which spec, and what the message must name.
const WRONG: &[(&str, &str, &str, &[&str])] = &[
    (GAUSSIAN, "[0.5, 0.3, 0.2]", "[0.5, 0.3, 0.3]", &["problem.weights", "1.1"]),
    (GAUSSIAN, "[0.5, 0.3, 0.2]", "[0.9, 0.3, -0.2]", &["problem.weights", "-0.2"]),
    (GAUSSIAN, "[0.5, 0.3, 0.2]", "{ variance = 0.5 }", &["problem.weights", "0.2222"]),
    (GAUSSIAN, "cohort = 2", "cohort = 0", &["algorithm.cohort", "0", "1 or more"]),
    (GAUSSIAN, "cohort = 2\n", "", &["algorithm.cohort", "missing"]),
    (
        GAUSSIAN,
        "\"with-replacement\"\ncohort = 2",
        "\"without-replacement\"\ncohort = 4",
        &["algorithm.cohort", "4", "N = 3"],
    ),
    (GAUSSIAN, "\"with-replacement\"", "\"full\"", &["algorithm.cohort", "full"]),
    (GAUSSIAN, "\"with-replacement\"", "\"round-robin\"", &["algorithm.scheme", "round-robin"]),
    (
        GAUSSIAN,
        "cohort = 2",
        "cohort = 2\ncorrect = true",
        &["algorithm.correct", "first-arrivals"],
    ),
    (GAUSSIAN, "cohort = 2", "cohort = 2\ndeadline = 1.0", &["algorithm.deadline", "leave it out"]),
    (FIRST, "cohort = 2", "cohort = 4", &["algorithm.cohort", "4", "N = 3"]),
    (FIRST, "mean = 1.0 }", "mean = 0.0 }", &["algorithm.latency.mean", "client 0", "above 0"]),
    (FIRST, "mean = 1.0 }", "mean = [1.0, 2.0] }", &["algorithm.latency.mean", "2 entries", "3"]),
    (FIRST, "mean = 1.0 }", "median = 1.0 }", &["algorithm.latency.median", "unknown key"]),
    (FIRST, "\"exponential\", mean = 1.0", "\"uniform\"", &["algorithm.latency.kind", "lognormal"]),
    (
        FIRST,
        "\"exponential\", mean = 1.0",
        "\"trace\", path = \"no.csv\"",
        &["latency.path", "no.csv"],
    ),
    (
        FIRST,
        "\"exponential\", mean = 1.0",
        "\"trace\", path = \"people.csv\"",
        &["latency.path", "people.csv", "found the client \"bank\"", "0, 1, 2"],
    ),
    (FIRST, "cohort = 2", "cohort = 2\ndeadline = 0.0", &["algorithm.deadline", "above 0"]),
    (
        FIRST,
        "cohort = 2",
        "cohort = 2\naggregate = \"iterates\"",
        &["algorithm.aggregate", "deltas"],
    ),
    (FIRST, "cohort = 2", "cohort = 2\nscale_objectives = true", &["scale_objectives", "correct"]),
    (GAUSSIAN, "local_steps = 3", "local_steps = 0", &["algorithm.local_steps", "1 or more"]),
    (GAUSSIAN, "cohort = 2", "cohrot = 2", &["algorithm.cohrot", "did you mean cohort"]),
    (GAUSSIAN, "rounds = 40", "rounds = \"forty\"", &["rounds", "forty"]),
    (GAUSSIAN, "rounds = 40", "rounds = -4", &["rounds", "-4"]),
    (GAUSSIAN, "[1.0, -2.0, 4.0]", "[1.0, -2.0]", &["problem.base.mean", "2 entries", "3"]),
    (GAUSSIAN, "[1.0, -2.0, 4.0]", "[1.0, nan, 4.0]", &["problem.base.mean", "nan"]),
    (GAUSSIAN, "[0.5, 0.9, -1.5]", "[0.5, 0.9, inf]", &["problem.response.sensitivity", "inf"]),
    (GAUSSIAN, "mean = [", "noise = -1.0\nmean = [", &["problem.base.noise", "-1"]),
    (GAUSSIAN, "{ beta = 4.0, gamma = 20.0 }", "{ beta = 4.0 }", &["algorithm.step_size", "gamma"]),
    (GAUSSIAN, "{ beta = 4.0, gamma = 20.0 }", "0.1", &["algorithm.step_size", "constant"]),
    (GAUSSIAN, "format = 1", "format = 2", &["format", "2", "upgrade"]),
    (GAUSSIAN, "repetitions = 6", "repetitions = 1000000000000", &["repetitions", "GB"]),
    (GAUSSIAN, "cohort = 2", "cohort = 9223372036854775807", &["algorithm.cohort", "GB"]),
    (GAUSSIAN, "[measure]", "[sweep]\nformat = [1, 2]\n[measure]", &["sweep", "cannot be swept"]),
    (GAUSSIAN, "kind = \"mean\"", "kind = \"logistic\"", &["problem.loss.kind", "mean"]),
    (GAUSSIAN, "[measure]", "[measure]\nauc = true", &["measure.auc", "logistic"]),
    (TABLE, "people.csv", "nobody.csv", &["problem.base.path", "nobody.csv"]),
    (TABLE, "label = \"default\"", "label = \"loan\"", &["people.csv", "loan", "bank, use"]),
    (TABLE, "label = \"default\"\n", "", &["problem.base.label", "missing"]),
    (TABLE, "features = [\"use\"]", "features = [\"usage\"]", &["features", "usage"]),
    (TABLE, "{ column = \"bank\" }", "{ equal = 99 }", &["people.csv", "bank"]),
];

#[test]
fn wrong_specs_are_refused_and_nothing_is_written() {
    for (spec, from, to, parts) in WRONG {
        assert!(spec.contains(from), "{from}");
        let folder = Folder::new(&spec.replace(from, to));
        for command in ["run", "solve"] {
            let output = folder.run(&[command, "spec.toml", "--json"]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{to}: {said}");
            assert!(output.stdout.is_empty() && said.lines().count() == 1, "{to}: {said}");
            assert!(said.contains("spec.toml"), "{to}: {said}");
            assert!(parts.iter().all(|part| said.contains(part)), "{to}: {said}");
            assert_eq!(folder.files(), ["people.csv", "spec.toml"]);
        }
    }
}

#[test]
fn wrong_files_are_refused() {
    let folder = Folder::new("");
    std::fs::write(folder.path().join("binary.toml"), [0, 159, 146, 150]).unwrap();
    std::fs::create_dir(folder.path().join("dir.toml")).unwrap();
    for (spec, part) in [
        ("spec.toml", "empty"),
        ("binary.toml", "not text"),
        ("dir.toml", "directory"),
        ("missing.toml", "no such file"),
    ] {
        let output = folder.run(&["run", spec]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(spec) && said.contains(part), "{said}");
    }
    assert!(!folder.files().contains(&"fedback.db".to_string()));
    assert_eq!(folder.json(&["runs", "--json"]), serde_json::json!([]));
    assert_eq!(folder.run(&["resume", "7"]).status.code(), Some(2));
    assert!(!folder.files().contains(&"fedback.db".to_string()));
}

#[test]
fn wrong_tables_name_line_and_column() {
    for (rows, parts) in [
        ("bank,use,age,default\na,1,2,0\na,1,2\n", ["line 3", "3 cells"]),
        ("bank,use,age,default\na,1,2,0\nb,x,2,1\n", ["line 3", "\"use\""]),
        ("bank,use,age,default\na,1,2,0\nb,2,2,0\n", ["\"default\"", "both classes"]),
        ("bank,use,age,default\na,1,2,0\nb,2,,1\n", ["line 3", "missing = \"drop\""]),
    ] {
        let folder = Folder::new(TABLE);
        std::fs::write(folder.path().join("people.csv"), rows).unwrap();
        let output = folder.run(&["run", "spec.toml"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert_eq!(folder.files(), ["people.csv", "spec.toml"]);
    }
}

#[test]
fn a_store_from_a_newer_version_is_left_alone() {
    let folder = Folder::new(GAUSSIAN);
    folder.json(&["run", "spec.toml", "--json"]);
    let path = folder.path().join("fedback.db");
    let store = rusqlite::Connection::open(&path).unwrap();
    store.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let before = std::fs::read(&path).unwrap();
    for args in [&["run", "spec.toml"][..], &["runs"], &["resume", "1"]] {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("newer"), "{}", text(&output.stderr));
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn new_specs_run() {
    for kind in ["gaussian", "table"] {
        let folder = Folder::new("");
        assert!(folder.run(&["new", "fresh.toml", "--kind", kind]).status.success());
        let json = folder.json(&["run", "fresh.toml", "--set", "rounds=20", "--json"]);
        assert!(json["stable_point"].is_array());
        assert_eq!(folder.run(&["new", "fresh.toml", "--kind", kind]).status.code(), Some(2));
    }
}

#[test]
fn the_paper_is_reproduced_and_judged() {
    let folder = Folder::new("");
    let json = folder.json(&["reproduce", "--quick", "--json", "--out", "page"]);
    let verdict = |id: &str| {
        let verdicts = json["verdicts"].as_array().unwrap();
        let found = verdicts.iter().find(|verdict| verdict["id"] == id);
        found.unwrap_or_else(|| panic!("{id}"))["verdict"].as_str().unwrap().to_string()
    };
    for (id, expected) in [
        ("all-schemes-converge", "holds"),
        ("scheme-2-fastest", "does not hold"),
        ("scheme-2-beats-scheme-1", "holds"),
        ("schemes-alike", "holds only where"),
        ("larger-e-faster", "holds only where the run starts"),
        ("very-large-e-slower", "holds"),
        ("rounds-over-e", "does not hold"),
        ("scheme-1-improves-with-k", "holds"),
        ("scheme-2-not-monotone-in-k", "does not hold"),
        ("constant-step-fails", "holds"),
        ("scheme-2-fails-with-unequal-weights", "holds only where iterates"),
        ("rate-one-over-t", "holds"),
        ("bounds-hold", "holds"),
        ("small-e-when-communication-is-fast", "holds only where the run starts"),
        ("middle-e-when-communication-is-slow", "holds"),
        ("steps-grow-with-e", "holds only where the bound is meant"),
        ("b-almost-constant", "holds only where all clients"),
        ("steps-fall-with-k", "holds only where the bounds are corrected"),
    ] {
        assert!(verdict(id).starts_with(expected), "{id}: {}", verdict(id));
    }
    let endless = |reason: &str| reason.split(|c: char| !c.is_ascii_digit()).any(|n| n.len() > 8);
    for judged in json["verdicts"].as_array().unwrap() {
        assert!(!endless(judged["reason"].as_str().unwrap()), "{judged}");
    }
    let page = std::fs::read_to_string(folder.path().join("page/report.html")).unwrap();
    assert!(page.len() < 3_000_000 && !page.contains("NaN"));
    // Self-contained: the only addresses are those of XML namespaces, and the paper's.
    let addresses = page.matches("http").count() - page.matches("https://arxiv.org/abs/").count();
    assert_eq!(addresses, page.matches("http://www.w3.org/2000/svg").count());
    assert!(page.contains("Kun Jin, ") && page.contains(" · seed 7<"));
    let tally = &json["tally"];
    let holds = json["verdicts"].as_array().unwrap().iter().filter(|v| v["verdict"] == "holds");
    assert_eq!(tally["holds"], holds.count());
    assert!(page.contains(&format!("Of {} claims {} hold,", tally["claims"], tally["holds"])));
    assert_eq!(page.matches("<svg").count(), 12);
    let unknown = folder.run(&["reproduce", "figure-7"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("convergence"));
}

/// A verdict follows from the numbers: on another problem the same code says something else.
#[test]
fn verdicts_are_not_written_down() {
    use fedback::paper::figures::{figure, studied};
    use fedback::paper::study::Study;
    let constant_step = figure("constant-step").unwrap();
    let path = Path::new("../../experiments/paper/constant-step.toml");
    let mut document = fedback::lab::spec::Document::read(path).unwrap();
    // Clients that all react alike do not drift: a constant step then only leaves noise.
    for set in ["problem.response.sensitivity=0.9", "rounds=200", "repetitions=20"] {
        document.set(set).unwrap();
    }
    let plans = fedback::lab::experiment::Experiment::new(&document).unwrap().plans;
    let alike = plans.into_iter().map(|plan| {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let run = fedback::lab::runner::run(&plan, None, &mut [], &stop).unwrap();
        studied(plan, run).unwrap()
    });
    let name = "constant-step";
    let section = constant_step.section(&[Study { name, points: alike.collect() }]);
    assert!(!section.claims[0].reason.contains("larger part"), "{}", section.claims[0].reason);
}

#[test]
fn a_plan_is_checked_and_written_as_a_spec_that_runs() {
    let folder = Folder::new(GAUSSIAN);
    let ask = ["plan", "spec.toml", "--accuracy", "0.2", "--communication-cost", "10", "--json"];
    let json =
        folder.json(&[&ask[..], &["--output", "planned.toml", "--figure", "c.svg"]].concat());
    assert_eq!(json["verified"]["holds"], true, "{json}");
    assert!(json["predicted"]["worst_after"].as_f64().unwrap() <= 0.2);
    let planned = folder.json(&["run", "planned.toml", "--json", "--store", "none"]);
    let last = planned["curve"].as_array().unwrap().last().unwrap();
    assert_eq!(last["step"], json["steps"]);
    assert!(std::fs::read_to_string(folder.path().join("c.svg")).unwrap().contains("<svg"));
    let taken = folder.run(&[&ask[..], &["--output", "planned.toml"]].concat());
    assert_eq!(taken.status.code(), Some(2));
    let short = folder.run(&[&ask[..], &["--budget", "2"]].concat());
    assert_eq!(short.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&short.stdout).unwrap();
    assert_eq!(
        (&answer["steps"], &answer["binding"]["constraint"]),
        (&Value::Null, &"budget".into())
    );
    for wrong in [["--straggler", "2"], ["--latency", "slow"], ["--max-cohort", "9"]] {
        let refused = folder.run(&[&ask[..], &wrong[..]].concat());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(text(&refused.stderr).contains(wrong[0]), "{wrong:?}");
    }
}

#[test]
fn help_is_what_it_was() {
    let folder = Folder::new("");
    let mut pages = text(&folder.run(&["--help"]).stdout);
    for command in ["run", "resume", "export", "compare", "new"] {
        pages += &format!("\n---- {command}\n{}", text(&folder.run(&[command, "--help"]).stdout));
    }
    insta::assert_snapshot!(pages);
}

#[test]
fn reports_are_what_they_were() {
    let folder = Folder::new(GAUSSIAN);
    let masked = |args: &[&str]| {
        let shown = text(&folder.run(args).stdout);
        let keep = |line: &&str| !line.contains(" s, ");
        shown.lines().filter(keep).collect::<Vec<_>>().join("\n")
    };
    let pages = [
        masked(&["run", "spec.toml"]),
        masked(&["exact", "spec.toml"]),
        masked(&["solve", "spec.toml"]),
        masked(&["check", "spec.toml"]),
        masked(&["export", "1", "--format", "csv"]),
    ];
    insta::assert_snapshot!(pages.join("\n\n"));
}

/// Without latencies a spec can be planned, but not run in memory; what cannot be known is said.
#[test]
fn first_arrivals_need_latencies_in_memory() {
    let folder =
        Folder::new(&FIRST.replace("latency = { kind = \"exponential\", mean = 1.0 }", ""));
    for command in ["run", "exact"] {
        let output = folder.run(&[command, "spec.toml", "--json"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("spec.toml: algorithm.") && said.contains("latency"), "{said}");
        assert_eq!(folder.files(), ["people.csv", "spec.toml"]);
    }
    let solved = folder.json(&["solve", "spec.toml", "--json"]);
    assert!(solved["settles_at"].is_null() && solved["stable_point"].is_array());
    let checked = folder.json(&["check", "spec.toml", "--json"]);
    assert_eq!(checked["verdict"], "unknown");
    assert!(checked["reason"].as_str().unwrap().contains("algorithm.latency is missing"));
}

/// The theorems and the planner know nothing of speed.
#[test]
fn bounds_and_plan_refuse_first_arrivals() {
    let folder = Folder::new(FIRST);
    for arguments in [&["bounds", "spec.toml"][..], &["plan", "spec.toml", "--accuracy", "1"]] {
        let output = folder.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("spec.toml: algorithm.scheme") && said.contains("full"), "{said}");
    }
}

/// Recorded latencies: client 2 is always last, and never corrected for; the plan's hash knows the file.
#[test]
fn traces_decide_who_is_first() {
    let trace = "latency = { kind = \"trace\", path = \"seconds.csv\" }";
    let spec = FIRST.replace("latency = { kind = \"exponential\", mean = 1.0 }", trace);
    let folder = Folder::new(&spec);
    let record = |text: &str| std::fs::write(folder.path().join("seconds.csv"), text).unwrap();
    record("client,seconds\n0,1\n1,1\n2,5\n");
    let solved = folder.json(&["solve", "spec.toml", "--json"]);
    assert_eq!(solved["inclusion"], serde_json::json!([1.0, 1.0, 0.0]));
    let effective = solved["effective_weights"].as_array().unwrap();
    for (found, expected) in effective.iter().zip([0.625, 0.375, 0.0]) {
        assert!((found.as_f64().unwrap() - expected).abs() < 1e-15, "{solved}");
    }
    let output = folder.run(&["run", "spec.toml", "--set", "algorithm.correct=true"]);
    let said = text(&output.stderr);
    assert!(said.contains("client 2 is never among the first 2"), "{said}");
    assert!(folder.run(&["run", "spec.toml"]).status.success());
    let hash = |folder: &Folder| {
        let document =
            fedback::lab::spec::Document::read(&folder.path().join("spec.toml")).unwrap();
        fedback::lab::experiment::Experiment::new(&document).unwrap().plans[0].hash.clone()
    };
    let before = hash(&folder);
    record("client,seconds\n0,1\n1,1\n2,6\n");
    assert_ne!(hash(&folder), before);
}

#[test]
fn first_arrivals_are_solved_and_checked() {
    let slow = FIRST.replace("mean = 1.0 }", "mean = [1.0, 2.0, 8.0] }");
    let folder = Folder::new(&slow);
    insta::assert_snapshot!(text(&folder.run(&["solve", "spec.toml"]).stdout));
    insta::assert_snapshot!(text(&folder.run(&["check", "spec.toml"]).stdout));
}

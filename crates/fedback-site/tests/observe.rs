//! A site whose observations come from a program of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_site::forecast::forecast;
use fedback_site::message::{About, Order, Reply, Request};
use fedback_site::program::{Heard, Surroundings};
use fedback_site::refused::Refused;
use fedback_site::{Keeper, Ledger, Policy};
use serde_json::Value;

const SPEC: &str = r#"
format = 1
name = "loans"
seed = 7
repetitions = 2
rounds = 40

[problem]
clients = 2

[problem.base]
kind = "custom"
dim = 2

[problem.loss]
kind = "mean"

[algorithm]
kind = "p-fedavg"
scheme = "full"
local_steps = 2
batch = 15
deploy = "round"
step_size = { constant = 0.5 }
clip = 100.0

[measure]
distance = false
risk = false
"#;

const POLICY: &str = r#"
name = "oak"
clients = [1]
observe = ["python3", "program.py"]
socket = "oak.sock"
ledger = "oak.ledger"

[plan]
spec = "spec.toml"

[limits]
rows = 9
answers = 6
answers_in_all = 10
theta = 1000.0
"#;

/// A site in a folder of its own.
struct Site {
    folder: tempfile::TempDir,
    keeper: Keeper,
    about: About,
    heard: Receiver<String>,
    stop: Arc<AtomicBool>,
}

fn folder(spec: &str, policy: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let program = include_str!("observe/program.py");
    for (name, text) in [("spec.toml", spec), ("policy.toml", policy), ("program.py", program)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The policy of a folder, whose ledger is begun.
fn policy(folder: &Path) -> Policy {
    let policy = Policy::read(&folder.join("policy.toml")).unwrap();
    if !policy.ledger.exists() {
        Ledger::create(&policy.ledger, &policy.name, policy.id.as_deref()).unwrap();
    }
    policy
}

/// The hash of the plan, by way of the library.
fn hash(spec: &str) -> String {
    let document = fedback_lab::spec::Document::parse(spec, "spec.toml").unwrap();
    let point = document.points().unwrap().remove(0);
    fedback_lab::plan::Built::new(point, Path::new("."), "spec").unwrap().hash.clone()
}

fn site_of(spec: &str, text: &str) -> Site {
    let folder = folder(spec, text);
    let (tell, heard) = channel();
    let tell = Mutex::new(tell);
    let hear = Arc::new(move |event: Heard<'_>| {
        let text = match event {
            Heard::Started(process) => format!("started {process}"),
            Heard::Ended(how) => format!("ended {how}"),
            Heard::Line(line) => line.to_string(),
        };
        let _ = tell.lock().unwrap().send(text);
    });
    let stop = Arc::new(AtomicBool::new(false));
    let around = Surroundings { stop: stop.clone(), hear };
    let keeper = Keeper::open_in(policy(folder.path()), around).unwrap();
    let about = About { plan_hash: hash(spec), ..About::default() };
    Site { folder, keeper, about, heard, stop }
}

fn site() -> Site {
    site_of(SPEC, POLICY)
}

impl Site {
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// What the program was asked so far.
    fn asked(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("asked.txt"));
        text.unwrap_or_default().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn order(&self, round: u64, theta: [f64; 2]) -> Order {
        Order {
            about: self.about.clone(),
            round,
            seed: 7,
            thetas: theta.to_vec(),
            broadcast: 2,
            repetitions: vec![0],
            clients: vec![1],
            kept: vec![],
            keeps: 0,
        }
    }

    fn send(&mut self, order: Order) -> Result<Vec<f64>, Refused> {
        match self.keeper.answer(&Request::Order(order))? {
            Reply::Update { delta, .. } => Ok(delta),
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, round: u64, theta: [f64; 2]) -> Result<Vec<f64>, Refused> {
        self.send(self.order(round, theta))
    }

    /// Waits until something with these words is heard of the program; what it was.
    fn hears(&self, words: &str) -> String {
        self.heard.iter().find(|text| text.contains(words)).unwrap()
    }
}

fn cell(row: usize, column: usize) -> f64 {
    ((row * 7919 + column * 104_729) % 1009) as f64 / 16.0
}

/// Two steps of size 1/2 from a start towards the means of two batches of rows.
fn by_hand(first: usize, start: [f64; 2]) -> [f64; 2] {
    std::array::from_fn(|column| {
        let mean = |from: usize| (from..from + 15).map(|k| cell(k, column)).sum::<f64>() / 15.0;
        let one = start[column] + 0.5 * (mean(first) - start[column]);
        one + 0.5 * (mean(first + 15) - one) - start[column]
    })
}

fn close(found: &[f64], wanted: [f64; 2]) -> bool {
    found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-12)
}

#[test]
fn a_program_is_asked_once_and_what_it_returns_is_worked_with() {
    let mut site = site();
    let delta = site.ask(0, [1.0, 2.0]).unwrap();
    assert!(close(&delta, by_hand(0, [1.0, 2.0])), "{delta:?}");
    let stream = Streams::new(Seed(7), 0, 0, Purpose::Data).client(1);
    let question = serde_json::json!({
        "kind": "observe", "client": 1, "draw": 0, "count": 30, "features": 2, "labels": "none",
        "theta": [1.0, 2.0], "key": [stream.word(0), stream.word(1)],
    });
    assert_eq!(site.asked(), [question]);
    // The same order again is answered from the ledger, another model is not.
    assert_eq!(site.ask(0, [1.0, 2.0]).unwrap(), delta);
    let refused = site.ask(0, [1.0, 2.5]).unwrap_err().reason;
    assert!(refused.contains("was answered for another model"), "{refused}");
    assert_eq!((site.asked().len(), site.keeper.ledger().entries()), (1, 1));
}

#[test]
fn a_model_that_is_deployed_at_every_step_is_observed_at_every_step() {
    let spec = SPEC.replace("deploy = \"round\"", "deploy = \"step\"");
    let mut site = site_of(&spec, POLICY);
    let delta = site.ask(0, [1.0, 2.0]).unwrap();
    assert!(close(&delta, by_hand(0, [1.0, 2.0])), "{delta:?}");
    let asked = site.asked();
    let draws: Vec<&Value> = asked.iter().map(|question| &question["draw"]).collect();
    assert_eq!(draws, [0, 1]);
    assert_eq!(asked[0]["key"], asked[1]["key"]);
    assert_ne!(asked[0]["theta"], asked[1]["theta"]);
}

/// What is told only once the rows are known tells something of them: it counts, and is told once.
#[test]
fn few_rows_are_not_shown_and_the_refusal_is_counted() {
    let mut site = site();
    site.write("mode", "few");
    let refused = site.ask(0, [1.0, 2.0]).unwrap_err().reason;
    assert_eq!(refused, "client 1: a step would rest on fewer than 9 different rows");
    site.write("mode", "");
    let refused = site.ask(0, [1.0, 2.0]).unwrap_err().reason;
    assert!(
        refused.ends_with("was refused before, for the rows that it would rest on"),
        "{refused}"
    );
    assert!(site.ask(0, [1.0, 2.5]).is_err());
    assert_eq!((site.asked().len(), site.keeper.ledger().entries()), (1, 1));
    assert_eq!(site.keeper.ledger().spent(1).in_all, 1);
    // What it would have rested on was not shown, and may be.
    site.write("next", "0");
    site.ask(1, [1.0, 2.0]).unwrap();
}

#[test]
fn rows_of_earlier_steps_are_not_shown_again() {
    let mut site = site();
    site.ask(0, [1.0, 2.0]).unwrap();
    // Steps of rows 4 to 18 and 19 to 33: the first shares all but eight with rows 0 to 14.
    site.write("next", "4");
    let refused = site.ask(1, [1.0, 2.0]).unwrap_err().reason;
    assert!(
        refused.contains("but for fewer than 9, which their difference would show"),
        "{refused}"
    );
    // Five others on either side are enough.
    site.write("next", "5");
    site.ask(2, [1.0, 2.0]).unwrap();
    site.write("next", "0");
    let same = site.ask(3, [3.0, 2.0]).unwrap_err().reason;
    assert!(same.contains("which their difference would show"), "{same}");
}

#[test]
fn an_order_is_admitted_as_a_whole() {
    let mut site = site();
    let both = |site: &Site, round: u64| {
        let order = site.order(round, [1.0, 2.0]);
        Order {
            thetas: vec![1.0, 2.0, 3.0, 4.0],
            repetitions: vec![1, 0],
            clients: vec![1, 1],
            ..order
        }
    };
    // The second gets the rows of the first again.
    site.write("wrap", "30");
    assert!(site.send(both(&site, 0)).unwrap_err().reason.contains("difference would show"));
    assert_eq!(
        site.keeper.ledger().entries(),
        2,
        "both count: that the first was admitted is told"
    );
    let again = site.send(both(&site, 0)).unwrap_err().reason;
    assert!(again.ends_with("was refused before, for the rows that it would rest on"), "{again}");
    std::fs::remove_file(site.folder.path().join("wrap")).unwrap();
    site.write("next", "100");
    let delta = site.send(both(&site, 1)).unwrap();
    // Repetition 0 is observed first, and stands where it was asked for.
    assert!(close(&delta[..2], by_hand(130, [3.0, 4.0])), "{delta:?}");
    assert!(close(&delta[2..], by_hand(100, [1.0, 2.0])), "{delta:?}");
}

#[test]
fn nothing_is_observed_once_all_answers_are_given() {
    let mut site = site();
    (0..6).for_each(|round| drop(site.ask(round, [1.0, 2.0]).unwrap()));
    let refused = site.ask(6, [1.0, 2.0]).unwrap_err().reason;
    assert_eq!(refused, "client 1: all 6 answers of this plan are given");
    assert_eq!(site.asked().len(), 6);
}

#[test]
fn a_program_that_died_is_started_again() {
    let mut site = site();
    site.write("mode", "die once");
    let delta = site.ask(0, [1.0, 2.0]).unwrap();
    assert!(close(&delta, by_hand(0, [1.0, 2.0])), "{delta:?}");
    assert_eq!(site.asked().len(), 2);
    assert_eq!(site.hears("ended"), "ended exit status: 9");
    site.write("mode", "die");
    let refused = site.ask(1, [1.0, 2.0]).unwrap_err();
    assert_eq!(refused.reason, "the site could not observe; the site's log says why");
    let detail = refused.detail.unwrap();
    assert_eq!(detail, "the program of observe has ended: exit status: 9");
    assert_eq!(site.asked().len(), 4, "once more, and then no more");
    site.write("mode", "");
    site.ask(1, [1.0, 2.0]).unwrap();
}

#[test]
fn nonsense_is_refused_and_stays_at_the_site() {
    let binary = SPEC.replace("kind = \"mean\"", "kind = \"logistic\"\nl2 = 0.01");
    let cases = [
        (SPEC, "short", "features of <f8 and shape [29, 2]; needed: <f8 of shape [30, 2]"),
        (SPEC, "type", "features of <u8 and shape [30, 2]; needed: <f8 of shape [30, 2]"),
        (SPEC, "nan", "a number that is not finite"),
        (SPEC, "more", "2 arrays; needed: 1"),
        (SPEC, "none", "no features; needed: <f8 of shape [30, 2]"),
        (SPEC, "kind", "a frame whose kind is not observations or failure"),
        (SPEC, "text", "a header of 1864380977 bytes"),
        (&binary, "labels", "labels other than 0 and 1, which the loss needs"),
        (SPEC, "fail", "row 17 of jane doe"),
    ];
    for (spec, mode, why) in cases {
        let mut site = site_of(spec, POLICY);
        site.write("mode", mode);
        let Refused { reason, detail } = site.ask(0, [1.0, 2.0]).unwrap_err();
        assert_eq!(reason, "the site could not observe; the site's log says why");
        let detail = detail.unwrap();
        assert!(detail.ends_with(why), "{mode}: {detail}");
        assert_eq!(site.keeper.ledger().entries(), 0);
        site.write("mode", "");
        site.ask(0, [1.0, 2.0]).unwrap();
    }
}

#[test]
fn a_service_that_stops_does_not_wait_for_its_program_and_ends_it() {
    let mut site = site();
    let process = site.hears("started").replace("started ", "/proc/");
    assert!(Path::new(&process).exists());
    site.write("mode", "hang");
    let order = site.order(0, [1.0, 2.0]);
    let (keeper, stop) = (&mut site.keeper, &site.stop);
    let refused = std::thread::scope(|scope| {
        let asking = scope.spawn(|| keeper.answer(&Request::Order(order)).unwrap_err());
        // A line of its standard error: it has the question.
        assert!(site.heard.iter().any(|text| text == "was asked"));
        stop.store(true, Ordering::Relaxed);
        asking.join().unwrap()
    });
    assert_eq!(refused.detail.unwrap(), "the service stops");
    assert!(!Path::new(&process).exists());
    let mut site = self::site();
    let process = site.hears("started").replace("started ", "/proc/");
    site.ask(0, [1.0, 2.0]).unwrap();
    drop(site.keeper);
    assert!(!Path::new(&process).exists());
}

#[test]
fn a_policy_and_a_plan_that_do_not_go_together_are_refused_by_key() {
    let gaussian = SPEC.replace("kind = \"custom\"", "kind = \"gaussian\"\nmean = 1.0");
    let tables = SPEC.replace("kind = \"custom\"\ndim = 2", "kind = \"sites\"\nfeatures = [\"x\"]");
    let loss = SPEC.replace("kind = \"mean\"", "kind = \"custom\"");
    let observe = "observe = [\"python3\", \"program.py\"]";
    let without = POLICY.replace(observe, "");
    let elsewhere = POLICY.replace("\"python3\"", "\"./nowhere\"");
    let cases = [
        (&gaussian[..], POLICY, "observe: the plan has populations of its own: leave observe out"),
        (&tables, POLICY, "observe: the plan is about tables that lie at sites: give data"),
        (
            &loss,
            POLICY,
            "observe: the plan's loss is \"custom\"; a site's service knows those that",
        ),
        (SPEC, &elsewhere, "nowhere\", which cannot be started: No such file"),
    ];
    for (spec, text, why) in cases {
        let folder = folder(spec, text);
        let found = Keeper::open(policy(folder.path())).err().unwrap().to_string();
        assert!(found.contains(why) && found.contains("policy.toml"), "{found}");
        if !why.contains("started") {
            let found = forecast(&policy(folder.path())).unwrap_err().to_string();
            assert!(found.contains(why), "{found}");
        }
    }
    let folder = folder(SPEC, &without);
    let found = forecast(&policy(folder.path())).unwrap_err().to_string();
    assert!(found.contains("observe: is missing; the plan's observations come from"), "{found}");
    for (text, why) in [
        (POLICY.replace(observe, "observe = []"), "observe: found []; allowed: a program"),
        (POLICY.replace(observe, "observe = [\"\"]"), "observe: found [\"\"]; allowed: a program"),
        (POLICY.replace(observe, &format!("{observe}\ndata = \"x\"")), "observe: the rows come"),
        (POLICY.replace("[limits]", "columns = [\"x\"]\n[limits]"), "plan.columns: the rows come"),
    ] {
        let found = Policy::parse(&text, Path::new("policy.toml")).unwrap_err().to_string();
        assert!(found.contains(why), "{found}");
    }
}

#[test]
fn what_such_a_policy_shows_is_said_without_asking_the_program() {
    let spec = SPEC.replace("batch = 15", "batch = 1").replace("clip = 100.0\n", "");
    let text = POLICY.replace("[limits]", "vary = { seed = [0, 9] }\n[limits]");
    let folder = folder(&spec, &text);
    let found = forecast(&policy(folder.path())).unwrap();
    let shown = &found.clients[0];
    assert_eq!((shown.observed, shown.rows, shown.draws, found.numbers), (true, None, Some(1), 2));
    for why in [
        "client 1: a step is a row.",
        "client 1: a step has 1 observations, limits.rows is 9: every update will be refused",
        "the plan has no algorithm.clip",
        "the operator may choose the seed",
    ] {
        assert!(found.warnings.iter().any(|text| text.starts_with(why)), "{why}");
    }
    assert!(!folder.path().join("asked.txt").exists());
}

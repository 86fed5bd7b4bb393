//! A live run, recorded, interrupted, resumed and replayed, against the same run in memory.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fedback_core::federation::{ClientId, Federation};
use fedback_core::protocol::Protocol;
use fedback_core::state::Layout;
use fedback_core::stream::{Draws, Purpose, Seed, Stream, Streams};
use fedback_engine::live::{Arrival, LiveOrder, Sender, Settings, Transport, TransportError};
use fedback_engine::server::{Refusal, Update};
use fedback_engine::work::{Order, Scratch, Task, Work, step_sizes};
use fedback_lab::error::Error;
use fedback_lab::event::Ending;
use fedback_lab::experiment::{self, reopen, run_live};
use fedback_lab::measure::{Exactly, WithoutData};
use fedback_lab::outcome::Outcome;
use fedback_lab::plan::Plan;
use fedback_lab::recorded::RecordedRun;
use fedback_lab::runner::{self, LiveRun};
use fedback_lab::show::Shown;
use fedback_lab::spec::Document;
use fedback_lab::store::Store;
use serde_json::json;

const SPEC: &str = r#"
format = 1
name = "sites"
seed = 5
repetitions = 3
rounds = 12
[problem]
weights = [0.4, 0.3, 0.2, 0.1]
[problem.base]
kind = "gaussian"
dim = 2
mean = [1.0, -2.0, 4.0, 0.5]
[problem.response]
kind = "location"
sensitivity = [0.5, 0.9, -1.5, 0.1]
[problem.loss]
kind = "mean"
[algorithm]
kind = "p-fedavg"
scheme = "with-replacement"
cohort = 3
local_steps = 3
step_size = { beta = 4.0, gamma = 20.0 }
[measure]
every = 5
consensus = true
"#;

fn plan_of(kind: &str) -> Plan {
    let spec = SPEC.replace("kind = \"p-fedavg\"", kind);
    let document = Document::parse(&spec, "spec").unwrap();
    Plan::new(document.points().unwrap().remove(0), Path::new("."), "spec").unwrap()
}

fn plan() -> Plan {
    plan_of("kind = \"p-fedavg\"")
}

/// Every algorithm: what its server keeps, and what its clients do.
const KINDS: [&str; 5] = [
    "kind = \"p-fedavg\"",
    "kind = \"fedprox\"\nproximal = 0.7",
    "kind = \"scaffold\"",
    "kind = \"fedopt\"\nserver = { kind = \"momentum\", beta = 0.5 }",
    "kind = \"fedopt\"\nserver = { kind = \"adam\" }",
];

/// Clients in this process, which answer in any order. Some may be gone in some rounds; at some
/// moment somebody may ask to stop.
struct Loopback<'a> {
    federation: &'a Federation,
    protocol: Protocol,
    draws: Draws,
    on_the_way: Vec<Arrival>,
    gone: fn(u64, ClientId) -> bool,
    left: usize,
}

impl<'a> Loopback<'a> {
    fn new(plan: &'a Plan, gone: fn(u64, ClientId) -> bool, seed: u64, left: usize) -> Self {
        let draws = Stream::for_problem(Seed(seed), Purpose::Data).draws();
        let (federation, protocol) = (plan.federation(), plan.protocol);
        Loopback { federation, protocol, draws, on_the_way: Vec::new(), gone, left }
    }
}

impl Transport for Loopback<'_> {
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError> {
        let mut sizes = Vec::new();
        step_sizes(&self.protocol, order.round, &mut sizes);
        let work = Order { protocol: &self.protocol, step_sizes: &sizes };
        let dim = self.federation.dim();
        let layout = self.federation.layout(&self.protocol);
        let (sent, each) = (layout.broadcast(), layout.kept);
        let mut place = 0;
        self.on_the_way.clear();
        for own in order.asked.chunk_by(|a, b| a.client == b.client) {
            let client = own[0].client;
            if (self.gone)(order.round.0, client) {
                self.on_the_way.push(Arrival::Absent { client, reason: "gone".into() });
                place += own.len();
                continue;
            }
            for assignment in own {
                let repetition = assignment.repetition;
                let streams = Streams::new(order.seed, repetition, order.round.0, Purpose::Data);
                let broadcast = &order.broadcasts[repetition as usize * sent..][..sent];
                let task = Task { streams, broadcast, clients: &[client] };
                let mut delta = vec![0.0; dim];
                let mut kept = order.kept[place * each..][..each].to_vec();
                place += 1;
                let scratch = &mut Scratch::default();
                self.federation.work(&work, &[task], &mut delta, &mut kept, scratch).unwrap();
                let sender = Sender { round: order.round, repetition, client };
                let update = Update { delta, kept };
                self.on_the_way.push(Arrival::Update { sender, update });
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Arrival, TransportError> {
        self.left = self.left.checked_sub(1).ok_or(TransportError::Interrupted)?;
        match self.on_the_way.len() {
            0 => Ok(Arrival::Deadline),
            count => Ok(self.on_the_way.swap_remove(self.draws.index(count))),
        }
    }

    fn refused(&mut self, sender: Sender, reason: &Refusal) {
        panic!("{sender:?}: {reason}");
    }
}

/// A recorded live run that somebody stops again and again, until it is done.
fn interrupted_again_and_again(
    store: &Store,
    plan: &Plan,
    settings: Settings,
    gone: fn(u64, ClientId) -> bool,
) -> Result<Outcome, Error> {
    let id = experiment::begin(store, plan, Vec::new())?;
    let stop = AtomicBool::new(false);
    let judge = Exactly::new(plan);
    for turn in 0.. {
        let mut transport = Loopback::new(plan, gone, turn, 20 + 7 * turn as usize);
        let live =
            LiveRun { plan, federation: None, judge: &judge, transport: &mut transport, settings };
        let from = store.load(id)?;
        let outcome = run_live(live, Some((store, id)), Some(&from), &mut (), &stop)?;
        if outcome.ending != Ending::Interrupted {
            assert!(turn > 2, "it was never interrupted");
            return Ok(outcome);
        }
        assert_eq!(reopen(store, id)?.stored.ending, Some(Ending::Interrupted));
    }
    unreachable!()
}

/// What must be the same, to the bit.
fn bits(outcome: &Outcome) -> String {
    let mut json = json!(outcome);
    let object = json.as_object_mut().unwrap();
    object.remove("seconds");
    object.remove("resumed_from");
    json.to_string()
}

#[test]
fn a_live_run_is_the_run_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("fedback.db")).unwrap();
    for kind in KINDS {
        let plan = plan_of(kind);
        let live =
            interrupted_again_and_again(&store, &plan, Settings::default(), |_, _| false).unwrap();
        let stop = AtomicBool::new(false);
        let memory = runner::run(&plan, None, &mut [], &stop).unwrap();
        assert_eq!(bits(&live), bits(&memory), "{kind}");
        let reopened = reopen(&store, store.runs().unwrap().sound[0].id).unwrap();
        assert_eq!(reopened.stored.ending, Some(Ending::Done));
        assert_eq!(reopened.stored.cohorts, []);
        // Exact expectations are added when a run is read.
        let mut read = reopened.outcome();
        read.simulated.as_mut().unwrap().exact = None;
        assert_eq!(bits(&read), bits(&memory));
        assert_eq!(read.to_csv(), memory.to_csv());
    }
}

/// Client 1 is away in rounds 2 to 6, client 3 in rounds 4 to 7.
fn away(round: u64, client: ClientId) -> bool {
    matches!((client.0, round), (1, 1..6) | (3, 3..7))
}

#[test]
fn absences_are_recorded_and_replayed() {
    KINDS.iter().for_each(|kind| absences(&plan_of(kind)));
}

fn absences(plan: &Plan) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("fedback.db")).unwrap();
    let settings = Settings { minimum: 1, attempts: 0 };
    let live = interrupted_again_and_again(&store, plan, settings, away).unwrap();
    assert_eq!(live.ending, Ending::Done);
    let reopened = reopen(&store, store.runs().unwrap().sound[0].id).unwrap();
    let cohorts = &reopened.stored.cohorts;
    assert!(!cohorts.is_empty());
    for cohort in cohorts {
        assert!(cohort.members.iter().all(|member| !away(cohort.round.0, *member)));
        assert!((cohort.coefficients.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    }
    let stop = AtomicBool::new(false);
    let whole = reopened.whole().unwrap();
    let again = experiment::replay(whole, &reopened.stored, &mut (), &stop).unwrap();
    assert!(again.same);
    assert_eq!(again.outcome.final_theta(), live.final_theta());
    // The record of round 5 has no consensus, which is no reason to give a repetition up; all else
    // of the curve comes out again.
    let (mut recorded, mut replayed) = (json!(live), json!(again.outcome));
    assert!(recorded["curve"][1]["consensus"]["mean"].is_null());
    assert!(replayed["curve"][1]["consensus"]["mean"].is_f64());
    for json in [&mut recorded, &mut replayed] {
        json["curve"][1].as_object_mut().unwrap().remove("consensus");
    }
    assert_eq!(recorded["curve"], replayed["curve"]);
    // One bit is noticed.
    let mut changed = reopened.stored.clone();
    let theta = &mut changed.checkpoint.as_mut().unwrap().server[5];
    *theta = f64::from_bits(theta.to_bits() ^ 1);
    assert!(!experiment::replay(whole, &changed, &mut (), &stop).unwrap().same);
    if let Some(block) = reopened.stored.checkpoint.as_ref().unwrap().kept.first() {
        let mut changed = reopened.stored.clone();
        let kept = &mut changed.checkpoint.as_mut().unwrap().kept[0].numbers[0];
        *kept = f64::from_bits(block.numbers[0].to_bits() ^ 1);
        assert!(!experiment::replay(whole, &changed, &mut (), &stop).unwrap().same);
    }
    // Without the cohorts it would have been another run.
    let memory = runner::run(plan, None, &mut [], &stop).unwrap();
    assert_ne!(memory.final_theta(), live.final_theta());
}

/// Who was missing, when and why, is told at the end and by the store, however often a run stops.
#[test]
fn trouble_with_clients_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("fedback.db")).unwrap();
    let spec = SPEC.replace("with-replacement\"\ncohort = 3", "full\"");
    let document = Document::parse(&spec, "spec").unwrap();
    let plan = Plan::new(document.points().unwrap().remove(0), Path::new("."), "spec").unwrap();
    let settings = Settings { minimum: 1, attempts: 0 };
    let live = interrupted_again_and_again(&store, &plan, settings, away).unwrap();
    let told = json!([
        { "client": "1", "trouble": "absent", "rounds": 5, "first_round": 2, "last_round": 6,
          "reason": "gone" },
        { "client": "3", "trouble": "absent", "rounds": 4, "first_round": 4, "last_round": 7,
          "reason": "gone" },
    ]);
    assert_eq!(json!(live)["incidents"], told);
    let read = RecordedRun::read(&store, store.runs().unwrap().sound[0].id).unwrap();
    assert_eq!(json!(read.outcome())["incidents"], told);
    assert_eq!(json!(Shown::of(&read))["incidents"], told);
    let words = "client 1 absent in 5 of rounds 2 to 6: gone";
    assert_eq!(live.incidents[0].words(), words);
}

/// A run that ends by its movement does so in the same round, however often it is stopped.
#[test]
fn a_live_run_ends_by_its_movement() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("fedback.db")).unwrap();
    let spec = SPEC
        .replace("rounds = 12", "rounds = 400\nuntil = { movement = 0.02 }")
        .replace("mean = [1.0", "noise = 1e-3\nmean = [1.0")
        .replace("every = 5", "every = 3");
    let document = Document::parse(&spec, "spec").unwrap();
    let plan = Plan::new(document.points().unwrap().remove(0), Path::new("."), "spec").unwrap();
    let stop = AtomicBool::new(false);
    let memory = runner::run(&plan, None, &mut [], &stop).unwrap();
    let end = memory.curve.points.last().unwrap().round;
    assert!((6..300).contains(&end), "ended after {end} rounds");
    let live =
        interrupted_again_and_again(&store, &plan, Settings::default(), |_, _| false).unwrap();
    assert_eq!(bits(&live), bits(&memory));
}

#[test]
fn too_few_clients_stop_a_run_that_can_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("fedback.db")).unwrap();
    let plan = plan();
    let settings = Settings { minimum: 3, attempts: 1 };
    let error = interrupted_again_and_again(&store, &plan, settings, away).unwrap_err();
    let message = error.to_string();
    assert_eq!(error.exit_code(), 1);
    assert!(message.contains("answered, at least 3 must; missing: client 1 (gone)"), "{message}");
    let id = store.runs().unwrap().sound[0].id;
    let reopened = reopen(&store, id).unwrap();
    assert_eq!(reopened.stored.ending, Some(Ending::Interrupted));
    // The site is back: the run ends as if nothing had been.
    let (stop, judge) = (AtomicBool::new(false), Exactly::new(&plan));
    let mut transport = Loopback::new(&plan, |_, _| false, 1, usize::MAX);
    let live = LiveRun {
        plan: &plan,
        federation: None,
        judge: &judge,
        transport: &mut transport,
        settings,
    };
    let record = Some((&store, id));
    let from = Some(&reopened.stored);
    let outcome = run_live(live, record, from, &mut (), &stop).unwrap();
    let memory = runner::run(&plan, None, &mut [], &stop).unwrap();
    assert_eq!(bits(&outcome), bits(&memory));
}

/// A server whose data stay at their sites measures what it can, and gives nothing up for the rest.
#[test]
fn a_server_without_data_knows_no_risk() {
    let (plan, stop) = (plan(), AtomicBool::new(false));
    let mut transport = Loopback::new(&plan, |_, _| false, 3, usize::MAX);
    let settings = Settings::default();
    let live = LiveRun {
        plan: &plan,
        federation: None,
        judge: &WithoutData,
        transport: &mut transport,
        settings,
    };
    let outcome = run_live(live, None, None, &mut (), &stop).unwrap();
    assert_eq!(outcome.ending, Ending::Done);
    let memory = runner::run(&plan, None, &mut [], &stop).unwrap();
    assert_eq!(outcome.final_theta(), memory.final_theta());
    let (blind, seen) = (json!(outcome), json!(memory));
    for (blind, seen) in
        blind["curve"].as_array().unwrap().iter().zip(seen["curve"].as_array().unwrap())
    {
        assert!(blind["risk"]["mean"].is_null() && seen["risk"]["mean"].is_f64());
        assert_eq!(blind["distance_sq"], seen["distance_sq"]);
        assert_eq!(blind["consensus"], seen["consensus"]);
    }
}

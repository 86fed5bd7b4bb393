//! A process that writes a run is killed, again and again. The writing process is this test binary,
//! asked to run the ignored test [`child`] alone.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Child, Command, Stdio};

use super::*;

/// The store that [`child`] works on, and what it does there.
const STORE: &str = "FEDBACK_TEST_STORE";
const TASK: &str = "FEDBACK_TEST_TASK";

/// Rounds between records.
const EVERY: u64 = 3;

fn spawn(store: &Path, task: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::child"), "--ignored", "--nocapture", "-q"])
        .env(STORE, store)
        .env(TASK, task)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Reads what the child says until the line `waited` has come once more than `skipped` times; false
/// when it ended before.
fn wait(output: &mut impl BufRead, waited: &str, skipped: u64) -> bool {
    output
        .lines()
        .map_while(Result::ok)
        .filter(|line| line == waited)
        .nth(skipped as usize)
        .is_some()
}

fn say(word: &str) {
    let mut out = stdout().lock();
    writeln!(out, "\n{word}").unwrap();
    out.flush().unwrap();
}

/// A number below `bound`, different each time: the tests are about arbitrary moments.
fn arbitrary(bound: u64) -> u64 {
    RandomState::new().hash_one(()) % bound
}

fn values(round: u64) -> Vec<f64> {
    let first = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..500).map(|index| f64::from_bits(first.wrapping_add(index))).collect()
}

/// Not a test: the process that is killed.
#[test]
#[ignore = "the child process of the other tests"]
fn child() {
    let Some(path) = env::var_os(STORE) else {
        return;
    };
    say("up");
    let store = Store::open(path.as_ref()).unwrap();
    let task = env::var(TASK).unwrap();
    match task.split_once(' ') {
        Some(("write", end)) => advance(&store, end.parse().unwrap()),
        _ => drop(store.begin(&new_run()).unwrap()),
    }
}

/// Resumes run 1 and advances it to round `end`.
fn advance(store: &Store, end: u64) {
    let mut writer = store.writer(RunId(1)).unwrap();
    let run = store.load(RunId(1)).unwrap();
    let next = run.checkpoint.map_or(0, |checkpoint| checkpoint.round + 1);
    for round in next..=end {
        if round.is_multiple_of(EVERY) {
            writer.record(Record { round, seconds: Some(0.25), values: values(round) }).unwrap();
        }
        if round % 7 == 0 || round == end {
            writer.checkpoint(Checkpoint { server: values(round), ..checkpoint(round) }).unwrap();
            say("checkpoint");
        }
    }
    writer.finish(&Ending::Done).unwrap();
}

/// The records are exactly those up to the checkpoint, and all bits are right.
fn assert_consistent(run: &StoredRun) {
    let reached = match &run.checkpoint {
        Some(checkpoint) => {
            assert_eq!(bits(&checkpoint.server), bits(&values(checkpoint.round)));
            (0..=checkpoint.round).step_by(EVERY as usize).collect()
        }
        None => vec![],
    };
    assert_eq!(rounds(run), reached);
    for record in &run.records {
        assert_eq!(bits(&record.values), bits(&values(record.round)));
    }
}

#[test]
fn a_run_that_is_killed_again_and_again_comes_to_its_end() {
    let place = Place::new();
    let id = place.open().begin(&new_run()).unwrap();
    let mut reached = 0;
    for _ in 0..15 {
        let (mut child, mut output) = spawn(&place.store(), &format!("write {}", u64::MAX));
        assert!(wait(&mut output, "checkpoint", arbitrary(40)));
        let store = Store::open_existing(&place.store()).unwrap().unwrap();
        assert_consistent(&store.load(id).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        let run = store.load(id).unwrap();
        assert_consistent(&run);
        assert_eq!(run.ending, Some(Ending::Interrupted));
        let round = run.checkpoint.map_or(0, |checkpoint| checkpoint.round);
        assert!(round >= reached);
        reached = round;
    }
    assert!(reached > 0);
    let end = reached + 20;
    let (mut child, output) = spawn(&place.store(), &format!("write {end}"));
    assert!(output.lines().all(|line| line.is_ok()));
    assert!(child.wait().unwrap().success());
    let run = place.open().load(id).unwrap();
    assert_consistent(&run);
    assert_eq!(run.ending, Some(Ending::Done));
    assert_eq!(run.checkpoint.unwrap().round, end);
    assert_eq!(place.files(), ["fedback.db"]);
}

#[test]
fn a_living_process_holds_its_run() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let (mut child, mut output) = spawn(&place.store(), &format!("write {}", u64::MAX));
    assert!(wait(&mut output, "checkpoint", 0));
    assert_eq!(store.load(id).unwrap().ending, None);
    assert!(matches!(store.writer(id), Err(StoreError::AlreadyRunning { .. })));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.runs().unwrap().sound[0].ending, Some(Ending::Interrupted));
    drop(store.writer(id).unwrap());
    drop(store);
    assert_eq!(place.files(), ["fedback.db"]);
}

#[test]
fn a_store_whose_creation_was_killed_is_opened_as_any_other() {
    for _ in 0..30 {
        let place = Place::new();
        let (mut child, mut output) = spawn(&place.store(), "begin");
        assert!(wait(&mut output, "up", 0));
        // A few hundred microseconds of work, not a wait: the child is anywhere in its creation.
        for _ in 0..arbitrary(100) {
            let _ = fs::metadata(place.store());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let found = match Store::open_existing(&place.store()) {
            Err(StoreError::NotAStore { found: "it is empty", .. }) => None,
            other => other.unwrap(),
        };
        let runs = found.map_or(0, |store| store.runs().unwrap().sound.len());
        assert!(runs <= 1);
        assert_eq!(place.open().begin(&new_run()).unwrap(), RunId(runs as i64 + 1));
    }
}

#[test]
fn processes_that_create_the_same_store_at_once_share_it() {
    for _ in 0..5 {
        let place = Place::new();
        let children = [(); 4].map(|()| spawn(&place.store(), "begin"));
        for (mut child, output) in children {
            assert!(output.lines().all(|line| line.is_ok()));
            assert!(child.wait().unwrap().success());
        }
        let runs = place.open().runs().unwrap().sound;
        assert_eq!(runs.iter().map(|run| run.id.0).collect::<Vec<_>>(), [4, 3, 2, 1]);
    }
}

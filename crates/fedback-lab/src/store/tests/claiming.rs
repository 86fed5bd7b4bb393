//! Who may write a run, and who is told that somebody does.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::*;

#[test]
fn a_failed_run_can_be_claimed_again() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    store.writer(id).unwrap().finish(&Ending::Failed("a client was away".into())).unwrap();
    let writer = store.writer(id).unwrap();
    let run = store.load(id).unwrap();
    assert_eq!(run.ending, None);
    drop(writer);
    assert_eq!(store.load(id).unwrap().ending, Some(Ending::Interrupted));
}

#[test]
fn a_run_has_one_writer() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let writer = store.writer(id).unwrap();
    let other = Store::open_existing(&place.store()).unwrap().unwrap();
    let error = other.writer(id).unwrap_err();
    assert!(error.is_input() && matches!(error, StoreError::AlreadyRunning { .. }), "{error}");
    drop(writer);
    drop(other.writer(id).unwrap());
}

/// A claim that is let go removes its lock file while others are after it.
#[test]
fn writers_that_race_for_a_run_have_it_one_after_the_other() {
    let place = Place::new();
    let id = place.open().begin(&new_run()).unwrap();
    let held = AtomicBool::new(false);
    let race = || {
        let store = place.open();
        let mut won = 0;
        while won < 50 {
            match store.writer(id) {
                Ok(writer) => {
                    assert!(!held.swap(true, Relaxed), "two writers at once");
                    won += 1;
                    held.store(false, Relaxed);
                    drop(writer);
                }
                Err(error) => assert!(matches!(error, StoreError::AlreadyRunning { .. })),
            }
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(race))));
    assert_eq!(place.files(), ["fedback.db"]);
}

#[cfg(unix)]
#[test]
fn a_link_to_the_store_leads_to_the_same_claims() {
    let place = Place::new();
    let store = place.open();
    let link = place.directory.path().join("link.db");
    std::os::unix::fs::symlink(place.store(), &link).unwrap();
    let id = store.begin(&new_run()).unwrap();
    let _writer = store.writer(id).unwrap();
    let error = Store::open(&link).unwrap().writer(id).unwrap_err();
    assert!(matches!(error, StoreError::AlreadyRunning { .. }), "{error}");
}

/// Those who look share the lock with each other; a claim waits for them but not for a claim.
#[test]
fn looking_at_a_run_does_not_keep_it_from_being_claimed() {
    let place = Place::new();
    let id = place.open().begin(&new_run()).unwrap();
    let claiming = AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            let store = place.open();
            let mut failed = None;
            for _ in 0..200 {
                failed = failed.or(store.writer(id).err());
            }
            claiming.store(false, Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
        let looking = Store::open_existing(&place.store()).unwrap().unwrap();
        while claiming.load(Relaxed) {
            looking.runs().unwrap();
        }
    });
}

#[test]
fn one_who_looks_does_not_take_another_for_a_claim() {
    let place = Place::new();
    let path = place.directory.path().join("fedback.db-run-1");
    let looking = fs::File::create(&path).unwrap();
    looking.try_lock_shared().unwrap();
    assert!(!Claim::is_taken(&path).unwrap());
}

/// See [`Claim`] for why.
#[test]
fn a_lock_file_is_removed_only_inside_a_write_transaction() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let path = store.location.run_file(id);
    let mut connection = file::write(&store.location).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();

    let claim = Claim::take(&path).unwrap().unwrap();
    store.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    claim.release(&mut connection);
    assert!(path.exists() && !Claim::is_taken(&path).unwrap());
    store.connection.execute_batch("COMMIT").unwrap();

    Claim::take(&path).unwrap().unwrap().release(&mut connection);
    assert!(!path.exists());
}

#[test]
fn two_runs_are_written_to_one_store_at_once() {
    let place = Place::new();
    let ids = thread::scope(|scope| {
        let write = || {
            let store = Store::open(&place.store()).unwrap();
            let id = store.begin(&new_run()).unwrap();
            let mut writer = store.writer(id).unwrap();
            for round in 0..200 {
                writer.record(record(round)).unwrap();
                writer.checkpoint(checkpoint(round)).unwrap();
            }
            writer.finish(&Ending::Done).unwrap();
            id
        };
        let threads = [scope.spawn(write), scope.spawn(write), scope.spawn(write)];
        threads.map(|thread| thread.join().unwrap())
    });
    let store = place.open();
    for id in ids {
        let run = store.load(id).unwrap();
        assert_eq!(run.ending, Some(Ending::Done));
        assert_eq!(rounds(&run), (0..200).collect::<Vec<_>>());
    }
    assert_eq!(store.runs().unwrap().sound.len(), 3);
}

#[test]
fn an_unknown_run_is_told_with_the_known_ones() {
    let place = Place::new();
    let store = place.open();
    let told = |store: &Store| {
        let error = store.load(RunId(7)).unwrap_err();
        assert!(error.is_input());
        assert_eq!(error.to_string(), store.writer(RunId(7)).unwrap_err().to_string());
        error.to_string().split_once("; ").unwrap().1.to_owned()
    };
    assert_eq!(told(&store), "it has no runs");
    store.begin(&new_run()).unwrap();
    assert_eq!(told(&store), "its only run is 1");
    store.begin(&new_run()).unwrap();
    store.begin(&new_run()).unwrap();
    assert_eq!(told(&store), "its runs are 1 to 3");
    drop(store);
    assert_eq!(place.files(), ["fedback.db"]);
}

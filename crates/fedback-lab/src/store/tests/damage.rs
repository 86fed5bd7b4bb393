//! What is not what was written is named, and never read as if it were.

use super::*;

/// A run with records, cohorts, and clients that keep something.
fn written(place: &Place) -> RunId {
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    for round in [0, 10, 20] {
        writer.record(record(round)).unwrap();
        let (members, coefficients) = (vec![ClientId(1), ClientId(4)], vec![0.25, 0.75]);
        let (at, repetition) = (Round(round), 0);
        let cohort = RecordedCohort { repetition, round: at, members, coefficients };
        writer.cohort(cohort).unwrap();
        let block = |first| KeptBlock { repetition: 1, first, numbers: vec![0.5, round as f64] };
        let kept = vec![block(0), block(round)];
        let failed = vec![(1, Round(3))];
        writer.checkpoint(Checkpoint { kept, failed, ..checkpoint(round) }).unwrap();
    }
    writer.finish(&Ending::Done).unwrap();
    id
}

fn damaged(store: &Store, id: RunId) -> String {
    match store.load(id) {
        Err(error @ StoreError::Damaged { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_keep_what_was_written_last() {
    let place = Place::new();
    let id = written(&place);
    let run = place.open().load(id).unwrap();
    let kept = run.checkpoint.unwrap().kept;
    let found: Vec<(u64, f64)> = kept.iter().map(|block| (block.first, block.numbers[1])).collect();
    assert_eq!(found, [(0, 20.0), (10, 10.0), (20, 20.0)]);
}

/// Every column that decides a number, changed in place.
#[test]
fn a_changed_row_is_named() {
    for (change, what) in [
        ("UPDATE run SET rounds = rounds + 1", "description"),
        ("UPDATE run SET spec = spec || ' '", "description"),
        ("UPDATE run SET point = '{}'", "description"),
        ("UPDATE run SET facts = '{}'", "description"),
        ("UPDATE run SET facts = NULL", "description"),
        ("UPDATE run SET checksum = NULL", "description"),
        ("UPDATE run SET checksum = NULL, facts = NULL", "start, end, tags or note"),
        ("UPDATE run SET ended = NULL", "start, end, tags or note"),
        ("UPDATE run SET ended = 'failed'", "start, end, tags or note"),
        ("UPDATE run SET failure = ''", "start, end, tags or note"),
        ("UPDATE run SET started = '2020-01-01T00:00:00Z'", "start, end, tags or note"),
        ("UPDATE run SET tags = 'paper'", "start, end, tags or note"),
        ("UPDATE run SET note = 'for Ada'", "start, end, tags or note"),
        ("UPDATE run SET label_checksum = NULL", "start, end, tags or note"),
        ("UPDATE checkpoint SET checksum = NULL", "checkpoint"),
        ("UPDATE records SET checksum = NULL WHERE last_round = 10", "round 10"),
        ("UPDATE cohort SET checksum = NULL WHERE round = 0", "the cohort of round 1"),
        ("UPDATE checkpoint SET round = round + 1", "checkpoint"),
        ("UPDATE checkpoint SET seconds = 0.25", "checkpoint"),
        ("UPDATE checkpoint SET failed = zeroblob(16)", "checkpoint"),
        ("UPDATE checkpoint SET theta = zeroblob(24)", "checkpoint"),
        ("UPDATE checkpoint SET rows = NULL", "checkpoint"),
        ("UPDATE records SET measurements = zeroblob(16) WHERE last_round = 10", "round 10"),
        ("UPDATE records SET rounds = zeroblob(8) WHERE last_round = 10", "round 10"),
        ("UPDATE records SET seconds = zeroblob(8) WHERE last_round = 10", "round 10"),
        ("UPDATE records SET seconds = NULL WHERE last_round = 10", "round 10"),
        ("DELETE FROM checkpoint", "its checkpoint is missing"),
        ("UPDATE records SET last_round = 11 WHERE last_round = 10", "round 11"),
        ("UPDATE cohort SET coefficients = zeroblob(16) WHERE round = 0", "the cohort of round 1"),
        ("UPDATE cohort SET members = zeroblob(8) WHERE round = 10", "the cohort of round 11"),
        ("UPDATE kept SET numbers = zeroblob(16) WHERE first = 10", "from client 10 on"),
        ("UPDATE kept SET first = 11 WHERE first = 10", "from client 11 on"),
        ("DELETE FROM records WHERE last_round = 20", "rows of records and states"),
        ("DELETE FROM cohort WHERE round = 0", "rows of records and states"),
        ("DELETE FROM kept WHERE first = 10", "rows of records and states"),
    ] {
        let place = Place::new();
        let id = written(&place);
        let store = place.open();
        assert!(store.load(id).is_ok());
        store.connection.execute_batch(change).unwrap();
        let message = damaged(&store, id);
        assert!(message.contains("fedback.db is damaged: run 1: "), "{message}");
        assert!(message.contains(what), "{change}: {message}");
    }
}

/// Every column that is listed, changed in place: the run is named, and not listed.
#[test]
fn what_is_damaged_is_not_listed() {
    for change in [
        "UPDATE run SET rounds = rounds + 1",
        "UPDATE run SET repetitions = repetitions + 1",
        "UPDATE run SET name = 'another'",
        "UPDATE run SET ended = NULL",
        "UPDATE run SET note = 'for Ada'",
        "UPDATE checkpoint SET round = round + 1",
        "UPDATE checkpoint SET seconds = 0.25",
        "UPDATE checkpoint SET failed = zeroblob(3)",
        "DELETE FROM checkpoint",
    ] {
        let place = Place::new();
        let (first, second) = (written(&place), written(&place));
        let store = place.open();
        let key = if change.contains("checkpoint") { "run" } else { "id" };
        store.connection.execute_batch(&format!("{change} WHERE {key} = 1")).unwrap();
        let Runs { sound, damaged } = store.runs().unwrap();
        assert_eq!(sound.iter().map(|run| run.id).collect::<Vec<_>>(), [second], "{change}");
        let [StoreError::Damaged { id, .. }] = damaged[..] else { panic!("{change}: {damaged:?}") };
        assert_eq!(id, first);
    }
}

/// Nobody makes a damaged run sound by writing to it.
#[test]
fn damage_is_never_sealed() {
    let place = Place::new();
    let id = written(&place);
    let store = place.open();
    store.connection.execute_batch("UPDATE run SET ended = NULL").unwrap();
    assert!(matches!(store.annotate(id, &[], "mine"), Err(StoreError::Damaged { .. })));
    assert!(matches!(store.writer(id), Err(StoreError::Damaged { .. })));
    damaged(&store, id);
    store.remove(&[id]).unwrap();
}

/// One bit flipped anywhere in the file: nothing, an error, or the very same run.
#[test]
fn no_flipped_bit_is_read_as_sound() {
    let place = Place::new();
    let id = written(&place);
    let (sound, listed) = (place.open().load(id).unwrap(), place.open().runs().unwrap().sound);
    place.open().connection.pragma_update(None, "journal_mode", "delete").unwrap();
    let bytes = fs::read(place.store()).unwrap();
    let mut named = 0;
    for at in (0..bytes.len()).step_by(61) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(place.store(), &changed).unwrap();
        let Ok(Some(store)) = Store::open_existing(&place.store()) else { continue };
        let runs = store.runs().map(|runs| runs.sound).unwrap_or_default();
        assert!(runs.is_empty() || runs == listed, "byte {at}: {runs:?}");
        match store.load(id) {
            Ok(mut run) => {
                // A store may be moved, so that no checksum covers where it was.
                run.run.directory.clone_from(&sound.run.directory);
                assert_eq!(run, sound, "byte {at}");
            }
            Err(StoreError::Damaged { .. }) => named += 1,
            Err(_) => {}
        }
    }
    assert!(named > 5, "{named}");
}

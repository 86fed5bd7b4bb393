//! Runs are begun, written and read.

use super::*;

#[test]
fn every_bit_comes_back() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    assert_eq!(id, RunId(1));

    let payload = f64::from_bits(0xfff4_0000_dead_beef);
    let odd = [payload, -0.0, f64::NEG_INFINITY, f64::MIN_POSITIVE / 8.0];
    let failed = vec![(1, Round(7)), (u64::MAX, Round(9))];
    let theta = vec![payload, 1.0];
    let record = |round| Record { round, seconds: Some(0.25), values: odd.to_vec() };
    let checkpoint = |round, seconds| {
        let (theta, failed) = (theta.clone(), failed.clone());
        let before = Some(vec![payload, 2.0]);
        Checkpoint { round, server: theta, kept: Vec::new(), failed, seconds, before }
    };
    let mut writer = store.writer(id).unwrap();
    writer.record(record(0)).unwrap();
    writer.record(record(10)).unwrap();
    writer.checkpoint(checkpoint(11, 2.5)).unwrap();
    writer.record(record(20)).unwrap();
    writer.checkpoint(checkpoint(40, 3.5)).unwrap();
    writer.finish(&Ending::Done).unwrap();
    drop(store);

    let store = Store::open_existing(&place.store()).unwrap().unwrap();
    let run = store.load(id).unwrap();
    assert_eq!(run.run, new_run());
    assert_eq!(run.ending, Some(Ending::Done));
    assert_eq!(rounds(&run), [0, 10, 20]);
    for record in &run.records {
        assert_eq!(bits(&record.values), bits(&odd));
    }
    let last = run.checkpoint.unwrap();
    assert_eq!((last.round, last.seconds, last.failed), (40, 3.5, failed));
    assert_eq!(bits(&last.server), bits(&theta));
    assert_eq!(bits(&last.before.unwrap()), bits(&[payload, 2.0]));
    drop(store);
    assert_eq!(place.files(), ["fedback.db"]);
}

fn cohort(round: u64, repetition: u64, members: &[u32]) -> RecordedCohort {
    RecordedCohort {
        round: Round(round),
        repetition,
        members: members.iter().copied().map(ClientId).collect(),
        coefficients: members.iter().map(|&member| 1.0 / f64::from(member + 3)).collect(),
    }
}

fn trouble(client: u32, trouble: Trouble, last: u64, reason: &str) -> Incident {
    let (client, first, last) = (ClientId(client), Round(1), Round(last));
    Incident { client, trouble, first, last, rounds: last.0, reason: reason.into() }
}

/// An incident is a row that is replaced as it grows, and one that was changed by others is noticed.
#[test]
fn incidents_go_with_their_checkpoint() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    writer.incident(trouble(7, Trouble::Refused, 1, "no number")).unwrap();
    writer.incident(trouble(7, Trouble::Absent, 1, "gone")).unwrap();
    writer.checkpoint(checkpoint(2)).unwrap();
    writer.incident(trouble(7, Trouble::Absent, 3, "late")).unwrap();
    writer.checkpoint(checkpoint(4)).unwrap();
    writer.incident(trouble(9, Trouble::Claimed, 4, "by oak")).unwrap();
    drop(writer);
    let kept =
        [trouble(7, Trouble::Absent, 3, "late"), trouble(7, Trouble::Refused, 1, "no number")];
    assert_eq!(store.load(id).unwrap().incidents, kept);
    // Somebody goes on, and takes the run elsewhere.
    let mut writer = store.writer(id).unwrap();
    writer.incident(trouble(7, Trouble::Absent, 5, "later")).unwrap();
    writer.checkpoint(checkpoint(6)).unwrap();
    drop(writer);
    let run = store.load(id).unwrap();
    assert_eq!(run.incidents[0].reason, "later");
    let copy = store.insert(&run).unwrap();
    assert_eq!(store.load(copy).unwrap().incidents, run.incidents);
    for change in ["UPDATE incident SET rounds = 2 WHERE run = 1", "DELETE FROM incident"] {
        let connection = rusqlite::Connection::open(place.store()).unwrap();
        connection.execute(change, []).unwrap();
        assert!(store.load(id).unwrap_err().is_damage(), "{change}");
    }
    store.remove(&[id, copy]).unwrap();
}

/// Cohorts come with the checkpoint that covers them, never before it.
#[test]
fn cohorts_go_with_their_checkpoint() {
    let place = Place::new();
    let store = place.open();
    let ids = [store.begin(&new_run()).unwrap(), store.begin(&new_run()).unwrap()];
    let mut other = store.writer(ids[1]).unwrap();
    other.cohort(cohort(0, 0, &[9])).unwrap();
    other.checkpoint(checkpoint(1)).unwrap();
    let mut writer = store.writer(ids[0]).unwrap();
    writer.cohort(cohort(0, 1, &[0, 70_000])).unwrap();
    writer.checkpoint(checkpoint(1)).unwrap();
    writer.cohort(cohort(1, 1, &[2])).unwrap();
    writer.cohort(cohort(1, 0, &[1, 2, u32::MAX - 3])).unwrap();
    writer.checkpoint(checkpoint(2)).unwrap();
    writer.cohort(cohort(2, 0, &[4])).unwrap();
    writer.flush().unwrap();
    drop((writer, other));
    let kept =
        [cohort(0, 1, &[0, 70_000]), cohort(1, 0, &[1, 2, u32::MAX - 3]), cohort(1, 1, &[2])];
    assert_eq!(store.load(ids[0]).unwrap().cohorts, kept);
    // After the resume, round 3 has another cohort, and round 2 is closed.
    let mut writer = store.writer(ids[0]).unwrap();
    let refused = writer.cohort(cohort(1, 0, &[5])).unwrap_err();
    let expected = "run 1: a cohort of round 2 after the checkpoint of round 2";
    assert_eq!(refused.to_string(), expected);
    writer.cohort(cohort(2, 0, &[3])).unwrap();
    writer.checkpoint(checkpoint(3)).unwrap();
    writer.finish(&Ending::Failed("for a reason".into())).unwrap();
    let cohorts = store.load(ids[0]).unwrap().cohorts;
    assert_eq!((cohorts.len(), &cohorts[3]), (4, &cohort(2, 0, &[3])));
    let blobs: (Vec<u8>, Vec<u8>) = store
        .connection
        .query_row("SELECT members, coefficients FROM cohort WHERE run = 2", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(blobs, (vec![9, 0, 0, 0], (1.0f64 / 12.0).to_le_bytes().to_vec()));
}

#[test]
fn blobs_are_little_endian() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    writer.record(Record { round: 258, seconds: Some(0.5), values: vec![1.0] }).unwrap();
    writer.checkpoint(Checkpoint { server: vec![-2.0], ..checkpoint(258) }).unwrap();
    writer.flush().unwrap();
    let blobs: (Vec<u8>, Vec<u8>, Vec<u8>) = store
        .connection
        .query_row("SELECT rounds, measurements, theta FROM records, checkpoint", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(blobs.0, [2, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(blobs.1, [0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    assert_eq!(blobs.2, [0, 0, 0, 0, 0, 0, 0, 0xc0]);
}

#[test]
fn a_checkpoint_writes_its_records_as_one_row() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    (0..9).for_each(|round| writer.record(record(round)).unwrap());
    writer.flush().unwrap();
    assert_eq!(rounds(&store.load(id).unwrap()), [0; 0], "no record without its checkpoint");
    writer.checkpoint(checkpoint(9)).unwrap();
    writer.flush().unwrap();
    let rows: i64 =
        store.connection.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
    assert_eq!(store.load(id).unwrap().records, (0..9).map(record).collect::<Vec<_>>());
}

#[test]
fn records_may_be_empty() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    let empty = |round| Record { round, seconds: Some(0.25), values: vec![] };
    writer.record(empty(0)).unwrap();
    writer.record(empty(1)).unwrap();
    writer.checkpoint(checkpoint(1)).unwrap();
    writer.flush().unwrap();
    assert_eq!(store.load(id).unwrap().records, [empty(0), empty(1)]);
}

#[test]
fn the_list_has_the_newest_first_and_tells_the_states() {
    let place = Place::new();
    let store = place.open();
    let begin = || {
        let id = store.begin(&new_run()).unwrap();
        (id, store.writer(id).unwrap())
    };
    let (_, mut done) = begin();
    done.checkpoint(checkpoint(40)).unwrap();
    done.finish(&Ending::Done).unwrap();
    let (_, failed) = begin();
    failed.finish(&Ending::Failed("diverged in round 3".into())).unwrap();
    let (_, mut interrupted) = begin();
    interrupted.checkpoint(checkpoint(17)).unwrap();
    drop(interrupted);
    let (running, _writer) = begin();
    store.begin(&new_run()).unwrap();

    let runs = store.runs().unwrap().sound;
    let states: Vec<_> = runs.iter().map(|run| (run.id.0, standing(run.ending.as_ref()))).collect();
    let expected =
        [(5, "interrupted"), (4, "running"), (3, "interrupted"), (2, "failed"), (1, "done")];
    assert_eq!(states, expected);
    let third = &runs[2];
    assert_eq!((third.round, third.rounds, third.repetitions), (17, 40, 2));
    assert_eq!((third.seconds, third.name.as_str()), (0.5, "paper-gaussian"));
    assert_eq!(serde_json::Value::Object(third.set.clone()).to_string(), new_run().set);
    assert_eq!((third.started.len(), &third.started[10..11], &third.started[19..]), (20, "T", "Z"));
    assert_eq!((runs[1].round, runs[1].seconds), (0, 0.0));

    assert_eq!(store.load(running).unwrap().ending, None);
    assert_eq!(store.load(RunId(3)).unwrap().ending, Some(Ending::Interrupted));
    let failed = store.load(RunId(2)).unwrap();
    assert_eq!(failed.ending, Some(Ending::Failed("diverged in round 3".into())));
}

#[test]
fn a_dropped_writer_leaves_a_run_that_can_go_on() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    writer.record(record(0)).unwrap();
    writer.record(record(10)).unwrap();
    writer.checkpoint(checkpoint(12)).unwrap();
    writer.record(record(20)).unwrap();
    drop(writer);
    let run = store.load(id).unwrap();
    assert_eq!((&run.ending, rounds(&run)), (&Some(Ending::Interrupted), vec![0, 10]));
    assert_eq!(run.checkpoint, Some(checkpoint(12)));

    let mut writer = store.writer(id).unwrap();
    writer.record(record(20)).unwrap();
    writer.checkpoint(checkpoint(40)).unwrap();
    writer.finish(&Ending::Done).unwrap();
    assert_eq!(rounds(&store.load(id).unwrap()), [0, 10, 20]);
    let error = store.writer(id).unwrap_err();
    assert!(error.is_input() && matches!(error, StoreError::AlreadyDone { .. }), "{error}");
}

#[test]
fn what_is_out_of_order_is_refused() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    writer.record(record(0)).unwrap();
    writer.record(record(10)).unwrap();
    assert!(matches!(writer.record(record(10)), Err(StoreError::Refused { .. })));
    assert!(matches!(writer.checkpoint(checkpoint(9)), Err(StoreError::Refused { .. })));
    writer.checkpoint(checkpoint(15)).unwrap();
    drop(writer);

    let mut writer = store.writer(id).unwrap();
    for round in [10, 15] {
        let error = writer.record(record(round)).unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }) && !error.is_input(), "{error}");
    }
    assert!(matches!(writer.checkpoint(checkpoint(14)), Err(StoreError::Refused { .. })));
    let wide = Record { round: 20, seconds: Some(0.5), values: vec![0.0; 3] };
    assert!(matches!(writer.record(wide), Err(StoreError::Refused { .. })));
    writer.record(record(20)).unwrap();
    let error = writer.finish(&Ending::Done).unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert_eq!(rounds(&store.load(id).unwrap()), [0, 10]);
}

#[test]
fn a_full_disk_is_told_at_the_next_call_and_at_the_end() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = writer_of_full_disk(&store, id);
    writer.record(record(0)).unwrap();
    writer.checkpoint(checkpoint(0)).unwrap();
    writer.flush().unwrap();
    writer.record(record(1)).unwrap();
    writer.checkpoint(Checkpoint { server: vec![1.0; 100_000], ..checkpoint(1) }).unwrap();
    let full = |error: StoreError| {
        assert!(!error.is_input());
        assert!(error.to_string().contains("full"), "{error}");
    };
    full(writer.flush().unwrap_err());
    full(writer.record(record(2)).unwrap_err());
    full(writer.checkpoint(checkpoint(2)).unwrap_err());
    full(writer.finish(&Ending::Done).unwrap_err());

    let run = store.load(id).unwrap();
    assert_eq!((&run.ending, rounds(&run)), (&Some(Ending::Interrupted), vec![0]));
    assert_eq!(run.checkpoint, Some(checkpoint(0)));
    store.writer(id).unwrap().record(record(1)).unwrap();
}

#[test]
fn a_full_disk_is_told_when_the_end_is_the_next_call() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = writer_of_full_disk(&store, id);
    writer.checkpoint(Checkpoint { server: vec![1.0; 100_000], ..checkpoint(1) }).unwrap();
    let error = writer.finish(&Ending::Done).unwrap_err();
    assert!(error.to_string().contains("full"), "{error}");
    assert_eq!(store.load(id).unwrap().ending, Some(Ending::Interrupted));
}

fn writer_of_full_disk(store: &Store, id: RunId) -> Writer {
    let connection = file::write(&store.location).unwrap();
    connection.pragma_update(None, "max_page_count", 20).unwrap();
    let claim = Claim::take(&store.location.run_file(id)).unwrap().unwrap();
    let reached = writer::Reached::default();
    Writer::start(store.location.clone(), connection, claim, id, reached).unwrap()
}

#[test]
fn a_damaged_blob_is_an_error() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    writer.record(record(0)).unwrap();
    writer.checkpoint(checkpoint(0)).unwrap();
    writer.flush().unwrap();
    drop(writer);
    for sql in [
        "UPDATE records SET measurements = x'00'",
        "UPDATE records SET width = 1",
        "UPDATE checkpoint SET theta = x'00'",
    ] {
        let damaged = Place::new();
        let backup = format!("VACUUM INTO '{}'", damaged.store().display());
        store.connection.execute_batch(&backup).unwrap();
        let store = damaged.open();
        store.load(id).unwrap();
        store.connection.execute(sql, []).unwrap();
        let error = store.load(id).unwrap_err();
        let named = matches!(error, StoreError::Sqlite { .. } | StoreError::Damaged { .. });
        assert!(named && !error.is_input(), "{error}");
        assert!(error.to_string().contains(damaged.store().to_str().unwrap()), "{error}");
    }
}

//! Runs labelled, removed, taken elsewhere.

use super::*;

/// A run with a record, which is done.
fn done(store: &Store) -> RunId {
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    writer.record(record(40)).unwrap();
    writer.checkpoint(checkpoint(40)).unwrap();
    writer.finish(&Ending::Done).unwrap();
    id
}

#[test]
fn tags_and_notes_are_kept() {
    let place = Place::new();
    let store = place.open();
    let id = done(&store);
    store.annotate(id, &["paper".into(), "wide".into()], "for Ada").unwrap();
    let run = store.load(id).unwrap();
    assert_eq!((run.tags, run.note.as_str()), (vec!["paper".into(), "wide".into()], "for Ada"));
    let listed = &store.runs().unwrap().sound[0];
    assert_eq!((&listed.tags[1][..], &listed.note[..]), ("wide", "for Ada"));
    let error = store.annotate(RunId(9), &[], "").unwrap_err();
    assert!(matches!(error, StoreError::UnknownRun { .. }), "{error}");
}

#[test]
fn what_was_set_is_listed() {
    let place = Place::new();
    let store = place.open();
    let facts = Some(r#"{"assigned":{"rounds":40}}"#.to_string());
    store.begin(&NewRun { facts, ..new_run() }).unwrap();
    let set = serde_json::Value::Object(store.runs().unwrap().sound.remove(0).set);
    assert_eq!(set.to_string(), r#"{"rounds":40,"algorithm.local_steps":5}"#);
}

#[test]
fn removed_runs_are_gone_and_others_stay() {
    let place = Place::new();
    let store = place.open();
    let (first, second) = (done(&store), done(&store));
    let sound = store.load(second).unwrap();
    store.remove(&[first]).unwrap();
    assert!(matches!(store.load(first), Err(StoreError::UnknownRun { .. })));
    assert_eq!(store.load(second).unwrap(), sound);
    // All or none.
    assert!(store.remove(&[second, RunId(9)]).is_err());
    assert_eq!(store.load(second).unwrap(), sound);
}

#[test]
fn a_running_run_is_not_removed() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let writer = store.writer(id).unwrap();
    let error = store.remove(&[id]).unwrap_err();
    assert!(matches!(error, StoreError::AlreadyRunning { .. }), "{error}");
    drop(writer);
    store.remove(&[id]).unwrap();
    assert!(store.runs().unwrap().sound.is_empty());
}

#[test]
fn a_run_is_the_same_in_another_store() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let (store, other) = (place.open(), elsewhere.open());
    done(&other);
    let id = done(&store);
    store.annotate(id, &["paper".into()], "for Ada").unwrap();
    let run = store.load(id).unwrap();
    let copy = other.insert(&run).unwrap();
    assert_eq!(copy, RunId(2));
    assert_eq!(other.load(copy).unwrap(), StoredRun { id: copy, ..run });
}

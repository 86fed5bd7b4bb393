//! Marks of runs, and the thinned of long curves.

use super::*;

fn mark(store: &Store, id: RunId) -> Mark {
    let marks = store.marks().unwrap();
    marks.into_iter().find(|(own, _)| *own == id).unwrap().1
}

#[test]
fn a_mark_changes_with_everything_that_is_listed() {
    let place = Place::new();
    let store = place.open();
    let (id, other) = (store.begin(&new_run()).unwrap(), store.begin(&new_run()).unwrap());
    let still = mark(&store, other);
    let mut seen = vec![mark(&store, id)];
    let mut changed = || {
        let now = mark(&store, id);
        assert!(!seen.contains(&now), "{seen:?}");
        seen.push(now);
        now
    };
    let mut writer = store.writer(id).unwrap();
    assert!(!changed().has_ended(), "it is running");
    for round in [10, 40] {
        writer.record(record(round)).unwrap();
        writer.checkpoint(checkpoint(round)).unwrap();
        writer.flush().unwrap();
        changed();
    }
    writer.finish(&Ending::Done).unwrap();
    assert!(changed().has_ended());
    store.annotate(id, &["wide".into()], "").unwrap();
    changed();
    assert_eq!(mark(&store, other), still);
    assert_eq!(mark(&store, id), mark(&store, id));
}

#[test]
fn another_run_of_the_same_number_has_another_mark() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    let first = mark(&store, id);
    store.remove(&[id]).unwrap();
    let name = "another".into();
    assert_eq!(store.begin(&NewRun { name, ..new_run() }).unwrap(), id);
    assert_ne!(mark(&store, id), first);
}

#[test]
fn a_glance_has_the_last_record() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&new_run()).unwrap();
    assert_eq!(store.glance(id).unwrap().last, None);
    let mut writer = store.writer(id).unwrap();
    for round in [10, 20, 40] {
        writer.record(record(round)).unwrap();
        if round > 10 {
            writer.checkpoint(checkpoint(round)).unwrap();
        }
    }
    writer.finish(&Ending::Done).unwrap();
    let glance = store.glance(id).unwrap();
    assert_eq!(glance.last, Some(record(40)));
    assert_eq!(glance.summary, store.runs().unwrap().sound[0]);
}

#[test]
fn a_thinned_run_is_the_run_with_fewer_records() {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&NewRun { rounds: 5000, ..new_run() }).unwrap();
    let mut writer = store.writer(id).unwrap();
    for round in 0..=5000 {
        writer.record(record(round)).unwrap();
        if round % 1000 == 0 {
            writer.checkpoint(checkpoint(round)).unwrap();
        }
    }
    writer.finish(&Ending::Done).unwrap();
    let (whole, thinned) = (store.load(id).unwrap(), store.load_thinned(id, 100).unwrap());
    assert_eq!(whole.records.len(), 5001);
    assert!((25..200).contains(&thinned.records.len()), "{}", thinned.records.len());
    assert!(thinned.records.iter().all(|record| whole.records.contains(record)));
    assert_eq!(thinned.records.last(), whole.records.last());
    assert_eq!(StoredRun { records: whole.records, ..thinned }, store.load(id).unwrap());
}

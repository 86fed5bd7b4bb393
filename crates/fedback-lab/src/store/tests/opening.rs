//! Files are opened, created, refused.

use rusqlite::TransactionBehavior;

use super::*;

#[test]
fn no_store_is_none_and_nothing_is_created() {
    let place = Place::new();
    assert!(Store::open_existing(&place.store()).unwrap().is_none());
    let elsewhere = place.directory.path().join("no/such/directory/fedback.db");
    assert!(Store::open_existing(&elsewhere).unwrap().is_none());
    assert!(place.files().is_empty());
    let error = Store::open(&elsewhere).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("there is no directory"), "{error}");
    assert!(place.files().is_empty());
}

/// Nothing can be read from an empty file, and that is said; it is not taken for a store without
/// runs, which a damaged one would then seem to be.
fn is_empty(place: &Place) {
    let error = Store::open_existing(&place.store()).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("it is empty"), "{error}");
}

#[test]
fn an_empty_file_is_no_store_yet() {
    let place = Place::new();
    fs::write(place.store(), "").unwrap();
    is_empty(&place);
    assert_eq!(fs::metadata(place.store()).unwrap().len(), 0);
    place.open().begin(&new_run()).unwrap();
    assert_eq!(
        Store::open_existing(&place.store()).unwrap().unwrap().runs().unwrap().sound.len(),
        1
    );
}

/// A process killed between the first page and the end of the commit that creates the store leaves
/// the mark in the file, and a journal that takes it back: here one that says "0 pages before".
#[test]
fn a_store_half_created_is_no_store_yet() {
    let place = Place::new();
    drop(place.open());
    let connection = Connection::open(place.store()).unwrap();
    connection.pragma_update(None, "journal_mode", "delete").unwrap();
    drop(connection);
    let mut journal = vec![0; 512];
    journal[..8].copy_from_slice(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7");
    journal[20..24].copy_from_slice(&512_u32.to_be_bytes());
    journal[24..28].copy_from_slice(&4096_u32.to_be_bytes());
    let write_journal =
        || fs::write(place.directory.path().join("fedback.db-journal"), &journal).unwrap();

    let half = fs::read(place.store()).unwrap();
    write_journal();
    is_empty(&place);
    fs::write(place.store(), half).unwrap();
    write_journal();
    assert_eq!(place.open().begin(&new_run()).unwrap(), RunId(1));
    assert_eq!(place.open().runs().unwrap().sound.len(), 1);
}

/// Opens `path` both ways; each must fail, name the path and leave the directory as it was.
fn refuses(place: &Place, path: &Path) -> StoreError {
    let content = |name: &String| {
        let path = place.directory.path().join(name);
        path.is_file().then(|| fs::read(path).unwrap())
    };
    let before: Vec<_> = place.files().iter().map(content).collect();
    let names = place.files();
    let error = Store::open_existing(path).unwrap_err();
    assert_eq!(error.to_string(), Store::open(path).unwrap_err().to_string());
    assert!(error.is_input(), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert_eq!(place.files(), names);
    assert!(place.files().iter().map(content).eq(before), "a file was changed");
    error
}

#[test]
fn what_is_not_a_store_stays_as_it_is() {
    let place = Place::new();
    let text = place.directory.path().join("results.csv");
    fs::write(&text, "round,risk\n".repeat(1000)).unwrap();
    let error = refuses(&place, &text);
    assert!(error.to_string().contains("not an SQLite database"), "{error}");
    fs::write(&text, "x").unwrap();
    refuses(&place, &text);

    let error = refuses(&place, place.directory.path());
    assert!(error.to_string().contains("a directory"), "{error}");

    let foreign = place.directory.path().join("odd name?#%41.db");
    let connection = Connection::open(&foreign).unwrap();
    connection.execute_batch("CREATE TABLE run (id)").unwrap();
    drop(connection);
    let error = refuses(&place, &foreign);
    assert!(error.to_string().contains("another program"), "{error}");
}

/// The WAL of a foreign database must not be folded in just because we had a look.
#[test]
fn the_journal_of_a_foreign_database_stays_as_it_is() {
    let place = Place::new();
    let copied = place.directory.path().join("copied.db");
    let elsewhere = TempDir::new().unwrap();
    let original = elsewhere.path().join("original.db");
    let connection = Connection::open(&original).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE notes (text); VACUUM;")
        .unwrap();
    for suffix in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        fs::copy(name(&original), name(&copied)).unwrap();
    }
    assert_eq!(place.files(), ["copied.db", "copied.db-wal"]);
    refuses(&place, &copied);
}

#[test]
fn a_newer_store_is_refused_with_the_fix() {
    let place = Place::new();
    drop(place.open());
    let connection = Connection::open(place.store()).unwrap();
    connection.pragma_update(None, "user_version", schema::FORMAT + 1).unwrap();
    drop(connection);
    let error = refuses(&place, &place.store());
    assert!(matches!(error, StoreError::Newer { found: 8, supported: 7, .. }));
    assert!(error.to_string().contains("upgrade fedback or use --store PATH"), "{error}");
}

fn journal(connection: &Connection) -> String {
    connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap()
}

/// Makes it impossible for SQLite to have the index of a WAL, as on some network file systems: it
/// does not follow links there.
#[cfg(unix)]
fn deny_wal(place: &Place) {
    let index = place.directory.path().join("fedback.db-shm");
    std::os::unix::fs::symlink("nowhere", index).unwrap();
}

#[cfg(unix)]
#[test]
fn without_wal_the_store_has_a_rollback_journal() {
    let place = Place::new();
    assert_eq!(journal(&place.open().connection), "wal");
    fs::remove_file(place.store()).unwrap();

    deny_wal(&place);
    let store = place.open();
    assert_eq!(journal(&store.connection), "delete");
    let id = store.begin(&new_run()).unwrap();
    let mut writer = store.writer(id).unwrap();
    writer.record(record(0)).unwrap();
    writer.checkpoint(checkpoint(3)).unwrap();
    assert_eq!(store.runs().unwrap().sound[0].ending, None);
    writer.finish(&Ending::Done).unwrap();
    assert_eq!(rounds(&store.load(id).unwrap()), [0]);
}

#[cfg(unix)]
#[test]
fn a_store_with_wal_can_be_moved_to_where_there_is_none() {
    let place = Place::new();
    let id = place.open().begin(&new_run()).unwrap();
    deny_wal(&place);

    let before = fs::read(place.store()).unwrap();
    let store = Store::open_existing(&place.store()).unwrap().unwrap();
    assert_eq!(store.runs().unwrap().sound.len(), 1);
    assert_eq!(fs::read(place.store()).unwrap(), before, "listing does not write");

    drop(store.writer(id).unwrap());
    assert_eq!(journal(&place.open().connection), "delete");
}

#[test]
fn listing_does_not_wait_for_another_process_that_writes() {
    let place = Place::new();
    let mut store = place.open();
    store.begin(&new_run()).unwrap();
    let writing =
        store.connection.transaction_with_behavior(TransactionBehavior::Exclusive).unwrap();
    writing.execute("UPDATE run SET name = 'changed'", []).unwrap();
    let other = Store::open_existing(&place.store()).unwrap().unwrap();
    assert_eq!(other.runs().unwrap().sound[0].name, "paper-gaussian");
}

/// A store of an earlier format is read as it is and brought up to date by the first who writes.
#[test]
fn an_old_store_is_brought_up_to_date() {
    let without_incidents = "DROP TABLE incident; ALTER TABLE checkpoint DROP COLUMN before;
        PRAGMA user_version = 6;";
    let without_labels = "ALTER TABLE run DROP COLUMN label_checksum; PRAGMA user_version = 5;";
    let without_times = "ALTER TABLE records DROP COLUMN seconds; PRAGMA user_version = 4;";
    let without_facts = "ALTER TABLE run DROP COLUMN facts; ALTER TABLE run DROP COLUMN note;
        ALTER TABLE run DROP COLUMN tags; PRAGMA user_version = 3;";
    let without_checksums = "DROP TABLE kept; ALTER TABLE run DROP COLUMN checksum;
        ALTER TABLE checkpoint DROP COLUMN rows; ALTER TABLE checkpoint DROP COLUMN checksum;
        ALTER TABLE records DROP COLUMN checksum; ALTER TABLE cohort DROP COLUMN checksum;
        PRAGMA user_version = 2;";
    let without_cohorts = "DROP TABLE cohort; PRAGMA user_version = 1;";
    let mut undo = String::new();
    let steps = [
        without_incidents,
        without_labels,
        without_times,
        without_facts,
        without_checksums,
        without_cohorts,
    ];
    for (step, format) in steps.into_iter().zip([6, 5, 4, 3, 2, 1]) {
        undo += step;
        old_store(&undo, format);
    }
}

fn old_store(undo: &str, old: i32) {
    let place = Place::new();
    let store = place.open();
    let id = store.begin(&NewRun { facts: None, ..new_run() }).unwrap();
    store.connection.execute_batch(undo).unwrap();
    drop(store);
    let format = |store: &Store| -> i32 {
        store.connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    let store = Store::open_existing(&place.store()).unwrap().unwrap();
    assert_eq!((store.load(id).unwrap().cohorts, format(&store)), (vec![], old));
    let mut writer = store.writer(id).unwrap();
    assert_eq!(format(&store), schema::FORMAT);
    let cohort = RecordedCohort {
        round: Round(0),
        repetition: 0,
        members: vec![ClientId(3)],
        coefficients: vec![1.0],
    };
    writer.cohort(cohort.clone()).unwrap();
    writer.checkpoint(checkpoint(1)).unwrap();
    writer.flush().unwrap();
    assert_eq!(store.load(id).unwrap().cohorts, [cohort]);
    assert_eq!(place.open().runs().unwrap().sound.len(), 1);
}

//! A ledger that is damaged, rolled back, copied or lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedback_site::Ledger;
use fedback_site::ledger::{Entry, seal_of};
use fedback_site::rests::Rests;
use rusqlite::Connection;

fn entry(number: u8) -> Entry {
    Entry {
        plan: format!("plan {}", number % 2),
        client: u32::from(number % 3),
        place: format!("round {number}"),
        request: [number; 32],
        rests: (0..number % 4).map(|step| Arc::new(Rests::new(0..20 + u64::from(step)))).collect(),
        answer: vec![number; 16],
    }
}

fn with_entries(folder: &Path, count: u8) -> PathBuf {
    let path = folder.join("oak.ledger");
    let mut ledger = Ledger::create(&path, "oak", None).unwrap();
    for number in 0..count {
        ledger.record(&[entry(number)]).unwrap();
    }
    path
}

fn why(path: &Path, name: &str) -> String {
    Ledger::open(path, name).err().expect("it opens").to_string()
}

#[test]
fn what_was_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_entries(folder.path(), 9);
    let ledger = Ledger::open(&path, "oak").unwrap();
    assert_eq!(ledger.entries(), 9);
    assert_eq!(ledger.answered(&[4; 32]).unwrap(), Some(vec![4; 16]));
    assert_eq!(ledger.answered(&[9; 32]).unwrap(), None);
    assert!(ledger.is_taken("plan 1", 1, "round 7").unwrap());
    assert!(!ledger.is_taken("plan 1", 2, "round 7").unwrap());
    let spent = ledger.spent(1);
    assert_eq!((spent.in_all, spent.by_plan["plan 1"], spent.rests.len()), (3, 2, 3));
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(&path), mode(&seal_of(&path))), (0o600, 0o600));
}

#[test]
fn nobody_else_writes_to_it_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_entries(folder.path(), 1);
    let _open = Ledger::open(&path, "oak").unwrap();
    assert!(why(&path, "oak").contains("is in use"), "{}", why(&path, "oak"));
}

#[test]
fn a_lost_a_copied_and_an_older_ledger_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_entries(folder.path(), 5);
    let copy = |name: &str| {
        let copy = folder.path().join(name);
        std::fs::copy(&path, &copy).unwrap();
        copy
    };
    let older = copy("older");
    assert!(why(&path, "elm").contains("is the ledger of \"oak\""));
    assert!(Ledger::create(&path, "oak", None).is_err(), "a ledger is not begun twice");
    Ledger::open(&path, "oak").unwrap().record(&[entry(5), entry(6)]).unwrap();
    // Put back to where it was: its seal is ahead.
    let newest = copy("newest");
    std::fs::copy(&older, &path).unwrap();
    assert!(why(&path, "oak").contains("ends after 5 entries, its seal is of entry 7"));
    std::fs::copy(&newest, &path).unwrap();
    assert_eq!(Ledger::open(&path, "oak").unwrap().entries(), 7);
    // A crash between the two files leaves the seal behind, which is no harm.
    let seal = seal_of(&path);
    let behind = std::fs::read(&seal).unwrap();
    Ledger::open(&path, "oak").unwrap().record(&[entry(7)]).unwrap();
    std::fs::write(&seal, behind).unwrap();
    assert_eq!(Ledger::open(&path, "oak").unwrap().entries(), 8);
    std::fs::remove_file(&seal).unwrap();
    assert!(why(&path, "oak").contains("seal cannot be read"));
    std::fs::remove_file(&path).unwrap();
    assert!(why(&path, "oak").contains("there is no ledger"));
}

#[test]
fn a_changed_entry_is_named() {
    for change in [
        "UPDATE entries SET client = 1 WHERE number = 3",
        "UPDATE entries SET plan = 'plan 7' WHERE number = 3",
        "UPDATE entries SET answer = x'00' WHERE number = 3",
        "UPDATE entries SET at = at + 1 WHERE number = 3",
        "UPDATE entries SET rests = x'' WHERE number = 3",
        "UPDATE entries SET request = x'00' WHERE number = 3",
        "DELETE FROM entries WHERE number = 3",
        "UPDATE rests SET rows = x'000000000000000000000000'",
        "DELETE FROM rests",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = with_entries(folder.path(), 6);
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let why = why(&path, "oak");
        let named =
            why.contains("entry 3") || change.contains("rests ") || change.contains("FROM rests");
        assert!(named, "{change}: {why}");
    }
}

/// Whatever bytes are changed, a ledger is refused, or is what it was.
#[test]
fn damaged_bytes_change_no_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_entries(folder.path(), 6);
    let (whole, seal) = (std::fs::read(&path).unwrap(), std::fs::read(seal_of(&path)).unwrap());
    let mut refused = 0;
    for place in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x5a;
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(seal_of(&path), &seal).unwrap();
        match Ledger::open(&path, "oak") {
            Err(_) => refused += 1,
            Ok(ledger) => {
                assert_eq!(ledger.entries(), 6, "byte {place}");
                let answers = (0..3).map(|client| ledger.spent(client).in_all);
                assert_eq!(answers.collect::<Vec<_>>(), [2, 2, 2], "byte {place}");
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

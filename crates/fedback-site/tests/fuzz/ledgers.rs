//! Ledgers and seals that were damaged: refused, or all that was answered is still known.

use std::path::Path;
use std::sync::Arc;

use fedback_core::stream::Draws;
use fedback_site::ledger::{Entry, Ledger, seal_of};
use fedback_site::rests::Rests;
use rusqlite::Connection;

use crate::mutation::{corpus, damages, draws, mutate, survives};

/// The entries of the ledger in the corpus.
const ENTRIES: u8 = 6;

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

/// Whether a ledger opens; one that does has forgotten nothing, and takes no answer twice.
fn opens(path: &Path) -> bool {
    let Ok(mut ledger) = Ledger::open(path, "oak") else { return false };
    let known = |ledger: &Ledger, number: u8| {
        let entry = entry(number);
        let answer = ledger.answered(&entry.request).unwrap();
        assert_eq!(answer, Some(entry.answer), "the answer to question {number}");
        let taken = ledger.is_taken(&entry.plan, entry.client, &entry.place).unwrap();
        assert!(taken, "the place of question {number}");
    };
    (0..ENTRIES).for_each(|number| known(&ledger, number));
    assert_eq!(ledger.entries(), u64::from(ENTRIES));
    let spent = (0..3).map(|client| ledger.spent(client));
    assert!(spent.clone().all(|spent| spent.in_all == 2));
    assert_eq!(spent.map(|spent| spent.rests.len()).collect::<Vec<_>>(), [3, 1, 2]);
    assert!(ledger.record(&[entry(2)]).is_err(), "a question was answered twice");
    // What comes next is remembered with all before, or not written.
    if ledger.record(&[entry(ENTRIES)]).is_ok() {
        drop(ledger);
        let ledger = Ledger::open(path, "oak").unwrap();
        (0..=ENTRIES).for_each(|number| known(&ledger, number));
    }
    true
}

struct Files {
    folder: tempfile::TempDir,
    ledger: Vec<u8>,
    seal: Vec<u8>,
}

impl Files {
    /// The corpus has one that was written by an earlier version, so that it stays readable.
    fn new() -> Self {
        let files = corpus("ledgers");
        let [ledger, seal] = ["oak.ledger", "oak.ledger.seal"].map(|name| {
            let file = files.iter().find(|(path, _)| path.ends_with(name));
            file.unwrap_or_else(|| panic!("{name} is not in the corpus")).1.clone()
        });
        Files { folder: tempfile::tempdir().unwrap(), ledger, seal }
    }

    /// Puts both files in place, and nothing beside them.
    fn place(&self, ledger: &[u8], seal: &[u8]) -> std::path::PathBuf {
        let path = self.folder.path().join("oak.ledger");
        for file in std::fs::read_dir(self.folder.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        std::fs::write(&path, ledger).unwrap();
        std::fs::write(seal_of(&path), seal).unwrap();
        path
    }
}

#[test]
fn the_ledger_of_the_corpus_opens() {
    let files = Files::new();
    assert!(opens(&files.place(&files.ledger, &files.seal)));
}

/// Those that once opened, and had forgotten an answer.
#[test]
fn damaged_ledgers_of_the_corpus_are_refused() {
    let files = Files::new();
    let damaged = corpus("ledgers").into_iter().filter(|(path, _)| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("damaged"))
    });
    let mut count = 0;
    for (path, bytes) in damaged {
        assert!(!opens(&files.place(&bytes, &files.seal)), "{}", path.display());
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn damaged_bytes_make_no_ledger_forget() {
    let files = Files::new();
    let mut draws = draws(3);
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..damages(1500) {
        let bytes = mutate(&files.ledger, &files.seal, &mut draws);
        let path = files.place(&bytes, &files.seal);
        match survives(b"see the seed", |_| opens(&path)) {
            true => opened += 1,
            false => refused += 1,
        }
    }
    assert!(opened > 20 && refused > 200, "{opened} {refused}");
}

/// A ledger that was put back to an earlier state, under any seal but the one it had then.
#[test]
fn no_damaged_seal_lets_an_earlier_ledger_pass() {
    let files = Files::new();
    let path = files.place(&files.ledger, &files.seal);
    let mut earlier = vec![files.ledger.clone()];
    for last in (0..ENTRIES).rev() {
        let connection = Connection::open(&path).unwrap();
        connection.execute("DELETE FROM entries WHERE number > ?1", [last]).unwrap();
        drop(connection);
        earlier.push(std::fs::read(&path).unwrap());
    }
    let mut seals: Vec<Vec<u8>> = corpus("seals").into_iter().map(|(_, bytes)| bytes).collect();
    seals.push(files.seal.clone());
    let mut draws = draws(4);
    let mut opened = 0;
    for place in 0..damages(1000) as usize + seals.len() {
        let (one, two) = (draws.index(seals.len()), draws.index(seals.len()));
        let seal = match seals.get(place) {
            Some(seal) => seal.clone(),
            None => mutate(&seals[one], &seals[two], &mut draws),
        };
        let ledger = &earlier[draws.index(earlier.len())];
        opened += usize::from(survives(&seal, |_| opens(&files.place(ledger, &seal))));
    }
    // The whole ledger is fine under a seal that is behind, or changed where nobody looks.
    assert!(opened > 0);
}

/// One edit by hand, of data or of the schema.
fn edit(draws: &mut Draws) -> String {
    let number = 1 + draws.index(ENTRIES as usize);
    let other = 1 + draws.index(ENTRIES as usize);
    let column = ["at", "plan", "client", "place", "request", "rests", "answer", "chain", "number"]
        [draws.index(9)];
    let value = ["0", "1", "-1", "NULL", "''", "x''", "x'00'", "zeroblob(32)", "'a'", "1e300"]
        [draws.index(10)];
    let schema = "PRAGMA writable_schema = 1;";
    match draws.index(14) {
        0..=3 => format!("UPDATE OR IGNORE entries SET {column} = {value} WHERE number = {number}"),
        4 => format!(
            "UPDATE OR IGNORE entries SET {column} = (SELECT {column} FROM entries WHERE number = \
             {other}) WHERE number = {number}"
        ),
        5 => format!("DELETE FROM entries WHERE number = {number}"),
        6 => format!("UPDATE entries SET number = number + 100 WHERE number >= {number}"),
        7 => format!(
            "UPDATE entries SET number = -1 WHERE number = {number}; UPDATE OR IGNORE entries SET \
             number = {number} WHERE number = {other}; UPDATE OR IGNORE entries SET number = \
             {other} WHERE number = -1"
        ),
        8 => "INSERT INTO entries SELECT -number, at, plan, client, place || 'x', zeroblob(31) || \
              x'07', rests, x'07', chain FROM entries WHERE number = 2"
            .into(),
        9 => {
            format!("DELETE FROM rests WHERE rowid IN (SELECT 1) OR length(rows) > {}", 12 * number)
        }
        10 => {
            "CREATE TRIGGER forget AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE number \
               = NEW.number; END"
                .into()
        }
        11 => "ALTER TABLE entries RENAME TO hidden; CREATE VIEW entries AS SELECT * FROM hidden"
            .into(),
        12 => format!(
            "{schema} UPDATE sqlite_schema SET sql = replace(sql, ' UNIQUE', '') WHERE name = \
             'entries'"
        ),
        _ => format!("UPDATE site SET name = {value}"),
    }
}

#[test]
fn edits_by_hand_make_no_ledger_forget() {
    let files = Files::new();
    let mut draws = draws(5);
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..damages(600) {
        let path = files.place(&files.ledger, &files.seal);
        let connection = Connection::open(&path).unwrap();
        let edits: Vec<String> = (0..=draws.index(2)).map(|_| edit(&mut draws)).collect();
        for edit in &edits {
            // Some are no SQL after another has changed the schema.
            let _ = connection.execute_batch(edit);
        }
        drop(connection);
        match survives(edits.join("; ").as_bytes(), |_| opens(&path)) {
            true => opened += 1,
            false => refused += 1,
        }
    }
    assert!(opened > 10 && refused > 200, "{opened} {refused}");
}

/// Writes the ledger of the corpus anew, after a change of its format.
#[test]
#[ignore = "makes a file of the corpus"]
fn write_the_ledger_of_the_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/ledgers");
    let path = folder.join("oak.ledger");
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_file(seal_of(&path));
    let mut ledger = Ledger::create(&path, "oak", None).unwrap();
    (0..ENTRIES).for_each(|number| ledger.record(&[entry(number)]).unwrap());
}

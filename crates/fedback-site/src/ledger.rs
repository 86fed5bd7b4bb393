//! The ledger: everything that a site has ever answered, in one SQLite file.
//!
//! Every entry carries a digest of itself and of the one before, so that none can be changed, removed or
//! put in between without notice. The last digest is written to a second file, the seal, beside it: a
//! ledger that was put back to an earlier state ends before its seal. Answers are kept as they were
//! given, so that whoever asks the same gets the same.

mod soundness;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fedback_lab::error::Error;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::rests::{Rests, RowName};

/// A digest of 32 bytes.
pub type Mark = [u8; 32];

/// What a ledger says of itself: in the second format also which column says whom a row is about.
/// Entries that were written under the first one may know rows by what is read of them alone.
const FIRST: &str = "CREATE TABLE site (format INTEGER NOT NULL, name TEXT NOT NULL);";
const SECOND: &str = "CREATE TABLE site (format INTEGER NOT NULL, name TEXT NOT NULL, id TEXT);";

const ENTRIES: &str = "
    CREATE TABLE rests (mark BLOB PRIMARY KEY, rows BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE entries (
        number INTEGER PRIMARY KEY, at INTEGER NOT NULL, plan TEXT NOT NULL, client INTEGER NOT NULL,
        place TEXT NOT NULL, request BLOB NOT NULL UNIQUE, rests BLOB NOT NULL, answer BLOB NOT NULL,
        chain BLOB NOT NULL, UNIQUE (plan, client, place)
    );
";

/// What was answered once: for whom, about what, on which rows.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The plan's hash.
    pub plan: String,
    /// The client.
    pub client: u32,
    /// What was asked, as far as it may be asked once: a round of a repetition, a census.
    pub place: String,
    /// The digest of the whole question.
    pub request: Mark,
    /// The rows, step by step; none where the population is not made of rows.
    pub rests: Vec<Arc<Rests>>,
    /// What was answered.
    pub answer: Vec<u8>,
}

/// How much was answered for a client.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    /// Answers in all.
    pub in_all: u64,
    /// Answers by plan.
    pub by_plan: HashMap<String, u64>,
    /// What they rested on, each once.
    pub rests: Vec<Arc<Rests>>,
    /// Every row in that.
    rows: HashSet<RowName>,
}

/// What was answered, and room for more.
pub struct Ledger {
    connection: Connection,
    path: PathBuf,
    name: String,
    id: Option<String>,
    entries: u64,
    chain: Mark,
    spent: HashMap<u32, Spent>,
    /// What was spent of a client that nothing was answered for.
    nothing: Spent,
}

#[derive(Serialize, Deserialize)]
struct Seal {
    name: String,
    entries: u64,
    chain: String,
}

fn fail(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Failed(format!("{}: {why}", path.display()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file beside the ledger that has its last digest.
pub fn seal_of(ledger: &Path) -> PathBuf {
    let mut name = ledger.as_os_str().to_owned();
    name.push(".seal");
    name.into()
}

impl Ledger {
    /// Begins a ledger: nothing has been answered. Refused where there is one. `id` is the column that
    /// says whom a row is about; the whole line where there is none.
    pub fn create(path: &Path, name: &str, id: Option<&str>) -> Result<Self, Error> {
        for taken in [path, &seal_of(path)] {
            if taken.exists() {
                let why = "is there already; a site has one ledger, which begins once";
                return Err(Error::input(taken.display(), why));
            }
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        made.map_err(|error| fail(path, error))?;
        let begin = || -> rusqlite::Result<()> {
            let connection = Connection::open(path)?;
            connection.execute_batch(&[SECOND, ENTRIES].concat())?;
            connection.execute("INSERT INTO site VALUES (2, ?1, ?2)", params![name, id])?;
            connection.close().map_err(|(_, error)| error)
        };
        begin().map_err(|error| fail(path, error))?;
        write_seal(path, name, 0, &beginning(id))?;
        Ledger::open(path, name)
    }

    /// Opens the ledger of a site and looks at every entry.
    pub fn open(path: &Path, name: &str) -> Result<Self, Error> {
        if !path.exists() {
            let why = "there is no ledger. Where the site has answered before, put it back from a \
                       backup; `fedback site init` begins one that knows of no answer";
            return Err(Error::input(path.display(), why));
        }
        let connection = Connection::open(path).map_err(|error| fail(path, error))?;
        let mut ledger = Ledger {
            connection,
            path: path.to_path_buf(),
            name: name.into(),
            id: None,
            entries: 0,
            chain: [0; 32],
            spent: HashMap::new(),
            nothing: Spent::default(),
        };
        let (format, owner) = ledger.claim().map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => {
                fail(path, "is in use: the site's service holds it; stop that first")
            }
            _ => fail(path, format!("no sound ledger: {error}")),
        })?;
        if owner != name {
            let why = format!("is the ledger of {owner:?}; the policy is of {name:?}");
            return Err(Error::input(path.display(), why));
        }
        let sealed = ledger.sealed()?;
        let mut seen = sealed.entries == 0 && sealed.chain == hex(&ledger.chain);
        ledger.walk(|ledger| {
            seen |= ledger.entries == sealed.entries && hex(&ledger.chain) == sealed.chain;
        })?;
        let site = if format == 1 { FIRST } else { SECOND };
        let schema = [site, ENTRIES].concat();
        let flaw = soundness::flaw(&ledger.connection, &schema, ledger.entries);
        let flaw = flaw.unwrap_or_else(|error| Some(error.to_string()));
        if let Some(flaw) = flaw {
            return Err(fail(path, format!("no sound ledger: {flaw}. Put back the newest copy")));
        }
        match seen {
            true => Ok(ledger),
            false => Err(fail(
                path,
                format!(
                    "ends after {} entries, its seal is of entry {}: it was put back to an earlier \
                     state, or changed. Put back the newest copy of both files",
                    ledger.entries, sealed.entries
                ),
            )),
        }
    }

    /// Takes the file for this process alone, and says in which format it is, and whose.
    fn claim(&mut self) -> rusqlite::Result<(i64, String)> {
        self.connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
        let query = "SELECT format, name FROM site WHERE format IN (1, 2)";
        let (format, owner) =
            self.connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if format == 2 {
            self.id = self.connection.query_row("SELECT id FROM site", [], |row| row.get(0))?;
            self.chain = beginning(self.id.as_deref());
        }
        Ok((format, owner))
    }

    /// Refuses a policy under which people would have other names than those in the entries.
    pub fn check_id(&self, id: Option<&str>) -> Result<(), Error> {
        if self.id.as_deref() == id {
            return Ok(());
        }
        let named = |id: Option<&str>| match id {
            None => "their whole line".to_string(),
            Some(column) => format!("the column {column:?}"),
        };
        let (own, other) = (named(self.id.as_deref()), named(id));
        let fix = match &self.id {
            None => "leave id out of the policy".to_string(),
            Some(column) => format!("put id = {column:?} into the policy"),
        };
        let why = format!(
            "id: the ledger knows rows by {own}, the policy by {other}, under which the same people \
             would be new: {fix}, or begin another ledger with fewer answers"
        );
        Err(Error::input(self.path.display(), why))
    }

    fn sealed(&self) -> Result<Seal, Error> {
        let path = seal_of(&self.path);
        let text = fs::read(&path).map_err(|error| {
            fail(&path, format!("the ledger's seal cannot be read ({error}); put back both files"))
        })?;
        let seal: Seal = serde_json::from_slice(&text)
            .map_err(|error| fail(&path, format!("is no seal: {error}")))?;
        match seal.name == self.name {
            true => Ok(seal),
            false => Err(fail(&path, format!("is the seal of {:?}", seal.name))),
        }
    }

    /// Reads all entries, checks their chain, and adds up what was spent.
    fn walk(&mut self, mut after_each: impl FnMut(&Ledger)) -> Result<(), Error> {
        let rests = read_rests(&self.connection)
            .map_err(|error| fail(&self.path, format!("the rows of its entries: {error}")))?;
        let mut last = 0;
        loop {
            let next = read_after(&self.connection, last, &rests);
            let Some((number, at, entry, chain)) =
                next.map_err(|error| fail(&self.path, format!("entry {}: {error}", last + 1)))?
            else {
                return Ok(());
            };
            let expected = next_mark(&self.chain, at, &entry);
            if number != self.entries as i64 + 1 || chain != expected {
                let why = format!("entry {} is not what was written", self.entries + 1);
                return Err(fail(&self.path, why));
            }
            self.count(&entry, chain);
            after_each(self);
            last = number;
        }
    }

    fn count(&mut self, entry: &Entry, chain: Mark) {
        (self.entries, self.chain) = (self.entries + 1, chain);
        let spent = self.spent.entry(entry.client).or_default();
        spent.in_all += 1;
        *spent.by_plan.entry(entry.plan.clone()).or_default() += 1;
        for rests in &entry.rests {
            if !spent.rests.contains(rests) {
                spent.rests.push(rests.clone());
                spent.rows.extend(rests.rows());
            }
        }
    }

    /// How much was answered for a client.
    pub fn spent(&self, client: u32) -> &Spent {
        self.spent.get(&client).unwrap_or(&self.nothing)
    }

    /// What was answered rested on, for each client that shares a row with these.
    pub fn near(&self, rests: &Rests) -> impl Iterator<Item = &Arc<Rests>> {
        let shares = move |spent: &&Spent| rests.rows().any(|row| spent.rows.contains(&row));
        self.spent.values().filter(shares).flat_map(|spent| &spent.rests)
    }

    /// Entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The digest of all of them, for somebody else to write down.
    pub fn mark(&self) -> String {
        hex(&self.chain)
    }

    /// What was answered to the same question.
    pub fn answered(&self, request: &Mark) -> Result<Option<Vec<u8>>, Error> {
        let query = "SELECT answer FROM entries WHERE request = ?1";
        let found = self.connection.query_row(query, [&request[..]], |row| row.get(0)).optional();
        found.map_err(|error| fail(&self.path, error))
    }

    /// Whether another question was answered in its place.
    pub fn is_taken(&self, plan: &str, client: u32, place: &str) -> Result<bool, Error> {
        let query = "SELECT 1 FROM entries WHERE plan = ?1 AND client = ?2 AND place = ?3";
        let found = self.connection.query_row(query, params![plan, client, place], |_| Ok(()));
        found.optional().map(|found| found.is_some()).map_err(|error| fail(&self.path, error))
    }

    /// Writes down what is about to be answered; all of it or nothing.
    pub fn record(&mut self, entries: &[Entry]) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        let written = self.write(entries).map_err(|error| {
            let _ = self.connection.execute_batch("ROLLBACK");
            fail(&self.path, format!("cannot be written: {error}"))
        })?;
        entries.iter().zip(written).for_each(|(entry, chain)| self.count(entry, chain));
        write_seal(&self.path, &self.name, self.entries, &self.chain)
    }

    /// Writes entries in one transaction; their digests.
    fn write(&self, entries: &[Entry]) -> rusqlite::Result<Vec<Mark>> {
        let past = SystemTime::now().duration_since(UNIX_EPOCH);
        let at = past.map_or(0, |past| past.as_secs() as i64);
        let (mut number, mut chain) = (self.entries as i64, self.chain);
        let mut written = Vec::new();
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        for entry in entries {
            for rests in &entry.rests {
                let bytes = rests.bytes();
                let insert = "INSERT OR IGNORE INTO rests VALUES (?1, ?2)";
                self.connection.execute(insert, params![&mark_of(&bytes)[..], bytes])?;
            }
            number += 1;
            chain = next_mark(&chain, at, entry);
            self.connection.execute(
                "INSERT INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    number,
                    at,
                    entry.plan,
                    entry.client,
                    entry.place,
                    &entry.request[..],
                    marks(entry),
                    entry.answer,
                    &chain[..]
                ],
            )?;
            written.push(chain);
        }
        self.connection.execute_batch("COMMIT")?;
        Ok(written)
    }
}

/// The digest of no entry: what the ledger says of itself cannot be changed either.
fn beginning(id: Option<&str>) -> Mark {
    id.map_or([0; 32], |id| Sha256::digest(id).into())
}

/// The digest of an entry and of all before it.
fn next_mark(before: &Mark, at: i64, entry: &Entry) -> Mark {
    let mut digest = Sha256::new();
    digest.update(before);
    let rests = marks(entry);
    let (at, client) = (at.to_le_bytes(), entry.client.to_le_bytes());
    for part in [
        &at[..],
        entry.plan.as_bytes(),
        &client,
        entry.place.as_bytes(),
        &entry.request,
        &rests,
        &entry.answer,
    ] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

fn mark_of(bytes: &[u8]) -> Mark {
    Sha256::digest(bytes).into()
}

/// The digests of what an entry rests on, one after the other.
fn marks(entry: &Entry) -> Vec<u8> {
    entry.rests.iter().flat_map(|rests| mark_of(&rests.bytes())).collect()
}

/// All rows that entries rest on, by their digests.
fn read_rests(connection: &Connection) -> rusqlite::Result<HashMap<Mark, Arc<Rests>>> {
    let mut query = connection.prepare("SELECT mark, rows FROM rests")?;
    let each = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut all = HashMap::new();
    for row in each {
        let (mark, rows): (Vec<u8>, Vec<u8>) = row?;
        let rests = Rests::from_bytes(&rows).filter(|_| mark_of(&rows)[..] == mark[..]);
        let rests = rests.ok_or(rusqlite::Error::InvalidQuery)?;
        all.insert(mark_of(&rows), Arc::new(rests));
    }
    Ok(all)
}

/// The entry that follows a number.
fn read_after(
    connection: &Connection,
    number: i64,
    rests: &HashMap<Mark, Arc<Rests>>,
) -> rusqlite::Result<Option<(i64, i64, Entry, Mark)>> {
    let mut query = connection.prepare_cached(
        "SELECT number, at, plan, client, place, request, rests, answer, chain FROM entries
         WHERE number > ?1 ORDER BY number LIMIT 1",
    )?;
    let mark = |bytes: Vec<u8>| Mark::try_from(bytes).map_err(|_| rusqlite::Error::InvalidQuery);
    query
        .query_row([number], |row| {
            let marks: Vec<u8> = row.get(6)?;
            let (marks, rest) = marks.as_chunks::<32>();
            let known = marks.iter().map(|mark| rests.get(mark).cloned());
            let known: Option<Vec<Arc<Rests>>> = known.collect();
            let known = known.filter(|_| rest.is_empty()).ok_or(rusqlite::Error::InvalidQuery)?;
            let entry = Entry {
                plan: row.get(2)?,
                client: row.get(3)?,
                place: row.get(4)?,
                request: mark(row.get(5)?)?,
                rests: known,
                answer: row.get(7)?,
            };
            Ok((row.get(0)?, row.get(1)?, entry, mark(row.get(8)?)?))
        })
        .optional()
}

/// Writes the seal beside a ledger, whole or not at all.
fn write_seal(ledger: &Path, name: &str, entries: u64, chain: &Mark) -> Result<(), Error> {
    let path = seal_of(ledger);
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let seal = Seal { name: name.into(), entries, chain: hex(chain) };
    let write = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&serde_json::to_vec(&seal)?)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|error| fail(&path, format!("cannot be written: {error}")))
}

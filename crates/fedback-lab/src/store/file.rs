//! The SQLite file: where it is, whether it is ours, how it is created and opened.
//!
//! A file that is not ours is never opened for writing, not even by SQLite, which would roll back
//! or fold in the journals it finds beside it. So a look comes first that ignores locks and
//! journals; our files can be told by it because the mark is written before the file changes to WAL.
//! The look goes through SQLite too: a plain `File` that is closed would drop the POSIX locks which
//! other connections of this process hold on the file.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Error, ErrorCode, OpenFlags, TransactionBehavior, ffi};

use super::reader::ReadError;
use super::{RunId, StoreError, label, schema};

/// `fedb`, in the header of the file.
pub(super) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"fedb");

/// How long one process waits while another writes.
const BUSY: Duration = Duration::from_secs(30);

/// How long the creation of a store may take.
const CREATION: Duration = Duration::from_secs(1);

/// What a file is that no store has been made of yet.
const EMPTY: &str = "it is empty";

/// Where a store is.
#[derive(Clone, Debug)]
pub(super) struct Location {
    shown: PathBuf,
    file: PathBuf,
}

impl Location {
    pub(super) fn new(path: &Path) -> Result<Location, StoreError> {
        // An absolute path is also never one of SQLite's special names, such as `:memory:`.
        match std::path::absolute(path) {
            Ok(file) => Ok(Location { shown: path.to_owned(), file }),
            Err(cause) => {
                Err(StoreError::Unopenable { path: path.to_owned(), reason: cause.to_string() })
            }
        }
    }

    /// The same with symbolic links followed, so that all processes agree on the lock files.
    pub(super) fn resolved(self) -> Result<Location, StoreError> {
        match fs::canonicalize(&self.file) {
            Ok(file) => Ok(Location { file, ..self }),
            Err(cause) => Err(StoreError::Io { path: self.shown, cause: cause.into() }),
        }
    }

    /// The file itself, links resolved.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The path as the user gave it, for messages.
    pub(super) fn shown(&self) -> PathBuf {
        self.shown.clone()
    }

    /// The lock file of a run.
    pub(super) fn run_file(&self, id: RunId) -> PathBuf {
        self.beside(&format!("-run-{id}"))
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    /// An error of SQLite as one of ours.
    pub(super) fn error(&self, cause: rusqlite::Error) -> StoreError {
        let path = self.shown();
        match cause.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                StoreError::NotAStore { path, found: "it is not an SQLite database" }
            }
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
            Some(ErrorCode::CannotOpen) => self.unopenable(cause),
            _ => StoreError::Sqlite { path, cause: cause.into() },
        }
    }

    /// Why a run cannot be read, as one of ours.
    pub(super) fn explain(&self, id: RunId, error: ReadError) -> StoreError {
        let damaged = |what| StoreError::Damaged { path: self.shown(), id, what };
        match error {
            ReadError::Unknown => damaged("it is gone".into()),
            ReadError::Damaged(what) => damaged(what),
            ReadError::Sqlite(
                cause @ (Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::InvalidColumnType(..)),
            ) => damaged(cause.to_string()),
            ReadError::Sqlite(cause) => self.error(cause),
        }
    }

    /// SQLite says only that it cannot open a file; this finds out why.
    fn unopenable(&self, cause: rusqlite::Error) -> StoreError {
        let directory = self.file.parent().unwrap_or(&self.file);
        let reason = match (directory.is_dir(), File::open(&self.file)) {
            (false, _) => format!("there is no directory {}", directory.display()),
            (true, Err(error)) if error.kind() == ErrorKind::NotFound => {
                format!("it cannot be created in {}", directory.display())
            }
            (true, Err(error)) => error.to_string(),
            (true, Ok(_)) => cause.to_string(),
        };
        StoreError::Unopenable { path: self.shown(), reason }
    }

    fn empty(&self) -> StoreError {
        StoreError::NotAStore { path: self.shown(), found: EMPTY }
    }

    fn foreign(&self) -> StoreError {
        let found = "it is an SQLite database of another program";
        StoreError::NotAStore { path: self.shown(), found }
    }
}

/// Opens the store for reading; `None` where there is none. One that is empty may be just being
/// created by another process, and is looked at again for a while.
pub(super) fn read(location: &Location) -> Result<Option<Connection>, StoreError> {
    let deadline = Instant::now() + CREATION;
    loop {
        match read_now(location) {
            Err(StoreError::NotAStore { found: EMPTY, .. }) if Instant::now() < deadline => {
                thread::sleep(CREATION / 50);
            }
            result => return result,
        }
    }
}

fn read_now(location: &Location) -> Result<Option<Connection>, StoreError> {
    match look(location)? {
        Found::Nothing => return Ok(None),
        Found::Empty => return Err(location.empty()),
        Found::Store => {}
    }
    let fail = |cause| location.error(cause);
    // Not read-only, because readers of a WAL also keep its index.
    let connection = match connect(location, OpenFlags::empty()) {
        Ok(connection) => connection,
        // On a read-only medium SQLite cannot lay out the index of the WAL. Without a WAL the file
        // itself is complete and can be read as it is.
        Err(cause) if lacks_index(&cause) && !has_wal(location) => {
            immutable(location).map_err(fail)?
        }
        Err(cause) => return Err(fail(cause)),
    };
    // A process killed while it created the store leaves a file that turns out to be empty.
    match mark(&connection).map_err(fail)? {
        Mark::Blank => Err(location.empty()),
        Mark::Foreign => Err(location.foreign()),
        Mark::Format(format) => supported(location, format).map(|()| Some(connection)),
    }
}

/// Opens an existing store for writing.
pub(super) fn write(location: &Location) -> Result<Connection, StoreError> {
    open(location, OpenFlags::empty())
}

/// Opens the store for writing, and creates it where there is none.
pub(super) fn create(location: &Location) -> Result<Connection, StoreError> {
    look(location)?;
    open(location, OpenFlags::SQLITE_OPEN_CREATE)
}

fn open(location: &Location, flags: OpenFlags) -> Result<Connection, StoreError> {
    let fail = |cause| location.error(cause);
    let mut connection = usable(location, flags).map_err(fail)?;
    // SQLite would let a transaction begin, and fail at the first write.
    if connection.is_readonly("main").map_err(fail)? {
        return Err(StoreError::ReadOnly { path: location.shown() });
    }
    if mark(&connection).map_err(fail)? == Mark::Blank
        && mark_as_ours(&mut connection).map_err(fail)?
    {
        // Busy means that somebody else is using the store already: it stays as they have it.
        // What became of it is asked of the file, below.
        let _ = connection.pragma_update(None, "journal_mode", "wal");
        drop(connection);
        connection = usable(location, flags).map_err(fail)?;
    }
    match mark(&connection).map_err(fail)? {
        Mark::Format(format) => supported(location, format)?,
        Mark::Blank | Mark::Foreign => return Err(location.foreign()),
    }
    bring_up_to_date(&mut connection).map_err(fail)?;
    synchronise(&connection).map_err(fail)?;
    Ok(connection)
}

/// What is in the place of a store.
enum Found {
    Nothing,
    /// A file without content, of which a store can be made: SQLite makes one first, and `mktemp`.
    Empty,
    Store,
}

/// What is there; what is neither a store nor can become one is refused.
fn look(location: &Location) -> Result<Found, StoreError> {
    let path = location.shown();
    match fs::metadata(&location.file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => {
            return Err(StoreError::Unopenable { path, reason: error.to_string() });
        }
        Ok(found) if found.is_dir() => {
            return Err(StoreError::NotAStore { path, found: "it is a directory" });
        }
        Ok(found) if !found.is_file() => {
            return Err(StoreError::NotAStore { path, found: "it is not a regular file" });
        }
        Ok(found) if found.len() == 0 => return Ok(Found::Empty),
        Ok(_) => {}
    }
    match immutable(location).and_then(|connection| mark(&connection)) {
        Ok(Mark::Format(format)) => supported(location, format).map(|()| Found::Store),
        Ok(Mark::Blank | Mark::Foreign) => Err(location.foreign()),
        Err(cause) => Err(location.error(cause)),
    }
}

fn supported(location: &Location, found: i32) -> Result<(), StoreError> {
    if found <= schema::FORMAT {
        return Ok(());
    }
    Err(StoreError::Newer { path: location.shown(), found, supported: schema::FORMAT })
}

/// Whose a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Blank,
    Foreign,
    Format(i32),
}

fn mark(connection: &Connection) -> rusqlite::Result<Mark> {
    match connection.pragma_query_value(None, "application_id", |row| row.get(0))? {
        APPLICATION_ID => {
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map(Mark::Format)
        }
        0 => {
            let schema: i32 =
                connection.pragma_query_value(None, "schema_version", |row| row.get(0))?;
            Ok(if schema == 0 { Mark::Blank } else { Mark::Foreign })
        }
        _ => Ok(Mark::Foreign),
    }
}

/// Makes a store of an empty database; false when another process has been faster.
fn mark_as_ours(connection: &mut Connection) -> rusqlite::Result<bool> {
    let creating = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if mark(&creating)? != Mark::Blank {
        return Ok(false);
    }
    creating.pragma_update(None, "application_id", APPLICATION_ID)?;
    creating.pragma_update(None, "user_version", schema::FORMAT)?;
    schema::ALL.iter().try_for_each(|part| creating.execute_batch(part))?;
    creating.commit()?;
    Ok(true)
}

/// Brings a store of an earlier format to this one.
fn bring_up_to_date(connection: &mut Connection) -> rusqlite::Result<()> {
    if mark(connection)? == Mark::Format(schema::FORMAT) {
        return Ok(());
    }
    let adding = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    for (format, added) in (1..).zip(&schema::ALL[1..]) {
        if mark(&adding)? == Mark::Format(format) {
            adding.execute_batch(added)?;
            adding.pragma_update(None, "user_version", format + 1)?;
            // Once: what is damaged afterwards must not be sealed again.
            if format + 1 == schema::SEALED {
                label::seal(&adding)?;
            }
        }
    }
    adding.commit()
}

/// The format of a store: one that was only ever read keeps an earlier one.
pub(super) fn format(connection: &Connection) -> rusqlite::Result<i32> {
    Ok(match mark(connection)? {
        Mark::Format(format) => format,
        Mark::Blank | Mark::Foreign => 0,
    })
}

/// A connection that has read something. A store in WAL mode that lies where WAL cannot work (its
/// index needs shared memory, which some network file systems lack) goes back to a rollback
/// journal.
fn usable(location: &Location, flags: OpenFlags) -> rusqlite::Result<Connection> {
    match connect(location, flags) {
        Err(cause) if lacks_index(&cause) && location.file.is_file() => {
            leave_wal(location).map_err(|_| cause)?;
            connect(location, flags)
        }
        result => result,
    }
}

fn connect(location: &Location, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&location.file, flags)?;
    connection.busy_timeout(BUSY)?;
    mark(&connection)?;
    Ok(connection)
}

/// A look at the file as it is, without its journals and without locks.
fn immutable(location: &Location) -> rusqlite::Result<Connection> {
    let mut uri = "file:".to_owned();
    for &byte in location.file.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(byte.into());
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    // While a WAL is folded in the header may announce pages that are yet to come; without this
    // SQLite would take the file for a damaged one.
    connection.pragma_update(None, "writable_schema", true)?;
    Ok(connection)
}

/// With the exclusive lock SQLite keeps the index of the WAL in its own memory, and so can fold the
/// WAL in where there is no shared memory.
fn leave_wal(location: &Location) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&location.file, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    connection.pragma_update(None, "journal_mode", "delete")
}

fn lacks_index(cause: &rusqlite::Error) -> bool {
    let Some(error) = cause.sqlite_error() else {
        return false;
    };
    error.code == ErrorCode::CannotOpen
        || error.code == ErrorCode::ReadOnly
        || matches!(
            error.extended_code,
            ffi::SQLITE_IOERR_SHMMAP
                | ffi::SQLITE_IOERR_SHMOPEN
                | ffi::SQLITE_IOERR_SHMSIZE
                | ffi::SQLITE_IOERR_SHMLOCK
        )
}

fn has_wal(location: &Location) -> bool {
    fs::metadata(location.beside("-wal")).is_ok_and(|wal| wal.len() > 0)
}

/// With a WAL, `NORMAL` cannot damage the file and a killed process loses nothing; only a power cut
/// may take back the last seconds, from which a run resumes as from an earlier checkpoint. It saves
/// an fsync a checkpoint. With a rollback journal `NORMAL` could damage the file, hence `FULL`.
fn synchronise(connection: &Connection) -> rusqlite::Result<()> {
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", if journal == "wal" { "normal" } else { "full" })
}

//! The store: one SQLite file that remembers every run and from which a killed run goes on.
//!
//! A run is recorded before its round 0 ([`Store::begin`]). While it advances, its [`Writer`]
//! appends records and replaces the one checkpoint, both in the same transaction, so that whatever
//! moment the process dies at, the file holds a checkpoint, every record up to the checkpoint's
//! round and none beyond it. The same holds for the cohorts of rounds which the seed alone does not
//! tell.
//!
//! Whether an unfinished run is running or interrupted is told by a lock of the operating system on
//! a small file beside the store (`fedback.db-run-3`): the system drops the lock when the process
//! dies, however it dies, while a process id may long belong to somebody else.
//!
//! Numbers are little-endian blobs, never text, so that every bit survives, NaN payloads included.
//! Every row has a checksum and every checkpoint a count of the rows before it: what is damaged is
//! named ([`StoreError::Damaged`]), and never read as if it were sound.

mod blob;
mod checkpoint;
mod claim;
mod error;
mod file;
mod manage;
mod reader;
mod run;
mod schema;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, Row, TransactionBehavior};

use claim::Claim;
use file::Location;
use reader::Reader;

pub use checkpoint::{Checkpoint, KeptBlock};
pub use error::StoreError;
pub use manage::tag;
pub use run::{NewRun, Record, RunId, RunSummary, StoredRun, standing};
pub use writer::Writer;

/// An open store.
#[derive(Debug)]
pub struct Store {
    location: Location,
    connection: Connection,
}

impl Store {
    /// Opens the store at `path` and creates it where there is none.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let location = Location::new(path)?;
        let connection = file::create(&location)?;
        Ok(Store { location: location.resolved()?, connection })
    }

    /// Where the store is.
    pub fn path(&self) -> &Path {
        self.location.file()
    }

    /// Opens the store at `path`; `None`, and nothing created, where there is none.
    ///
    /// A store that cannot be written can still be read.
    pub fn open_existing(path: &Path) -> Result<Option<Store>, StoreError> {
        let location = Location::new(path)?;
        match file::read(&location)? {
            Some(connection) => Ok(Some(Store { location: location.resolved()?, connection })),
            None => Ok(None),
        }
    }

    /// Records a run, before its round 0.
    pub fn begin(&self, run: &NewRun) -> Result<RunId, StoreError> {
        let sql = "INSERT INTO run (name, spec, directory, plan_hash, stream_format, version,
                                    rounds, repetitions, point, facts, checksum, started)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
                           strftime('%Y-%m-%dT%H:%M:%SZ', 'now')) RETURNING id";
        let values = (
            &run.name,
            &run.spec,
            &run.directory,
            &run.plan_hash,
            run.stream_format,
            &run.version,
            run.rounds.cast_signed(),
            run.repetitions.cast_signed(),
            &run.set,
            &run.facts,
            run.checksum(),
        );
        self.connection
            .query_one(sql, values, |row| row.get(0).map(RunId))
            .map_err(|cause| self.location.error(cause))
    }

    /// The runs, newest first.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let unfinished =
            self.ids("WHERE ended IS NULL").map_err(|cause| self.location.error(cause))?;
        let mut claimed = HashMap::new();
        for id in unfinished {
            claimed.insert(id, self.is_claimed(id)?);
        }
        self.summaries(&claimed).map_err(|cause| self.location.error(cause))
    }

    /// All that the store holds of run `id`.
    pub fn load(&self, id: RunId) -> Result<StoredRun, StoreError> {
        let claimed = self.is_claimed(id)?;
        let fail = |cause| self.location.error(cause);
        // One transaction, so that checkpoint, records and state are of the same moment.
        let reading = self.connection.unchecked_transaction().map_err(fail)?;
        let reader = Reader::new(&reading, id).map_err(fail)?;
        reader.load(claimed).map_err(|error| self.explain(id, error))
    }

    fn explain(&self, id: RunId, error: reader::ReadError) -> StoreError {
        match error {
            reader::ReadError::Unknown => self.unknown(id),
            reader::ReadError::Sqlite(cause) => self.location.error(cause),
            reader::ReadError::Damaged(what) => {
                StoreError::Damaged { path: self.location.shown(), id, what }
            }
        }
    }

    /// Claims run `id` for this process and continues it after its last checkpoint.
    ///
    /// A failed run counts as unfinished again. A run that is done, or that another writer holds,
    /// is refused.
    pub fn writer(&self, id: RunId) -> Result<Writer, StoreError> {
        let mut connection = file::write(&self.location)?;
        let fail = |cause| self.location.error(cause);
        // Claims are taken and given back inside a write transaction, see [`Claim`].
        let claiming =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        let reader = Reader::new(&claiming, id).map_err(fail)?;
        let ended = reader.run().map_err(|error| self.explain(id, error))?.ended;
        if ended.as_deref() == Some("done") {
            return Err(StoreError::AlreadyDone { path: self.location.shown(), id });
        }
        let path = self.location.run_file(id);
        let claim = Claim::take(&path)
            .map_err(|cause| StoreError::Io { path, cause: cause.into() })?
            .ok_or_else(|| StoreError::AlreadyRunning { path: self.location.shown(), id })?;
        claiming
            .execute("UPDATE run SET ended = NULL, failure = NULL WHERE id = ?1", [id.0])
            .map_err(fail)?;
        let reached = writer::Reached::read(&claiming, id).map_err(fail)?;
        claiming.commit().map_err(fail)?;
        Writer::start(self.location.clone(), connection, claim, id, reached)
    }

    fn is_claimed(&self, id: RunId) -> Result<bool, StoreError> {
        let path = self.location.run_file(id);
        Claim::is_taken(&path).map_err(|cause| StoreError::Io { path, cause: cause.into() })
    }

    fn unknown(&self, id: RunId) -> StoreError {
        match self.ids("") {
            Ok(known) => StoreError::UnknownRun { path: self.location.shown(), id, known },
            Err(cause) => self.location.error(cause),
        }
    }

    fn ids(&self, condition: &str) -> rusqlite::Result<Vec<RunId>> {
        let sql = format!("SELECT id FROM run {condition} ORDER BY id");
        self.connection.prepare(&sql)?.query_map([], |row| row.get(0).map(RunId))?.collect()
    }

    fn summaries(&self, claimed: &HashMap<RunId, bool>) -> rusqlite::Result<Vec<RunSummary>> {
        // What `--set` set is among the facts, where a store has them.
        let added = match file::format(&self.connection)? {
            ..4 => "NULL, '', ''",
            _ => "iif(json_valid(facts), facts ->> 'assigned', NULL), tags, note",
        };
        let sql = format!(
            "SELECT id, name, ended, coalesce(round, 0), rounds, repetitions, started,
                    coalesce(seconds, 0.0), failure, point, {added}
             FROM run LEFT JOIN checkpoint ON checkpoint.run = run.id ORDER BY id DESC"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let summary = |row: &Row<'_>| {
            let id = RunId(row.get(0)?);
            let ended: Option<String> = row.get(2)?;
            // A run that was not there when the locks were asked has been begun since, by a
            // process that lives.
            let claimed = claimed.get(&id).copied().unwrap_or(true);
            Ok(RunSummary {
                id,
                name: row.get(1)?,
                ending: run::ending(ended.as_deref(), row.get(8)?, claimed),
                round: row.get::<_, i64>(3)?.cast_unsigned(),
                rounds: row.get::<_, i64>(4)?.cast_unsigned(),
                repetitions: row.get::<_, i64>(5)?.cast_unsigned(),
                started: row.get(6)?,
                seconds: row.get(7)?,
                set: run::merged([row.get(10)?, row.get(9)?]),
                tags: run::words(&row.get::<_, String>(11)?),
                note: row.get(12)?,
            })
        };
        statement.query_map([], summary)?.collect()
    }
}

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
mod glance;
mod incident;
mod label;
mod manage;
mod reader;
mod run;
mod schema;
mod thinning;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use claim::Claim;
use file::Location;
use label::Label;
use reader::{Read, ReadError, Reader};

pub use checkpoint::{Checkpoint, KeptBlock};
pub use error::StoreError;
pub use glance::{Glance, Mark};
pub use manage::tag;
pub use run::{NewRun, Record, RunId, RunSummary, Runs, StoredRun, standing};
pub use writer::Writer;

use crate::event::Ending;

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
        self.insert_row(run).map_err(|cause| self.location.error(cause))
    }

    fn insert_row(&self, run: &NewRun) -> rusqlite::Result<RunId> {
        let sql = "INSERT INTO run (name, spec, directory, plan_hash, stream_format, version,
                                    rounds, repetitions, point, facts, checksum, started)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
                           strftime('%Y-%m-%dT%H:%M:%SZ', 'now')) RETURNING id, started";
        let checksum = run.checksum();
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
            checksum,
        );
        let writing = self.connection.unchecked_transaction()?;
        let (id, started) =
            writing.query_one(sql, values, |row| Ok((RunId(row.get(0)?), row.get(1)?)))?;
        Label { started, ..Label::default() }.write(&writing, id, Some(checksum))?;
        writing.commit()?;
        Ok(id)
    }

    /// The runs, newest first. What is listed of them was found sound; their records are doubted
    /// when they are read.
    pub fn runs(&self) -> Result<Runs, StoreError> {
        let mut runs = Runs::default();
        for id in self.ids()?.into_iter().rev() {
            match self.read(id, |reader, claimed| reader.summary(claimed)) {
                Ok(run) => runs.sound.push(run),
                Err(error) if error.is_damage() => runs.damaged.push(error),
                // Removed meanwhile.
                Err(StoreError::UnknownRun { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(runs)
    }

    /// The numbers of all runs, in ascending order.
    pub fn ids(&self) -> Result<Vec<RunId>, StoreError> {
        let read = || -> rusqlite::Result<Vec<RunId>> {
            let mut statement = self.connection.prepare("SELECT id FROM run ORDER BY id")?;
            statement.query_map([], |row| row.get(0).map(RunId))?.collect()
        };
        read().map_err(|cause| self.location.error(cause))
    }

    /// All that the store holds of run `id`.
    pub fn load(&self, id: RunId) -> Result<StoredRun, StoreError> {
        self.load_thinned(id, usize::MAX)
    }

    /// The same with about `most` of its records, the extremes of its curve among them.
    pub fn load_thinned(&self, id: RunId, most: usize) -> Result<StoredRun, StoreError> {
        self.read(id, |reader, claimed| reader.load(claimed, most))
    }

    fn read<T>(
        &self,
        id: RunId,
        read: impl FnOnce(&Reader<'_>, bool) -> Read<T>,
    ) -> Result<T, StoreError> {
        let claimed = self.is_claimed(id)?;
        let fail = |cause| self.location.error(cause);
        // One transaction, so that checkpoint, records and state are of the same moment.
        let reading = self.connection.unchecked_transaction().map_err(fail)?;
        let reader = Reader::new(&reading, id).map_err(fail)?;
        read(&reader, claimed).map_err(|error| self.explain(id, error))
    }

    fn explain(&self, id: RunId, error: ReadError) -> StoreError {
        match error {
            ReadError::Unknown => self.unknown(id),
            other => self.location.explain(id, other),
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
        let label = reader.run().map_err(|error| self.explain(id, error))?.label;
        if label.ending(false) == Some(Ending::Done) {
            return Err(StoreError::AlreadyDone { path: self.location.shown(), id });
        }
        let path = self.location.run_file(id);
        let claim = Claim::take(&path)
            .map_err(|cause| StoreError::Io { path, cause: cause.into() })?
            .ok_or_else(|| StoreError::AlreadyRunning { path: self.location.shown(), id })?;
        label::change(&claiming, id, |label| label.end(Ending::Interrupted))
            .map_err(|error| self.explain(id, error))?;
        let reached = writer::Reached::read(&claiming, id).map_err(fail)?;
        claiming.commit().map_err(fail)?;
        Writer::start(self.location.clone(), connection, claim, id, reached)
    }

    fn is_claimed(&self, id: RunId) -> Result<bool, StoreError> {
        let path = self.location.run_file(id);
        Claim::is_taken(&path).map_err(|cause| StoreError::Io { path, cause: cause.into() })
    }

    fn unknown(&self, id: RunId) -> StoreError {
        match self.ids() {
            Ok(known) => StoreError::UnknownRun { path: self.location.shown(), id, known },
            Err(error) => error,
        }
    }
}

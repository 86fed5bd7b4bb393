//! What people do with recorded runs: label them, remove them, take them elsewhere.

use std::fs;

use rusqlite::TransactionBehavior;

use super::claim::Claim;
use super::label::{self, Label};
use super::{RunId, Store, StoreError, StoredRun, file};
use crate::event::Ending;

/// Every table with rows of a run, the run itself last.
const TABLES: [(&str, &str); 6] = [
    ("incident", "run"),
    ("kept", "run"),
    ("cohort", "run"),
    ("records", "run"),
    ("checkpoint", "run"),
    ("run", "id"),
];

/// A tag: one word.
pub fn tag(text: &str) -> Result<String, String> {
    let is_odd = |c: char| c == ',' || c.is_whitespace() || c.is_control();
    match text.is_empty() || text.contains(is_odd) {
        false => Ok(text.into()),
        true => Err("a tag is one word, without blanks and commas".into()),
    }
}

impl Store {
    /// Replaces the tags and the note of a run.
    pub fn annotate(&self, id: RunId, tags: &[String], note: &str) -> Result<(), StoreError> {
        self.change(id, |label| (label.tags, label.note) = (tags.join(" "), note.into()))
    }

    fn change(&self, id: RunId, change: impl FnOnce(&mut Label)) -> Result<(), StoreError> {
        let fail = |cause| self.location.error(cause);
        let mut connection = file::write(&self.location)?;
        let changing =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        label::change(&changing, id, change).map_err(|error| self.explain(id, error))?;
        changing.commit().map_err(fail)
    }

    /// Removes runs, all of them or none. One that is running is refused.
    pub fn remove(&self, ids: &[RunId]) -> Result<(), StoreError> {
        let fail = |cause| self.location.error(cause);
        let mut connection = file::write(&self.location)?;
        // Runs are claimed inside a write transaction: while this one is open, none is.
        let removing =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        for &id in ids {
            let path = self.location.run_file(id);
            let taken = Claim::is_taken(&path)
                .map_err(|cause| StoreError::Io { path: path.clone(), cause: cause.into() })?;
            if taken {
                return Err(StoreError::AlreadyRunning { path: self.location.shown(), id });
            }
            let mut removed = 0;
            for (table, key) in TABLES {
                let sql = format!("DELETE FROM {table} WHERE {key} = ?1");
                removed = removing.execute(&sql, [id.0]).map_err(fail)?;
            }
            if removed == 0 {
                return Err(self.unknown(id));
            }
            // A killed run may have left its lock file.
            let _ = fs::remove_file(path);
        }
        removing.commit().map_err(fail)?;
        // The file gets smaller where nobody else is using it; otherwise its room is used again.
        let _ = connection.execute_batch("VACUUM");
        Ok(())
    }

    /// Takes in a run of another store. One that was running there is interrupted here.
    pub fn insert(&self, run: &StoredRun) -> Result<RunId, StoreError> {
        let id = self.begin(&run.run)?;
        self.change(id, |label| {
            label.started.clone_from(&run.started);
            (label.tags, label.note) = (run.tags.join(" "), run.note.clone());
        })?;
        let mut writer = self.writer(id)?;
        run.records.iter().try_for_each(|record| writer.record(record.clone()))?;
        run.cohorts.iter().try_for_each(|cohort| writer.cohort(cohort.clone()))?;
        run.incidents.iter().try_for_each(|one| writer.incident(one.clone()))?;
        if let Some(checkpoint) = &run.checkpoint {
            writer.checkpoint(checkpoint.clone())?;
        }
        writer.finish(run.ending.as_ref().unwrap_or(&Ending::Interrupted))?;
        Ok(id)
    }
}

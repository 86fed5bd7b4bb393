//! What changes about a run after it was begun: how it ended, and what people say of it.
//!
//! A checksum of its own covers it, and the checksum of the description with it: neither can be
//! taken away unnoticed. Whoever changes a label reads it first, so that damage is never sealed.

use rusqlite::{Connection, Row};

use super::RunId;
use super::blob::Checksum;
use super::reader::{Read, Reader};
use crate::event::Ending;

/// A run's label.
#[derive(Clone, Debug, Default)]
pub(super) struct Label {
    pub(super) started: String,
    pub(super) ended: Option<String>,
    pub(super) failure: Option<String>,
    pub(super) tags: String,
    pub(super) note: String,
}

impl Label {
    /// The label in the columns from `first` on.
    pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Label {
            started: row.get(first)?,
            ended: row.get(first + 1)?,
            failure: row.get(first + 2)?,
            tags: row.get::<_, Option<_>>(first + 3)?.unwrap_or_default(),
            note: row.get::<_, Option<_>>(first + 4)?.unwrap_or_default(),
        })
    }

    /// How a run ended, none while a living process holds it. `claimed` is what the lock said
    /// *before* the store was read: in this order a run that ends meanwhile is never taken for an
    /// interrupted one.
    pub(super) fn ending(&self, claimed: bool) -> Option<Ending> {
        match self.ended.as_deref() {
            Some("done") => Some(Ending::Done),
            Some(_) => Some(Ending::Failed(self.failure.clone().unwrap_or_default())),
            None if claimed => None,
            None => Some(Ending::Interrupted),
        }
    }

    /// Says how the run ended.
    pub(super) fn end(&mut self, ending: Ending) {
        (self.ended, self.failure) = match ending {
            Ending::Done => (Some("done".into()), None),
            Ending::Failed(failure) => (Some("failed".into()), Some(failure)),
            Ending::Interrupted => (None, None),
        };
    }

    pub(super) fn checksum(&self, id: RunId, description: Option<i64>) -> i64 {
        let maybe = |sum: Checksum, text: Option<&str>| {
            let sum = sum.numbers(&[u64::from(text.is_some())]);
            sum.bytes(text.unwrap_or_default().as_bytes())
        };
        let known = [u64::from(description.is_some()), description.unwrap_or(0).cast_unsigned()];
        let sum = Checksum::default().numbers(&[id.0.cast_unsigned()]).numbers(&known);
        let texts = [Some(&self.started), self.ended.as_ref(), self.failure.as_ref()];
        let texts = texts.into_iter().chain([Some(&self.tags), Some(&self.note)]);
        texts.fold(sum, |sum, text| maybe(sum, text.map(String::as_str))).finish()
    }

    /// Writes the label of a run whose description has this checksum.
    pub(super) fn write(
        &self,
        connection: &Connection,
        id: RunId,
        description: Option<i64>,
    ) -> rusqlite::Result<()> {
        let sql = "UPDATE run SET started = ?2, ended = ?3, failure = ?4, tags = ?5, note = ?6,
                                  label_checksum = ?7 WHERE id = ?1";
        let checksum = self.checksum(id, description);
        let Label { started, ended, failure, tags, note } = self;
        connection.execute(sql, (id.0, started, ended, failure, tags, note, checksum)).map(|_| ())
    }
}

/// Changes the label of a run, which must be sound. The caller has a write transaction open.
pub(super) fn change(
    connection: &Connection,
    id: RunId,
    change: impl FnOnce(&mut Label),
) -> Read<()> {
    let mut begun = Reader::new(connection, id)?.run()?;
    change(&mut begun.label);
    Ok(begun.label.write(connection, id, begun.checksum)?)
}

/// Gives every label its checksum: those of a store before format 6 have none.
pub(super) fn seal(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT started, ended, failure, tags, note, checksum, id FROM run";
    let label = |row: &Row<'_>| Ok((Label::read(row, 0)?, row.get(5)?, RunId(row.get(6)?)));
    let labels: Vec<(Label, Option<i64>, RunId)> =
        connection.prepare(sql)?.query_map([], label)?.collect::<Result<_, _>>()?;
    labels
        .iter()
        .try_for_each(|(label, description, id)| label.write(connection, *id, *description))
}

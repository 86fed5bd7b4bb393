//! What a reader that looks again and again asks: which runs have changed, and how one of them
//! stands.
//!
//! A listing reads every run whole, to doubt it. Whoever lists ten thousand runs twice a second asks
//! for their marks first, and reads what has another one than before.

use rusqlite::Connection;

use super::label::Label;
use super::reader::{ReadError, Reader};
use super::run::{Record, RunId, RunSummary};
use super::{Store, StoreError, file, schema};
use crate::event::Ending;

/// Changes whenever what is listed of a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The checksum of what people say of the run and of how it ended.
    label: i64,
    /// The round of its checkpoint, and the checksum of that.
    round: i64,
    checkpoint: i64,
    /// Whether it has ended, or is running.
    stands: Stands,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stands {
    Ended,
    Running,
    Left,
}

impl Mark {
    /// Whether nothing of the run is left to be written.
    pub fn has_ended(self) -> bool {
        self.stands == Stands::Ended
    }
}

/// A run as it is listed, with its last record.
#[derive(Clone, Debug)]
pub struct Glance {
    /// What is listed of it.
    pub summary: RunSummary,
    /// Its canonical spec.
    pub spec: String,
    /// What else is known of its plan, as JSON.
    pub facts: Option<String>,
    /// The last record.
    pub last: Option<Record>,
}

impl Store {
    /// The mark of every run, in ascending order.
    pub fn marks(&self) -> Result<Vec<(RunId, Mark)>, StoreError> {
        let fail = |cause| self.location.error(cause);
        let mut marks = Vec::new();
        for (id, mut mark) in unclaimed(&self.connection).map_err(fail)? {
            if mark.stands == Stands::Left && self.is_claimed(id)? {
                mark.stands = Stands::Running;
            }
            marks.push((id, mark));
        }
        Ok(marks)
    }

    /// How one run stands.
    pub fn glance(&self, id: RunId) -> Result<Glance, StoreError> {
        self.read(id, |reader, claimed| reader.glance(claimed))
    }
}

/// The marks of all runs, as if no process held any.
fn unclaimed(connection: &Connection) -> rusqlite::Result<Vec<(RunId, Mark)>> {
    let format = file::format(connection)?;
    let since = |first: i32, column: &'static str| if format >= first { column } else { "NULL" };
    let sql = format!(
        "SELECT run.id, checkpoint.round, {}, {}, run.started, run.ended, run.failure, {}, {}
         FROM run LEFT JOIN checkpoint ON checkpoint.run = run.id ORDER BY run.id",
        since(3, "checkpoint.checksum"),
        since(schema::SEALED, "run.label_checksum"),
        since(4, "run.tags"),
        since(4, "run.note"),
    );
    let mut statement = connection.prepare(&sql)?;
    let mark = |row: &rusqlite::Row<'_>| {
        let id = RunId(row.get(0)?);
        let label = Label::read(row, 4)?;
        let ended = label.ending(false).is_some_and(|ending| ending != Ending::Interrupted);
        let sealed = row.get::<_, Option<i64>>(3)?;
        let mark = Mark {
            label: sealed.unwrap_or_else(|| label.checksum(id, None)),
            round: row.get::<_, Option<i64>>(1)?.unwrap_or(-1),
            checkpoint: row.get::<_, Option<i64>>(2)?.unwrap_or(-1),
            stands: if ended { Stands::Ended } else { Stands::Left },
        };
        Ok((id, mark))
    };
    statement.query_map([], mark)?.collect()
}

impl Reader<'_> {
    fn glance(&self, claimed: bool) -> Result<Glance, ReadError> {
        let begun = self.run()?;
        let last = self.last_record(&begun)?;
        let summary = self.summary(claimed)?;
        Ok(Glance { summary, spec: begun.run.spec, facts: begun.run.facts, last })
    }
}

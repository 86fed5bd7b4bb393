//! Reads what a store has of one run, and doubts it.

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_engine::cohort::RecordedCohort;
use rusqlite::{OptionalExtension, Row, Transaction};

use super::blob::{self, Checksum};
use super::checkpoint::{Checkpoint, KeptBlock};
use super::file;
use super::run::{NewRun, Record, RunId, StoredRun, ending, words};
use crate::event::Ending;

/// Why a run cannot be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// There is no such run.
    Unknown,
    /// SQLite failed.
    Sqlite(rusqlite::Error),
    /// It is not what was written; what is wrong, in words.
    Damaged(String),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        ReadError::Sqlite(error)
    }
}

type Read<T> = Result<T, ReadError>;

/// A run as it was begun, and how it ended.
pub(super) struct Begun {
    pub(super) run: NewRun,
    pub(super) ended: Option<String>,
    pub(super) failure: Option<String>,
    started: String,
    tags: Option<String>,
    note: Option<String>,
}

/// Reads one run.
pub(super) struct Reader<'a> {
    reading: &'a Transaction<'a>,
    id: RunId,
    format: i32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(reading: &'a Transaction<'a>, id: RunId) -> rusqlite::Result<Self> {
        Ok(Reader { reading, id, format: file::format(reading)? })
    }

    /// Everything of the run; `claimed` says whether a process holds it.
    pub(super) fn load(&self, claimed: bool) -> Read<StoredRun> {
        let Begun { run, ended, failure, started, tags, note } = self.run()?;
        let ending = ending(ended.as_deref(), failure, claimed);
        let (records, record_rows) = self.records()?;
        let cohorts = self.cohorts()?;
        let mut checkpoint = self.checkpoint()?;
        if let Some((checkpoint, rows)) = &mut checkpoint {
            checkpoint.kept = self.kept()?;
            let found = record_rows + cohorts.len() + checkpoint.kept.len();
            if let Some(rows) = rows.filter(|rows| *rows != found as i64) {
                return Err(damaged(format!("{found} rows of records and states, not {rows}")));
            }
            if records.last().is_some_and(|last: &Record| last.round > checkpoint.round) {
                return Err(damaged("records beyond the last checkpoint".into()));
            }
        }
        // Records are written with a checkpoint, and only a run that has one is done.
        let written = !records.is_empty() || ending == Some(Ending::Done);
        if checkpoint.is_none() && written {
            return Err(damaged("its checkpoint is missing".into()));
        }
        let checkpoint = checkpoint.map(|(checkpoint, _)| checkpoint);
        Ok(StoredRun {
            id: self.id,
            run,
            ending,
            checkpoint,
            records,
            cohorts,
            started,
            tags: words(&tags.unwrap_or_default()),
            note: note.unwrap_or_default(),
        })
    }

    /// A column that format 3 has added.
    fn added(&self, column: &'static str) -> &'static str {
        self.since(3, column)
    }

    /// A column that some format has added.
    fn since(&self, format: i32, column: &'static str) -> &'static str {
        if self.format >= format { column } else { "NULL" }
    }

    /// Refuses a row whose checksum, the last column, is another one; rows of old have none.
    fn check(&self, row: &Row<'_>, last: usize, found: Checksum, what: &str) -> Read<()> {
        match row.get::<_, Option<i64>>(last)? {
            Some(written) if written != found.finish() => {
                Err(damaged(format!("{what} does not match its checksum")))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn run(&self) -> Read<Begun> {
        let sql = format!(
            "SELECT name, spec, directory, plan_hash, stream_format, version, rounds,
                    repetitions, point, ended, failure, started, {}, {}, {}, {}
             FROM run WHERE id = ?1",
            self.since(4, "facts"),
            self.since(4, "tags"),
            self.since(4, "note"),
            self.added("checksum")
        );
        let begun = |row: &Row<'_>| {
            let run = NewRun {
                name: row.get(0)?,
                spec: row.get(1)?,
                directory: row.get(2)?,
                plan_hash: row.get(3)?,
                stream_format: row.get(4)?,
                version: row.get(5)?,
                rounds: row.get::<_, i64>(6)?.cast_unsigned(),
                repetitions: row.get::<_, i64>(7)?.cast_unsigned(),
                set: row.get(8)?,
                facts: row.get(12)?,
            };
            let begun = Begun {
                run,
                ended: row.get(9)?,
                failure: row.get(10)?,
                started: row.get(11)?,
                tags: row.get(13)?,
                note: row.get(14)?,
            };
            Ok((begun, row.get::<_, Option<i64>>(15)?))
        };
        let found = self.reading.query_one(&sql, [self.id.0], begun).optional()?;
        let (begun, checksum) = found.ok_or(ReadError::Unknown)?;
        match checksum.is_none_or(|written| written == begun.run.checksum()) {
            true => Ok(begun),
            false => Err(damaged("its description does not match its checksum".into())),
        }
    }

    /// The checkpoint without what clients keep, and how many rows go with it.
    fn checkpoint(&self) -> Read<Option<(Checkpoint, Option<i64>)>> {
        let sql = format!(
            "SELECT round, theta, failed, seconds, {}, {} FROM checkpoint WHERE run = ?1",
            self.added("rows"),
            self.added("checksum")
        );
        let mut statement = self.reading.prepare(&sql)?;
        let mut rows = statement.query([self.id.0])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let (round, seconds) = (row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, f64>(3)?);
        let counted: Option<i64> = row.get(4)?;
        let (server, failed) = (row.get_ref(1)?, row.get_ref(2)?);
        let found = checkpoint_checksum(
            self.id,
            (round, seconds, counted.unwrap_or_default()),
            server.as_blob().unwrap_or_default(),
            failed.as_blob().unwrap_or_default(),
        );
        self.check(row, 5, found, "its checkpoint")?;
        let checkpoint = Checkpoint {
            round,
            server: blob::column(row, 1, f64::from_le_bytes)?,
            kept: Vec::new(),
            failed: blob::column(row, 2, u64::from_le_bytes)?
                .as_chunks()
                .0
                .iter()
                .map(|&[repetition, round]| (repetition, Round(round)))
                .collect(),
            seconds,
        };
        Ok(Some((checkpoint, counted)))
    }

    /// The records, and in how many rows they are.
    fn records(&self) -> Read<(Vec<Record>, usize)> {
        let sql = format!(
            "SELECT last_round, width, rounds, measurements, {}, {} FROM records WHERE run = ?1
             ORDER BY last_round",
            self.since(5, "seconds"),
            self.added("checksum")
        );
        let mut statement = self.reading.prepare(&sql)?;
        let mut rows = statement.query([self.id.0])?;
        let (mut records, mut count) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let last = row.get::<_, i64>(0)?.cast_unsigned();
            let width = row.get::<_, u32>(1)? as usize;
            let rounds = blob::column(row, 2, u64::from_le_bytes)?;
            let all = blob::bytes(row, 3, rounds.len() * width * blob::WORD)?;
            let encoded = row.get_ref(2)?;
            let encoded = encoded.as_blob().unwrap_or_default();
            let times = row.get_ref(4)?.as_blob_or_null().unwrap_or_default();
            let found = record_checksum(self.id, last, width, [encoded, all], times);
            self.check(row, 5, found, &format!("a row of records up to round {last}"))?;
            let times: Vec<f64> = blob::decode(times.unwrap_or_default(), f64::from_le_bytes);
            for (index, round) in rounds.into_iter().enumerate() {
                let words = &all[index * width * blob::WORD..][..width * blob::WORD];
                let values = blob::decode(words, f64::from_le_bytes);
                records.push(Record { round, seconds: times.get(index).copied(), values });
            }
            count += 1;
        }
        Ok((records, count))
    }

    fn cohorts(&self) -> Read<Vec<RecordedCohort>> {
        if self.format < 2 {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT round, repetition, members, coefficients, {} FROM cohort WHERE run = ?1
             ORDER BY round, repetition",
            self.added("checksum")
        );
        let mut statement = self.reading.prepare(&sql)?;
        let mut rows = statement.query([self.id.0])?;
        let mut cohorts = Vec::new();
        while let Some(row) = rows.next()? {
            let members = blob::column(row, 2, u32::from_le_bytes)?;
            let coefficients = blob::bytes(row, 3, members.len() * blob::WORD)?;
            let cohort = RecordedCohort {
                round: Round(row.get::<_, i64>(0)?.cast_unsigned()),
                repetition: row.get::<_, i64>(1)?.cast_unsigned(),
                coefficients: blob::decode(coefficients, f64::from_le_bytes),
                members: members.into_iter().map(ClientId).collect(),
            };
            let found = cohort_checksum(self.id, &cohort);
            self.check(row, 4, found, &format!("the cohort of round {}", cohort.round.0 + 1))?;
            cohorts.push(cohort);
        }
        Ok(cohorts)
    }

    fn kept(&self) -> Read<Vec<KeptBlock>> {
        if self.format < 3 {
            return Ok(Vec::new());
        }
        let sql = "SELECT repetition, first, numbers, checksum FROM kept WHERE run = ?1
                   ORDER BY repetition, first";
        let mut statement = self.reading.prepare(sql)?;
        let mut rows = statement.query([self.id.0])?;
        let mut blocks = Vec::new();
        while let Some(row) = rows.next()? {
            let block = KeptBlock {
                repetition: row.get::<_, i64>(0)?.cast_unsigned(),
                first: row.get::<_, i64>(1)?.cast_unsigned(),
                numbers: blob::column(row, 2, f64::from_le_bytes)?,
            };
            let found = kept_checksum(self.id, &block);
            let what = format!("what clients keep from client {} on", block.first);
            self.check(row, 3, found, &what)?;
            blocks.push(block);
        }
        Ok(blocks)
    }
}

fn damaged(what: String) -> ReadError {
    ReadError::Damaged(what)
}

pub(super) fn checkpoint_checksum(
    id: RunId,
    (round, seconds, rows): (u64, f64, i64),
    server: &[u8],
    failed: &[u8],
) -> Checksum {
    let numbers = [id.0.cast_unsigned(), round, seconds.to_bits(), rows.cast_unsigned()];
    Checksum::default().numbers(&numbers).bytes(server).bytes(failed)
}

pub(super) fn record_checksum(
    id: RunId,
    last_round: u64,
    width: usize,
    blobs: [&[u8]; 2],
    times: Option<&[u8]>,
) -> Checksum {
    let numbers = [id.0.cast_unsigned(), last_round, width as u64];
    let blobs = blobs.into_iter().chain(times);
    blobs.fold(Checksum::default().numbers(&numbers), Checksum::bytes)
}

pub(super) fn cohort_checksum(id: RunId, cohort: &RecordedCohort) -> Checksum {
    let key = [id.0.cast_unsigned(), cohort.round.0, cohort.repetition];
    let members: Vec<u64> = cohort.members.iter().map(|member| u64::from(member.0)).collect();
    let coefficients: Vec<u64> = cohort.coefficients.iter().map(|c| c.to_bits()).collect();
    Checksum::default().numbers(&key).numbers(&members).numbers(&coefficients)
}

pub(super) fn kept_checksum(id: RunId, block: &KeptBlock) -> Checksum {
    let key = [id.0.cast_unsigned(), block.repetition, block.first];
    let numbers: Vec<u64> = block.numbers.iter().map(|number| number.to_bits()).collect();
    Checksum::default().numbers(&key).numbers(&numbers)
}

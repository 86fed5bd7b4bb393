//! Reads what a store has of one run, and doubts it.

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_engine::cohort::RecordedCohort;
use fedback_engine::incident::Incident;
use rusqlite::{Connection, OptionalExtension, Row};

use super::blob::{self, Checksum};
use super::checkpoint::{Checkpoint, KeptBlock};
use super::label::Label;
use super::run::{NewRun, Record, RunId, RunSummary, StoredRun, words};
use super::thinning::Thinning;
use super::{file, incident, schema};
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

pub(super) type Read<T> = Result<T, ReadError>;

/// A run as it was begun, with the checksum of that, and its label.
pub(super) struct Begun {
    pub(super) run: NewRun,
    pub(super) checksum: Option<i64>,
    pub(super) label: Label,
}

impl Begun {
    /// Refuses a row of the run whose checksum, in column `index`, is another one or missing; runs
    /// that were begun before format 3 have rows without.
    fn check(&self, row: &Row<'_>, index: usize, found: Checksum, what: &str) -> Read<()> {
        let is_sound = match row.get::<_, Option<i64>>(index)? {
            Some(written) => written == found.finish(),
            None => self.checksum.is_none(),
        };
        if is_sound { Ok(()) } else { Err(unlike(what)) }
    }
}

/// Reads one run.
pub(super) struct Reader<'a> {
    reading: &'a Connection,
    id: RunId,
    format: i32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(reading: &'a Connection, id: RunId) -> rusqlite::Result<Self> {
        Ok(Reader { reading, id, format: file::format(reading)? })
    }

    /// What is listed of the run; `claimed` says whether a process holds it.
    pub(super) fn summary(&self, claimed: bool) -> Read<RunSummary> {
        let begun = self.run()?;
        let ending = begun.label.ending(claimed);
        let checkpoint = self.checkpoint(&begun, ending.as_ref())?;
        let checkpoint = checkpoint.map(|(checkpoint, _)| checkpoint).unwrap_or_default();
        let Begun { run, label, .. } = begun;
        Ok(RunSummary {
            id: self.id,
            set: run.all_set(),
            name: run.name,
            ending,
            round: checkpoint.round,
            rounds: run.rounds,
            repetitions: run.repetitions,
            tags: words(&label.tags),
            note: label.note,
            started: label.started,
            seconds: checkpoint.seconds,
        })
    }

    /// Everything of the run, of a long curve about `most` records; `claimed` says whether a process
    /// holds it.
    pub(super) fn load(&self, claimed: bool, most: usize) -> Read<StoredRun> {
        let begun = self.run()?;
        let ending = begun.label.ending(claimed);
        let mut checkpoint = self.checkpoint(&begun, ending.as_ref())?;
        let (records, record_rows) = self.records(&begun, most)?;
        let (cohorts, incidents) = (self.cohorts(&begun)?, self.incidents()?);
        if let Some((checkpoint, rows)) = &mut checkpoint {
            checkpoint.kept = self.kept(&begun)?;
            let found = record_rows + cohorts.len() + checkpoint.kept.len() + incidents.len();
            if let Some(rows) = rows.filter(|rows| *rows != found as i64) {
                return Err(damaged(format!("{found} rows of records and states, not {rows}")));
            }
            if records.last().is_some_and(|last: &Record| last.round > checkpoint.round) {
                return Err(damaged("records beyond the last checkpoint".into()));
            }
        } else if !records.is_empty() {
            return Err(checkpoint_is_missing());
        }
        let Begun { run, label, .. } = begun;
        Ok(StoredRun {
            id: self.id,
            run,
            ending,
            checkpoint: checkpoint.map(|(checkpoint, _)| checkpoint),
            records,
            cohorts,
            incidents,
            started: label.started,
            tags: words(&label.tags),
            note: label.note,
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

    /// The description and the label of the run.
    pub(super) fn run(&self) -> Read<Begun> {
        let sql = format!(
            "SELECT name, spec, directory, plan_hash, stream_format, version, rounds,
                    repetitions, point, {}, started, ended, failure, {}, {}, {}, {}
             FROM run WHERE id = ?1",
            self.since(4, "facts"),
            self.since(4, "tags"),
            self.since(4, "note"),
            self.added("checksum"),
            self.since(6, "label_checksum"),
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
                facts: row.get(9)?,
            };
            let begun = Begun { run, label: Label::read(row, 10)?, checksum: row.get(15)? };
            Ok((begun, row.get::<_, Option<i64>>(16)?))
        };
        let found = self.reading.query_one(&sql, [self.id.0], begun).optional()?;
        let (begun, sealed) = found.ok_or(ReadError::Unknown)?;
        // Facts came after checksums.
        let is_sound = match begun.checksum {
            Some(written) => written == begun.run.checksum(),
            None => begun.run.facts.is_none(),
        };
        if !is_sound {
            return Err(unlike("its description"));
        }
        if self.format >= schema::SEALED
            && sealed != Some(begun.label.checksum(self.id, begun.checksum))
        {
            return Err(unlike("its start, end, tags or note"));
        }
        Ok(begun)
    }

    /// The checkpoint without what clients keep, and how many rows go with it.
    fn checkpoint(
        &self,
        begun: &Begun,
        ending: Option<&Ending>,
    ) -> Read<Option<(Checkpoint, Option<i64>)>> {
        let sql = format!(
            "SELECT round, theta, failed, seconds, {}, {}, {} FROM checkpoint WHERE run = ?1",
            self.added("rows"),
            self.added("checksum"),
            self.since(7, "before")
        );
        let mut statement = self.reading.prepare(&sql)?;
        let mut rows = statement.query([self.id.0])?;
        let Some(row) = rows.next()? else {
            // Only a run that has one is done.
            return if ending == Some(&Ending::Done) {
                Err(checkpoint_is_missing())
            } else {
                Ok(None)
            };
        };
        let (round, seconds) = (row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, f64>(3)?);
        let counted: Option<i64> = row.get(4)?;
        let (server, failed) = (row.get_ref(1)?, row.get_ref(2)?);
        let before = row.get_ref(6)?.as_blob_or_null().unwrap_or_default();
        let found = checkpoint_checksum(
            self.id,
            (round, seconds, counted.unwrap_or_default()),
            [server.as_blob().unwrap_or_default(), failed.as_blob().unwrap_or_default()],
            before,
        );
        begun.check(row, 5, found, "its checkpoint")?;
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
            before: before.map(|before| blob::decode(before, f64::from_le_bytes)),
        };
        Ok(Some((checkpoint, counted)))
    }

    /// About `most` of the records, and in how many rows all of them are.
    fn records(&self, begun: &Begun, most: usize) -> Read<(Vec<Record>, usize)> {
        let sql = "SELECT coalesce(sum(length(rounds)), 0) FROM records WHERE run = ?1";
        let bytes: i64 = self.reading.query_one(sql, [self.id.0], |row| row.get(0))?;
        let total = usize::try_from(bytes).unwrap_or_default() / blob::WORD;
        let mut thinning = Thinning::new(total, most, begun.run.repetitions as usize);
        let mut count = 0;
        self.each_row(begun, "ORDER BY last_round", &mut |row| {
            row.for_each(|record| thinning.take(record));
            count += 1;
        })?;
        Ok((thinning.finish(), count))
    }

    /// The last record.
    pub(super) fn last_record(&self, begun: &Begun) -> Read<Option<Record>> {
        let mut last = None;
        self.each_row(begun, "ORDER BY last_round DESC LIMIT 1", &mut |row| {
            last = row.next_back()
        })?;
        Ok(last)
    }

    /// Gives the records of every row.
    fn each_row(
        &self,
        begun: &Begun,
        which: &str,
        take: &mut dyn FnMut(&mut dyn DoubleEndedIterator<Item = Record>),
    ) -> Read<()> {
        let sql = format!(
            "SELECT last_round, width, rounds, measurements, {}, {} FROM records WHERE run = ?1
             {which}",
            self.since(5, "seconds"),
            self.added("checksum")
        );
        let mut statement = self.reading.prepare(&sql)?;
        let mut rows = statement.query([self.id.0])?;
        while let Some(row) = rows.next()? {
            let last = row.get::<_, i64>(0)?.cast_unsigned();
            let width = row.get::<_, u32>(1)? as usize;
            let rounds = blob::column(row, 2, u64::from_le_bytes)?;
            let all = blob::bytes(row, 3, rounds.len() * width * blob::WORD)?;
            let encoded = row.get_ref(2)?;
            let encoded = encoded.as_blob().unwrap_or_default();
            let times = row.get_ref(4)?.as_blob_or_null().unwrap_or_default();
            let found = record_checksum(self.id, last, width, [encoded, all], times);
            let what = format!("a row of records up to round {last}");
            begun.check(row, 5, found, &what)?;
            let times: Vec<f64> = blob::decode(times.unwrap_or_default(), f64::from_le_bytes);
            let record = |(index, round): (usize, &u64)| {
                let words = &all[index * width * blob::WORD..][..width * blob::WORD];
                let values = blob::decode(words, f64::from_le_bytes);
                Record { round: *round, seconds: times.get(index).copied(), values }
            };
            take(&mut rounds.iter().enumerate().map(record));
        }
        Ok(())
    }

    fn cohorts(&self, begun: &Begun) -> Read<Vec<RecordedCohort>> {
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
            let what = format!("the cohort of round {}", cohort.round.0 + 1);
            begun.check(row, 4, found, &what)?;
            cohorts.push(cohort);
        }
        Ok(cohorts)
    }

    fn incidents(&self) -> Read<Vec<Incident>> {
        if self.format < 7 {
            return Ok(Vec::new());
        }
        let all: Option<Vec<Incident>> =
            incident::read(self.reading, self.id)?.into_iter().collect();
        all.ok_or_else(|| unlike("what is said of a client"))
    }

    fn kept(&self, begun: &Begun) -> Read<Vec<KeptBlock>> {
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
            begun.check(row, 3, found, &what)?;
            blocks.push(block);
        }
        Ok(blocks)
    }
}

fn damaged(what: String) -> ReadError {
    ReadError::Damaged(what)
}

fn unlike(what: &str) -> ReadError {
    damaged(format!("{what} does not match its checksum"))
}

fn checkpoint_is_missing() -> ReadError {
    damaged("its checkpoint is missing".into())
}

pub(super) fn checkpoint_checksum(
    id: RunId,
    (round, seconds, rows): (u64, f64, i64),
    blobs: [&[u8]; 2],
    before: Option<&[u8]>,
) -> Checksum {
    let numbers = [id.0.cast_unsigned(), round, seconds.to_bits(), rows.cast_unsigned()];
    let blobs = blobs.into_iter().chain(before);
    blobs.fold(Checksum::default().numbers(&numbers), Checksum::bytes)
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

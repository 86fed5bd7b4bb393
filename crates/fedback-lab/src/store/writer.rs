//! The writer of one run: a thread with its own connection, so that the simulation does not wait
//! for the disk.

use std::collections::HashSet;
use std::mem;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use fedback_engine::cohort::RecordedCohort;
use fedback_engine::incident::{Incident, Trouble};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::blob;
use super::checkpoint::KeptBlock;
use super::claim::Claim;
use super::file::Location;
use super::reader::{
    Read, ReadError, checkpoint_checksum, cohort_checksum, kept_checksum, record_checksum,
};
use super::{Checkpoint, Record, RunId, StoreError, incident, label};
use crate::event::Ending;

/// Checkpoints that may wait for the disk before the simulation does.
const QUEUE: usize = 4;

/// Values to a row of records: 32 MiB, well below SQLite's limit of 10^9 bytes.
const VALUES_PER_ROW: usize = 4 << 20;

/// Writes one run. It holds the run until it is dropped.
///
/// Dropped without [`finish`](Writer::finish) it writes every checkpoint it was given and leaves the
/// run interrupted. An error of the thread is returned by the next call and by all that follow.
#[derive(Debug)]
pub struct Writer {
    location: Location,
    id: RunId,
    reached: Reached,
    pending: Pending,
    messages: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    error: Arc<OnceLock<StoreError>>,
}

/// What is written with the next checkpoint.
#[derive(Debug, Default)]
struct Pending {
    records: Vec<Record>,
    cohorts: Vec<RecordedCohort>,
    incidents: Vec<Incident>,
}

#[derive(Debug)]
enum Message {
    Write(Pending, Checkpoint),
    Flush(SyncSender<()>),
    Finish(Ending),
}

/// How far a run has been written, what the next record and checkpoint are held against.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    checkpoint: Option<u64>,
    record: Option<u64>,
    width: Option<usize>,
}

impl Reached {
    pub(super) fn read(reading: &Transaction<'_>, id: RunId) -> rusqlite::Result<Reached> {
        let checkpoint = reading
            .query_one("SELECT round FROM checkpoint WHERE run = ?1", [id.0], |row| {
                row.get::<_, i64>(0).map(i64::cast_unsigned)
            })
            .optional()?;
        let sql = "SELECT last_round, width FROM records WHERE run = ?1
                   ORDER BY last_round DESC LIMIT 1";
        let last = reading
            .query_row(sql, [id.0], |row| {
                Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, u32>(1)? as usize))
            })
            .optional()?;
        let (record, width) = last.unzip();
        Ok(Reached { checkpoint, record, width })
    }

    fn record(&mut self, record: &Record) -> Result<(), String> {
        let (round, width) = (record.round, record.values.len());
        if let Some(last) = self.record.filter(|&last| round <= last) {
            return Err(format!("a record of round {round} after that of round {last}"));
        }
        // Killed after that checkpoint, the run would go on without the record.
        if let Some(last) = self.checkpoint.filter(|&last| round <= last) {
            return Err(format!("a record of round {round} after the checkpoint of round {last}"));
        }
        if let Some(others) = self.width.filter(|&others| width != others) {
            return Err(format!("a record of {width} values where others have {others}"));
        }
        *self = Reached { record: Some(round), width: Some(width), ..*self };
        Ok(())
    }

    fn checkpoint(&mut self, round: u64) -> Result<(), String> {
        if let Some(last) = self.record.max(self.checkpoint).filter(|&last| round < last) {
            return Err(format!("a checkpoint of round {round} after round {last}"));
        }
        self.checkpoint = Some(round);
        Ok(())
    }
}

impl Writer {
    pub(super) fn start(
        location: Location,
        connection: Connection,
        claim: Claim,
        id: RunId,
        reached: Reached,
    ) -> Result<Writer, StoreError> {
        let (messages, received) = mpsc::sync_channel(QUEUE);
        let error = Arc::new(OnceLock::new());
        let thread = thread::Builder::new().name("fedback-store".to_owned()).spawn({
            let (location, error) = (location.clone(), Arc::clone(&error));
            move || work(&location, connection, claim, id, received, &error)
        });
        match thread {
            Ok(thread) => Ok(Writer {
                location,
                id,
                reached,
                pending: Pending::default(),
                messages: Some(messages),
                thread: Some(thread),
                error,
            }),
            Err(cause) => Err(StoreError::Io { path: location.shown(), cause: cause.into() }),
        }
    }

    /// Takes a record, which is written with the next checkpoint.
    ///
    /// Its round must be later than that of every record and of every checkpoint before.
    pub fn record(&mut self, record: Record) -> Result<(), StoreError> {
        self.healthy()?;
        self.reached.record(&record).map_err(|reason| self.refused(reason))?;
        self.pending.records.push(record);
        Ok(())
    }

    /// Takes the cohort of a round, which is written with the next checkpoint.
    ///
    /// Its round must be one that no checkpoint covers yet.
    pub fn cohort(&mut self, cohort: RecordedCohort) -> Result<(), StoreError> {
        self.healthy()?;
        let round = cohort.round.0;
        if let Some(last) = self.reached.checkpoint.filter(|&last| round < last) {
            let reason =
                format!("a cohort of round {} after the checkpoint of round {last}", round + 1);
            return Err(self.refused(reason));
        }
        self.pending.cohorts.push(cohort);
        Ok(())
    }

    /// Takes an incident as it stands now, which is written with the next checkpoint.
    pub fn incident(&mut self, incident: Incident) -> Result<(), StoreError> {
        self.healthy()?;
        self.pending.incidents.push(incident);
        Ok(())
    }

    /// Writes what it was given since the last checkpoint and this checkpoint, in one transaction.
    ///
    /// Returns at once, unless the disk is several checkpoints behind.
    pub fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.healthy()?;
        self.reached.checkpoint(checkpoint.round).map_err(|reason| self.refused(reason))?;
        let pending = mem::take(&mut self.pending);
        self.send(Message::Write(pending, checkpoint))
    }

    /// Waits until every checkpoint so far is committed.
    pub fn flush(&self) -> Result<(), StoreError> {
        let (done, wait) = mpsc::sync_channel(1);
        self.send(Message::Flush(done))?;
        wait.recv().map_err(|_| self.failure())
    }

    /// Ends the run, waits until everything is on the disk and lets the run go.
    ///
    /// Records after the last checkpoint are an error in a run that is done; with any other they
    /// are dropped.
    pub fn finish(mut self, ending: &Ending) -> Result<(), StoreError> {
        self.healthy()?;
        if *ending == Ending::Done && !self.pending.records.is_empty() {
            return Err(self.refused("a run that ends with records after its checkpoint".into()));
        }
        self.send(Message::Finish(ending.clone()))?;
        let stopped = self.join();
        self.healthy()?;
        if stopped { Ok(()) } else { Err(self.failure()) }
    }

    fn healthy(&self) -> Result<(), StoreError> {
        match self.error.get() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        let sent = self.messages.as_ref().is_some_and(|messages| messages.send(message).is_ok());
        if sent { Ok(()) } else { Err(self.failure()) }
    }

    /// Why the thread has stopped. It sets the error before it stops listening.
    fn failure(&self) -> StoreError {
        let stopped = || StoreError::Stopped { path: self.location.shown() };
        self.error.get().cloned().unwrap_or_else(stopped)
    }

    fn refused(&self, reason: String) -> StoreError {
        StoreError::Refused { id: self.id, reason }
    }

    /// Lets the thread work off what it was sent; false when it panicked.
    fn join(&mut self) -> bool {
        self.messages = None;
        self.thread.take().is_none_or(|thread| thread.join().is_ok())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.join();
    }
}

/// The rows that a run has so far, which its checkpoint counts.
struct Rows {
    /// Of records and cohorts.
    count: i64,
    /// Of what clients keep, by repetition and first client.
    kept: HashSet<(u64, u64)>,
    /// Of incidents, by client and trouble.
    incidents: HashSet<(u32, Trouble)>,
}

impl Rows {
    fn read(connection: &Connection, id: RunId) -> rusqlite::Result<Self> {
        let sql = "SELECT (SELECT count(*) FROM records WHERE run = ?1)
                        + (SELECT count(*) FROM cohort WHERE run = ?1)";
        let count = connection.query_one(sql, [id.0], |row| row.get(0))?;
        let sql = "SELECT repetition, first FROM kept WHERE run = ?1";
        let key = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
        };
        let kept = connection.prepare(sql)?.query_map([id.0], key)?.collect::<Result<_, _>>()?;
        let known = incident::read(connection, id)?.into_iter().flatten();
        let incidents = known.map(|one| (one.client.0, one.trouble)).collect();
        Ok(Rows { count, kept, incidents })
    }

    fn all(&self) -> i64 {
        self.count + (self.kept.len() + self.incidents.len()) as i64
    }
}

fn work(
    location: &Location,
    mut connection: Connection,
    claim: Claim,
    id: RunId,
    messages: Receiver<Message>,
    error: &OnceLock<StoreError>,
) {
    let read = Rows::read(&connection, id).map_err(ReadError::Sqlite);
    let written = read.and_then(|mut rows| {
        messages.iter().try_for_each(|message| match message {
            Message::Write(pending, checkpoint) => {
                Ok(write(&mut connection, id, &mut rows, &pending, &checkpoint)?)
            }
            Message::Finish(outcome) => end(&mut connection, id, outcome),
            Message::Flush(done) => {
                // Whoever asked may have gone.
                let _ = done.send(());
                Ok(())
            }
        })
    });
    if let Err(cause) = written {
        let _ = error.set(location.explain(id, cause));
    }
    drop(messages);
    claim.release(&mut connection);
}

fn write(
    connection: &mut Connection,
    id: RunId,
    rows: &mut Rows,
    pending: &Pending,
    checkpoint: &Checkpoint,
) -> rusqlite::Result<()> {
    let Pending { records, cohorts, incidents } = pending;
    let writing = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(first) = records.first() {
        let width = first.values.len();
        for batch in records.chunks((VALUES_PER_ROW / width.max(1)).max(1)) {
            write_records(&writing, id, width, batch)?;
            rows.count += 1;
        }
    }
    for cohort in cohorts {
        write_cohort(&writing, id, cohort)?;
        rows.count += 1;
    }
    for one in incidents {
        incident::write(&writing, id, one)?;
        rows.incidents.insert((one.client.0, one.trouble));
    }
    for block in &checkpoint.kept {
        write_kept(&writing, id, block)?;
        rows.kept.insert((block.repetition, block.first));
    }
    let failed = checkpoint.failed.iter().flat_map(|&(repetition, round)| [repetition, round.0]);
    let failed = blob::encode(failed, 2 * checkpoint.failed.len(), u64::to_le_bytes);
    let server = checkpoint.server.iter().copied();
    let server = blob::encode(server, checkpoint.server.len(), f64::to_le_bytes);
    let before = checkpoint
        .before
        .as_ref()
        .map(|before| blob::encode(before.iter().copied(), before.len(), f64::to_le_bytes));
    let numbers = (checkpoint.round, checkpoint.seconds, rows.all());
    let sql = "INSERT INTO checkpoint (run, round, seconds, failed, theta, rows, checksum, before)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (run) DO UPDATE SET
               round = ?2, seconds = ?3, failed = ?4, theta = ?5, rows = ?6, checksum = ?7,
               before = ?8";
    let blobs = [&server[..], &failed[..]];
    let checksum = checkpoint_checksum(id, numbers, blobs, before.as_deref()).finish();
    writing.prepare_cached(sql)?.execute((
        id.0,
        checkpoint.round.cast_signed(),
        checkpoint.seconds,
        failed,
        server,
        rows.all(),
        checksum,
        before,
    ))?;
    writing.commit()
}

fn write_records(
    writing: &Transaction<'_>,
    id: RunId,
    width: usize,
    batch: &[Record],
) -> rusqlite::Result<()> {
    let rounds = batch.iter().map(|record| record.round);
    let rounds = blob::encode(rounds, batch.len(), u64::to_le_bytes);
    let values = batch.iter().flat_map(|record| record.values.iter().copied());
    let values = blob::encode(values, batch.len() * width, f64::to_le_bytes);
    let times: Option<Vec<f64>> = batch.iter().map(|record| record.seconds).collect();
    let times = times.map(|times| blob::encode(times, batch.len(), f64::to_le_bytes));
    let last = batch.last().map_or(0, |record| record.round);
    let sql =
        "INSERT INTO records (run, last_round, width, checksum, rounds, measurements, seconds)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let checksum = record_checksum(id, last, width, [&rounds, &values], times.as_deref()).finish();
    writing.prepare_cached(sql)?.execute((
        id.0,
        last.cast_signed(),
        i64::try_from(width).unwrap_or(i64::MAX),
        checksum,
        rounds,
        values,
        times,
    ))?;
    Ok(())
}

fn write_cohort(
    writing: &Transaction<'_>,
    id: RunId,
    cohort: &RecordedCohort,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO cohort (run, round, repetition, checksum, members, coefficients)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let count = cohort.members.len();
    writing.prepare_cached(sql)?.execute((
        id.0,
        cohort.round.0.cast_signed(),
        cohort.repetition.cast_signed(),
        cohort_checksum(id, cohort).finish(),
        blob::encode(cohort.members.iter().map(|member| member.0), count, u32::to_le_bytes),
        blob::encode(cohort.coefficients.iter().copied(), count, f64::to_le_bytes),
    ))?;
    Ok(())
}

fn write_kept(writing: &Transaction<'_>, id: RunId, block: &KeptBlock) -> rusqlite::Result<()> {
    let sql = "INSERT INTO kept (run, repetition, first, checksum, numbers)
               VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (run, repetition, first) DO UPDATE
               SET checksum = ?4, numbers = ?5";
    let numbers = block.numbers.iter().copied();
    writing.prepare_cached(sql)?.execute((
        id.0,
        block.repetition.cast_signed(),
        block.first.cast_signed(),
        kept_checksum(id, block).finish(),
        blob::encode(numbers, block.numbers.len(), f64::to_le_bytes),
    ))?;
    Ok(())
}

fn end(connection: &mut Connection, id: RunId, ending: Ending) -> Read<()> {
    // The last commit also brings the earlier ones to the disk: what is done survives a power cut.
    connection.pragma_update(None, "synchronous", "full")?;
    let ended = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    label::change(&ended, id, |label| label.end(ending))?;
    Ok(ended.commit()?)
}

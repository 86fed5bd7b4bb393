//! What a store has of trouble with clients.

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_engine::incident::{Incident, Trouble};
use rusqlite::{Connection, Transaction};

use super::RunId;
use super::blob::Checksum;

fn checksum(id: RunId, incident: &Incident) -> i64 {
    let Incident { client, trouble, first, last, rounds, reason } = incident;
    let numbers = [id.0.cast_unsigned(), u64::from(client.0), first.0, last.0, *rounds];
    let sum = Checksum::default().numbers(&numbers);
    sum.bytes(trouble.word().as_bytes()).bytes(reason.as_bytes()).finish()
}

/// Writes an incident as it stands now.
pub(super) fn write(
    writing: &Transaction<'_>,
    id: RunId,
    incident: &Incident,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO incident (run, client, trouble, first, last, rounds, checksum, reason)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (run, client, trouble) DO UPDATE
               SET first = ?4, last = ?5, rounds = ?6, checksum = ?7, reason = ?8";
    writing.prepare_cached(sql)?.execute((
        id.0,
        incident.client.0,
        incident.trouble.word(),
        incident.first.0.cast_signed(),
        incident.last.0.cast_signed(),
        incident.rounds.cast_signed(),
        checksum(id, incident),
        &incident.reason,
    ))?;
    Ok(())
}

/// The incidents of a run, by client; none instead of one that is not what was written.
pub(super) fn read(reading: &Connection, id: RunId) -> rusqlite::Result<Vec<Option<Incident>>> {
    let sql = "SELECT client, trouble, first, last, rounds, reason, checksum FROM incident
               WHERE run = ?1 ORDER BY client, trouble";
    let mut statement = reading.prepare(sql)?;
    let rows = statement.query_map([id.0], |row| {
        let word: String = row.get(1)?;
        let number = |index| Ok::<u64, rusqlite::Error>(row.get::<_, i64>(index)?.cast_unsigned());
        let Some(trouble) = Trouble::ALL.into_iter().find(|trouble| trouble.word() == word) else {
            return Ok(None);
        };
        let incident = Incident {
            client: ClientId(row.get(0)?),
            trouble,
            first: Round(number(2)?),
            last: Round(number(3)?),
            rounds: number(4)?,
            reason: row.get(5)?,
        };
        let written: i64 = row.get(6)?;
        Ok((written == checksum(id, &incident)).then_some(incident))
    })?;
    rows.collect()
}

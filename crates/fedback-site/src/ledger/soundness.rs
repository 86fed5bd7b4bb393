//! Whether a file is a ledger at all: the tables that were made, whole, and nothing beside them.
//!
//! Digests guard what is in the entries, not the way to them: an index that was damaged does not find
//! an entry that is there, and a trigger takes away what has just been written.

use rusqlite::Connection;

/// What a database has beside rows: kind, name, table and definition of each part.
type Parts = Vec<(String, String, String, Option<String>)>;

fn parts(connection: &Connection) -> rusqlite::Result<Parts> {
    let query = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";
    let mut query = connection.prepare(query)?;
    let each =
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    each.collect()
}

/// What is wrong with the file, if anything is; `entries` is how many were found to follow each other.
pub(super) fn flaw(
    connection: &Connection,
    schema: &str,
    entries: u64,
) -> rusqlite::Result<Option<String>> {
    let made = Connection::open_in_memory()?;
    made.execute_batch(schema)?;
    if parts(connection)? != parts(&made)? {
        return Ok(Some("its tables are not those of a ledger".into()));
    }
    let sound: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        return Ok(Some(sound));
    }
    let all: i64 = connection.query_row("SELECT count(*) FROM entries", [], |row| row.get(0))?;
    Ok((all != entries as i64).then(|| format!("{all} entries, of which {entries} are in order")))
}

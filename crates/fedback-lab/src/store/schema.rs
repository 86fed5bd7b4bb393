//! The tables of a store, and what each format has added to them.

/// The format of the store that this version writes, and the latest it reads. Format 1 had no
/// cohorts, format 2 neither checksums nor anything that clients keep, format 3 nothing by which a
/// run is read without its data, format 4 no times of records, format 5 no checksums of labels, format
/// 6 neither incidents nor what a run that ends by movement goes on from;
/// whoever writes to such a store brings it up to date, whoever reads it finds none.
pub(super) const FORMAT: i32 = ALL.len() as i32;

/// The format from which on labels have checksums.
pub(super) const SEALED: i32 = 6;

/// What every format added, the first one first.
pub(super) const ALL: [&str; 7] = [SCHEMA, COHORTS, CHECKSUMS, FACTS, TIMES, LABELS, INCIDENTS];

/// Large columns come last in each table, so that listings do not read through them.
///
/// A row of `records` holds many records: `rounds` are the rounds as u64 and `measurements` their
/// values as f64, `width` each. `failed` holds pairs of u64: repetition, round. A run that has not
/// ended has no `ended`. Numbers beyond 2^63 are stored as their two's complement.
const SCHEMA: &str = "
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    started TEXT NOT NULL,
    rounds INTEGER NOT NULL,
    repetitions INTEGER NOT NULL,
    ended TEXT CHECK (ended IN ('done', 'failed')),
    failure TEXT,
    point TEXT NOT NULL,
    plan_hash TEXT NOT NULL,
    stream_format INTEGER NOT NULL,
    version TEXT NOT NULL,
    directory TEXT NOT NULL,
    spec TEXT NOT NULL
) STRICT;
CREATE TABLE checkpoint (
    run INTEGER PRIMARY KEY REFERENCES run (id),
    round INTEGER NOT NULL,
    seconds REAL NOT NULL,
    failed BLOB NOT NULL,
    theta BLOB NOT NULL
) STRICT;
CREATE TABLE records (
    run INTEGER NOT NULL REFERENCES run (id),
    last_round INTEGER NOT NULL,
    width INTEGER NOT NULL,
    rounds BLOB NOT NULL,
    measurements BLOB NOT NULL,
    UNIQUE (run, last_round)
) STRICT;
";

/// What format 2 added: `round` counts the rounds closed before the cohort's own, `members` are u32
/// in ascending order and `coefficients` f64, one each.
const COHORTS: &str = "
CREATE TABLE cohort (
    run INTEGER NOT NULL REFERENCES run (id),
    round INTEGER NOT NULL,
    repetition INTEGER NOT NULL,
    members BLOB NOT NULL,
    coefficients BLOB NOT NULL,
    UNIQUE (run, round, repetition)
) STRICT;
";

/// What format 3 added. `checksum` is the CRC-32 of a row with its keys; runs begun before, and
/// they alone, have rows without. `rows` counts the rows of records, cohorts and kept that go with
/// a checkpoint. `theta` is the
/// server's blocks, θ first. A row of `kept` holds what some neighbouring clients keep, as f64.
const CHECKSUMS: &str = "
ALTER TABLE run ADD COLUMN checksum INTEGER;
ALTER TABLE checkpoint ADD COLUMN rows INTEGER;
ALTER TABLE checkpoint ADD COLUMN checksum INTEGER;
ALTER TABLE records ADD COLUMN checksum INTEGER;
ALTER TABLE cohort ADD COLUMN checksum INTEGER;
CREATE TABLE kept (
    run INTEGER NOT NULL REFERENCES run (id),
    repetition INTEGER NOT NULL,
    first INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    numbers BLOB NOT NULL,
    UNIQUE (run, repetition, first)
) STRICT;
";

/// What format 4 added: `facts` is a JSON object, see [`Facts`](crate::facts::Facts); `tags` are
/// words with blanks between them.
const FACTS: &str = "
ALTER TABLE run ADD COLUMN tags TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN facts TEXT;
";

/// What format 5 added: `seconds` of work by each record of a row, as f64.
const TIMES: &str = "
ALTER TABLE records ADD COLUMN seconds BLOB;
";

/// What format 6 added: the CRC-32 of what changes about a run after it was begun, see
/// [`Label`](super::label::Label). Every run has it.
const LABELS: &str = "
ALTER TABLE run ADD COLUMN label_checksum INTEGER;
";

/// What format 7 added: a row of `incident` is one kind of trouble with one client, and counts among
/// the rows of a checkpoint; `before` is θ of all repetitions at the last record, as f64.
const INCIDENTS: &str = "
CREATE TABLE incident (
    run INTEGER NOT NULL REFERENCES run (id),
    client INTEGER NOT NULL,
    trouble TEXT NOT NULL CHECK (trouble IN ('absent', 'refused', 'claimed')),
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    rounds INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    reason TEXT NOT NULL,
    UNIQUE (run, client, trouble)
) STRICT;
ALTER TABLE checkpoint ADD COLUMN before BLOB;
";

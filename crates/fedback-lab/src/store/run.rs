//! What the store tells of a run, and what it is told.

use std::fmt;

use fedback_engine::cohort::RecordedCohort;
use serde_json::{Map, Value};

use super::Checkpoint;
use super::blob::Checksum;

/// The number of a run in its store: 1, 2, 3, …
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What is known of a run before its round 0: all that a resume needs besides the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The spec's name.
    pub name: String,
    /// The canonical spec, as TOML.
    pub spec: String,
    /// Where relative paths in the spec start.
    pub directory: String,
    /// The hash of the plan.
    pub plan_hash: String,
    /// The format of the random streams the run draws from.
    pub stream_format: u32,
    /// The version of fedback that began the run.
    pub version: String,
    /// The number of rounds after which the run is done.
    pub rounds: u64,
    /// The number of repetitions.
    pub repetitions: u64,
    /// The sweep point as a JSON object, `{}` outside a sweep.
    pub set: String,
    /// What else is known of the plan, as a JSON object; none in stores before format 4.
    pub facts: Option<String>,
}

impl NewRun {
    /// The checksum of its row. The directory is left out: a store may be moved.
    pub(super) fn checksum(&self) -> i64 {
        let texts = [&self.name, &self.spec, &self.plan_hash, &self.version, &self.set];
        let texts = texts.into_iter().chain(&self.facts);
        let numbers = [u64::from(self.stream_format), self.rounds, self.repetitions];
        let checksum = Checksum::default().numbers(&numbers);
        texts.fold(checksum, |sum, text| sum.bytes(text.as_bytes())).finish()
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// A living process holds the run.
    Running,
    /// No process holds the run and it has not ended: it can be resumed.
    Interrupted,
    /// All rounds are done.
    Done,
    /// The run ended with an error.
    Failed,
}

impl RunState {
    /// The word for this state in listings and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Interrupted => "interrupted",
            RunState::Done => "done",
            RunState::Failed => "failed",
        }
    }

    /// `ended` is what the store says, `claimed` what the lock said *before* the store was read:
    /// in this order a run that ends meanwhile is never taken for an interrupted one.
    pub(super) fn new(ended: Option<&str>, claimed: bool) -> RunState {
        match ended {
            Some("done") => RunState::Done,
            Some(_) => RunState::Failed,
            None if claimed => RunState::Running,
            None => RunState::Interrupted,
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// How a run ended, for [`Writer::finish`](super::Writer::finish).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All rounds are done.
    Done,
    /// The run cannot go on, for the reason given in words.
    Failed(String),
}

/// One line of the list of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// The run's number.
    pub id: RunId,
    /// The spec's name.
    pub name: String,
    /// Where the run stands.
    pub state: RunState,
    /// The round of the last checkpoint, 0 before the first.
    pub round: u64,
    /// The number of rounds after which the run is done.
    pub rounds: u64,
    /// The number of repetitions.
    pub repetitions: u64,
    /// When the run began: UTC, ISO 8601, to the second.
    pub started: String,
    /// Seconds of work up to the last checkpoint.
    pub seconds: f64,
    /// What `--set` and a sweep set, as JSON.
    pub set: Map<String, Value>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its note.
    pub note: String,
}

/// The fields of several JSON objects; what is none has no fields.
pub(super) fn merged(objects: [Option<String>; 2]) -> Map<String, Value> {
    let fields = |text: String| serde_json::from_str::<Map<_, _>>(&text).unwrap_or_default();
    objects.into_iter().flatten().flat_map(fields).collect()
}

/// The words of a text.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The measurements of one round, of all repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The round after which the measurements were taken.
    pub round: u64,
    /// The measurements, equally many in each record of a run.
    pub values: Vec<f64>,
}

/// All that the store holds of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// The run's number.
    pub id: RunId,
    /// What was known before round 0.
    pub run: NewRun,
    /// Where the run stands.
    pub state: RunState,
    /// The last checkpoint; none when the run was interrupted before its first.
    pub checkpoint: Option<Checkpoint>,
    /// The records up to the checkpoint's round, in the order of the rounds.
    pub records: Vec<Record>,
    /// The cohorts up to the checkpoint's round that the seed alone does not tell, in the order of
    /// rounds and repetitions.
    pub cohorts: Vec<RecordedCohort>,
    /// Why the run failed, if it did.
    pub failure: Option<String>,
    /// When the run began: UTC, ISO 8601, to the second.
    pub started: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its note.
    pub note: String,
}

//! What the store tells of a run, and what it is told.

use std::fmt;

use fedback_engine::cohort::RecordedCohort;
use fedback_engine::incident::Incident;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::blob::Checksum;
use super::{Checkpoint, StoreError};
use crate::event::Ending;

/// The number of a run in its store: 1, 2, 3, …
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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

    /// What `--set` set, which is among the facts, and the sweep point.
    pub(super) fn all_set(&self) -> Map<String, Value> {
        let fields = |text: &String| serde_json::from_str(text).unwrap_or_default();
        let mut facts: Map<String, Value> = self.facts.as_ref().map(fields).unwrap_or_default();
        let mut set = match facts.remove("assigned") {
            Some(Value::Object(assigned)) => assigned,
            _ => Map::new(),
        };
        set.extend(fields(&self.set));
        set
    }
}

/// The word for where a run stands in listings and in JSON.
pub fn standing(ending: Option<&Ending>) -> &'static str {
    ending.map_or("running", Ending::word)
}

fn as_standing<S: Serializer>(ending: &Option<Ending>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(standing(ending.as_ref()))
}

/// The runs of a store, newest first.
#[derive(Debug, Default)]
pub struct Runs {
    /// Those that can be trusted.
    pub sound: Vec<RunSummary>,
    /// What is damaged, one error per run.
    pub damaged: Vec<StoreError>,
}

/// One line of the list of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// The run's number.
    pub id: RunId,
    /// The spec's name.
    pub name: String,
    /// How the run ended; none while it is running.
    #[serde(rename = "state", serialize_with = "as_standing")]
    pub ending: Option<Ending>,
    /// The round of the last checkpoint, 0 before the first.
    pub round: u64,
    /// The number of rounds after which the run is done.
    pub rounds: u64,
    /// The number of repetitions.
    pub repetitions: u64,
    /// What `--set` and a sweep set, as JSON.
    pub set: Map<String, Value>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its note.
    pub note: String,
    /// When the run began: UTC, ISO 8601, to the second.
    pub started: String,
    /// Seconds of work up to the last checkpoint.
    pub seconds: f64,
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
    /// Seconds of work by then; none in stores before format 5.
    pub seconds: Option<f64>,
    /// The measurements, equally many in each record of a run: column after column, repetition after
    /// repetition.
    pub values: Vec<f64>,
}

impl StoredRun {
    /// Rounds closed at its last checkpoint.
    pub fn round(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.round)
    }

    /// Seconds of work by every record; not numbers where they were not kept.
    pub fn times(&self) -> Vec<f64> {
        self.records.iter().map(|record| record.seconds.unwrap_or(f64::NAN)).collect()
    }

    /// Seconds of work up to the last checkpoint.
    pub fn seconds(&self) -> f64 {
        self.checkpoint.as_ref().map_or(0.0, |checkpoint| checkpoint.seconds)
    }
}

/// All that the store holds of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// The run's number.
    pub id: RunId,
    /// What was known before round 0.
    pub run: NewRun,
    /// How the run ended; none while it is running.
    pub ending: Option<Ending>,
    /// The last checkpoint; none when the run was interrupted before its first.
    pub checkpoint: Option<Checkpoint>,
    /// The records up to the checkpoint's round, in the order of the rounds.
    pub records: Vec<Record>,
    /// The cohorts up to the checkpoint's round that the seed alone does not tell, in the order of
    /// rounds and repetitions.
    pub cohorts: Vec<RecordedCohort>,
    /// What went wrong with clients up to the checkpoint.
    pub incidents: Vec<Incident>,
    /// When the run began: UTC, ISO 8601, to the second.
    pub started: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its note.
    pub note: String,
}

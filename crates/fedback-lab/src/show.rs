//! What a recorded run was, and what came of it.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::costs::Costs;
use crate::difference::{Difference, differences};
use crate::event::Ending;
use crate::outcome::{Outcome, Reported};
use crate::recorded::RecordedRun;
use crate::spec::{SchemeName, Spec};
use crate::store::standing;
use crate::table_summary::TableSummary;

/// A run, described.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The version of this contract.
    pub format: u32,
    /// The number of the run.
    pub id: i64,
    /// The spec's name.
    pub name: String,
    /// Where it stands.
    pub state: &'static str,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its note.
    pub note: String,
    /// Rounds closed at its last checkpoint.
    pub round: u64,
    /// Rounds of the spec.
    pub rounds: u64,
    /// Seeded repeats.
    pub repetitions: u64,
    /// How many clients.
    pub clients: usize,
    /// Everything random came from it.
    pub seed: u64,
    /// The version of fedback that began it.
    pub version: String,
    /// The format of its random streams.
    pub stream_format: u32,
    /// The format of its arithmetic.
    pub arithmetic_format: u32,
    /// What it was started on.
    pub machine: Option<String>,
    /// When it was started.
    pub started: String,
    /// Seconds of work.
    pub seconds: f64,
    /// What `--set` and a sweep set.
    pub set: Map<String, Value>,
    /// Where relative paths of the spec started.
    pub directory: String,
    /// The hash of its plan.
    pub plan: String,
    /// The SHA-256 of every file that the spec names.
    pub data: Vec<String>,
    /// What the table was found to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableSummary>,
    /// What was said when it was started.
    pub warnings: Vec<String>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// Whose work was missing.
    pub absences: Absences,
    /// What went wrong with clients, where they were real.
    pub incidents: Vec<Reported>,
    /// What the rounds up to the last record took, per repetition.
    pub costs: Costs,
    /// The last record, and exact expectations where there are any.
    #[serde(rename = "final")]
    pub last: Option<Value>,
    /// The spec as it was planned.
    pub spec: Spec,
}

/// The cohorts that the seed alone does not tell.
#[derive(Debug, Default, Serialize)]
pub struct Absences {
    /// How many there are, over all rounds and repetitions.
    pub cohorts: usize,
    /// Under full participation, whose work was missing in how many of them.
    pub clients: Vec<Absent>,
}

/// A client that was missing.
#[derive(Debug, Serialize)]
pub struct Absent {
    /// Its name, or its number from 0.
    pub client: String,
    /// In how many cohorts.
    pub cohorts: usize,
}

impl Shown {
    /// Describes a run.
    pub fn of(run: &RecordedRun) -> Self {
        Shown::with(run, &run.outcome())
    }

    /// Describes a run of which the outcome is known.
    pub fn with(run: &RecordedRun, outcome: &Outcome) -> Self {
        let (stored, spec, facts) = (&run.stored, &run.spec, &run.facts);
        Shown {
            format: 1,
            id: stored.id.0,
            name: spec.name.clone(),
            state: standing(stored.ending.as_ref()),
            tags: stored.tags.clone(),
            note: stored.note.clone(),
            round: stored.round(),
            rounds: spec.rounds.0,
            repetitions: spec.repetitions.0,
            clients: facts.clients,
            seed: spec.seed.0,
            version: stored.run.version.clone(),
            stream_format: stored.run.stream_format,
            arithmetic_format: facts.arithmetic_format,
            machine: facts.machine.clone(),
            started: stored.started.clone(),
            seconds: stored.seconds(),
            set: outcome.all_set.clone(),
            directory: stored.run.directory.clone(),
            plan: stored.run.plan_hash.clone(),
            data: facts.data.clone(),
            table: facts.table.clone(),
            warnings: facts.warnings.clone(),
            failure: match &stored.ending {
                Some(Ending::Failed(why)) => Some(why.clone()),
                _ => None,
            },
            absences: absences(run, outcome),
            incidents: outcome.incidents.clone(),
            costs: outcome.curve.costs(),
            last: last(outcome),
            spec: spec.clone(),
        }
    }
}

fn absences(run: &RecordedRun, outcome: &Outcome) -> Absences {
    let cohorts = &run.stored.cohorts;
    let mut absences = Absences { cohorts: cohorts.len(), clients: Vec::new() };
    if run.spec.algorithm.rounds().scheme != SchemeName::Full || cohorts.is_empty() {
        return absences;
    }
    for client in 0..outcome.clients {
        let is_there = |member: &fedback_core::federation::ClientId| member.0 as usize == client;
        let missing = cohorts.iter().filter(|cohort| !cohort.members.iter().any(is_there)).count();
        if missing > 0 {
            let names = outcome.client_names.as_ref();
            let client = names.map_or(client.to_string(), |names| names[client].clone());
            absences.clients.push(Absent { client, cohorts: missing });
        }
    }
    absences
}

/// The last record of the curve, with exact expectations beside what was measured.
fn last(outcome: &Outcome) -> Option<Value> {
    let point = |outcome: &Outcome| Some(outcome.curve.object(outcome.curve.points.last()?));
    let mut last = point(outcome)?;
    last.shift_remove("costs");
    for (name, value) in outcome.exact().and_then(point).iter().flatten() {
        if let Some(Value::Object(measured)) = last.get_mut(name) {
            measured.insert("exact".into(), value["mean"].clone());
        }
    }
    Some(Value::Object(last))
}

/// What differs between runs: what they were, then what came of them.
pub fn differing(runs: &[Shown]) -> Vec<Difference> {
    let about = |run: &Shown| {
        let mut about = json!({
            "state": run.state, "tags": run.tags.join(" "), "version": run.version,
            "machine": run.machine, "stream_format": run.stream_format,
            "arithmetic_format": run.arithmetic_format, "data": run.data, "spec": run.spec,
        });
        let last = run.last.as_ref().and_then(Value::as_object).into_iter().flatten();
        let mean = |(name, value): (&String, &Value)| {
            (name.clone(), value.get("mean").cloned().unwrap_or_else(|| value.clone()))
        };
        about["final"] = Value::Object(last.map(mean).collect());
        about
    };
    differences(&runs.iter().map(about).collect::<Vec<_>>())
}

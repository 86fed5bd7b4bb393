//! A spec from file to results: every point of it planned first, recorded, then run.

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fedback_core::stream::STREAM_FORMAT;

use crate::error::Error;
use crate::event::{Ending, Event, Sink};
use crate::facts::{Facts, machine};
use crate::outcome::Outcome;
use crate::plan::{Built, Outline, Plan};
use crate::recorded::RecordedRun;
use crate::runner::{self, LiveRun, Resume, Runnable};
use crate::spec::Document;
use crate::store::{self, Checkpoint, NewRun, Record, RunId, Store, StoreError, StoredRun, Writer};

/// The plans of a spec.
#[derive(Debug)]
pub struct Experiment {
    /// One plan a point.
    pub plans: Vec<Plan>,
    /// Whether the spec has a sweep.
    pub swept: bool,
}

impl Experiment {
    /// Plans every point of a document, before anything is run or written.
    pub fn new(document: &Document) -> Result<Self, Error> {
        let points = document.points()?;
        let swept = points.iter().any(|point| !point.set.is_empty());
        let plan = |point| Plan::new(point, &document.directory, &document.origin);
        Ok(Experiment { plans: points.into_iter().map(plan).collect::<Result<_, _>>()?, swept })
    }

    /// Reads a spec file and plans it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Experiment::new(&Document::read(path)?)
    }
}

/// Records a plan before its round 0, with what was said of it.
pub fn begin(store: &Store, plan: &Outline, warnings: Vec<String>) -> Result<RunId, Error> {
    let facts = Facts { machine: Some(machine()), warnings, ..Facts::of(plan) };
    let run = NewRun {
        name: plan.spec.name.clone(),
        spec: plan.spec.canonical(),
        directory: plan.directory.clone(),
        plan_hash: plan.hash.clone(),
        stream_format: STREAM_FORMAT,
        version: env!("CARGO_PKG_VERSION").into(),
        rounds: plan.spec.rounds.0,
        repetitions: plan.spec.repetitions.0,
        set: serde_json::Value::Object(plan.set.clone()).to_string(),
        facts: serde_json::to_string(&facts).ok(),
    };
    Ok(store.begin(&run)?)
}

/// Runs a plan and records it under `id`.
pub fn run_recorded(
    plan: &impl Runnable,
    store: &Store,
    id: RunId,
    resume: Option<Resume>,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let mut recording = Recording { writer: Some(store.writer(id)?), store };
    runner::run(plan, resume, &mut [&mut recording, listener], stop)
}

/// Runs a plan without recording it.
pub fn run_unrecorded(
    plan: &impl Runnable,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    runner::run(plan, None, &mut [listener], stop)
}

/// Runs a plan with real clients, and records it where `record` says. It goes on from `resume`.
///
/// A run that stops because too few clients answer, or because the transport breaks, can be resumed
/// from its last round.
pub fn run_live(
    live: LiveRun<'_>,
    record: Option<(&Store, RunId)>,
    resume: Option<Resume>,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    match record {
        Some((store, id)) => {
            let mut recording = Recording { writer: Some(store.writer(id)?), store };
            runner::run_live(live, resume, &mut [&mut recording, listener], stop)
        }
        None => runner::run_live(live, resume, &mut [listener], stop),
    }
}

/// A recorded run, run again in memory.
#[derive(Debug)]
pub struct Replayed {
    /// What it left this time.
    pub outcome: Outcome,
    /// Whether every bit of the recorded models came out again.
    pub same: bool,
}

/// Runs a recorded run again in memory, as far as it got, with the cohorts that it recorded and
/// those that its seed draws elsewhere. Writes nothing.
pub fn replay(
    plan: &impl Runnable,
    stored: &StoredRun,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Replayed, Error> {
    let Some(checkpoint) = &stored.checkpoint else {
        let why = "it was interrupted before anything was recorded; there is nothing to compare";
        return Err(Error::input(format!("run {}", stored.id), why));
    };
    let (outcome, again) =
        runner::replay(plan, &stored.cohorts, checkpoint.round, &mut [listener], stop)?;
    let recorded = checkpoint.state(plan.outline().beginning());
    let same = recorded.is_some_and(|recorded| recorded.same_bits(&again));
    Ok(Replayed { outcome, same })
}

/// The sink that writes to a store.
struct Recording<'a> {
    writer: Option<Writer>,
    store: &'a Store,
}

impl Sink for Recording<'_> {
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        match event {
            Event::Started { .. } | Event::Advanced { .. } => {}
            Event::Record { round, values } => {
                writer.record(Record { round: *round, values: values.to_vec() })?;
            }
            Event::Cohort(cohort) => writer.cohort((*cohort).clone())?,
            Event::Checkpoint { state, seconds } => {
                writer.checkpoint(Checkpoint::of(state, *seconds))?;
            }
            Event::Ended(ending) => {
                let Some(writer) = self.writer.take() else { return Ok(()) };
                match ending {
                    Ending::Done => writer.finish(store::Outcome::Done)?,
                    Ending::Failed(why) => writer.finish(store::Outcome::Failed(why.clone()))?,
                    Ending::Interrupted => writer.flush()?,
                }
                let path = self.store.path();
                if !path.exists() {
                    let why = "was moved or deleted during the run, which is not recorded";
                    return Err(Error::Failed(format!("{}: {why}", path.display())));
                }
            }
        }
        Ok(())
    }
}

/// A recorded run with the plan that it was, to go on with.
pub struct Reopened {
    /// What the store has of it.
    pub run: RecordedRun,
    /// Its plan, built again and found to be the same.
    pub plan: Built,
}

impl Deref for Reopened {
    type Target = RecordedRun;

    fn deref(&self) -> &RecordedRun {
        &self.run
    }
}

/// Reads a run and builds its plan again.
pub fn reopen(store: &Store, id: RunId) -> Result<Reopened, Error> {
    Reopened::new(RecordedRun::read(store, id)?)
}

impl Reopened {
    /// Builds the plan of a run again.
    pub fn new(run: RecordedRun) -> Result<Self, Error> {
        let plan = run.plan().map_err(|error| match error {
        Error::Input(message) => Error::Input(format!(
            "{message} (going on and replaying need what the run was started with; show, export \
             and compare do not)"
        )),
        other => other,
    })?;
        Ok(Reopened { run, plan })
    }

    /// The plan of a problem that is built in; refused where only Python or sites know it.
    pub fn whole(&self) -> Result<&Plan, Error> {
        self.plan.whole().ok_or_else(|| {
            let why = "a part of its problem is a function or a real site; go on with it from \
                       Python or on Flower";
            Error::input(format!("run {}", self.stored.id), why)
        })
    }

    /// Where the run goes on.
    pub fn resume(&self) -> Option<Resume> {
        Some(Resume {
            state: self.stored.checkpoint.as_ref()?.state(self.plan.beginning())?,
            seconds: self.seconds(),
            records: self.stored.records.clone(),
            cohorts: self.stored.cohorts.clone(),
        })
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error.is_input() {
            true => Error::Input(error.to_string()),
            false => Error::Failed(error.to_string()),
        }
    }
}

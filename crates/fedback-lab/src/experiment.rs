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
use crate::runner::{self, LiveRun, Runnable};
use crate::spec::{Document, Point};
use crate::store::{Checkpoint, NewRun, RunId, Store, StoreError, StoredRun, Writer};

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
        let plan = |point: Point| {
            let set: Vec<String> =
                point.set.iter().map(|(key, to)| format!("{key} = {to}")).collect();
            Plan::new(point, &document.directory, &document.origin).map_err(|error| match error {
                Error::Input(why) if swept => {
                    Error::Input(format!("{why} (where {})", set.join(", ")))
                }
                other => other,
            })
        };
        Ok(Experiment { plans: points.into_iter().map(plan).collect::<Result<_, _>>()?, swept })
    }

    /// The plan of a document without a sweep.
    pub fn only(document: &Document) -> Result<Plan, Error> {
        let mut plans = Experiment::new(document)?.plans;
        match (plans.pop(), plans.is_empty()) {
            (Some(plan), true) => Ok(plan),
            _ => {
                let why = "has a sweep of several points; one is asked for: leave [sweep] out, and \
                           set its keys (--set)";
                Err(Error::input(&document.origin, why))
            }
        }
    }

    /// Reads a spec file and plans it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Experiment::new(&Document::read(path)?)
    }
}

/// Records a plan before its round 0, with what was said of it.
pub fn begin(store: &Store, plan: &Outline, warnings: Vec<String>) -> Result<RunId, Error> {
    begin_on(store, plan, machine(), warnings)
}

/// The same where it is known what the plan is run on.
fn begin_on(
    store: &Store,
    plan: &Outline,
    machine: String,
    warnings: Vec<String>,
) -> Result<RunId, Error> {
    let facts = Facts { machine: Some(machine), warnings, ..Facts::of(plan) };
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

/// Runs a plan, on from what was recorded, and records it where `record` says.
pub fn run(
    plan: &dyn Runnable,
    record: Option<(&Store, RunId)>,
    from: Option<&StoredRun>,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    recorded(record, listener, |sinks| runner::run(plan, from, sinks, stop))
}

/// Runs a plan with real clients, on from what was recorded, and records it where `record` says.
///
/// A run that stops because too few clients answer, or because the transport breaks, can be resumed
/// from its last round.
pub fn run_live(
    live: LiveRun<'_>,
    record: Option<(&Store, RunId)>,
    from: Option<&StoredRun>,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    recorded(record, listener, |sinks| runner::run_live(live, from, sinks, stop))
}

/// Does something with a sink that writes to a store beside the listener, where there is one.
fn recorded<T>(
    record: Option<(&Store, RunId)>,
    listener: &mut dyn Sink,
    run: impl FnOnce(&mut [&mut dyn Sink]) -> Result<T, Error>,
) -> Result<T, Error> {
    let Some((store, id)) = record else { return run(&mut [listener]) };
    let mut recording = Recording { writer: Some(store.writer(id)?), store };
    run(&mut [&mut recording, listener])
}

/// Plans that can be run in memory, and what their user should know before.
pub struct Ready<'a> {
    plans: Vec<&'a dyn Runnable>,
    /// What is said of every plan.
    warnings: Vec<Vec<String>>,
}

/// Where runs are kept, and what they are called there.
#[derive(Clone, Copy, Debug)]
pub struct Keep<'a> {
    /// The store, which is made where there is none.
    pub store: &'a Path,
    /// Their tags.
    pub tags: &'a [String],
    /// Their note.
    pub note: &'a str,
}

/// What came of some plans.
#[derive(Debug, Default)]
pub struct Finished {
    /// What the runs left, up to the first that was interrupted.
    pub outcomes: Vec<Outcome>,
    /// Their numbers, where they are recorded: of all of them.
    pub ids: Vec<RunId>,
}

impl<'a> Ready<'a> {
    /// Refuses plans that memory cannot run.
    pub fn new(plans: Vec<&'a dyn Runnable>) -> Result<Self, Error> {
        plans.iter().try_for_each(|plan| plan.outline().check_arrivals())?;
        let warnings = plans.iter().map(|plan| plan.warnings()).collect();
        Ok(Ready { plans, warnings })
    }

    /// What to say before the first round: what is said of the first point goes for most of the
    /// others.
    pub fn warnings(&self) -> &[String] {
        self.warnings.first().map_or(&[], Vec::as_slice)
    }

    /// Runs one after the other. All are recorded before the first one starts, so that an
    /// interrupted sweep can be resumed as a whole.
    pub fn run(
        self,
        keep: Option<Keep<'_>>,
        listener: &mut dyn Sink,
        stop: &AtomicBool,
    ) -> Result<Finished, Error> {
        let store = keep.map(|keep| Store::open(keep.store)).transpose()?;
        let mut finished = Finished::default();
        if let (Some(store), Some(keep)) = (&store, keep) {
            for (plan, warnings) in self.plans.iter().zip(self.warnings) {
                let id = begin_on(store, plan.outline(), plan.machine(), warnings)?;
                if !(keep.tags.is_empty() && keep.note.is_empty()) {
                    store.annotate(id, keep.tags, keep.note)?;
                }
                finished.ids.push(id);
            }
        }
        for (place, plan) in self.plans.into_iter().enumerate() {
            let record = store.as_ref().zip(finished.ids.get(place).copied());
            let outcome = run(plan, record, None, listener, stop)?;
            let interrupted = outcome.ending == Ending::Interrupted;
            finished.outcomes.push(beside_exact(plan, outcome));
            if interrupted {
                break;
            }
        }
        Ok(finished)
    }
}

/// Goes on with a recorded run, of which something is left.
pub fn resume(
    plan: &dyn Runnable,
    store: &Store,
    from: &StoredRun,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let outcome = run(plan, Some((store, from.id)), Some(from), listener, stop)?;
    Ok(beside_exact(plan, outcome))
}

/// What a run left with what is exact of it; who interrupts a run does not wait for that.
fn beside_exact(plan: &dyn Runnable, outcome: Outcome) -> Outcome {
    match outcome.ending {
        Ending::Interrupted => outcome,
        Ending::Done | Ending::Failed(_) => outcome.with_exact(plan.exact()),
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
    plan: &dyn Runnable,
    stored: &StoredRun,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Replayed, Error> {
    let Some(checkpoint) = &stored.checkpoint else {
        let why = "it was interrupted before anything was recorded; there is nothing to compare";
        return Err(Error::input(format!("run {}", stored.id), why));
    };
    let (outcome, again) = runner::replay(plan, stored, checkpoint.round, &mut [listener], stop)?;
    let recorded = checkpoint.state(plan.outline().beginning());
    let same = recorded.is_some_and(|recorded| recorded.same_bits(&again));
    Ok(Replayed { outcome: beside_exact(plan, outcome), same })
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
            Event::Record(record) => writer.record((*record).clone())?,
            Event::Cohort(cohort) => writer.cohort((*cohort).clone())?,
            Event::Incident(incident) => writer.incident((*incident).clone())?,
            Event::Checkpoint { state, seconds, before } => {
                let before = before.map(<[Vec<f64>]>::concat);
                writer.checkpoint(Checkpoint { before, ..Checkpoint::of(state, *seconds) })?;
            }
            Event::Ended(ending) => {
                let Some(writer) = self.writer.take() else { return Ok(()) };
                writer.finish(ending)?;
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
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error.is_input() {
            true => Error::Input(error.to_string()),
            false => Error::Failed(error.to_string()),
        }
    }
}

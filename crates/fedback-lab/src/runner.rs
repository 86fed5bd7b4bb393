//! The loop over the rounds of a run, whoever does its work.
//!
//! Repetitions advance together, in slices that end at a record or after a fraction of a second,
//! whichever comes first; between slices the runner looks at the clock and at the stop flag. Where
//! a slice ends changes no bit of the result.
//!
//! The loop does not know who works: memory ([`run`], [`replay`]) or real clients ([`run_live`]) are
//! backends of it. What real clients did cannot be computed again, so that their slices are single
//! rounds and each has its checkpoint.

mod failure;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Round};
use fedback_core::state::State;
use fedback_engine::backend::{Backend, BackendError, Course, assemble};
use fedback_engine::cohort::RecordedCohort;
use fedback_engine::incident::Incidents;
use fedback_engine::live::{Live, Settings, Transport, TransportError};
use fedback_engine::server::Reach;

use crate::error::Error;
use crate::event::{Ending, Event, Sink};
use crate::exact;
use crate::facts::machine;
use crate::measure::{Exactly, Judge, Measurement, Recorder};
use crate::outcome::{Curve, Outcome, Reported};
use crate::plan::{Outline, Plan};
use crate::store::{Record, StoredRun};
use crate::warning::warnings;
use failure::{explain, explain_failure};

/// How long a slice should take: short enough for a lively display and a prompt stop.
const SLICE: Duration = Duration::from_millis(60);
/// How long a checkpoint may wait: well below the second that a killed run may lose.
const BETWEEN_CHECKPOINTS: Duration = Duration::from_millis(400);

/// What of client states a checkpoint may write in a second, so that it stays the lesser part of the
/// work; a run whose clients keep much is written less often.
const BYTES_A_SECOND: f64 = 16e6;

impl Outline {
    /// Where the plan's runs begin.
    pub fn beginning(&self) -> State {
        self.beginning_of(&self.protocol, self.spec.repetitions.0)
    }

    /// Where so many repetitions under another protocol would begin.
    pub(crate) fn beginning_of(&self, protocol: &Protocol, repetitions: u64) -> State {
        let past = self.past.as_ref();
        State::beginning(protocol, past, self.clients(), &self.start, repetitions)
    }

    /// Where a run of the plan goes on: after the last checkpoint of `from`.
    fn place(&self, from: Option<&StoredRun>) -> Result<State, Error> {
        let checkpoint = from.and_then(|from| Some((from, from.checkpoint.as_ref()?)));
        let Some((from, checkpoint)) = checkpoint else { return Ok(self.beginning()) };
        checkpoint.state(self.beginning()).ok_or_else(|| {
            let why = "its checkpoint does not fit its plan: the store was changed";
            Error::input(format!("run {}", from.id), why)
        })
    }

    /// The plan's run from some state on, with cohorts that are not to be drawn.
    pub(crate) fn course(&self, state: State, cohorts: &[RecordedCohort]) -> Course {
        Course {
            protocol: self.protocol,
            sampler: Arc::new(self.sampler()),
            seed: self.seed(),
            state,
            cohorts: cohorts.iter().cloned().collect(),
        }
    }
}

/// Something that can be run in memory: an outline, who works, and who judges.
pub trait Runnable: Sync {
    /// Everything else about the run.
    fn outline(&self) -> &Outline;
    /// Who works.
    fn backend(&self, course: Course) -> Result<Box<dyn Backend + '_>, Error>;
    /// Who judges the models.
    fn judge(&self) -> Box<dyn Judge + '_>;
    /// The whole problem, where it is built in.
    fn built_in(&self) -> Option<&Federation> {
        None
    }
    /// What it is run on, in words.
    fn machine(&self) -> String {
        machine()
    }
    /// What a user should know before the first round.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    /// Exact expectations, where mathematics allows.
    fn exact(&self) -> Option<Outcome> {
        None
    }
}

impl Runnable for Plan {
    fn outline(&self) -> &Outline {
        self
    }

    fn backend(&self, course: Course) -> Result<Box<dyn Backend + '_>, Error> {
        Ok(assemble(self.federation(), course)?)
    }

    fn judge(&self) -> Box<dyn Judge + '_> {
        Box::new(Exactly::new(self))
    }

    fn built_in(&self) -> Option<&Federation> {
        Some(self.federation())
    }

    fn warnings(&self) -> Vec<String> {
        warnings(self)
    }

    fn exact(&self) -> Option<Outcome> {
        exact::beside(self)
    }
}

/// Runs a plan to its end, from the beginning or from where it was left.
pub fn run(
    runnable: &dyn Runnable,
    from: Option<&StoredRun>,
    sinks: &mut [&mut dyn Sink],
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let (plan, judge) = (runnable.outline(), runnable.judge());
    let mut backend = runnable.backend(plan.course(plan.place(from)?, &[]))?;
    Running::new(plan, &mut *backend, plan.spec.rounds.0, from).through(&*judge, sinks, stop)
}

/// Runs a plan again in memory for its first `rounds` rounds, with the cohorts that were recorded.
pub fn replay(
    runnable: &dyn Runnable,
    stored: &StoredRun,
    rounds: u64,
    sinks: &mut [&mut dyn Sink],
    stop: &AtomicBool,
) -> Result<(Outcome, State), Error> {
    let (plan, judge) = (runnable.outline(), runnable.judge());
    let mut backend = runnable.backend(plan.course(plan.beginning(), &stored.cohorts))?;
    let mut running = Running::new(plan, &mut *backend, rounds, None);
    running.cohorts = &stored.cohorts;
    let outcome = running.through(&*judge, sinks, stop)?;
    Ok((outcome, backend.state().clone()))
}

/// A run whose clients are real.
pub struct LiveRun<'a> {
    /// Everything about the run but who does its work.
    pub plan: &'a Outline,
    /// Its populations, where they are known here: what honest clients can come to.
    pub federation: Option<&'a Federation>,
    /// Who judges the models.
    pub judge: &'a dyn Judge,
    /// The way to the clients.
    pub transport: &'a mut dyn Transport,
    /// What to do about clients that do not answer.
    pub settings: Settings,
}

/// Refuses runs that real clients cannot do, before anything is begun.
pub fn check_live(plan: &Outline) -> Result<(), Error> {
    if !plan.spec.problem.response.weighs() {
        return Ok(());
    }
    let why = "clients' weights react here (by = \"client\", or weights = \"follow\"), and no server \
               knows what its model costs clients that it does not ask: run it in memory";
    Err(Error::input("problem.response", why))
}

/// Runs a plan with real clients, from the beginning or from where it was left.
pub fn run_live(
    live: LiveRun<'_>,
    from: Option<&StoredRun>,
    sinks: &mut [&mut dyn Sink],
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let LiveRun { plan, federation, judge, transport, settings } = live;
    check_live(plan)?;
    let cohorts = from.map_or(&[][..], |from| &from.cohorts);
    let mut live = Live::new(transport, plan.course(plan.place(from)?, cohorts), settings);
    live = live.after(Incidents::of(from.into_iter().flat_map(|from| from.incidents.clone())));
    if let Some(federation) = federation {
        live = live.knowing(Reach::of(federation));
    }
    Running::new(plan, &mut live, plan.spec.rounds.0, from).through(judge, sinks, stop)
}

struct Running<'a> {
    plan: &'a Outline,
    backend: &'a mut dyn Backend,
    /// Rounds to close; those of the plan, unless only a part is replayed.
    rounds: u64,
    /// What is known already: where the run goes on from, and cohorts that are not drawn.
    from: Option<&'a StoredRun>,
    cohorts: &'a [RecordedCohort],
    began: Instant,
    last_checkpoint: Instant,
    slice: u64,
    /// θ of every repetition at the last record, where the run may end by what moved since.
    before: Vec<Vec<f64>>,
    /// What went wrong with clients.
    incidents: Incidents,
    /// Seconds of work by every record.
    times: Vec<f64>,
}

impl<'a> Running<'a> {
    fn new(
        plan: &'a Outline,
        backend: &'a mut dyn Backend,
        rounds: u64,
        from: Option<&'a StoredRun>,
    ) -> Self {
        let now = Instant::now();
        // Without it, the run goes on from a record.
        let whole = plan.dim * plan.spec.repetitions.0 as usize;
        let noted = from.and_then(|from| from.checkpoint.as_ref()?.before.clone());
        let before = noted.filter(|all| all.len() == whole).map_or_else(
            || models(backend.state()),
            |all| all.chunks(plan.dim.max(1)).map(<[f64]>::to_vec).collect(),
        );
        let known = from.into_iter().flat_map(|from| from.incidents.clone());
        Running {
            plan,
            backend,
            rounds,
            from,
            cohorts: from.map_or(&[], |from| &from.cohorts),
            began: now,
            last_checkpoint: now,
            slice: 1,
            before,
            incidents: Incidents::of(known),
            times: from.map(StoredRun::times).unwrap_or_default(),
        }
    }

    /// From where the run was left to its end.
    fn through(
        &mut self,
        judge: &dyn Judge,
        sinks: &mut [&mut dyn Sink],
        stop: &AtomicBool,
    ) -> Result<Outcome, Error> {
        let plan = self.plan;
        let recorder = Recorder::new(plan, judge);
        let mut curve = Curve::new(&plan.spec, plan.clients(), recorder.columns());
        self.cohorts.iter().for_each(|cohort| curve.count(cohort));
        let records = self.from.map_or(&[][..], |from| &from.records);
        for record in records {
            curve.add(record.round, &record.values);
        }
        self.tell(sinks, &Event::Started { plan, round: self.round() })?;
        if records.is_empty() {
            self.record(&recorder, &mut curve, sinks)?;
        }
        let ended = records.last().is_some_and(|last| self.has_settled(&recorder, last));
        let ending = match ended {
            true => Ending::Done,
            false => self.finish(&recorder, &mut curve, sinks, stop)?,
        };
        // What was computed is handed over even where it could not be recorded.
        let ending = match self.tell(sinks, &Event::Ended(&ending)) {
            Ok(()) => ending,
            Err(error) => Ending::Failed(error.to_string()),
        };
        let outcome = Outcome::of_run(plan, curve, self.backend.state(), self.seconds(), ending);
        let (times, resumed_from) = (self.times.clone(), self.from.map(StoredRun::round));
        let incidents = Reported::all(plan.client_names.as_deref(), self.incidents.iter());
        Ok(Outcome { times, resumed_from, incidents, ..outcome })
    }

    fn tell(&self, sinks: &mut [&mut dyn Sink], event: &Event<'_>) -> Result<(), Error> {
        sinks.iter_mut().try_for_each(|sink| sink.take(event))
    }

    fn seconds(&self) -> f64 {
        self.from.map_or(0.0, StoredRun::seconds) + self.began.elapsed().as_secs_f64()
    }

    fn round(&self) -> u64 {
        self.backend.state().round.0
    }

    fn finish(
        &mut self,
        recorder: &Recorder<'_>,
        curve: &mut Curve,
        sinks: &mut [&mut dyn Sink],
        stop: &AtomicBool,
    ) -> Result<Ending, Error> {
        while self.round() < self.rounds {
            if stop.load(Ordering::Relaxed) || matches!(self.advance()?, Advanced::Interrupted) {
                self.checkpoint(sinks)?;
                return Ok(Ending::Interrupted);
            }
            for cohort in self.backend.take_cohorts() {
                curve.count(&cohort);
                self.tell(sinks, &Event::Cohort(&cohort))?;
            }
            for incident in self.backend.take_incidents() {
                self.tell(sinks, &Event::Incident(&incident))?;
                self.incidents.put(incident);
            }
            let mut settled = false;
            if self.plan.is_due(self.round()) {
                let record = self.record(recorder, curve, sinks)?;
                settled = self.has_settled(recorder, &record);
            }
            let round = self.round();
            self.tell(sinks, &Event::Advanced { round })?;
            if self.is_checkpoint_due() || settled || round == self.rounds {
                self.checkpoint(sinks)?;
            }
            if settled {
                break;
            }
        }
        match self.backend.state().failed().as_slice() {
            [] => Ok(Ending::Done),
            failed => Ok(Ending::Failed(explain_failure(recorder, failed))),
        }
    }

    /// Whether a record ends the run: every repetition moved by less than the spec says.
    fn has_settled(&self, recorder: &Recorder<'_>, record: &Record) -> bool {
        let columns = recorder.columns().iter();
        let place = columns.clone().position(|column| *column == Measurement::Movement);
        let (Some(until), Some(place)) = (self.plan.spec.until, place) else { return false };
        let repetitions = self.plan.spec.repetitions.0 as usize;
        let movements = &record.values[place * repetitions..][..repetitions];
        record.round > 0 && movements.iter().all(|movement| *movement < until.movement.0)
    }

    /// What a checkpoint would write of the clients' states takes its time.
    fn is_checkpoint_due(&self) -> bool {
        let waited = self.last_checkpoint.elapsed();
        if self.backend.is_irreplaceable() || waited < BETWEEN_CHECKPOINTS {
            return self.backend.is_irreplaceable();
        }
        let state = self.backend.state();
        let changed: usize = state.repetitions.iter().map(|one| one.changed().count()).sum();
        let bytes = (8 * changed * state.layout().kept) as f64;
        waited.as_secs_f64() >= bytes / BYTES_A_SECOND
    }

    /// One slice.
    fn advance(&mut self) -> Result<Advanced, Error> {
        let round = self.round();
        let every = self.plan.spec.measure.every.0;
        let next_record = (round / every + 1).saturating_mul(every).min(self.plan.spec.rounds.0);
        let until = round.saturating_add(self.slice).min(next_record).min(self.rounds);
        let began = Instant::now();
        let consensus = self.plan.spec.measure.consensus && until == next_record;
        match self.backend.advance(Round(until), consensus) {
            Ok(()) => {}
            Err(BackendError::Transport(TransportError::Interrupted)) => {
                return Ok(Advanced::Interrupted);
            }
            Err(error) => {
                let why = explain(self.plan, &error);
                return Err(Error::Failed(format!("round {until}: {why}")));
            }
        }
        let took = began.elapsed();
        if self.backend.is_irreplaceable() {
            self.slice = 1;
        } else if took < SLICE / 2 && until - round == self.slice {
            self.slice = self.slice.saturating_mul(2);
        } else if took > SLICE && self.slice > 1 {
            self.slice /= 2;
        }
        Ok(Advanced::On)
    }

    /// Takes a record. A repetition with a measurement that is not finite has failed, though its
    /// model may still be representable. A consensus for which an update was missing says nothing,
    /// nor does a judge without data.
    fn record(
        &mut self,
        recorder: &Recorder<'_>,
        curve: &mut Curve,
        sinks: &mut [&mut dyn Sink],
    ) -> Result<Record, Error> {
        let round = self.round();
        let failed = |error| Error::Failed(format!("round {round}: {error}"));
        let state = self.backend.state_mut();
        let values = recorder.record(state, &self.before).map_err(failed)?;
        let repetitions = self.plan.spec.repetitions.0 as usize;
        for (place, value) in values.iter().enumerate() {
            let (column, number) = (recorder.columns()[place / repetitions], place % repetitions);
            let nothing = match column {
                Measurement::Distance | Measurement::Movement => false,
                Measurement::Consensus => state.repetitions[number].consensus.is_none(),
                Measurement::Risk
                | Measurement::Accuracy
                | Measurement::Auc
                | Measurement::Retained
                | Measurement::BaseRisk
                | Measurement::ClientRisk(_) => !recorder.judge.has_data(),
                // Some clients and groups have no rows to judge by.
                Measurement::HoldoutRisk
                | Measurement::HoldoutAccuracy
                | Measurement::HoldoutAuc
                | Measurement::HoldoutClientRisk(_)
                | Measurement::Group { .. }
                | Measurement::Gap { .. } => true,
            };
            if !value.is_finite() && !nothing {
                let now = state.round;
                state.repetitions[number].failed.get_or_insert(now);
            }
        }
        curve.add(round, &values);
        if self.plan.spec.until.is_some() {
            self.before = models(self.backend.state());
        }
        let record = Record { round, seconds: Some(self.seconds()), values };
        self.times.push(self.seconds());
        self.tell(sinks, &Event::Record(&record))?;
        Ok(record)
    }

    fn checkpoint(&mut self, sinks: &mut [&mut dyn Sink]) -> Result<(), Error> {
        let (state, seconds) = (self.backend.state(), self.seconds());
        let before = self.plan.spec.until.is_some().then_some(&self.before[..]);
        self.tell(sinks, &Event::Checkpoint { state, seconds, before })?;
        self.backend.state_mut().written();
        self.last_checkpoint = Instant::now();
        Ok(())
    }
}

/// θ of every repetition.
fn models(state: &State) -> Vec<Vec<f64>> {
    state.repetitions.iter().map(|one| one.theta().to_vec()).collect()
}

/// What became of a slice.
enum Advanced {
    On,
    Interrupted,
}

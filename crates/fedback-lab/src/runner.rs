//! The only loop over rounds.
//!
//! Repetitions advance together, in slices that end at a record or after a fraction of a second,
//! whichever comes first; between slices the runner looks at the clock and at the stop flag. Where
//! a slice ends changes no bit of the result.
//!
//! The loop does not know who works: memory ([`run`], [`replay`]) or real clients ([`run_live`]) are
//! backends of it. What real clients did cannot be computed again, so that their slices are single
//! rounds and each has its checkpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedback_core::federation::{ClientId, Federation};
use fedback_core::protocol::Round;
use fedback_engine::algorithm::Work;
use fedback_engine::backend::{Backend, BackendError, too_few};
use fedback_engine::cohort::RecordedCohort;
use fedback_engine::live::{Live, Settings, Transport, TransportError};
use fedback_engine::repetition::Standing;
use fedback_engine::simulate::Simulation;

use crate::error::Error;
use crate::event::{Ending, Event, Sink, State};
use crate::measure::{Exactly, Judge, Measurement, Recorder};
use crate::outcome::{Curve, Outcome};
use crate::plan::{Outline, Plan};
use crate::store::Record;

/// How long a slice should take: short enough for a lively display and a prompt stop.
const SLICE: Duration = Duration::from_millis(60);
/// How long a checkpoint may wait: well below the second that a killed run may lose.
const BETWEEN_CHECKPOINTS: Duration = Duration::from_millis(400);

/// Where a run goes on.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The last checkpoint.
    pub state: State,
    /// The records up to it.
    pub records: Vec<Record>,
    /// The cohorts up to it that were recorded.
    pub cohorts: Vec<RecordedCohort>,
}

impl Resume {
    /// Before the first round.
    fn beginning(plan: &Outline) -> Self {
        let thetas = plan.start.repeat(plan.spec.repetitions.0 as usize);
        let state = State { round: 0, thetas, failed: Vec::new(), seconds: 0.0 };
        Resume { state, records: Vec::new(), cohorts: Vec::new() }
    }

    /// The repetitions that have failed, as backends want them.
    fn failed(&self) -> Vec<(u64, Round)> {
        self.state.failed.iter().map(|&(number, round)| (number, Round(round))).collect()
    }
}

/// Something that can be run in memory: an outline, who works, and who judges.
pub trait Runnable {
    /// Who works.
    type Work: Work;
    /// Everything else about the run.
    fn outline(&self) -> &Outline;
    /// Who works.
    fn work(&self) -> &Self::Work;
    /// Who judges the models.
    fn judge(&self) -> Box<dyn Judge + '_>;
}

impl Runnable for Plan {
    type Work = Federation;

    fn outline(&self) -> &Outline {
        self
    }

    fn work(&self) -> &Federation {
        &self.federation
    }

    fn judge(&self) -> Box<dyn Judge + '_> {
        Box::new(Exactly::new(self))
    }
}

/// Runs a plan to its end, from the beginning or from where it was left.
pub fn run(
    runnable: &impl Runnable,
    resume: Option<Resume>,
    sinks: &mut [&mut dyn Sink],
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let (plan, judge) = (runnable.outline(), runnable.judge());
    plan.check_arrivals()?;
    let resumed_from = resume.as_ref().map(|resume| resume.state.round);
    let from = resume.unwrap_or_else(|| Resume::beginning(plan));
    let simulation = simulation(runnable, &from);
    let mut running = Running::new(plan, simulation, plan.spec.rounds.0);
    let outcome = running.through(&*judge, &from, sinks, stop)?;
    Ok(Outcome { resumed_from, ..outcome })
}

/// Runs a plan again in memory for its first `rounds` rounds, with the cohorts that were recorded.
pub fn replay(
    runnable: &impl Runnable,
    cohorts: &[RecordedCohort],
    rounds: u64,
    sinks: &mut [&mut dyn Sink],
    stop: &AtomicBool,
) -> Result<(Outcome, State), Error> {
    let (plan, judge) = (runnable.outline(), runnable.judge());
    let from = Resume::beginning(plan);
    let simulation = simulation(runnable, &from).replaying(cohorts.iter().cloned().collect());
    let mut running = Running::new(plan, simulation, rounds);
    let outcome = running.through(&*judge, &from, sinks, stop)?;
    Ok((outcome, running.state()))
}

/// A run whose clients are real.
pub struct LiveRun<'a> {
    /// Everything about the run but who does its work.
    pub plan: &'a Outline,
    /// Who judges the models.
    pub judge: &'a dyn Judge,
    /// The way to the clients.
    pub transport: &'a mut dyn Transport,
    /// What to do about clients that do not answer.
    pub settings: Settings,
}

/// Runs a plan with real clients, from the beginning or from where it was left.
pub fn run_live(
    live: LiveRun<'_>,
    resume: Option<Resume>,
    sinks: &mut [&mut dyn Sink],
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let LiveRun { plan, judge, transport, settings } = live;
    let resumed_from = resume.as_ref().map(|resume| resume.state.round);
    let from = resume.unwrap_or_else(|| Resume::beginning(plan));
    let (failed, round) = (from.failed(), Round(from.state.round));
    let standing = Standing { round, thetas: &from.state.thetas, failed: &failed };
    let problem = (plan.weights.clone(), plan.dim);
    let live = Live::new(transport, plan.protocol, problem, plan.seed(), standing, settings)
        .with_sampler(&Arc::new(plan.sampler()))
        .remembering(&from.cohorts.iter().cloned().collect());
    let mut running = Running::new(plan, live, plan.spec.rounds.0);
    let outcome = running.through(judge, &from, sinks, stop)?;
    Ok(Outcome { resumed_from, ..outcome })
}

fn simulation<'a, R: Runnable>(runnable: &'a R, from: &Resume) -> Simulation<'a, R::Work> {
    let plan = runnable.outline();
    let simulation = Simulation::new(
        runnable.work(),
        plan.protocol,
        plan.weights.clone(),
        plan.seed(),
        Round(from.state.round),
        &from.state.thetas,
        &from.failed(),
    );
    simulation.with_sampler(Arc::new(plan.sampler()))
}

struct Running<'a, B> {
    plan: &'a Outline,
    backend: B,
    /// Rounds to close; those of the plan, unless only a part is replayed.
    rounds: u64,
    began: Instant,
    seconds_before: f64,
    last_checkpoint: Instant,
    slice: u64,
}

impl<'a, B: Backend> Running<'a, B> {
    fn new(plan: &'a Outline, backend: B, rounds: u64) -> Self {
        let now = Instant::now();
        Running {
            plan,
            backend,
            rounds,
            began: now,
            seconds_before: 0.0,
            last_checkpoint: now,
            slice: 1,
        }
    }

    /// From where the run was left to its end.
    fn through(
        &mut self,
        judge: &dyn Judge,
        from: &Resume,
        sinks: &mut [&mut dyn Sink],
        stop: &AtomicBool,
    ) -> Result<Outcome, Error> {
        let plan = self.plan;
        self.seconds_before = from.state.seconds;
        let recorder = Recorder::new(plan, judge);
        let mut curve = Curve::new(plan, recorder.columns());
        for record in &from.records {
            curve.add(record.round, &record.values);
        }
        self.tell(sinks, &Event::Started { plan, round: from.state.round })?;
        if from.records.is_empty() {
            self.record(&recorder, &mut curve, sinks)?;
        }
        let ending = self.finish(&recorder, &mut curve, sinks, stop)?;
        // What was computed is handed over even where it could not be recorded.
        let ending = match self.tell(sinks, &Event::Ended(&ending)) {
            Ok(()) => ending,
            Err(error) => Ending::Failed(error.to_string()),
        };
        Ok(Outcome::of_run(plan, curve, &self.state(), ending, None))
    }

    fn tell(&self, sinks: &mut [&mut dyn Sink], event: &Event<'_>) -> Result<(), Error> {
        sinks.iter_mut().try_for_each(|sink| sink.take(event))
    }

    fn state(&self) -> State {
        State {
            round: self.backend.round().0,
            thetas: self.backend.repetitions().flat_map(|r| r.theta.iter().copied()).collect(),
            failed: self
                .backend
                .repetitions()
                .filter_map(|r| r.failed.map(|round| (r.number, round.0)))
                .collect(),
            seconds: self.seconds_before + self.began.elapsed().as_secs_f64(),
        }
    }

    fn finish(
        &mut self,
        recorder: &Recorder<'_>,
        curve: &mut Curve,
        sinks: &mut [&mut dyn Sink],
        stop: &AtomicBool,
    ) -> Result<Ending, Error> {
        while self.backend.round().0 < self.rounds {
            if stop.load(Ordering::Relaxed) {
                self.checkpoint(sinks)?;
                return Ok(Ending::Interrupted);
            }
            if let Advanced::Interrupted = self.advance()? {
                self.checkpoint(sinks)?;
                return Ok(Ending::Interrupted);
            }
            for cohort in self.backend.take_cohorts() {
                self.tell(sinks, &Event::Cohort(&cohort))?;
            }
            if self.plan.is_due(self.backend.round().0) {
                self.record(recorder, curve, sinks)?;
            }
            let round = self.backend.round().0;
            self.tell(sinks, &Event::Advanced { round })?;
            let due = B::IRREPLACEABLE || self.last_checkpoint.elapsed() >= BETWEEN_CHECKPOINTS;
            if due || round == self.rounds {
                self.checkpoint(sinks)?;
            }
        }
        match self.state().failed.as_slice() {
            [] => Ok(Ending::Done),
            failed => Ok(Ending::Failed(explain_failure(recorder, failed))),
        }
    }

    /// One slice.
    fn advance(&mut self) -> Result<Advanced, Error> {
        let round = self.backend.round().0;
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
        if B::IRREPLACEABLE {
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
    ) -> Result<(), Error> {
        let round = self.backend.round().0;
        let failed = |error| Error::Failed(format!("round {round}: {error}"));
        let values = recorder.record(&self.backend).map_err(failed)?;
        let repetitions = self.plan.spec.repetitions.0 as usize;
        let unseen: Vec<bool> =
            self.backend.repetitions().map(|repetition| repetition.consensus.is_none()).collect();
        for (place, value) in values.iter().enumerate() {
            let (column, number) = (recorder.columns()[place / repetitions], place % repetitions);
            let nothing = match column {
                Measurement::Distance => false,
                Measurement::Consensus => unseen[number],
                _ => !recorder.judge.has_data(),
            };
            if !value.is_finite() && !nothing {
                self.backend.fail(number);
            }
        }
        curve.add(round, &values);
        self.tell(sinks, &Event::Record { round, values: &values })
    }

    fn checkpoint(&mut self, sinks: &mut [&mut dyn Sink]) -> Result<(), Error> {
        let state = self.state();
        self.tell(sinks, &Event::Checkpoint(&state))?;
        self.last_checkpoint = Instant::now();
        Ok(())
    }
}

/// What became of a slice.
enum Advanced {
    On,
    Interrupted,
}

/// An error of a backend, with names for the clients.
fn explain(plan: &Outline, error: &BackendError) -> String {
    match (error, &plan.client_names) {
        (BackendError::TooFew { repetition, present, minimum, missing }, Some(names)) => {
            let name = |client: ClientId| names[client.0 as usize].clone();
            too_few(*repetition, *present, *minimum, missing, &name)
        }
        _ => error.to_string(),
    }
}

/// Which repetitions stopped being finite, when, and the likely cause.
fn explain_failure(recorder: &Recorder<'_>, failed: &[(u64, u64)]) -> String {
    let (repetition, round) =
        failed.iter().copied().min_by_key(|&(n, round)| (round, n)).unwrap_or_default();
    let others = match failed.len() - 1 {
        0 => String::new(),
        1 => " (and one more repetition later)".into(),
        more => format!(" (and {more} more repetitions then or later)"),
    };
    let cause = recorder.judge.likely_cause(Round(round.saturating_sub(1)));
    format!("repetition {repetition} stopped being finite in round {round}{others}; {cause}")
}

//! The only loop over rounds.
//!
//! Repetitions advance together, in slices that end at a record or after a fraction of a second,
//! whichever comes first; between slices the runner looks at the clock and at the stop flag. Where
//! a slice ends changes no bit of the result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedback_core::federation::Federation;
use fedback_core::protocol::Round;
use fedback_engine::algorithm::Work;
use fedback_engine::simulate::Simulation;

use crate::error::Error;
use crate::event::{Ending, Event, Sink, State};
use crate::measure::{Exactly, Judge, Recorder};
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
    let plan = runnable.outline();
    let judge = runnable.judge();
    let resumed_from = resume.as_ref().map(|resume| resume.state.round);
    let repetitions = plan.spec.repetitions.0 as usize;
    let (state, records) = match resume {
        Some(Resume { state, records }) => (state, records),
        None => {
            let thetas = plan.start.repeat(repetitions);
            (State { round: 0, thetas, failed: Vec::new(), seconds: 0.0 }, Vec::new())
        }
    };
    let recorder = Recorder::new(plan, &*judge);
    let mut curve = Curve::new(plan, recorder.columns());
    for record in &records {
        curve.add(record.round, &record.values);
    }
    let mut running = Running::new(runnable, &state);
    running.tell(sinks, &Event::Started { plan, round: state.round })?;
    if records.is_empty() {
        running.record(&recorder, &mut curve, sinks)?;
    }
    let ending = running.finish(&recorder, &mut curve, sinks, stop)?;
    // What was computed is handed over even where it could not be recorded.
    let ending = match running.tell(sinks, &Event::Ended(&ending)) {
        Ok(()) => ending,
        Err(error) => Ending::Failed(error.to_string()),
    };
    Ok(Outcome::of_run(plan, curve, &running.state(), ending, resumed_from))
}

struct Running<'a, W> {
    plan: &'a Outline,
    simulation: Simulation<'a, W>,
    began: Instant,
    seconds_before: f64,
    last_checkpoint: Instant,
    slice: u64,
}

impl<'a, W: Work> Running<'a, W> {
    fn new(runnable: &'a impl Runnable<Work = W>, state: &State) -> Self {
        let plan = runnable.outline();
        let failed: Vec<_> = state.failed.iter().map(|&(n, round)| (n, Round(round))).collect();
        let simulation = Simulation::new(
            runnable.work(),
            plan.protocol,
            plan.weights.clone(),
            plan.seed(),
            Round(state.round),
            &state.thetas,
            &failed,
        );
        let now = Instant::now();
        Running {
            plan,
            simulation,
            began: now,
            seconds_before: state.seconds,
            last_checkpoint: now,
            slice: 1,
        }
    }

    fn tell(&self, sinks: &mut [&mut dyn Sink], event: &Event<'_>) -> Result<(), Error> {
        sinks.iter_mut().try_for_each(|sink| sink.take(event))
    }

    fn state(&self) -> State {
        State {
            round: self.simulation.round().0,
            thetas: self.simulation.repetitions().flat_map(|r| r.theta.iter().copied()).collect(),
            failed: self
                .simulation
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
        let rounds = self.plan.spec.rounds.0;
        while self.simulation.round().0 < rounds {
            if stop.load(Ordering::Relaxed) {
                self.checkpoint(sinks)?;
                return Ok(Ending::Interrupted);
            }
            self.advance()?;
            if self.plan.is_due(self.simulation.round().0) {
                self.record(recorder, curve, sinks)?;
            }
            let round = self.simulation.round().0;
            self.tell(sinks, &Event::Advanced { round })?;
            if self.last_checkpoint.elapsed() >= BETWEEN_CHECKPOINTS || round == rounds {
                self.checkpoint(sinks)?;
            }
        }
        match self.state().failed.as_slice() {
            [] => Ok(Ending::Done),
            failed => Ok(Ending::Failed(explain_failure(recorder, failed))),
        }
    }

    /// One slice.
    fn advance(&mut self) -> Result<(), Error> {
        let round = self.simulation.round().0;
        let every = self.plan.spec.measure.every.0;
        let next_record = (round / every + 1).saturating_mul(every).min(self.plan.spec.rounds.0);
        let until = round.saturating_add(self.slice).min(next_record);
        let began = Instant::now();
        let consensus = self.plan.spec.measure.consensus && until == next_record;
        self.simulation
            .advance(Round(until), consensus)
            .map_err(|error| Error::Failed(format!("round {}: {error}", until)))?;
        let took = began.elapsed();
        if took < SLICE / 2 && until - round == self.slice {
            self.slice = self.slice.saturating_mul(2);
        } else if took > SLICE && self.slice > 1 {
            self.slice /= 2;
        }
        Ok(())
    }

    /// Takes a record. A repetition with a measurement that is not finite has failed, though its
    /// model may still be representable.
    fn record(
        &mut self,
        recorder: &Recorder<'_>,
        curve: &mut Curve,
        sinks: &mut [&mut dyn Sink],
    ) -> Result<(), Error> {
        let round = self.simulation.round().0;
        let failed = |error| Error::Failed(format!("round {round}: {error}"));
        let values = recorder.record(&self.simulation).map_err(failed)?;
        let repetitions = self.plan.spec.repetitions.0 as usize;
        for (place, value) in values.iter().enumerate() {
            if !value.is_finite() {
                self.simulation.fail(place % repetitions);
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

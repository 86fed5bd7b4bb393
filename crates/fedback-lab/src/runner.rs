//! The only loop over rounds.
//!
//! Repetitions advance together, in slices that end at a record or after a fraction of a second,
//! whichever comes first; between slices the runner looks at the clock and at the stop flag. Where
//! a slice ends changes no bit of the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedback_core::protocol::{Aggregate, Round, Scheme, Step};
use fedback_engine::simulate::Simulation;
use fedback_theory::limit::RoundMap;

use crate::error::Error;
use crate::event::{Ending, Event, Sink, State};
use crate::measure::Recorder;
use crate::outcome::{Curve, Outcome};
use crate::plan::Plan;
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

/// Runs a plan to its end, from the beginning or from where it was left.
pub fn run(
    plan: &Plan,
    resume: Option<Resume>,
    sinks: &mut [&mut dyn Sink],
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    plan.check_arrivals()?;
    let resumed_from = resume.as_ref().map(|resume| resume.state.round);
    let repetitions = plan.spec.repetitions.0 as usize;
    let (state, records) = match resume {
        Some(Resume { state, records }) => (state, records),
        None => {
            let thetas = plan.start.repeat(repetitions);
            (State { round: 0, thetas, failed: Vec::new(), seconds: 0.0 }, Vec::new())
        }
    };
    let recorder = Recorder::new(plan);
    let mut curve = Curve::new(plan, recorder.columns());
    for record in &records {
        curve.add(record.round, &record.values);
    }
    let mut running = Running::new(plan, &state);
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

struct Running<'a> {
    plan: &'a Plan,
    simulation: Simulation<'a, fedback_core::federation::Federation>,
    began: Instant,
    seconds_before: f64,
    last_checkpoint: Instant,
    slice: u64,
}

impl<'a> Running<'a> {
    fn new(plan: &'a Plan, state: &State) -> Self {
        let weights: Arc<[f64]> = plan.federation.weights.clone();
        let failed: Vec<_> = state.failed.iter().map(|&(n, round)| (n, Round(round))).collect();
        let simulation = Simulation::new(
            &plan.federation,
            plan.protocol,
            weights,
            plan.seed(),
            Round(state.round),
            &state.thetas,
            &failed,
        );
        let simulation = match &plan.arrivals {
            Some(arrivals) => {
                let weights = plan.federation.weights.clone();
                simulation.with_sampler(Arc::new(arrivals.sampler(&plan.protocol, weights)))
            }
            None => simulation,
        };
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
            failed => Ok(Ending::Failed(explain_failure(self.plan, failed))),
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
        let values = recorder.record(&self.simulation);
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
fn explain_failure(plan: &Plan, failed: &[(u64, u64)]) -> String {
    let (repetition, round) =
        failed.iter().copied().min_by_key(|&(n, round)| (round, n)).unwrap_or_default();
    let others = match failed.len() - 1 {
        0 => String::new(),
        1 => " (and one more repetition later)".into(),
        more => format!(" (and {more} more repetitions then or later)"),
    };
    let cause = likely_cause(plan, Round(round.saturating_sub(1)));
    format!("repetition {repetition} stopped being finite in round {round}{others}; {cause}")
}

/// The step size against the stability limit, or what else can make a run blow up.
fn likely_cause(plan: &Plan, round: Round) -> String {
    let place = plan.stable_point.as_deref().unwrap_or(&plan.start);
    let Some(map) = RoundMap::new(&plan.federation, &plan.protocol, place) else {
        return "likely cause: steps too large or a response too strong; try smaller steps".into();
    };
    let first = plan.protocol.step_size.at(Step(0));
    let now = plan.protocol.step_size.at(plan.protocol.first_step(round));
    match map.largest_step() {
        None => {
            "likely cause: no step size is small enough, the average response is stronger than \
                 the loss (`fedback solve` says more)"
                .into()
        }
        Some(limit) if first > limit => format!(
            "likely cause: the step size, {first} at the start and {now} then, is above \
             about {limit:.4}, the largest with which an average round shrinks errors; choose \
             algorithm.step_size below it"
        ),
        Some(_)
            if plan.protocol.aggregate == Aggregate::Iterates
                && matches!(plan.protocol.scheme, Scheme::WithoutReplacement { .. }) =>
        {
            "likely cause: coefficients that do not sum to one rescale the model at random; use \
             aggregate = \"deltas\""
                .into()
        }
        Some(limit) => format!(
            "the step size, {first} at the start, is below the limit of an average round, \
             {limit:.4}; likely cause: the variance of cohorts or batches, or a start too far out: \
             try smaller steps or a larger cohort"
        ),
    }
}

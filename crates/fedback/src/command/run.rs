//! `fedback run SPEC`.

use fedback::lab::error::Error;
use fedback::lab::event::Ending;
use fedback::lab::exact;
use fedback::lab::experiment::{self, Experiment};
use fedback::lab::outcome::{self, Outcome};
use fedback::lab::plan::Plan;
use fedback::lab::runner::Resume;
use fedback::lab::store::{RunId, Store};
use fedback::lab::warning::warnings;

use super::{Context, label, summary};
use crate::args::RunArgs;
use crate::output;
use crate::progress::{Progress, SweepClock};

pub fn run(context: &Context, args: RunArgs) -> Result<(), Error> {
    let experiment = super::experiment(&args.spec)?;
    context.introduce(&experiment.plans);
    // Said before a store is made.
    experiment
        .plans
        .iter()
        .try_for_each(|plan| plan.check_arrivals())
        .map_err(super::in_spec(&args.spec))?;
    let store = context.writable_store()?;
    let finished = run_all(context, &experiment, store.as_ref(), &args)?;
    finished.report(context, &experiment, &args)
}

/// What came of an experiment.
pub struct Finished {
    pub outcomes: Vec<Outcome>,
    pub ids: Vec<RunId>,
}

/// Runs every plan, recorded where there is a store. All plans are recorded before the first one
/// starts, so that an interrupted sweep can be resumed as a whole.
pub fn run_all(
    context: &Context,
    experiment: &Experiment,
    store: Option<&Store>,
    args: &RunArgs,
) -> Result<Finished, Error> {
    let mut ids = Vec::new();
    for (place, plan) in experiment.plans.iter().enumerate() {
        let warnings = warnings(plan);
        // What is said of the first point goes for most of the others.
        warnings.iter().filter(|_| place == 0).for_each(|warning| context.warn(warning));
        if let Some(store) = store {
            let id = experiment::begin(store, plan, warnings)?;
            if !(args.tags.is_empty() && args.note.is_empty()) {
                store.annotate(id, &args.tags, &args.note)?;
            }
            ids.push(id);
        }
    }
    let mut outcomes = Vec::new();
    let steps = |plan: &Plan| plan.spec.rounds.0.saturating_mul(plan.protocol.local_steps as u64);
    let steps: Vec<u64> = experiment.plans.iter().map(steps).collect();
    let mut clock = SweepClock::new(&steps);
    for (place, plan) in experiment.plans.iter().enumerate() {
        clock.begin();
        let point = Some(&clock).filter(|_| steps.len() > 1);
        let mut progress = Progress::of_point(&label(plan), point, context.quiet);
        let record = store.zip(ids.get(place).copied());
        let outcome = run_one(context, plan, record, None, &mut progress)?;
        clock.end(steps[place]);
        let interrupted = outcome.ending == Ending::Interrupted;
        outcomes.push(outcome);
        if interrupted {
            break;
        }
    }
    Ok(Finished { outcomes, ids })
}

/// Runs one plan, and what is exact of it.
pub fn run_one(
    context: &Context,
    plan: &Plan,
    record: Option<(&Store, RunId)>,
    resume: Option<Resume>,
    progress: &mut Progress,
) -> Result<Outcome, Error> {
    let outcome = context.saving(|| match record {
        Some((store, id)) => {
            experiment::run_recorded(plan, store, id, resume, progress, &context.stop)
        }
        None => experiment::run_unrecorded(plan, progress, &context.stop),
    })?;
    let exact = if outcome.ending == Ending::Interrupted { None } else { exact::exact(plan).ok() };
    Ok(outcome.with_exact(exact))
}

impl Finished {
    /// Prints what came out and returns the error that decides the exit code.
    pub fn report(
        &self,
        context: &Context,
        experiment: &Experiment,
        args: &RunArgs,
    ) -> Result<(), Error> {
        let interrupted =
            self.outcomes.last().is_some_and(|outcome| outcome.ending == Ending::Interrupted);
        if interrupted {
            return Err(Error::Interrupted(self.how_to_resume(context)));
        }
        if args.spec.json {
            output::print_json(&outcome::to_json(&self.outcomes, experiment.swept))?;
        } else if args.csv {
            output::print(&self.to_csv())?;
        } else {
            output::print(&summary::text(&self.outcomes, &self.ids))?;
        }
        failure(&self.outcomes)
    }

    fn to_csv(&self) -> String {
        let places = self.outcomes.iter().enumerate();
        let line = |(place, outcome)| (self.ids.get(place).copied(), outcome);
        outcome::points_to_csv(&places.map(line).collect::<Vec<_>>())
    }

    fn how_to_resume(&self, context: &Context) -> String {
        let done = self.outcomes.len() - 1;
        let left = &self.ids[done.min(self.ids.len())..];
        let round = self.outcomes[done].curve.points.last().map_or(0, |point| point.round);
        match left.is_empty() {
            true => "interrupted; nothing was recorded (--store none)".into(),
            false => {
                let command = context.resume_command(left);
                format!("interrupted after the record of round {round}; go on with: {command}")
            }
        }
    }
}

/// The failure of the first run that failed.
pub fn failure(outcomes: &[Outcome]) -> Result<(), Error> {
    for outcome in outcomes {
        if let Ending::Failed(why) = &outcome.ending {
            return Err(Error::Failed(format!(
                "{}: {why}",
                super::label_of(&outcome.name, &outcome.set)
            )));
        }
    }
    Ok(())
}

//! `fedback run SPEC`.

use crate::lab::error::Error;
use crate::lab::event::Ending;
use crate::lab::experiment::{Finished, Keep, Ready};
use crate::lab::outcome::{self, Outcome};
use crate::lab::runner::Runnable;

use super::{Context, summary};
use crate::args::RunArgs;
use crate::output;
use crate::progress::Progress;

pub fn run(context: &Context, args: RunArgs) -> Result<(), Error> {
    let experiment = super::experiment(&args.spec)?;
    context.introduce(&experiment.plans);
    let plans = experiment.plans.iter().map(|plan| plan as &dyn Runnable);
    let placed = args.device.place(plans).map_err(super::in_spec(&args.spec))?;
    let plans = placed.iter().map(|plan| plan as &dyn Runnable).collect();
    let ready = Ready::new(plans).map_err(super::in_spec(&args.spec))?;
    // What goes for the first point goes for most.
    placed.first().into_iter().for_each(|plan| context.say_device(plan));
    ready.warnings().iter().for_each(|warning| context.warn(warning));
    let mut progress = Progress::of_sweep(&experiment.plans, context.quiet);
    let keep = context.store().map(|store| Keep { store, tags: &args.tags, note: &args.note });
    let finished = context.saving(|| ready.run(keep, &mut progress, &context.stop))?;
    report(context, &finished, experiment.swept, &args)
}

/// Prints what came out and returns the error that decides the exit code.
fn report(
    context: &Context,
    finished: &Finished,
    swept: bool,
    args: &RunArgs,
) -> Result<(), Error> {
    let Finished { outcomes, ids } = finished;
    if outcomes.last().is_some_and(|outcome| outcome.ending == Ending::Interrupted) {
        return Err(Error::Interrupted(how_to_resume(context, finished)));
    }
    if args.spec.json {
        output::print_json(&outcome::to_json(outcomes, swept))?;
    } else if args.csv {
        let line = |(place, outcome)| (ids.get(place).copied(), outcome);
        let lines: Vec<_> = outcomes.iter().enumerate().map(line).collect();
        output::print(&outcome::points_to_csv(&lines))?;
    } else {
        output::print(&summary::text(outcomes, ids))?;
    }
    failure(outcomes)
}

fn how_to_resume(context: &Context, finished: &Finished) -> String {
    let done = finished.outcomes.len() - 1;
    let left = &finished.ids[done.min(finished.ids.len())..];
    let round = finished.outcomes[done].curve.points.last().map_or(0, |point| point.round);
    match left.is_empty() {
        true => "interrupted; nothing was recorded (--store none)".into(),
        false => {
            let command = context.resume_command(left);
            format!("interrupted after the record of round {round}; go on with: {command}")
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

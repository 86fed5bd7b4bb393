//! `fedback resume RUN…`.

use crate::lab::device::Device;
use crate::lab::error::Error;
use crate::lab::event::Ending;
use crate::lab::experiment::{self, Reopened};
use crate::lab::outcome::{self, Outcome};
use crate::lab::recorded::RecordedRun;
use crate::lab::store::{RunId, Store};

use super::{Context, run, summary};
use crate::args::{ResumeArgs, runs};
use crate::output;
use crate::progress::Progress;

pub fn run(context: &Context, args: ResumeArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let ids = runs(&args.runs);
    // All are found fit to go on before the first one does.
    let found: Vec<Found> = ids.iter().map(|&id| find(&store, id)).collect::<Result<_, _>>()?;
    let mut outcomes = Vec::new();
    for found in &found {
        let outcome = go_on(context, &store, found, args.device)?;
        if outcome.ending == Ending::Interrupted {
            let left = &ids[outcomes.len()..];
            let command = context.resume_command(left);
            return Err(Error::Interrupted(format!("interrupted again; go on with: {command}")));
        }
        outcomes.push(outcome);
    }
    match args.json {
        true => output::print_json(&outcome::to_json(&outcomes, outcomes.len() > 1))?,
        false => output::print(&summary::text(&outcomes, &ids))?,
    }
    run::failure(&outcomes)
}

/// A recorded run that may have something left to do.
enum Found {
    Ended(Box<RecordedRun>),
    Open(Box<Reopened>),
}

/// What has ended needs neither its plan nor its data.
fn find(store: &Store, id: RunId) -> Result<Found, Error> {
    let run = RecordedRun::read(store, id)?;
    match run.has_ended() {
        true => Ok(Found::Ended(Box::new(run))),
        false => Reopened::new(run).map(|run| Found::Open(Box::new(run))),
    }
}

/// A run that has ended is shown as it ended; any other goes on from its last checkpoint.
fn go_on(
    context: &Context,
    store: &Store,
    found: &Found,
    device: Device,
) -> Result<Outcome, Error> {
    match found {
        Found::Ended(run) => {
            Ok(Outcome { resumed_from: Some(run.stored.round()), ..run.outcome() })
        }
        Found::Open(run) => {
            let plan = &device.place_one(run.whole()?)?;
            context.say_device(plan);
            let mut progress = Progress::new(context.quiet);
            let stop = &context.stop;
            context.saving(|| experiment::resume(plan, store, &run.stored, &mut progress, stop))
        }
    }
}

//! `fedback resume RUN…`.

use fedback::lab::error::Error;
use fedback::lab::event::Ending;
use fedback::lab::experiment::{Reopened, reopen};
use fedback::lab::outcome::{self, Outcome};
use fedback::lab::runner::Resume;
use fedback::lab::store::{RunId, Store};

use super::{Context, run, summary};
use crate::args::ResumeArgs;
use crate::output;

pub fn run(context: &Context, args: ResumeArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let ids: Vec<RunId> = args.runs.iter().copied().map(RunId).collect();
    let reopened: Vec<Reopened> =
        ids.iter().map(|&id| reopen(&store, id)).collect::<Result<_, _>>()?;
    let mut outcomes = Vec::new();
    for (&id, reopened) in ids.iter().zip(&reopened) {
        let outcome = go_on(context, &store, id, reopened)?;
        if outcome.ending == Ending::Interrupted {
            let left = &ids[outcomes.len()..];
            let command = context.resume_command(left);
            return Err(Error::Interrupted(format!("interrupted again; go on with: {command}")));
        }
        outcomes.push(outcome);
    }
    match args.json {
        true => output::print_json(&outcome::to_json(&outcomes, outcomes.len() > 1))?,
        false => {
            let exact: Vec<_> = reopened.iter().map(Reopened::exact).collect();
            output::print(&summary::text(&exact, &outcomes, &ids))?;
        }
    }
    run::failure(&outcomes)
}

/// A run that has ended is shown as it ended; any other goes on from its last checkpoint.
fn go_on(
    context: &Context,
    store: &Store,
    id: RunId,
    reopened: &Reopened,
) -> Result<Outcome, Error> {
    let round = reopened.round();
    if reopened.has_ended() {
        return Ok(Outcome { resumed_from: Some(round), ..reopened.outcome() });
    }
    let resume: Option<Resume> = reopened.resume();
    let outcome = run::run_one(context, reopened.whole()?, Some((store, id)), resume)?;
    Ok(Outcome { resumed_from: Some(round), ..outcome })
}

//! `fedback replay RUN`.

use crate::lab::error::Error;
use crate::lab::event::Ending;
use crate::lab::experiment::{Replayed, reopen, replay};
use crate::lab::store::RunId;
use serde_json::json;

use super::{Context, summary};
use crate::args::ReplayArgs;
use crate::output;
use crate::progress::Progress;

pub fn run(context: &Context, args: ReplayArgs) -> Result<(), Error> {
    let id = RunId(args.run);
    let store = context.existing_store()?;
    let reopened = reopen(&store, id)?;
    let (plan, stored) = (reopened.whole()?, &reopened.stored);
    let mut progress = Progress::new(context.quiet);
    let Replayed { outcome, same } =
        context.saving(|| replay(plan, stored, &mut progress, &context.stop))?;
    if outcome.ending == Ending::Interrupted {
        return Err(Error::Interrupted("interrupted; a replay records nothing".into()));
    }
    let word = if same { "the same" } else { "NOT the same" };
    match args.json {
        true => {
            let mut json = json!(outcome);
            json["replayed"] = id.0.into();
            json["same"] = same.into();
            output::print_json(&json)?;
        }
        false => {
            let note = format!("run {id} again: {word}, to the bit");
            output::print(&summary::noted(&[outcome], &note))?;
        }
    }
    match same {
        true => Ok(()),
        false => Err(Error::Failed(format!(
            "run {id} did not come out as it was recorded: other data at its sites, or a store \
             that was changed"
        ))),
    }
}

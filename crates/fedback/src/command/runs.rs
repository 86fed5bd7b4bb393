//! `fedback runs`.

use std::path::Path;

use crate::lab::error::Error;
use crate::lab::store::{RunSummary, Runs, Store, standing};
use serde_json::json;

use super::{Context, label_of};
use crate::args::RunsArgs;
use crate::output::{self, plural};
use crate::table::table;

pub fn run(context: &Context, args: RunsArgs) -> Result<(), Error> {
    let nowhere = context.store == Path::new("none");
    let store = if nowhere { None } else { Store::open_existing(&context.store)? };
    let Runs { sound, damaged } = store.map_or(Ok(Runs::default()), |store| store.runs())?;
    let place = context.store.display();
    match (&sound[..], args.json) {
        (_, true) => output::print_json(&json!(sound))?,
        ([], false) if damaged.is_empty() => {
            output::print(&format!("no runs in {place}; `fedback run SPEC` records one\n"))?;
        }
        ([], false) => {}
        (_, false) => {
            let header = ["run", "name", "state", "round", "rounds", "started"].map(String::from);
            output::print(&table(&header, &sound.iter().map(row).collect::<Vec<_>>()))?;
        }
    }
    damaged.iter().for_each(|damage| context.warn(&damage.to_string()));
    match damaged.len() {
        0 => Ok(()),
        some => {
            let all = plural((some + sound.len()) as u64, "run", "runs");
            let why = format!("{place}: {some} of {all} cannot be trusted, and not listed");
            Err(Error::Failed(why))
        }
    }
}

fn row(run: &RunSummary) -> Vec<String> {
    let name = match run.set.is_empty() {
        true => run.name.clone(),
        false => format!("{} ({})", run.name, label_of(&run.name, &run.set)),
    };
    let tags = run.tags.iter().map(|tag| format!(" #{tag}")).collect::<String>();
    let name = format!("{name}{tags}");
    vec![
        run.id.to_string(),
        name,
        standing(run.ending.as_ref()).into(),
        run.round.to_string(),
        run.rounds.to_string(),
        run.started.clone(),
    ]
}

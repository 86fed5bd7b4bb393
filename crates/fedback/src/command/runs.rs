//! `fedback runs`.

use std::path::Path;

use fedback::lab::error::Error;
use fedback::lab::store::{RunSummary, Store, standing};
use serde_json::json;

use super::{Context, label_of};
use crate::args::RunsArgs;
use crate::output;
use crate::table::table;

pub fn run(context: &Context, args: RunsArgs) -> Result<(), Error> {
    let nowhere = context.store == Path::new("none");
    let store = if nowhere { None } else { Store::open_existing(&context.store)? };
    let runs = store.map_or(Ok(Vec::new()), |store| store.runs())?;
    if args.json {
        return output::print_json(&json!(runs));
    }
    if runs.is_empty() {
        let place = context.store.display();
        return output::print(&format!("no runs in {place}; `fedback run SPEC` records one\n"));
    }
    let header = ["run", "name", "state", "round", "rounds", "started"].map(String::from);
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    output::print(&table(&header, &rows))
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

//! `fedback runs`.

use std::path::Path;

use fedback::lab::error::Error;
use fedback::lab::store::{RunSummary, Store};
use serde_json::{Value, json};

use super::{Context, label_of};
use crate::args::RunsArgs;
use crate::output;
use crate::table::table;

pub fn run(context: &Context, args: RunsArgs) -> Result<(), Error> {
    let nowhere = context.store == Path::new("none");
    let store = if nowhere { None } else { Store::open_existing(&context.store)? };
    let runs = store.map_or(Ok(Vec::new()), |store| store.runs())?;
    if args.json {
        return output::print_json(&runs.iter().map(to_json).collect());
    }
    if runs.is_empty() {
        let place = context.store.display();
        return output::print(&format!("no runs in {place}; `fedback run SPEC` records one\n"));
    }
    let header = ["run", "name", "state", "round", "rounds", "started"].map(String::from);
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    output::print(&table(&header, &rows))
}

fn to_json(run: &RunSummary) -> Value {
    json!({
        "id": run.id.0,
        "name": run.name,
        "state": run.state.as_str(),
        "round": run.round,
        "rounds": run.rounds,
        "repetitions": run.repetitions,
        "set": run.set,
        "tags": run.tags,
        "note": run.note,
        "started": run.started,
        "seconds": run.seconds,
    })
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
        run.state.as_str().into(),
        run.round.to_string(),
        run.rounds.to_string(),
        run.started.clone(),
    ]
}

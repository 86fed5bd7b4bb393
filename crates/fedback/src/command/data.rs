//! `fedback data TABLE`.

use crate::lab::error::Error;
use crate::paper::credit_data::{self, Fetched};
use serde_json::json;

use super::Context;
use crate::args::{DataArgs, KnownTable};
use crate::output;
use crate::progress::Stages;

pub fn run(context: &Context, args: DataArgs) -> Result<(), Error> {
    let KnownTable::Credit = args.table;
    let stages = Stages::new("the credit data", context.quiet);
    let provide =
        || credit_data::provide(args.from.as_deref(), &|now| stages.now(now), &context.stop);
    let fetched = context.saving(provide);
    drop(stages);
    let fetched = fetched?;
    if let Some(doubt) = fetched.doubt() {
        context.warn(doubt);
    }
    match args.json {
        true => output::print_json(&json!(fetched)),
        false => output::print(&text(&fetched)),
    }
}

fn text(fetched: &Fetched) -> String {
    let state = if fetched.written { "written" } else { "there already" };
    let verified = if fetched.verified { "SHA-256 verified" } else { "known by its shape only" };
    let (path, rows) = (fetched.path.display(), fetched.rows);
    format!("{path}: {state}, {rows} rows, {verified}\nuse it in a spec by source = \"credit\"\n")
}

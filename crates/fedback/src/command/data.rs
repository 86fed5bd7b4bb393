//! `fedback data TABLE`.

use std::io::IsTerminal;
use std::time::Duration;

use fedback::lab::credit::fetch::{self, Fetched};
use fedback::lab::credit::{self, Recognised};
use fedback::lab::error::Error;
use indicatif::ProgressBar;
use serde_json::json;

use super::Context;
use crate::args::{DataArgs, KnownTable};
use crate::output;

pub fn run(context: &Context, args: DataArgs) -> Result<(), Error> {
    let KnownTable::Credit = args.table;
    let fetched = match &args.from {
        Some(path) => fetch::from_file(path)?,
        None => match fetch::present()? {
            Some(present) => present,
            None => fetch_credit(context)?,
        },
    };
    if fetched.recognised == Recognised::ByShape {
        context.warn(
            "the columns and rows are those of the credit table, but the bytes are not those of the \
             copy that results were verified with; numbers may differ",
        );
    }
    match args.json {
        true => output::print_json(&json!({
            "path": fetched.path,
            "sha256": fetched.sha256,
            "bytes": fetched.bytes,
            "rows": credit::ROWS,
            "verified": fetched.recognised == Recognised::ByHash,
            "written": fetched.written,
        })),
        false => output::print(&text(&fetched)),
    }
}

/// Shows that something is happening, on a terminal.
fn fetch_credit(context: &Context) -> Result<Fetched, Error> {
    let spinner = match context.quiet || !std::io::stderr().is_terminal() {
        true => ProgressBar::hidden(),
        false => ProgressBar::new_spinner(),
    };
    spinner.set_message("fetching the credit data with pip (7.5 MB)");
    spinner.enable_steady_tick(Duration::from_millis(100));
    let fetched = context.saving(|| fetch::with_pip(&context.stop));
    spinner.finish_and_clear();
    fetched
}

fn text(fetched: &Fetched) -> String {
    let state = if fetched.written { "written" } else { "there already" };
    let verified = match fetched.recognised {
        Recognised::ByHash => "SHA-256 verified",
        Recognised::ByShape => "known by its shape only",
    };
    let rows = credit::ROWS;
    format!(
        "{}: {state}, {rows} rows, {verified}\nuse it in a spec by source = \"credit\"\n",
        fetched.path.display()
    )
}

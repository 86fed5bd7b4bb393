//! `fedback score RUN ROWS`.

use std::path::PathBuf;

use crate::lab::error::Error;
use crate::lab::recorded::RecordedRun;
use crate::lab::scoring::Scorer;
use crate::lab::store::RunId;

use super::Context;
use crate::args::ScoreArgs;
use crate::output::{self, plural};

pub fn run(context: &Context, args: ScoreArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let scorer = Scorer::of(&RecordedRun::read(&store, RunId(args.run))?, args.repetition)?;
    let place = args.rows.display();
    if args.rows.is_dir() {
        return Err(Error::input(place, "is a directory; needed: a CSV file"));
    }
    let same = |path: &PathBuf| path.canonicalize().ok() == args.rows.canonicalize().ok();
    if let Some(path) = args.out.as_ref().filter(|path| path.exists() && same(path)) {
        let why = format!("{} is the table itself; name another file", path.display());
        return Err(Error::input("--out", why));
    }
    let file = std::fs::File::open(&args.rows)
        .map_err(|error| Error::input(&place, format!("cannot be read: {error}")))?;
    let scored = scorer.score(file).map_err(|why| Error::input(&place, why))?;
    if scored.without > 0 {
        let rows = plural(scored.without, "row has", "rows have");
        context.warn(&format!("{rows} no score: a cell is missing"));
    }
    match &args.out {
        Some(path) => {
            output::write_file(path, &scored.csv)?;
            let rows = plural(scored.rows, "row", "rows");
            output::print(&format!("wrote {rows} to {}\n", path.display()))
        }
        None => output::print(&scored.csv),
    }
}

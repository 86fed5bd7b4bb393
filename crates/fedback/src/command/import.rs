//! `fedback import FILE`.

use crate::lab::bundle;
use crate::lab::error::Error;
use serde_json::json;

use super::Context;
use crate::args::ImportArgs;
use crate::output;

pub fn run(context: &Context, args: ImportArgs) -> Result<(), Error> {
    // Said before a store is made.
    if !args.file.is_file() {
        let why = "no such file; needed: a bundle of `fedback export`, or a store";
        return Err(Error::input(args.file.display(), why));
    }
    let none = || Error::input("--store none", "records nothing; name a store to import into");
    let ids = bundle::read(&args.file, context.store().ok_or_else(none)?)?;
    if args.json {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        return output::print_json(&json!({ "format": 1, "runs": ids }));
    }
    let line = |id: &_| format!("imported as run {id}\n");
    output::print(&ids.iter().map(line).collect::<String>())
}

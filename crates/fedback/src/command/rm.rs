//! `fedback rm RUN…`.

use std::io::IsTerminal;

use crate::lab::error::Error;

use super::Context;
use crate::args::{RmArgs, runs};
use crate::output::{self, plural};

pub fn run(context: &Context, args: RmArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let mut ids = runs(&args.runs);
    ids.sort();
    ids.dedup();
    let many = plural(ids.len() as u64, "run", "runs");
    if !args.yes && !agrees(&format!("remove {many} from {}?", context.store.display()))? {
        return output::print("nothing was removed\n");
    }
    store.remove(&ids)?;
    output::print(&format!("removed {many}\n"))
}

/// Asks the person at the terminal.
fn agrees(question: &str) -> Result<bool, Error> {
    if !std::io::stdin().is_terminal() {
        return Err(Error::input("rm", "nobody is there to ask; add --yes"));
    }
    output::print(&format!("{question} [y/N] "))?;
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Error::Failed(format!("standard input cannot be read: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

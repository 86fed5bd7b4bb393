//! `fedback note RUN TEXT`.

use crate::lab::error::Error;
use crate::lab::store::RunId;

use super::Context;
use crate::args::NoteArgs;
use crate::output;

pub fn run(context: &Context, args: NoteArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let run = store.load(RunId(args.run))?;
    let mut tags = run.tags;
    for tag in args.tags {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    for tag in &args.untags {
        let known = tags.len();
        tags.retain(|one| one != tag);
        if tags.len() == known {
            let why = format!("run {} has no such tag; it has: {}", args.run, tags.join(" "));
            return Err(Error::input(format!("--untag {tag}"), why));
        }
    }
    let note = args.note.unwrap_or(run.note);
    store.annotate(run.id, &tags, &note)?;
    let parts: Vec<String> = [tags.join(" "), note].into_iter().filter(|p| !p.is_empty()).collect();
    let now = if parts.is_empty() { "no note, no tags".into() } else { parts.join(" · ") };
    output::print(&format!("run {}: {now}\n", args.run))
}

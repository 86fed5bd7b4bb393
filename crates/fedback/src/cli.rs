//! The command `fedback` as a function, which its binary calls and a script of the Python package.

use std::ffi::OsString;

use clap::Parser;

use crate::args::{self, Cli, Command};
use crate::lab::error::Error;
use crate::lab::own::{self, Kind};
use crate::{command, output};

/// Does what a command line asks, whose first word is the command's own name; its exit code. It
/// has the process for itself: threads and signals are set up for it, once.
pub fn main(line: impl IntoIterator<Item = OsString>) -> u8 {
    let parsed = match Cli::try_parse_from(line) {
        Ok(parsed) => Ok(parsed),
        Err(error) if error.use_stderr() => Err(Error::Input(words(&error))),
        Err(help_or_version) => {
            // Nobody may be there to read it.
            let _ = help_or_version.print();
            return 0;
        }
    };
    match parsed.and_then(run) {
        Ok(()) => 0,
        Err(error) => {
            output::complain(&match &error {
                Error::Interrupted(message) | Error::Unfinished(message) => message.clone(),
                // A field of a question by the name of its option.
                Error::Question(wrong) => {
                    let option = wrong.key.replace('_', "-");
                    format!("error: --{option}: {}", wrong.message)
                }
                Error::Input(_) | Error::Failed(_) => format!("error: {error}"),
            });
            error.exit_code()
        }
    }
}

/// The same command for responses of one's own: specs may name these kinds too.
///
/// A binary of somebody's own is this one line, and has every command; `docs/how-to/own-response.md`
/// shows one.
pub fn main_with(
    kinds: impl IntoIterator<Item = Kind>,
    line: impl IntoIterator<Item = OsString>,
) -> u8 {
    match own::register(kinds) {
        Ok(()) => main(line),
        Err(error) => {
            output::complain(&format!("error: {error}"));
            error.exit_code()
        }
    }
}

/// What is wrong with a command line, in one line as everything else is.
fn words(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with("For more")).collect();
    let text = lines.join("; ").replace(":; ", ": ").replace("; Usage:", "; usage:");
    text.strip_prefix("error: ").unwrap_or(&text).to_string()
}

fn run(cli: Cli) -> Result<(), Error> {
    let context = command::Context::new(cli.threads, cli.store, cli.quiet)?;
    match cli.command {
        None => command::reproduce::run(&context, args::ReproduceArgs::default()),
        Some(Command::Serve(args)) => command::serve::run(&context, args),
        Some(Command::Reproduce(args)) => command::reproduce::run(&context, args),
        Some(Command::Run(args)) => command::run::run(&context, args),
        Some(Command::Exact(args)) => command::exact::run(&context, args),
        Some(Command::Solve(args)) => command::solve::run(&context, args),
        Some(Command::Check(args)) => command::check::run(&context, args),
        Some(Command::Bounds(args)) => command::bounds::run(args),
        Some(Command::Fit(args)) => command::fit::run(&context, args),
        Some(Command::Plan(args)) => command::plan::run(&context, args),
        Some(Command::Runs(args)) => command::runs::run(&context, args),
        Some(Command::Show(args)) => command::show::run(&context, args),
        Some(Command::Note(args)) => command::note::run(&context, args),
        Some(Command::Rm(args)) => command::rm::run(&context, args),
        Some(Command::Resume(args)) => command::resume::run(&context, args),
        Some(Command::Replay(args)) => command::replay::run(&context, args),
        Some(Command::Export(args)) => command::export::run(&context, args),
        Some(Command::Score(args)) => command::score::run(&context, args),
        Some(Command::Import(args)) => command::import::run(&context, args),
        Some(Command::Compare(args)) => command::compare::run(&context, args),
        Some(Command::Federate(args)) => command::federate::run(&context, args),
        Some(Command::Site(args)) => command::site::run(&context, args),
        Some(Command::Data(args)) => command::data::run(&context, args),
        Some(Command::Schema) => command::schema::run(),
        Some(Command::New(args)) => command::new::run(args),
    }
}

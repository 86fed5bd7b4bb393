//! Arguments of the commands that look into a store.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args)]
pub struct RunsArgs {
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ResumeArgs {
    /// The runs to go on with
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<i64>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ReplayArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: i64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ExportArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: i64,
    /// What to write
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// The file to write (default: standard output; a bundle needs a file)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ExportFormat {
    /// The curve, one line a record
    Csv,
    /// What `run --json` prints
    Json,
    /// The curve as a picture
    Svg,
    /// The final models as JSON, with what is needed to score raw rows
    Theta,
    /// The whole run, for `fedback import` elsewhere; its data stay
    Bundle,
}

#[derive(Args)]
pub struct CompareArgs {
    /// The runs
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub runs: Vec<i64>,
    /// The figure to write
    #[arg(long, value_name = "FILE", default_value = "fedback-compare.svg")]
    pub out: PathBuf,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ShowArgs {
    /// The run; of several, what differs is shown
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<i64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct NoteArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: i64,
    /// The new note; an empty one removes it
    #[arg(value_name = "TEXT", required_unless_present_any = ["tags", "untags"])]
    pub note: Option<String>,
    /// A tag to add; may be repeated
    #[arg(long = "tag", value_name = "WORD", value_parser = tag)]
    pub tags: Vec<String>,
    /// A tag to remove; may be repeated
    #[arg(long = "untag", value_name = "WORD")]
    pub untags: Vec<String>,
}

#[derive(Args)]
pub struct RmArgs {
    /// The runs to remove
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<i64>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

#[derive(Args)]
pub struct ImportArgs {
    /// A file of `fedback export --format bundle`, or a store
    pub file: PathBuf,
    /// Print the new numbers as JSON
    #[arg(long)]
    pub json: bool,
}

/// A tag: one word.
pub fn tag(text: &str) -> Result<String, String> {
    let is_word = |text: &str| !text.is_empty() && !text.contains([' ', ',']);
    match is_word(text) && !text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        true => Ok(text.into()),
        false => Err("a tag is one word, without blanks and commas".into()),
    }
}

//! Arguments of the commands that look into a store.

use std::path::PathBuf;
use std::str::FromStr;

use crate::lab::device::Device;
use crate::lab::store::{RunId, tag};
use clap::{Args, ValueEnum};

#[derive(Args)]
pub struct RunsArgs {
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ResumeArgs {
    /// The runs to go on with, as in 3 5-8
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<RunRange>,
    /// Where to go on with them: cpu, cuda (an NVIDIA device) or auto; the results are the same
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub device: Device,
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
    /// The file to write (default: standard output; a bundle and arrays need a file)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The curve, one line a record
    Csv,
    /// What `run --json` prints
    Json,
    /// The curve as a picture
    Svg,
    /// The final models as JSON, with what is needed to score raw rows
    Theta,
    /// The final models and the curve of every repetition, for `numpy.load`
    Npz,
    /// The whole run, for `fedback import` elsewhere; its data stay
    Bundle,
}

#[derive(Args)]
pub struct ScoreArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: i64,
    /// The rows, a CSV file with the columns that the model needs; others are kept
    #[arg(value_name = "ROWS")]
    pub rows: PathBuf,
    /// The file to write (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The repetition whose model it is (default: the average of all)
    #[arg(long, value_name = "N")]
    pub repetition: Option<u64>,
}

#[derive(Args)]
pub struct CompareArgs {
    /// The runs, as in 3 5-8
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<RunRange>,
    /// The figure to write
    #[arg(long, value_name = "FILE", default_value = "fedback-compare.svg")]
    pub out: PathBuf,
    /// Across: step, round, time, steps, communications, uploads, sample_gradients, rows_drawn,
    /// deployments; or a parameter, for final values over it (default: step)
    #[arg(long, value_name = "WHAT")]
    pub x: Option<String>,
    /// Upwards: a measurement; of several, one panel each (default: the first that all runs have)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub y: Vec<String>,
    /// One panel for each value of a parameter
    #[arg(long, value_name = "KEY", conflicts_with = "map")]
    pub panels: Option<String>,
    /// A heat map of final values over the parameters of --x and this one
    #[arg(long, value_name = "KEY")]
    pub map: Option<String>,
    /// Where the figure is to be read
    #[arg(long, value_enum, default_value = "screen")]
    pub size: FigureSize,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the table as CSV, one line per run
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FigureSize {
    /// On a screen, with a heading, light or dark
    Screen,
    /// In one column of a printed page, 85 mm
    Single,
    /// Across both columns, 178 mm
    Double,
}

#[derive(Args)]
pub struct ShowArgs {
    /// The run; of several, what differs is shown
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<RunRange>,
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
    /// The runs to remove, as in 3 5-8
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<RunRange>,
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

/// A run by its number, or all from one to another: 3, or 5-8.
#[derive(Clone, Copy)]
pub struct RunRange(i64, i64);

/// A longer list of runs is a slip.
const MOST_RUNS: i64 = 100_000;

impl FromStr for RunRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |text: &str| text.trim().parse::<i64>().ok().filter(|number| *number >= 0);
        let ends = match text.split_once('-') {
            Some((first, last)) => one(first).zip(one(last)),
            None => one(text).map(|only| (only, only)),
        };
        match ends {
            Some((first, last)) if (first..first.saturating_add(MOST_RUNS)).contains(&last) => {
                Ok(RunRange(first, last))
            }
            _ => Err("allowed: the number of a run, or a range of them, as in 5-8".into()),
        }
    }
}

/// The runs that were asked for, one after the other.
pub fn runs(ranges: &[RunRange]) -> Vec<RunId> {
    ranges.iter().flat_map(|&RunRange(first, last)| first..=last).map(RunId).collect()
}

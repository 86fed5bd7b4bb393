//! What the user can type.

mod federate;
mod serve;
mod site;
mod store;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::lab::device::Device;

pub use federate::*;
pub use serve::*;
pub use site::*;
pub use store::*;

/// Federated learning for populations that react to the model.
///
/// Without a command, reproduces the paper's experiments and leaves a page in fedback-report/.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Threads to use (default: one per core); results do not depend on it
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<usize>,
    /// Where runs are recorded; "none" records nothing
    #[arg(long, global = true, value_name = "PATH", default_value = "fedback.db")]
    pub store: PathBuf,
    /// No progress, no warnings
    #[arg(long, global = true)]
    pub quiet: bool,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a spec and record it
    Run(RunArgs),
    /// Exact expectations instead of samples (affine problems)
    Exact(SpecArgs),
    /// Where retraining settles (the stable point), and the optimal point
    Solve(SpecArgs),
    /// Will retraining settle, where, at what risk, and which clients drive it
    Check(CheckArgs),
    /// The paper's theorems as numbers, as printed and as corrected
    Bounds(BoundsArgs),
    /// How clients react, estimated from data collected under several deployed models
    Fit(FitArgs),
    /// The cheapest E, K, scheme and step sizes that reach an accuracy and keep it
    Plan(PlanArgs),
    /// List recorded runs, newest first
    Runs(RunsArgs),
    /// What a recorded run was and what came of it; with several runs, what differs
    Show(ShowArgs),
    /// Change the note and the tags of a recorded run
    Note(NoteArgs),
    /// Remove recorded runs
    Rm(RmArgs),
    /// Go on with interrupted runs, to the same bits as if they had not been
    Resume(ResumeArgs),
    /// Run a recorded run again in memory and see whether it comes out the same, to the bit
    Replay(ReplayArgs),
    /// Write a recorded run as a file
    Export(ExportArgs),
    /// Score the rows of a CSV file with the model of a recorded run
    Score(ScoreArgs),
    /// Take in the runs of a bundle, or of another store
    Import(ImportArgs),
    /// Put recorded runs side by side: one table, one figure
    Compare(CompareArgs),
    /// Show runs as they happen on a local page, and what theory says of others
    Serve(ServeArgs),
    /// Redraw the paper's figures and judge its claims
    Reproduce(ReproduceArgs),
    /// How the runs of a federation stand, for automation
    Federate(FederateArgs),
    /// What a site of a federation decides for itself: its policy, its ledger, its service
    Site(SiteArgs),
    /// Get a table that specs know by name
    Data(DataArgs),
    /// Print the JSON schema of specs
    Schema,
    /// Write a commented spec to start from
    New(NewArgs),
}

#[derive(Args)]
pub struct SpecArgs {
    /// The spec, a TOML file
    pub spec: PathBuf,
    /// Change a key of the spec; VALUE is TOML, a bare word is a string
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub spec: SpecArgs,
    /// A word to find the run by; may be repeated
    #[arg(long = "tag", value_name = "WORD", value_parser = crate::lab::store::tag)]
    pub tags: Vec<String>,
    /// What the run is for
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub note: String,
    /// Where to work it out: cpu, cuda (an NVIDIA device) or auto; the results are the same
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub device: Device,
    /// Print the result as CSV, one line per point of a sweep
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub spec: SpecArgs,
    /// Draw the contraction factor per round over the step size, as an SVG file
    #[arg(long, value_name = "FILE")]
    pub figure: Option<PathBuf>,
}

#[derive(Args)]
// A negative number is refused by name and range, not as an unknown option.
#[command(allow_negative_numbers = true)]
pub struct BoundsArgs {
    #[command(flatten)]
    pub spec: SpecArgs,
    /// The free δ of the theorems (default: half of the largest valid one)
    #[arg(long, value_name = "D")]
    pub delta: Option<f64>,
    /// σ of assumption A4 instead of the derived one
    #[arg(long, value_name = "S")]
    pub sigma: Option<f64>,
    /// ς of assumption A5 instead of the derived one
    #[arg(long, value_name = "V")]
    pub varsigma: Option<f64>,
    /// μ of assumption A1 instead of the derived one
    #[arg(long, value_name = "M")]
    pub mu: Option<f64>,
    /// L of assumption A2 instead of the derived one
    #[arg(long, value_name = "L")]
    pub smoothness: Option<f64>,
    /// Squared distance to reach (default: 1% of the start's)
    #[arg(long, value_name = "A")]
    pub accuracy: Option<f64>,
    /// What a communication costs, in local steps (default: 1)
    #[arg(long, value_name = "C")]
    pub communication_cost: Option<f64>,
}

#[derive(Args)]
pub struct FitArgs {
    /// The observations, a CSV file: client, deployment, features, perhaps an individual and a label
    pub data: PathBuf,
    /// The deployed models, a CSV file: deployment, one coefficient per feature, perhaps an intercept
    #[arg(long, value_name = "FILE")]
    pub deployments: PathBuf,
    /// The column of the clients
    #[arg(long, value_name = "COLUMN", default_value = "client")]
    pub client: String,
    /// The column of the deployments
    #[arg(long, value_name = "COLUMN", default_value = "deployment")]
    pub deployment: String,
    /// The column of the individuals (default: individual, if there is one)
    #[arg(long, value_name = "COLUMN")]
    pub individual: Option<String>,
    /// The column of the labels (default: label, if there is one)
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
    /// Leave a column out of both files
    #[arg(long, value_name = "COLUMN")]
    pub ignore: Vec<String>,
    /// The kind of response (default: best-response with labels, location without)
    #[arg(long, value_enum)]
    pub response: Option<FitResponse>,
    /// The features that move, separated by commas (default: those that a test finds; all for location)
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    pub features: Option<Vec<String>>,
    /// What a client's sensitivity is
    #[arg(long, value_enum, default_value = "auto")]
    pub shape: FitShape,
    /// The deployment whose rows the spec starts from (default: the first)
    #[arg(long, value_name = "DEPLOYMENT")]
    pub reference: Option<String>,
    /// The confidence of intervals and brackets
    #[arg(long, value_name = "P", default_value = "0.95")]
    pub confidence: f64,
    /// Everything random comes from it
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
    /// The folder to write spec.toml, base.csv, resamples.csv and shift.svg to
    #[arg(long, value_name = "DIR", default_value = "fitted")]
    pub output: PathBuf,
    /// Replace these files if the folder is there
    #[arg(long)]
    pub force: bool,
    /// Print the estimates as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FitResponse {
    /// Features move against their coefficients
    BestResponse,
    /// Features move with their coefficients
    Location,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FitShape {
    /// The simplest that the data do not reject
    Auto,
    /// One number per client
    Scalar,
    /// One number per feature
    Vector,
    /// A matrix
    Matrix,
}

#[derive(Args)]
// A negative number is refused by name and range, not as an unknown option.
#[command(allow_negative_numbers = true)]
pub struct PlanArgs {
    #[command(flatten)]
    pub spec: SpecArgs,
    /// Expected squared distance to the stable point to reach, and to keep
    #[arg(long, value_name = "A")]
    pub accuracy: f64,
    /// What a communication costs, in local steps
    #[arg(long, value_name = "C", default_value_t = 1.0)]
    pub communication_cost: f64,
    /// The share of a communication that is waiting for the slowest client, 0 to 1
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    pub straggler: f64,
    /// How long clients take: constant, exponential or lognormal:SIGMA
    #[arg(long, value_name = "LATENCY", default_value = "exponential")]
    pub latency: String,
    /// The most local steps
    #[arg(long, value_name = "STEPS", default_value_t = 1_000_000.0)]
    pub budget: f64,
    /// Local steps per round to choose from (default: any)
    #[arg(long, value_name = "E,…", value_delimiter = ',')]
    pub local_steps: Vec<f64>,
    /// Schemes to choose from (default: all)
    #[arg(long, value_name = "SCHEME,…", value_delimiter = ',', value_enum)]
    pub schemes: Vec<SchemeChoice>,
    /// Algorithms to choose from: p-fedavg, scaffold, fedprox[:PROXIMAL], momentum[:BETA] (default: the
    /// spec's own)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub algorithms: Vec<String>,
    /// The largest cohort (default: all clients)
    #[arg(long, value_name = "K")]
    pub max_cohort: Option<f64>,
    /// The share of A to plan for (default: 0.92 where moments are exact, else 0.8)
    #[arg(long, value_name = "SHARE")]
    pub safety: Option<f64>,
    /// L of the first step's limit 1/L instead of the derived one
    #[arg(long, value_name = "L")]
    pub smoothness: Option<f64>,
    /// Repetitions of the simulation that checks the plan (default: what a few seconds allow)
    #[arg(long, value_name = "R")]
    pub repetitions: Option<f64>,
    /// The spec to write, with the planned setting; an existing one is left alone
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file of --output
    #[arg(long)]
    pub force: bool,
    /// The chart to write: total cost over E
    #[arg(long, value_name = "FILE")]
    pub figure: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemeChoice {
    /// Every client, every round
    Full,
    /// K draws by weight
    WithReplacement,
    /// K different clients
    WithoutReplacement,
}

#[derive(Args)]
pub struct ReproduceArgs {
    /// The figures (default: all)
    #[arg(value_name = "FIGURE")]
    pub figures: Vec<String>,
    /// The folder to write report.html, figures and curves to
    #[arg(long, value_name = "DIR", default_value = REPORT)]
    pub out: PathBuf,
    /// Fewer repetitions, the same figures and verdicts
    #[arg(long)]
    pub quick: bool,
    /// Another seed: other populations, cohorts and draws
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print the verdicts as JSON
    #[arg(long)]
    pub json: bool,
}

/// The default folder of a report.
const REPORT: &str = "fedback-report";

impl Default for ReproduceArgs {
    fn default() -> Self {
        let (figures, out) = (Vec::new(), REPORT.into());
        ReproduceArgs { figures, out, quick: false, seed: None, json: false }
    }
}

#[derive(Args)]
pub struct DataArgs {
    /// The table
    #[arg(value_enum)]
    pub table: KnownTable,
    /// Take it from a file instead of fetching it: cs-training.csv, an archive with it, or the
    /// whynot wheel
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum KnownTable {
    /// The paper's credit data: the training table of Kaggle's GiveMeSomeCredit
    Credit,
}

#[derive(Args)]
pub struct NewArgs {
    /// The file to write; an existing one is left alone
    #[arg(default_value = "experiment.toml")]
    pub path: PathBuf,
    /// The kind of problem
    #[arg(long, value_enum, default_value = "gaussian")]
    pub kind: NewKind,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NewKind {
    /// Normal data that react by a location shift
    Gaussian,
    /// Rows of a CSV file that react to a logistic model; writes example rows as well
    Table,
}

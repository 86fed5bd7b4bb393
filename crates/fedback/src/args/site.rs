//! What the user can type about a site.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Args)]
pub struct SiteArgs {
    #[command(subcommand)]
    pub command: SiteCommand,
}

#[derive(Subcommand)]
pub enum SiteCommand {
    /// Say what a server could learn under a policy
    Check {
        /// The policy, a TOML file of the site's own
        policy: PathBuf,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Begin the site's ledger, once
    Init {
        /// The policy, a TOML file of the site's own
        policy: PathBuf,
    },
    /// Answer on the policy's socket, as far as the policy allows
    Serve {
        /// The policy, a TOML file of the site's own
        policy: PathBuf,
        /// How the log is written
        #[arg(long, value_enum, default_value = "text", value_name = "STYLE")]
        log: LogStyle,
    },
    /// Go through the ledger: whether it is sound, and how much is spent
    Ledger {
        /// The policy, a TOML file of the site's own
        policy: PathBuf,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum LogStyle {
    /// key=value
    Text,
    /// One object a line
    Json,
}

//! What the user can type about the runs of a federation.

use clap::{Args, Subcommand};

#[derive(Args)]
pub struct FederateArgs {
    #[command(subcommand)]
    pub command: FederateCommand,
}

#[derive(Subcommand)]
pub enum FederateCommand {
    /// Say how a run stands; exit code 0 where it is done, 1 failed, 3 running, 130 interrupted
    Status {
        /// The run's number (default: the newest)
        #[arg(value_parser = clap::value_parser!(i64).range(0..))]
        run: Option<i64>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Wait until a run has ended; exit codes as of status
    Wait {
        /// The run's number
        #[arg(value_parser = clap::value_parser!(i64).range(0..))]
        run: i64,
        /// Give up after so many seconds
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<f64>,
    },
    /// Print all runs in the text format of Prometheus
    Metrics {
        /// Serve them on this address instead, under /metrics
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<String>,
    },
}

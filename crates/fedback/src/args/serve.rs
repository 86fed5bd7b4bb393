//! What the user can type about the page.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub struct ServeArgs {
    /// Stores to show (default: that of --store)
    #[arg(value_name = "STORE")]
    pub stores: Vec<PathBuf>,
    /// The address to listen on; 0 as a port takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    pub listen: String,
    /// What a browser must know (default: nothing on this machine, a new one on other addresses)
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// A name by which others call this machine; may be repeated
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// A spec to ask what-if of; may be repeated
    #[arg(long = "spec", value_name = "FILE")]
    pub specs: Vec<PathBuf>,
    /// Open the page in a browser
    #[arg(long)]
    pub open: bool,
}

//! The command, and the files beside the tests.

#![allow(dead_code, reason = "not every test needs both")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The command, or the binary that the variable `FEDBACK_BINARY` names.
pub fn command(folder: &Path, args: &[&str]) -> Command {
    let built = env!("CARGO_BIN_EXE_fedback").into();
    let mut command = Command::new(std::env::var_os("FEDBACK_BINARY").unwrap_or(built));
    command.args(args).current_dir(folder).env("XDG_CACHE_HOME", folder.join("no-cache"));
    command
}

/// The path of a file in the folder of the tests.
pub fn beside(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file)
}

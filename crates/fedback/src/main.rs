//! The command `fedback`; what it does is in the library, where Python finds it too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(fedback::cli::main(std::env::args_os()))
}

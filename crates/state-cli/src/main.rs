//! The binary `statectl`: inspect, change, repair and move infrastructure state.

use std::process::ExitCode;

fn main() -> ExitCode {
    state_cli::run(std::env::args_os().collect()).into()
}

//! `completions`: scripts that let a shell complete the command line.

use crate::args::Cli;
use crate::context::Context;
use crate::error::CliError;
use crate::output::Report;
use clap::CommandFactory;
use serde::Serialize;

/// Print the completion script of a shell, for example: `source <(statectl completions bash)`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(value_enum)]
    shell: Shell,
}

/// The shells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Serialize)]
struct Script {
    shell: Shell,
    script: String,
}

/// Makes the script.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Report, CliError> {
    let generator = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut Cli::command(), "statectl", &mut script);
    if !context.global.json {
        return Ok(Report::raw(script, Vec::new()));
    }
    let script = Script {
        shell: args.shell,
        script: String::from_utf8_lossy(&script).into_owned(),
    };
    Report::new(context, "completions", &script, Vec::new(), |_| {})
}

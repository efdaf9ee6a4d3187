//! `completions`: scripts that let a shell complete the command line, and the names that they ask for.

mod meaning;

pub(crate) use meaning::understood;

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::output::Report;
use serde::Serialize;
use state_core::StackName;
use state_engine::builtin;

/// What the scripts do beyond what is known when they are made: they ask for names.
const BASH_WORDS: &str = include_str!("completions/words.bash");
const ZSH_WORDS: &str = include_str!("completions/words.zsh");
const FISH_WORDS: &str = include_str!("completions/words.fish");

/// Print the completion script of a shell, for example: `source <(statectl completions bash)`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the names of a kind, a line each: what the scripts ask. Whatever is in the way, there are just none; where
/// no names are meant at all, it fails.
#[derive(Debug, clap::Args)]
pub(crate) struct WordsArgs {
    #[arg(value_enum)]
    kind: Words,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Words {
    Stacks,
    Addresses,
    Revisions,
    Outputs,
    Operations,
    Kinds,
    Nothing,
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
pub(crate) fn run(context: &Context, args: &Args, mut command: clap::Command) -> CommandResult {
    let (generator, words) = match args.shell {
        Shell::Bash => (clap_complete::Shell::Bash, BASH_WORDS),
        Shell::Zsh => (clap_complete::Shell::Zsh, ZSH_WORDS),
        Shell::Fish => (clap_complete::Shell::Fish, FISH_WORDS),
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut command, "statectl", &mut script);
    script.extend_from_slice(words.as_bytes());
    if args.shell == Shell::Fish {
        // Fish asks each flag apart for its values.
        for flag in meaning::flags(&command) {
            script.extend_from_slice(
                format!("complete -c statectl -l {flag} -x -a '(__statectl_words)'\n").as_bytes(),
            );
        }
    }
    if !context.output.json {
        return Ok(Report::raw(script, Vec::new()));
    }
    let script = Script {
        shell: args.shell,
        script: String::from_utf8_lossy(&script).into_owned(),
    };
    context.report("completions", &script, Vec::new(), |_| {})
}

/// Prints names.
pub(crate) async fn words(context: &Context, args: &WordsArgs) -> Report {
    let mut text = String::new();
    for word in find(context, args.kind).await.unwrap_or_default() {
        if !word.chars().any(char::is_control) {
            text.push_str(&word);
            text.push('\n');
        }
    }
    let report = Report::raw(text.into_bytes(), Vec::new());
    match args.kind {
        Words::Nothing => report.with_code(ExitCode::Failed),
        _ => report,
    }
}

async fn find(context: &Context, kind: Words) -> Result<Vec<String>, CliError> {
    Ok(match kind {
        Words::Stacks => {
            let names = context.store.open().await?.names().await?;
            names.iter().map(StackName::short).collect()
        }
        Words::Addresses => {
            let view = context.store.open_stack().await?.tip().await?;
            let live = view.state.entries().filter(|entry| entry.is_live());
            live.map(|entry| entry.address.to_string()).collect()
        }
        Words::Revisions => {
            let history = context.store.open_stack().await?.history().await?;
            history.iter().map(|revision| revision.id.to_string()).collect()
        }
        Words::Outputs => {
            let view = context.store.open_stack().await?.tip().await?;
            view.state.outputs().values.keys().cloned().collect()
        }
        Words::Operations => {
            let view = context.store.open_stack().await?.tip().await?;
            view.state
                .pending()
                .map(|operation| operation.id.to_string())
                .collect()
        }
        Words::Kinds => builtin::kinds().iter().map(|kind| kind.kind.to_owned()).collect(),
        Words::Nothing => Vec::new(),
    })
}

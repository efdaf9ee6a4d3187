//! The command `completions`: prints shell completion scripts. The hidden command `__words` prints the names that these
//! scripts query.

mod meaning;

pub(crate) use meaning::understood;

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::output::Report;
use serde::Serialize;
use state_core::StackName;
use state_engine::builtin;

/// The parts of the scripts that query `__words` for names that only the store knows.
const BASH_WORDS: &str = include_str!("completions/words.bash");
const ZSH_WORDS: &str = include_str!("completions/words.zsh");
const FISH_WORDS: &str = include_str!("completions/words.fish");

/// Print a shell completion script
///
/// For example: `source <(statectl completions bash)`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell to generate the script for
    #[arg(value_enum)]
    shell: Shell,
}

/// Print names for shell completion
///
/// Prints one name per line. Prints none if the store can't be read, and fails if the argument doesn't name anything.
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

/// Shells with a completion script.
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

/// Runs the command `completions` and returns its report.
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
        // Fish needs a completion rule for each flag that takes such a name.
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

/// Runs `__words`. Errors result in an empty list, because a completion must not print errors into the command line.
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
    if !matches!(kind, Words::Kinds) && !context.store.may_complete() {
        return Ok(Vec::new());
    }
    Ok(match kind {
        Words::Stacks => {
            let names = context.store.open().await?.pointer_names().await?;
            names.iter().map(StackName::short).collect()
        }
        Words::Addresses => {
            let view = context.store.open_view().await?;
            let live = view.state.entries().filter(|entry| entry.is_live());
            live.map(|entry| entry.address.to_string()).collect()
        }
        Words::Revisions => {
            let history = context.store.open_view().await?.history().await?;
            history.iter().map(|revision| revision.id.to_string()).collect()
        }
        Words::Outputs => {
            let view = context.store.open_view().await?;
            view.state.outputs().values.keys().cloned().collect()
        }
        Words::Operations => {
            let view = context.store.open_view().await?;
            view.state
                .pending()
                .map(|operation| operation.id.to_string())
                .collect()
        }
        Words::Kinds => builtin::kinds().iter().map(|kind| kind.kind.to_owned()).collect(),
        Words::Nothing => Vec::new(),
    })
}

//! `recipients`: who can open a sealed stack.

use super::rekey::{self, Changed};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::output::Report;
use crate::prompt::confirm;
use crate::store;
use serde::Serialize;
use state_manager::Rekey;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List them.
    #[command(visible_alias = "ls")]
    List,
    /// Let others open the stack, all of its history with this key included.
    Add {
        /// age1…, ssh-…, or `passphrase` for the one in STATECTL_PASSPHRASE.
        #[arg(value_name = "RECIPIENT", required = true)]
        recipients: Vec<String>,
    },
    /// Let somebody open nothing new: the stack gets a new data key.
    #[command(visible_alias = "rm")]
    Remove {
        /// As `recipients list` shows them.
        #[arg(value_name = "RECIPIENT", required = true)]
        recipients: Vec<String>,
    },
}

#[derive(Serialize)]
struct Listed {
    stack: String,
    recipients: Vec<String>,
}

/// Runs one of them.
pub(crate) async fn run(context: &Context, command: &Command) -> Result<Report, CliError> {
    match command {
        Command::List => list(context).await,
        Command::Add { recipients } => add(context, recipients).await,
        Command::Remove { recipients } => remove(context, recipients).await,
    }
}

async fn list(context: &Context) -> Result<Report, CliError> {
    let stack = store::open_stack(context).await?;
    let recipients = stack.recipients().await?;
    report(context, stack.name().to_string(), recipients)
}

async fn add(context: &Context, more: &[String]) -> Result<Report, CliError> {
    let stack = store::open_stack(context).await?;
    let recipients = stack.add_recipients("recipients add", more).await?;
    report(context, stack.name().to_string(), recipients)
}

fn report(context: &Context, stack: String, recipients: Vec<String>) -> Result<Report, CliError> {
    let listed = Listed { stack, recipients };
    Report::new(context, "recipients", &listed, Vec::new(), |page| {
        for recipient in &listed.recipients {
            page.line(recipient);
        }
        if listed.recipients.is_empty() {
            page.line("nobody: the stack is not sealed");
        }
    })
}

async fn remove(context: &Context, gone: &[String]) -> Result<Report, CliError> {
    let stack = store::open_stack(context).await?;
    let object = format!("stack {}", stack.name().short());
    let mut recipients = stack.recipients().await?;
    if let Some(stranger) = gone.iter().find(|one| !recipients.contains(one)) {
        let message = format!("{stranger} isn't one of its recipients; nothing was changed");
        return Err(CliError::new(ExitCode::NotFound, object, &message)
            .with_hint("see who is with `statectl recipients list`"));
    }
    recipients.retain(|one| !gone.contains(one));
    if recipients.is_empty() {
        let message = "nobody would be left who can open it; nothing was changed";
        return Err(CliError::new(ExitCode::Refused, object, message)
            .with_hint("add another recipient first: `statectl recipients add`"));
    }
    let question = format!("Give {object} a new data key without {}?", gone.join(", "));
    confirm(context, &object, &question)?;
    let request = Rekey {
        recipients: Some(recipients),
        message: format!("removed {}", gone.join(", ")),
        ..Rekey::default()
    };
    let rekeyed = stack.rekey("recipients remove", request).await?;
    rekey::report(context, "recipients-remove", &Changed::new(&stack, rekeyed))
}

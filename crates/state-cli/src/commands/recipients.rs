//! `recipients`: who can open a sealed stack.

use super::rekey;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use serde::Serialize;
use state_manager::{Rekey, Stack};

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
        /// Let them read the stack's outputs, and nothing else of it. Whether they can fetch more is for the store's
        /// access rules.
        #[arg(long)]
        outputs: bool,
    },
    /// Let somebody open nothing new: the stack gets a new data key.
    #[command(visible_alias = "rm")]
    Remove {
        /// As `recipients list` shows them.
        #[arg(value_name = "RECIPIENT", required = true)]
        recipients: Vec<String>,
        /// Of those who read outputs only.
        #[arg(long)]
        outputs: bool,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Listed {
    stack: String,
    recipients: Vec<String>,
    /// Who can read the outputs, and nothing else.
    of_outputs: Vec<String>,
}

/// Runs one of them.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    match command {
        Command::List => report(context, &context.store.open_stack().await?).await,
        Command::Add { recipients, outputs } => add(context, recipients, *outputs).await,
        Command::Remove { recipients, outputs } => remove(context, recipients, *outputs).await,
    }
}

async fn add(context: &Context, more: &[String], outputs: bool) -> CommandResult {
    let stack = context.store.open_stack().await?;
    match outputs {
        true => stack.add_output_recipients("recipients add", more).await?,
        false => stack.add_recipients("recipients add", more).await?,
    };
    report(context, &stack).await
}

async fn report(context: &Context, stack: &Stack) -> CommandResult {
    let listed = Listed {
        stack: stack.name().to_string(),
        recipients: stack.recipients().await?,
        of_outputs: stack.output_recipients().await?,
    };
    context.report("recipients", &listed, Vec::new(), |page| {
        for recipient in &listed.recipients {
            page.line(recipient);
        }
        if listed.recipients.is_empty() {
            page.line("nobody: the stack is not sealed");
        }
        for recipient in &listed.of_outputs {
            page.line(format_args!("{recipient} (outputs only)"));
        }
    })
}

async fn remove(context: &Context, gone: &[String], outputs: bool) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let object = format!("stack {}", stack.name().short());
    let mut recipients = match outputs {
        true => stack.output_recipients().await?,
        false => stack.recipients().await?,
    };
    if let Some(stranger) = gone.iter().find(|one| !recipients.contains(one)) {
        let message = format!("{stranger} isn't one of its recipients; nothing was changed");
        return Err(
            CliError::not_found(object, &message).with_hint("see who is with `statectl recipients list`")
        );
    }
    recipients.retain(|one| !gone.contains(one));
    if recipients.is_empty() && !outputs {
        let message = "nobody would be left who can open it; nothing was changed";
        return Err(CliError::refused(object, message)
            .with_hint("add another recipient first: `statectl recipients add`"));
    }
    let question = format!("Give {object} a new data key without {}?", gone.join(", "));
    context.prompt.confirm(&object, &question)?;
    let (of_all, of_outputs) = match outputs {
        true => (None, Some(recipients)),
        false => (Some(recipients), None),
    };
    let request = Rekey {
        recipients: of_all,
        outputs: of_outputs,
        message: format!("removed {}", gone.join(", ")),
        ..Rekey::default()
    };
    rekey::perform(context, &stack, "recipients remove", "recipients-remove", request).await
}

//! The command `recipients`: lists, adds and removes the recipients of a stack, who can decrypt it.

use super::rekey;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use serde::Serialize;
use state_manager::{Rekey, Stack};

/// All subcommands of `statectl recipients`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the recipients of a stack
    #[command(visible_alias = "ls")]
    List,
    /// Add recipients to a stack
    ///
    /// New recipients can also decrypt all earlier revisions that use the current data key.
    Add {
        /// `age1…`, `ssh-…`, or `passphrase`
        ///
        /// The word `passphrase` adds the passphrase in STATECTL_PASSPHRASE.
        #[arg(value_name = "RECIPIENT", required = true)]
        recipients: Vec<String>,
        /// Let the recipients decrypt only the stack's outputs
        ///
        /// The store's access rules decide whether they can fetch the other, encrypted files.
        #[arg(long)]
        outputs: bool,
    },
    /// Remove recipients and replace the data key
    ///
    /// Removed recipients can't decrypt later revisions. They can still decrypt revisions with an earlier data key.
    #[command(visible_alias = "rm")]
    Remove {
        /// The recipients to remove, as in `recipients list`
        #[arg(value_name = "RECIPIENT", required = true)]
        recipients: Vec<String>,
        /// Remove recipients that read outputs only
        #[arg(long)]
        outputs: bool,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RecipientsReport {
    stack: String,
    recipients: Vec<String>,
    /// Recipients who can decrypt only the stack's outputs.
    of_outputs: Vec<String>,
}

/// Runs a subcommand of `recipients`.
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
    let listed = RecipientsReport {
        stack: stack.name().to_string(),
        recipients: stack.recipients().await?,
        of_outputs: stack.output_recipients().await?,
    };
    context.report("recipients", &listed, Vec::new(), |page| {
        for recipient in &listed.recipients {
            page.line(recipient);
        }
        if listed.recipients.is_empty() {
            page.line("no recipients: the stack is not encrypted");
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
        let message = format!("cannot remove {stranger}: not a recipient of the stack");
        return Err(CliError::not_found(object, &message).with_hint(
            "list recipients with `statectl recipients list`; `--outputs` selects the recipients of outputs only",
        ));
    }
    recipients.retain(|one| !gone.contains(one));
    if recipients.is_empty() && !outputs {
        let message = "cannot remove the last recipient: no one could decrypt the stack";
        return Err(CliError::refused(object, message)
            .with_hint("add another recipient first: `statectl recipients add RECIPIENT`"));
    }
    let question = format!(
        "Replace the data key of {object} and remove recipient {}?",
        gone.join(", ")
    );
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

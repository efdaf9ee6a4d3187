//! The command `recipients`: lists, adds and removes the recipients of a stack, who can decrypt it.

use super::rekey;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use serde::Serialize;
use state_manager::{Rekey, Stack};
use std::collections::BTreeMap;

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
        /// Name of the recipient, for lists and the history
        ///
        /// Names one recipient, also one that the stack has already.
        #[arg(long, value_name = "NAME", value_parser = recipient_name, conflicts_with = "outputs")]
        name: Option<String>,
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
        /// The recipients to remove, or their names, as in `recipients list`
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
    /// Names of recipients, by recipient.
    names: BTreeMap<String, String>,
    /// The recipients that belong to the user's identities.
    you: Vec<String>,
}

/// How long a name of a recipient may be, in characters.
const MAX_NAME: usize = 100;

/// Parses a name from the command line. A name must not look like a recipient, because both select one to remove.
fn recipient_name(text: &str) -> Result<String, String> {
    let looks_like_recipient = ["age1", "ssh-", "passphrase"]
        .iter()
        .any(|prefix| text.starts_with(prefix));
    let is_printable = text.chars().all(|c| !c.is_control() && c != '\u{feff}');
    if text.trim() != text
        || text.is_empty()
        || text.chars().count() > MAX_NAME
        || !is_printable
        || looks_like_recipient
    {
        return Err(format!(
            "a name has 1 to {MAX_NAME} printable characters and doesn't begin like a recipient"
        ));
    }
    Ok(text.to_owned())
}

/// Runs a subcommand of `recipients`.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    match command {
        Command::List => report(context, &context.store.open_stack().await?).await,
        Command::Add {
            recipients,
            name,
            outputs,
        } => match (name, recipients.as_slice()) {
            (Some(name), [recipient]) => add_named(context, recipient, name).await,
            (Some(_), _) => Err(
                CliError::usage("recipients add", "`--name` names exactly one recipient").with_hint(
                    "add one recipient at a time: `statectl recipients add --name NAME RECIPIENT`",
                ),
            ),
            (None, _) => add(context, recipients, *outputs).await,
        },
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

async fn add_named(context: &Context, recipient: &str, name: &str) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let names = stack.recipient_names().await?;
    let other = names
        .iter()
        .find(|(other, known)| *known == name && *other != recipient);
    if let Some((other, _)) = other {
        let message = format!("the name `{name}` already belongs to recipient {other}");
        return Err(
            CliError::conflict(format!("stack {}", stack.name().short()), &message)
                .with_hint("choose another name; list recipients with `statectl recipients list`"),
        );
    }
    stack
        .add_named_recipient("recipients add", recipient, name)
        .await?;
    report(context, &stack).await
}

async fn report(context: &Context, stack: &Stack) -> CommandResult {
    let recipients = stack.recipients().await?;
    let own = context.store.keys.identities()?.recipients();
    let listed = RecipientsReport {
        stack: stack.name().to_string(),
        you: recipients
            .iter()
            .filter(|one| own.contains(one))
            .cloned()
            .collect(),
        recipients,
        of_outputs: stack.output_recipients().await?,
        names: stack.recipient_names().await?,
    };
    context.report("recipients", &listed, Vec::new(), |page| {
        for recipient in &listed.recipients {
            let name = listed.names.get(recipient).map(|name| format!("  {name}"));
            let you = if listed.you.contains(recipient) {
                "  (you)"
            } else {
                ""
            };
            page.line(format_args!("{recipient}{}{you}", name.unwrap_or_default()));
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
    let names = stack.recipient_names().await?;
    let by_name = |text: &String| {
        names
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(recipient, _)| recipient.clone())
    };
    let gone: Vec<String> = gone
        .iter()
        .map(|text| by_name(text).unwrap_or_else(|| text.clone()))
        .collect();
    let gone = gone.as_slice();
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
    let described: Vec<String> = gone
        .iter()
        .map(|recipient| match names.get(recipient) {
            Some(name) => format!("{name} ({recipient})"),
            None => recipient.clone(),
        })
        .collect();
    let question = format!(
        "Replace the data key of {object} and remove recipient {}?",
        described.join(", ")
    );
    context.prompt.confirm(&object, &question)?;
    let (of_all, of_outputs) = match outputs {
        true => (None, Some(recipients)),
        false => (Some(recipients), None),
    };
    let request = Rekey {
        recipients: of_all,
        outputs: of_outputs,
        message: format!("removed {}", described.join(", ")),
        ..Rekey::default()
    };
    rekey::perform(context, &stack, "recipients remove", "recipients-remove", request).await
}

//! The command `recipients`: lists, adds and removes the recipients of a stack, who can decrypt it.

use super::rekey::{self, KeyChange};
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::key_loss::{self, RecipientCounts};
use crate::misplaced::contains_identity;
use crate::settings::quoted;
use crate::unmarked_secrets;
use serde::Serialize;
use state_core::StackName;
use state_core::head::Keys;
use state_encrypt::Recipient;
use state_manager::{Recipients, Rekey, Stack};
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
        /// Mark the recipient as an escrow key, which is kept offline
        ///
        /// An escrow key opens the stack when all other identities are lost. It stays a recipient when the data key is
        /// replaced, and only `recipients remove --escrow` removes it.
        #[arg(long, conflicts_with_all = ["name", "outputs"])]
        escrow: bool,
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
        /// Also remove escrow keys
        ///
        /// Without this flag an escrow key is removed only by its name, `escrow`.
        #[arg(long, conflicts_with = "outputs")]
        escrow: bool,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RecipientsReport {
    stack: String,
    recipients: Vec<String>,
    /// Recipients who can decrypt only the stack's outputs.
    of_outputs: Vec<String>,
    /// Names of recipients, by recipient. Escrow keys have the name `escrow`.
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
    // `recipients list` marks the user's own recipients with this word.
    let looks_like_mark = text.to_lowercase() == "you" || text.to_lowercase().contains("(you)");
    let is_printable = text.chars().all(|c| !c.is_control() && c != '\u{feff}');
    if text == Keys::ESCROW {
        return Err("the name of keys that are kept offline: pass `--escrow` instead of a name".to_owned());
    }
    if text.trim() != text
        || text.is_empty()
        || text.chars().count() > MAX_NAME
        || !is_printable
        || looks_like_recipient
        || looks_like_mark
    {
        return Err(format!(
            "a name has 1 to {MAX_NAME} printable characters, doesn't begin like a recipient, isn't `you` and doesn't contain `(you)`"
        ));
    }
    Ok(text.to_owned())
}

/// Runs a subcommand of `recipients`.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    match command {
        Command::List => {
            let stack = context.store.open_stack().await?;
            report(context, &stack, stack.recipients().await?)
        }
        Command::Add {
            recipients,
            name,
            escrow,
            outputs,
        } => {
            trust_plugins(context, recipients);
            match (name, escrow, recipients.as_slice()) {
                (Some(name), _, [recipient]) => add_named(context, recipient, name).await,
                (None, true, [recipient]) => add_escrow(context, recipient).await,
                (Some(_), ..) | (None, true, _) => Err(CliError::usage(
                    "recipients add",
                    "`--name` and `--escrow` are for exactly one recipient",
                )
                .with_hint("add one recipient at a time: `statectl recipients add --name NAME RECIPIENT`")),
                (None, false, _) => add(context, recipients, *outputs).await,
            }
        }
        Command::Remove {
            recipients,
            outputs,
            escrow,
        } => remove(context, recipients, *outputs, *escrow).await,
    }
}

/// Text of the error about another name for an escrow key.
const ESCROW_KEY: &str = "is an escrow key";

/// Lets the age plugins of recipients run that the user named in this command. Malformed recipients are refused later.
fn trust_plugins(context: &Context, recipients: &[String]) {
    let parsed: Vec<Recipient> = recipients.iter().filter_map(|text| text.parse().ok()).collect();
    if let Some(keys) = context.store.keys.get() {
        let plugins = parsed.iter().filter_map(|recipient| recipient.plugin());
        keys.plugins().trust(plugins.map(str::to_owned));
    }
}

async fn add(context: &Context, more: &[String], outputs: bool) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let present = stack.recipients().await?;
    let known = match outputs {
        true => &present.of_outputs,
        false => &present.of_stack,
    };
    let are_known = more.iter().all(|one| known.contains(one));
    // A revision that changes nothing would only fill the history. But a command that was killed may have named the recipients
    // without recording that, and without publishing the outputs to them.
    if are_known && !stack.tip().await?.update_open() {
        return report(context, &stack, present);
    }
    let changed = match outputs {
        true => stack.add_output_recipients("recipients add", more).await?,
        false => stack.add_recipients("recipients add", more).await?,
    };
    report(context, &stack, changed)
}

async fn add_named(context: &Context, recipient: &str, name: &str) -> CommandResult {
    if contains_identity(name) {
        // Everyone who can read the store could read the name.
        let message = "this is an identity, which is secret, and not a name; nothing was stored";
        return Err(CliError::usage("--name", message)
            .with_hint("pass a name such as `anna`: `statectl recipients add --name anna RECIPIENT`"));
    }
    let stack = context.store.open_stack().await?;
    let present = stack.recipients().await?;
    let names = &present.names;
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
    if names.get(recipient).is_some_and(|known| known == name)
        && present.of_stack.iter().any(|one| one == recipient)
    {
        return report(context, &stack, present);
    }
    let changed = stack
        .add_named_recipient("recipients add", recipient, name)
        .await
        .map_err(|error| match CliError::from(error) {
            refused if refused.message.contains(ESCROW_KEY) => refused.with_hint(format!(
                "to make it an ordinary recipient, run `statectl recipients remove --escrow {}` first",
                quoted(recipient)
            )),
            other => other,
        })?;
    report(context, &stack, changed)
}

async fn add_escrow(context: &Context, recipient: &str) -> CommandResult {
    let stack = context.store.open_stack().await?;
    if context
        .store
        .keys
        .own_recipients()
        .iter()
        .any(|own| own == recipient)
    {
        let message = "refused to use your own identity as escrow key: it would be lost together with it";
        return Err(CliError::refused(recipient, message).with_hint(
            "make a separate identity on an offline medium, for example with `age-keygen -o FILE`, and add its recipient",
        ));
    }
    let changed = stack
        .add_named_recipient("recipients add", recipient, Keys::ESCROW)
        .await?;
    report(context, &stack, changed)
}

/// Reports recipients that were read or written before. The store isn't read again: after a change it could show an
/// earlier state, whose recipients would then be the answer to a successful change.
fn report(context: &Context, stack: &Stack, recipients: Recipients) -> CommandResult {
    let counts = RecipientCounts::of(&recipients);
    let Recipients {
        of_stack: recipients,
        of_outputs,
        names,
    } = recipients;
    let own = context.store.keys.own_recipients();
    let listed = RecipientsReport {
        stack: stack.name().to_string(),
        you: recipients
            .iter()
            .chain(&of_outputs)
            .filter(|one| own.contains(one))
            .cloned()
            .collect(),
        recipients,
        of_outputs,
        names,
    };
    let warnings = counts.warning(stack.name()).into_iter().collect();
    context.report("recipients", &listed, warnings, |page| {
        let marks = |recipient: &String| {
            let name = listed.names.get(recipient).map(|name| format!("  {name}"));
            let you = if listed.you.contains(recipient) {
                "  (you)"
            } else {
                ""
            };
            format!("{}{you}", name.unwrap_or_default())
        };
        for recipient in &listed.recipients {
            page.line(format_args!("{recipient}{}", marks(recipient)));
        }
        if listed.recipients.is_empty() {
            page.line("no recipients: the stack is not encrypted");
        }
        for recipient in &listed.of_outputs {
            page.line(format_args!("{recipient}{} (outputs only)", marks(recipient)));
        }
    })
}

async fn remove(context: &Context, gone: &[String], outputs: bool, escrow: bool) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let object = format!("stack {}", stack.name().short());
    let Recipients {
        of_stack,
        of_outputs,
        names,
    } = stack.recipients().await?;
    let (mut recipients, other, what) = match outputs {
        true => (of_outputs, of_stack, "recipient of outputs"),
        false => (of_stack, of_outputs, "recipient"),
    };
    let mut removed = Vec::new();
    for text in gone {
        let recipient = by_name(&names, text)?.unwrap_or_else(|| text.clone());
        if !recipients.contains(&recipient) {
            return Err(stranger(object, &recipient, outputs, &other));
        }
        if !outputs && !escrow && *text == recipient && key_loss::is_escrow(&recipient, &names) {
            return Err(kept_escrow(object, &recipient));
        }
        removed.push(recipient);
    }
    recipients.retain(|one| !removed.contains(one));
    if recipients.is_empty() && !outputs {
        let message = "cannot remove the last recipient: no one could decrypt the stack";
        return Err(CliError::refused(object, message)
            .with_hint("add another recipient first: `statectl recipients add RECIPIENT`"));
    }
    let described = describe(&removed, &names);
    let own = context.store.keys.own_recipients();
    let is_you = !outputs && removed.iter().any(|one| own.contains(one));
    let mut warnings = unmarked_secrets::lost_by_rekey(context, &stack, None).await?;
    let readers: &[String] = if outputs { &[] } else { &other };
    for reading in still_reading(stack.name(), &removed, readers, &names) {
        warnings.extend(context.warn_before_question(&reading));
    }
    let mut question = format!("Replace the data key of {object} and remove {what} {described}?");
    if is_you {
        question += " That is you: afterwards you can't decrypt the stack with this identity.";
        let done = format!("you removed yourself: your identity can't decrypt {object} any more");
        warnings.extend(context.prompt.yes.then_some(done));
    }
    context.prompt.confirm(&object, &question)?;
    let (of_all, of_outputs) = match outputs {
        true => (None, Some(recipients)),
        false => (Some(recipients), None),
    };
    let request = Rekey {
        recipients: of_all,
        outputs: of_outputs,
        message: format!("removed {described}"),
        ..Rekey::default()
    };
    let titles = ("recipients remove", "recipients-remove");
    let report = rekey::perform(context, &stack, KeyChange::Key, titles, request).await?;
    Ok(report.warned(warnings))
}

fn kept_escrow(object: String, recipient: &str) -> CliError {
    let message = format!("refused to remove {recipient}: it is an escrow key");
    CliError::refused(object, &message).with_hint(format!(
        "if the offline key is not needed any more, run `statectl recipients remove --escrow {}`",
        quoted(recipient)
    ))
}

/// Warnings about removed recipients who are recipients of the outputs too.
fn still_reading(
    stack: &StackName,
    removed: &[String],
    readers: &[String],
    names: &BTreeMap<String, String>,
) -> Vec<String> {
    let reading = removed.iter().filter(|one| readers.contains(one));
    let warning = |one: &String| {
        format!(
            "{} can still decrypt the published outputs: to end that too, run `statectl recipients remove --outputs {} \
             --stack {}`",
            describe(std::slice::from_ref(one), names),
            quoted(one),
            quoted(&stack.short())
        )
    };
    reading.map(warning).collect()
}

/// The recipients with their names, separated by commas.
fn describe(recipients: &[String], names: &BTreeMap<String, String>) -> String {
    let one = |recipient: &String| match names.get(recipient) {
        Some(name) => format!("{name} ({recipient})"),
        None => recipient.clone(),
    };
    recipients.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The recipient with a name.
///
/// # Errors
/// [`ExitCode::Usage`](crate::ExitCode::Usage) if several escrow keys have the name.
fn by_name(names: &BTreeMap<String, String>, text: &str) -> Result<Option<String>, CliError> {
    let mut named = names.iter().filter(|(_, name)| *name == text);
    match (named.next(), named.next()) {
        (Some(_), Some(_)) => Err(CliError::usage(
            format!("recipient {text}"),
            "several recipients have this name",
        )
        .with_hint(
            "name the recipient itself, with `--escrow`; list recipients with `statectl recipients list`",
        )),
        (first, _) => Ok(first.map(|(recipient, _)| recipient.clone())),
    }
}

/// The error for a recipient that the stack doesn't have. `other` are its recipients of the other kind.
fn stranger(object: String, recipient: &str, outputs: bool, other: &[String]) -> CliError {
    let error = CliError::not_found(
        object,
        &format!(
            "cannot remove {recipient}: not a recipient of the {}",
            match outputs {
                true => "outputs",
                false => "stack",
            }
        ),
    );
    let shown = quoted(recipient);
    error.with_hint(match (other.iter().any(|one| one == recipient), outputs) {
        (true, false) => format!(
            "it is a recipient of outputs only: remove it with `statectl recipients remove --outputs {shown}`"
        ),
        (true, true) => {
            format!(
                "it is a recipient of the whole stack: remove it with `statectl recipients remove {shown}`"
            )
        }
        (false, _) => "list recipients with `statectl recipients list`".to_owned(),
    })
}

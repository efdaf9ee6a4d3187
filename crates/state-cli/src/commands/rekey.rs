//! The command `rekey`: replaces the data key of an encrypted stack.

use crate::context::{CommandResult, Context};
use crate::key_loss::RecipientCounts;
use crate::marks::count;
use crate::unmarked_secrets;
use serde::Serialize;
use state_core::RevisionId;
use state_manager::{Rekey, Stack};

/// Replace the data key of an encrypted stack
///
/// Creates a new data key for the same recipients and encrypts the current state with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Delete all earlier revisions, which use the old data key
    #[arg(long)]
    forget_history: bool,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
}

/// The result of a key replacement.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RekeyReport {
    stack: String,
    revision: RevisionId,
    recipients: Vec<String>,
    /// Revisions that can still be decrypted with an earlier key, or are in plaintext.
    older_revisions: Vec<RevisionId>,
}

/// Runs the command `rekey` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let object = format!("stack {}", stack.name().short());
    let question = match args.forget_history {
        true => format!("Replace the data key of {object}, and delete all its earlier revisions?"),
        false => format!("Replace the data key of {object}?"),
    };
    let unmarked = unmarked_secrets::lost_by_rekey(context, &stack, None).await?;
    context.prompt.confirm(&object, &question)?;
    let request = Rekey {
        forget_history: args.forget_history,
        message: args.message.clone().unwrap_or_default(),
        ..Rekey::default()
    };
    let report = perform(context, &stack, KeyChange::Key, ("rekey", "rekey"), request).await?;
    Ok(report.warned(unmarked))
}

/// What a new data key changes for a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyChange {
    /// It is the stack's first key.
    First,
    /// The stack had a key, and gets another policy.
    Policy,
    /// The stack had a key with the same policy.
    Key,
}

/// Replaces the stack's data key, and reports the new revision and the revisions that the old key still decrypts.
pub(super) async fn perform(
    context: &Context,
    stack: &Stack,
    change: KeyChange,
    (operation, kind): (&str, &'static str),
    request: Rekey,
) -> CommandResult {
    let rekeyed = stack.rekey(operation, request).await?;
    let counts = RecipientCounts::of(&rekeyed.recipients);
    let changed = RekeyReport {
        stack: stack.name().to_string(),
        revision: rekeyed.revision,
        recipients: rekeyed.recipients.of_stack,
        older_revisions: rekeyed.older,
    };
    let mut warnings: Vec<String> = counts.warning(stack.name()).into_iter().collect();
    if !changed.older_revisions.is_empty() {
        warnings.push(older_revisions(change, changed.older_revisions.len()));
    }
    context.report(kind, &changed, warnings, |page| {
        page.line(format_args!(
            "encrypted the current state with a new data key: revision {}, for {}",
            changed.revision,
            count(changed.recipients.len(), "recipient", "recipients")
        ));
    })
}

/// The warning about revisions that the new key doesn't protect.
fn older_revisions(change: KeyChange, number: usize) -> String {
    let them = if number == 1 { "it" } else { "them" };
    let are = count(number, "older revision is", "older revisions are");
    if change == KeyChange::Policy {
        let keep = count(number, "older revision keeps", "older revisions keep");
        return format!(
            "{keep} the encryption of the policy at that time; to delete {them}, run `statectl rekey --forget-history`"
        );
    }
    if change == KeyChange::First {
        return format!(
            "{are} not encrypted: everyone who can read the store can read {them}; delete {them} with `statectl rekey \
             --forget-history`"
        );
    }
    format!(
        "{are} not re-encrypted: former recipients can still read {them}; rotate secrets that they must not know"
    )
}

//! `rekey`: a new data key for a sealed stack.

use crate::context::{CommandResult, Context};
use crate::marks::count;
use serde::Serialize;
use state_core::RevisionId;
use state_manager::{Rekey, Stack};

/// Give the stack a new data key, for the same recipients, and seal its current state with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Drop and delete all earlier revisions: they open with the old key.
    #[arg(long)]
    forget_history: bool,
    /// What to remember in the history.
    #[arg(long, short)]
    message: Option<String>,
}

/// What a new key changed.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Changed {
    stack: String,
    revision: RevisionId,
    recipients: Vec<String>,
    /// Revisions that open with an earlier key, or are plain.
    older_revisions: Vec<RevisionId>,
}

/// Gives it a new key.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let object = format!("stack {}", stack.name().short());
    let question = match args.forget_history {
        true => format!("Give {object} a new data key, and delete its whole history before now?"),
        false => format!("Give {object} a new data key?"),
    };
    context.prompt.confirm(&object, &question)?;
    let request = Rekey {
        forget_history: args.forget_history,
        message: args.message.clone().unwrap_or_default(),
        ..Rekey::default()
    };
    perform(context, &stack, "rekey", "rekey", request).await
}

/// Gives the stack a new key, and tells what that changed, and what it didn't.
pub(super) async fn perform(
    context: &Context,
    stack: &Stack,
    operation: &str,
    kind: &'static str,
    request: Rekey,
) -> CommandResult {
    let rekeyed = stack.rekey(operation, request).await?;
    let changed = Changed {
        stack: stack.name().to_string(),
        revision: rekeyed.revision,
        recipients: rekeyed.recipients,
        older_revisions: rekeyed.older,
    };
    let mut warnings = Vec::new();
    if !changed.older_revisions.is_empty() {
        let older = changed.older_revisions.len();
        warnings.push(format!(
            "{} as before: whoever could read {} still can; change the secrets that must not be known any more",
            count(older, "older revision opens", "older revisions open"),
            if older == 1 { "it" } else { "them" },
        ));
    }
    context.report(kind, &changed, warnings, |page| {
        page.line(format_args!(
            "the current state is sealed with a new key: revision {}, for {}",
            changed.revision,
            count(changed.recipients.len(), "recipient", "recipients")
        ));
    })
}

//! `encrypt`: turn a plain stack into a sealed one.

use super::rekey;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::identities::Sealing;
use state_core::head::SealingPolicy;
use state_manager::Rekey;

/// Seal the stack's values: those marked as sensitive, or with `--policy all` every one. Revisions that are there
/// already stay plain.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is sealed.
    #[arg(long, value_enum, default_value_t = Sealing::Sensitive, value_name = "POLICY")]
    policy: Sealing,
    /// What to remember in the history.
    #[arg(long, short)]
    message: Option<String>,
}

/// Seals it.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let found = context.store.open_stack().await?;
    let object = format!("stack {}", found.name().short());
    let (policy, advice) = args.policy.prepare(&context.store.keys)?;
    if policy == SealingPolicy::Plaintext {
        return Err(CliError::usage(object, "the policy `plaintext` seals nothing")
            .with_hint("choose `--policy sensitive` or `--policy all`"));
    }
    if found.policy().await? == policy && !found.recipients().await?.is_empty() {
        return Err(CliError::conflict(object, "it is sealed so already")
            .with_hint("give it a new key with `statectl rekey`"));
    }
    context.prompt.confirm(&object, &format!("Seal {object}?"))?;
    // Opened again: an identity may have been made meanwhile.
    let stack = context.store.open_stack().await?;
    let request = Rekey {
        policy: Some(policy),
        message: args.message.clone().unwrap_or_default(),
        ..Rekey::default()
    };
    let report = rekey::perform(context, &stack, "encrypt", "encrypt", request).await?;
    Ok(report.warned(advice))
}

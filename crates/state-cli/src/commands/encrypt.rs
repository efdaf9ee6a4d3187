//! The command `encrypt`: encrypts the values of a plaintext stack.

use super::rekey;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::identities::Sealing;
use state_core::head::SealingPolicy;
use state_manager::Rekey;

/// Encrypt the values of a stack
///
/// Encrypts the values that are marked as sensitive, or with `--policy all` every value. Existing revisions stay as they
/// are.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which values to encrypt
    #[arg(long, value_enum, default_value_t = Sealing::Sensitive, value_name = "POLICY")]
    policy: Sealing,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
}

/// Runs the command `encrypt` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let found = context.store.open_stack().await?;
    let object = format!("stack {}", found.name().short());
    let (policy, advice) = args.policy.prepare(&context.store.keys)?;
    if policy == SealingPolicy::Plaintext {
        return Err(CliError::usage(object, "the policy `plaintext` encrypts nothing")
            .with_hint("choose `--policy sensitive` or `--policy all`"));
    }
    if found.policy().await? == policy && !found.recipients().await?.of_stack.is_empty() {
        return Err(CliError::conflict(object, "already encrypted with this policy")
            .with_hint("to replace the data key, run `statectl rekey`"));
    }
    context.prompt.confirm(&object, &format!("Encrypt {object}?"))?;
    // Open the stack again: `prepare` may have created the identity that decrypts it.
    let stack = context.store.open_stack().await?;
    let request = Rekey {
        policy: Some(policy),
        message: args.message.clone().unwrap_or_default(),
        ..Rekey::default()
    };
    let report = rekey::perform(context, &stack, "encrypt", "encrypt", request).await?;
    Ok(report.warned(advice))
}

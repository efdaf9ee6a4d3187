//! The command `encrypt`: encrypts the values of a plaintext stack.

use super::rekey::{self, KeyChange};
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::identities::Sealing;
use crate::unmarked_secrets;
use state_core::head::SealingPolicy;
use state_manager::Rekey;

/// Encrypt the values of a stack
///
/// Encrypts the values that are marked as sensitive, or with `--policy all` every value. Existing revisions stay as they
/// are.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which values to encrypt
    ///
    /// Default: `sensitive`. A stack that is encrypted with the policy `all` gets another one only if it is given here.
    #[arg(long, value_enum, value_name = "POLICY")]
    policy: Option<Sealing>,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
}

/// Runs the command `encrypt` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let found = context.store.open_stack().await?;
    let object = format!("stack {}", found.name().short());
    let chosen = args.policy.unwrap_or(Sealing::Sensitive);
    let (policy, advice) = chosen.prepare(&context.store.keys)?;
    if policy == SealingPolicy::Plaintext {
        return Err(CliError::usage(object, "the policy `plaintext` encrypts nothing")
            .with_hint("choose `--policy sensitive` or `--policy all`"));
    }
    let before = found.policy().await?;
    let is_encrypted = !found.recipients().await?.of_stack.is_empty();
    if is_encrypted && (before == policy || args.policy.is_none()) {
        let message = format!("already encrypted with the policy `{before}`");
        return Err(CliError::conflict(object, &message).with_hint(
            "to replace the data key, run `statectl rekey`; to change the policy, name it with `--policy`",
        ));
    }
    let mut warnings = match is_encrypted {
        true => unmarked_secrets::lost_by_rekey(context, &found, Some(policy)).await?,
        false => Vec::new(),
    };
    let question = match is_encrypted {
        true => format!("Change the policy of {object} from `{before}` to `{policy}`?"),
        false => format!("Encrypt {object}?"),
    };
    context.prompt.confirm(&object, &question)?;
    // Open the stack again: `prepare` may have created the identity that decrypts it.
    let stack = context.store.open_stack().await?;
    let request = Rekey {
        policy: Some(policy),
        message: args.message.clone().unwrap_or_default(),
        ..Rekey::default()
    };
    let change = match is_encrypted {
        true => KeyChange::Policy,
        false => KeyChange::First,
    };
    let report = rekey::perform(context, &stack, change, ("encrypt", "encrypt"), request).await?;
    warnings.extend(advice);
    Ok(report.warned(warnings))
}

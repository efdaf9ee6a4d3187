//! The command `identity`: the user's own recipients, which others add to their stacks.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::identities::NewIdentity;
use serde::Serialize;

/// Print your recipients, or create an identity
///
/// Others add these recipients with `statectl recipients add` so that you can decrypt their stacks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Create an identity if you have none
    #[arg(long)]
    new: bool,
}

#[derive(Serialize)]
struct IdentityReport {
    recipients: Vec<String>,
}

/// Runs the command `identity` and returns its report.
pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let fresh = if args.new {
        context.store.keys.ensure()?
    } else {
        None
    };
    let shown = IdentityReport {
        recipients: context.store.keys.identities()?.recipients(),
    };
    if shown.recipients.is_empty() {
        return Err(CliError::not_found("your identity", "not found")
            .with_hint("create one with `statectl identity --new`, or name a file with `--identity FILE`"));
    }
    let warnings = fresh.iter().map(NewIdentity::advice).collect();
    context.report("identity", &shown, warnings, |page| {
        for recipient in &shown.recipients {
            page.line(recipient);
        }
    })
}

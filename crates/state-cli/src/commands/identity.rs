//! `identity`: whom others must add so that you can open their stacks.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::identities::Fresh;
use serde::Serialize;

/// Show the recipients of your identities: what others give to `statectl recipients add`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Make an identity if you have none.
    #[arg(long)]
    new: bool,
}

#[derive(Serialize)]
struct Shown {
    recipients: Vec<String>,
}

/// Shows them.
pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let fresh = if args.new {
        context.store.keys.ensure()?
    } else {
        None
    };
    let shown = Shown {
        recipients: context.store.keys.identities()?.recipients(),
    };
    if shown.recipients.is_empty() {
        return Err(CliError::not_found("your identity", "there is none")
            .with_hint("make one with `statectl identity --new`, or name a file with `--identity FILE`"));
    }
    let warnings = fresh.iter().map(Fresh::advice).collect();
    context.report("identity", &shown, warnings, |page| {
        for recipient in &shown.recipients {
            page.line(recipient);
        }
    })
}

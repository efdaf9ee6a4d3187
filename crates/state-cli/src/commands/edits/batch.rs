//! The command `apply-edits`: performs many edits as one revision.

use super::operate::{self, MessageArg};
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::input;
use serde::Deserialize;
use state_core::edits::Operation;
use std::path::PathBuf;

/// Apply edits from a file as one revision
///
/// Applies either all operations in their order, or none.
///
/// Example file: `{"operations": [{"op": "mv", "from": "a", "to": "b"}, {"op": "rm", "addresses": ["c"], "cascade": true},
/// {"op": "taint", "addresses": ["d"]}, {"op": "protect", "all": true}]}`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File with the operations; `-` reads stdin
    file: PathBuf,
    #[command(flatten)]
    remember: MessageArg,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    operations: Vec<Operation>,
}

/// Runs the command `apply-edits` and returns its report.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let name = args.file.display().to_string();
    let text = input::read_text(&args.file).map_err(|source| CliError::io(name.as_str(), &source))?;
    let Document { operations } = serde_json::from_str(&text).map_err(|source| {
        CliError::usage(name.as_str(), &source.to_string())
            .with_hint("see an example file with `statectl help apply-edits`")
    })?;
    let request = operate::Request {
        kind: "apply-edits",
        operations,
        message: args.remember.message.clone(),
    };
    operate::run(context, &request).await
}

//! `apply-edits`: many operations at once.

use super::operate::{self, Remember};
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use serde::Deserialize;
use state_core::edits::Operation;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Perform many operations at once, in their order: all of them as one revision, or none.
///
/// The file is `{"operations": [{"op": "mv", "from": "a", "to": "b"}, {"op": "rm", "addresses": ["c"], "cascade": true},
/// {"op": "taint", "addresses": ["d"]}, {"op": "protect", "all": true}]}`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file; `-` reads from stdin.
    file: PathBuf,
    #[command(flatten)]
    remember: Remember,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    operations: Vec<Operation>,
}

/// Performs them.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let name = args.file.display().to_string();
    let text = read(&args.file).map_err(|source| CliError::io(name.as_str(), &source))?;
    let Document { operations } = serde_json::from_str(&text).map_err(|source| {
        CliError::usage(name.as_str(), &source.to_string())
            .with_hint("`statectl help apply-edits` shows what such a file holds")
    })?;
    let request = operate::Request {
        kind: "apply-edits",
        operations,
        message: args.remember.message.clone(),
    };
    operate::run(context, &request).await
}

fn read(file: &Path) -> std::io::Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

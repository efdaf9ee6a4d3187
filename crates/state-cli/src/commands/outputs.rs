//! The command `outputs`: the outputs of a stack.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::StackStatus;
use crate::reading::{At, Reading};
use serde::Serialize;
use state_core::{ErrorKind, Json, Snapshot};
use state_manager::Authenticity;
use std::collections::BTreeMap;

/// Show the outputs of a stack
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print only the value of this output
    #[arg(value_name = "OUTPUT")]
    name: Option<String>,
    /// Print a string without quotes
    #[arg(long, requires = "name")]
    raw: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
struct OutputsReport {
    #[serde(flatten)]
    status: StackStatus,
    outputs: BTreeMap<String, Output>,
}

#[derive(Serialize)]
struct Output {
    value: Json,
    sensitive: bool,
}

/// Runs the command `outputs` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let (status, snapshot) = read(context, &args.at).await?;
    let place = match &status.at {
        None => format!("stack {}", status.stack),
        Some(revision) => format!("stack {} at revision {revision}", status.stack),
    };
    let mut outputs: BTreeMap<String, Output> = context
        .settings
        .mask()
        .outputs(&snapshot)
        .into_iter()
        .map(|(name, (value, sensitive))| (name, Output { value, sensitive }))
        .collect();
    if let Some(name) = &args.name {
        if !outputs.contains_key(name) {
            return Err(missing(&outputs, name, &place));
        }
        outputs.retain(|other, _| other == name);
    }
    let shown = OutputsReport { status, outputs };
    let mut warnings = shown.status.warnings();
    let is_hidden = |output: &Output| output.sensitive && !context.settings.show_secrets;
    if args.raw && shown.outputs.values().any(is_hidden) {
        // A script would take the placeholder for the value.
        let hint =
            "the output is sensitive, so a placeholder is printed instead: show it with `--show-secrets`";
        warnings.push(hint.to_owned());
    }
    context.report("outputs", &shown, warnings, |page| {
        for (name, output) in &shown.outputs {
            let text = output.value.view().as_str().filter(|_| args.raw);
            let value = text.map_or_else(|| output.value.pretty(), std::borrow::Cow::into_owned);
            let assigned = if args.name.is_some() {
                value
            } else {
                format!("{name} = {value}")
            };
            for line in assigned.lines() {
                page.line(line);
            }
        }
    })
}

/// Reads the stack. If the user may not read the whole stack, or can't authenticate it, reads the outputs that it
/// publishes for output-only recipients: that document is authenticated.
async fn read(context: &Context, at: &At) -> Result<(StackStatus, Snapshot), CliError> {
    let is_unchecked = |reading: &Reading| reading.authenticity == Some(Authenticity::Unchecked);
    let read = match Reading::open(context, at).await {
        Ok(reading) if !is_unchecked(&reading) => return Ok((reading.status, reading.snapshot)),
        read => read.map(|reading| (reading.status, reading.snapshot)),
    };
    // A user who may read only the outputs is denied the other files by the store's access rules, or has no key.
    let hides_state = match &read {
        Ok(_) => true,
        Err(refused) => matches!(refused.code, ExitCode::Undecipherable | ExitCode::Unreachable),
    };
    if at.at.is_some() || !hides_state || context.store.keys.get().is_none() {
        return read;
    }
    let stacks = context.store.open().await?;
    let Some(name) = context.store.choose(&stacks).await? else {
        return read;
    };
    // A stack that isn't authentic under its open key was altered, and has the same exit code as one whose key can't be
    // opened: without a key, the stack can be read, unchecked.
    if read
        .as_ref()
        .is_err_and(|refused| refused.code == ExitCode::Undecipherable)
    {
        let opened = match stacks.get(&name).await {
            Ok(Some(stack)) => stack.tip().await,
            Ok(None) | Err(_) => return read,
        };
        if !opened.is_ok_and(|view| view.authenticity == Authenticity::Unchecked) {
            return read;
        }
    }
    match stacks.published_outputs(&name).await {
        Ok(Some(published)) => Ok(StackStatus::published(&name, published)),
        Ok(None) => read,
        Err(error) if error.kind() == ErrorKind::Sealed => read,
        Err(error) => Err(error.into()),
    }
}

fn missing(outputs: &BTreeMap<String, Output>, name: &str, place: &str) -> CliError {
    let message = format!("no such output in {place}");
    CliError::not_found(format!("output {name}"), &message).with_nearest(
        name,
        outputs.keys().map(String::as_str),
        "list all outputs with `statectl outputs`",
        "list all outputs with `statectl outputs`",
    )
}

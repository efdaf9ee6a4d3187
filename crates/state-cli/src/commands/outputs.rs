//! `outputs`: the stack's own outputs.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::ResourceStatus;
use crate::reading::{At, Reading};
use serde::Serialize;
use state_core::{Error, ErrorKind, Json, Snapshot};
use std::collections::BTreeMap;

/// Show the stack's outputs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this one, and nothing but its value.
    #[arg(value_name = "OUTPUT")]
    name: Option<String>,
    /// Print a string without quotes.
    #[arg(long, requires = "name")]
    raw: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    standing: ResourceStatus,
    outputs: BTreeMap<String, Output>,
}

#[derive(Serialize)]
struct Output {
    value: Json,
    sensitive: bool,
}

/// Shows.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let (standing, snapshot) = read(context, &args.at).await?;
    let place = match &standing.at {
        None => format!("stack {}", standing.stack),
        Some(revision) => format!("stack {} at revision {revision}", standing.stack),
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
    let shown = Shown { standing, outputs };
    let warnings = shown.standing.warnings();
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

/// The stack; or for who can't read it what it published for those who may read its outputs only.
async fn read(context: &Context, at: &At) -> Result<(ResourceStatus, Snapshot), CliError> {
    let refused = match Reading::open(context, at).await {
        Ok(reading) => return Ok((reading.standing, reading.snapshot)),
        Err(refused) => refused,
    };
    let hidden = matches!(refused.code, ExitCode::Undecipherable | ExitCode::Unreachable);
    if at.at.is_some() || !hidden || context.store.keys.get().is_none() {
        return Err(refused);
    }
    let stacks = context.store.open().await?;
    let Some(name) = context.store.choose(&stacks).await? else {
        return Err(refused);
    };
    let doubted = match stacks.get(&name).await {
        Ok(Some(stack)) => stack.tip().await.err(),
        Ok(None) => None,
        Err(error) => Some(error),
    };
    if matches!(doubted, Some(Error::Distrusted { .. })) {
        return Err(refused);
    }
    match stacks.published_outputs(&name).await {
        Ok(Some(published)) => Ok(ResourceStatus::published(&name, published)),
        Ok(None) => Err(refused),
        Err(error) if error.kind() == ErrorKind::Sealed => Err(refused),
        Err(error) => Err(error.into()),
    }
}

fn missing(outputs: &BTreeMap<String, Output>, name: &str, place: &str) -> CliError {
    let message = format!("{place} has no such output");
    CliError::not_found(format!("output {name}"), &message).with_nearest(
        name,
        outputs.keys().map(String::as_str),
        "`statectl outputs` lists all of them",
        "see what there is with `statectl outputs`",
    )
}

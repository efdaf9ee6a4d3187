//! `copy`: stacks with their whole history go to another store.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::marks::count;
use crate::output::to_stderr;
use crate::render::visible;
use crate::settings;
use crate::store;
use serde::Serialize;
use state_core::StackName;
use state_core::backend::Opening;
use state_manager::CopyReport;

/// Copy a stack, or all of a store, to another store: the whole history, byte for byte, sealed or not.
///
/// Both are named by their URLs. A copy that is cut short is finished by running it again. Afterwards the two are
/// compared. The copy keeps its lineage: agree on which of the two goes on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store that the stacks are in.
    #[arg(value_name = "FROM")]
    from: String,
    /// The store that they go to. Made if it isn't there.
    #[arg(value_name = "TO")]
    to: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Done {
    from: String,
    to: String,
    stacks: Vec<CopyReport>,
}

/// Copies.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let (from, to) = (settings::url_of(&args.from), settings::url_of(&args.to));
    let source = context.store.connect(&from, Opening::Existing).await;
    let source = source.map_err(|error| store::not_there(error, &from))?;
    let names: Vec<StackName> = match &context.settings.stack {
        Some(name) => vec![name.clone()],
        None => source.names().await?,
    };
    if names.is_empty() {
        let object = format!("store {}", settings::shown(&from));
        return Err(CliError::not_found(object, "it has no stack to copy"));
    }
    let mut found = Vec::new();
    for name in &names {
        found.push(context.store.find(&source, name).await?);
    }
    let target = context.store.connect(&to, Opening::Create).await;
    let target = target.map_err(store::not_opened)?;
    let mut stacks = Vec::new();
    for stack in &found {
        let name = stack.name();
        if context.output.shows_progress() {
            to_stderr(&format!("copying stack {}\n", visible(&name.short())));
        }
        stacks.push(target.copy_from(stack).await?);
    }
    let done = Done {
        from: settings::shown(&from),
        to: settings::shown(&to),
        stacks,
    };
    context.report("copy", &done, Vec::new(), |page| {
        for line in &done.stacks {
            page.line(describe(line));
        }
    })
}

fn describe(copied: &CopyReport) -> String {
    let word = if copied.was_there {
        "was there already"
    } else {
        "copied"
    };
    format!(
        "{}: {word}, {} and {} compared",
        copied.name,
        count(copied.frames, "frame", "frames"),
        count(copied.objects, "object", "objects")
    )
}

//! The command `copy`: copies stacks with their whole history to another store.

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

/// Copy stacks with their history to another store
///
/// Copies the stack named by `--stack`, or all stacks, byte for byte; no key is needed. Run an interrupted copy again to
/// finish it. A later copy to the same store writes only what is new, and is refused if the copy was changed by itself or
/// the data key was replaced since. After copying, source and copy are compared. The copy has the same lineage as its
/// source: use only one of the two for further changes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URL of the source store
    #[arg(value_name = "FROM")]
    from: String,
    /// URL of the target store, which is created if missing
    #[arg(value_name = "TO")]
    to: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct StoreCopyReport {
    from: String,
    to: String,
    stacks: Vec<CopyReport>,
}

/// Runs the command `copy` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let (from, to) = (settings::url_of(&args.from)?, settings::url_of(&args.to)?);
    let source = context.store.connect(&from, Opening::Existing).await;
    let source = source.map_err(|error| store::missing_store(error, &from))?;
    let names: Vec<StackName> = match &context.settings.stack {
        Some(name) => vec![name.clone()],
        None => source.names().await?,
    };
    if names.is_empty() {
        let object = format!("store {}", settings::shown(&from));
        return Err(CliError::not_found(object, "the store has no stacks to copy"));
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
    let done = StoreCopyReport {
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
    let written = copied.written;
    let word = match (copied.was_there, written.head) {
        (false, _) => "copied".to_owned(),
        (true, false) => "already up to date".to_owned(),
        (true, true) => format!(
            "brought up to date with {} and {}",
            count(written.frames, "frame", "frames"),
            count(written.objects, "object", "objects")
        ),
    };
    format!(
        "stack {}: {word}; compared {} and {}",
        copied.name,
        count(copied.frames, "frame", "frames"),
        count(copied.objects, "object", "objects")
    )
}

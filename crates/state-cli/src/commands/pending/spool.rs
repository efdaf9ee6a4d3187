//! `pending resolve --from FILE`: records a result that was saved in a file because the store was unreachable.

use crate::context::{CommandResult, Context};
use crate::settings::quoted;
use crate::store;
use serde::Serialize;
use state_core::{MutationId, RevisionId, UpdateKind};
use state_manager::{BroughtBack, Session, Spooled, Stack, UpdateRequest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct SpoolReport {
    stack: String,
    operation: String,
    /// The new revision; none if the result had already been recorded.
    revision: Option<RevisionId>,
    still_pending: usize,
}

/// The files with saved results of this stack's operations, by operation id; if an operation has several, the first.
/// Unreadable files are skipped: naming one with `--from` reports the reason.
pub(super) fn waiting(stack: &Stack) -> BTreeMap<MutationId, PathBuf> {
    let of_stack = |path: PathBuf| {
        let spooled = Spooled::read(&path).ok()?;
        (spooled.lineage == stack.lineage()).then_some((spooled.end.id, path))
    };
    let begin = stack.lineage().to_string();
    let is_named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&begin))
    };
    let files = store::spool_folder().and_then(|folder| std::fs::read_dir(folder).ok());
    let mut paths: Vec<PathBuf> = files
        .into_iter()
        .flatten()
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(is_named)
        .collect();
    // Reversed, because collecting into a map keeps the last of several files with the same id.
    paths.sort();
    paths.into_iter().rev().filter_map(of_stack).collect()
}

/// The hint for recording a result that is saved in a file.
pub(super) fn hint(file: &Path) -> String {
    let file = quoted(&file.display().to_string());
    format!("record the result kept in a file with `statectl pending resolve --from {file}`")
}

/// Runs `pending resolve --from`.
pub(super) async fn resolve(context: &Context, file: &Path) -> CommandResult {
    let spooled = Spooled::read(file)?;
    let stacks = context.store.open().await?;
    let name = context.settings.stack.as_ref().unwrap_or(&spooled.stack);
    let stack = context.store.find(&stacks, name).await?;
    let id = spooled.end.id;
    let work = async |session: &Session| {
        let message = format!("pending operation {id}: result from a file");
        let request = UpdateRequest::new(UpdateKind::Edit).with_message(message);
        let back = session.bring_back(request, &spooled).await?;
        Ok((back, session.state().pending().count()))
    };
    let (done, warnings) = context.store.locked(&stack, "pending resolve", work).await?;
    let (back, still_pending) = done;
    let report = SpoolReport {
        stack: stack.name().to_string(),
        operation: id.to_string(),
        revision: match back {
            BroughtBack::Recorded(revision) => Some(revision),
            _ => None,
        },
        still_pending,
    };
    context.report("pending-resolve-from", &report, warnings, |page| {
        match &report.revision {
            Some(revision) => page.line(format_args!(
                "recorded the result of {id}: now revision {revision}"
            )),
            None => page.line(format_args!("the result of {id} is already recorded")),
        }
        page.line(format_args!("you can delete {}", file.display()));
        if report.still_pending > 0 {
            page.line(format_args!("still pending: {}", report.still_pending));
        }
    })
}

//! `pending resolve --from FILE`: a result that waited in a file while its store was gone.

use crate::context::{CommandResult, Context};
use crate::settings::quoted;
use crate::store;
use serde::Serialize;
use state_core::{MutationId, RevisionId, UpdateKind};
use state_manager::{Session, SpoolOutcome, SpooledResult, Stack, UpdateRequest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Brought {
    stack: String,
    operation: String,
    /// None when the result had been recorded all the same.
    revision: Option<RevisionId>,
    still_pending: usize,
}

/// The files in which results of this stack's operations wait, by the operation's id; of several results of one, the
/// first. What can't be read isn't one: who names it is told why.
pub(super) fn waiting(stack: &Stack) -> BTreeMap<MutationId, PathBuf> {
    let of_stack = |path: PathBuf| {
        let spooled = SpooledResult::read(&path).ok()?;
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
    // The last of those with the same id stays.
    paths.sort();
    paths.into_iter().rev().filter_map(of_stack).collect()
}

/// How to record a result that waits in a file.
pub(super) fn hint(file: &Path) -> String {
    let file = quoted(&file.display().to_string());
    format!("its result is kept in a file: record it with `statectl pending resolve --from {file}`")
}

/// Records the result.
pub(super) async fn resolve(context: &Context, file: &Path) -> CommandResult {
    let spooled = SpooledResult::read(file)?;
    let stacks = context.store.open().await?;
    let name = context.settings.stack.as_ref().unwrap_or(&spooled.stack);
    let stack = context.store.find(&stacks, name).await?;
    let id = spooled.end.id;
    let work = async |session: &Session| {
        let message = format!("pending operation {id}: its result from a file");
        let request = UpdateRequest::new(UpdateKind::Edit).with_message(message);
        let back = session.record_spooled(request, &spooled).await?;
        Ok((back, session.state().pending().count()))
    };
    let (done, warnings) = context.store.locked(&stack, "pending resolve", work).await?;
    let (back, still_pending) = done;
    let brought = Brought {
        stack: stack.name().to_string(),
        operation: id.to_string(),
        revision: match back {
            SpoolOutcome::Recorded(revision) => Some(revision),
            _ => None,
        },
        still_pending,
    };
    context.report("pending-resolve-from", &brought, warnings, |page| {
        match &brought.revision {
            Some(revision) => page.line(format_args!(
                "recorded the result of {id}: now revision {revision}"
            )),
            None => page.line(format_args!("the result of {id} was recorded already")),
        }
        page.line(format_args!("{} isn't needed any more", file.display()));
        if brought.still_pending > 0 {
            page.line(format_args!("still pending: {}", brought.still_pending));
        }
    })
}

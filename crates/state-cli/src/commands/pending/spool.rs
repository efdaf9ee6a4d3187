//! `pending resolve --from FILE`: records a result that was saved in a file because the store was unreachable.

use super::Placement;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::settings::quoted;
use crate::store;
use serde::Serialize;
use state_core::{Error, MutationId, RevisionId, State, UpdateKind};
use state_manager::{
    Session, SpoolConflict, SpoolOutcome, SpoolPlacement, SpooledResult, Stack, UpdateRequest,
};
use std::collections::BTreeMap;
use std::io;
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

/// A file in the spool folder whose name belongs to a stack.
pub(in crate::commands) struct SpoolFile {
    pub(in crate::commands) path: PathBuf,
    /// The saved result, or the reason why the file can't be read.
    pub(in crate::commands) content: Result<SpooledResult, Error>,
}

/// The files with saved results of this stack, sorted by name. Results of an operation that has several follow each other.
pub(in crate::commands) fn files(stack: &Stack) -> Vec<SpoolFile> {
    let begin = stack.lineage().to_string();
    let is_named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&begin))
    };
    let folder = store::spool_folder().unwrap_or_default();
    let listed = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        listed => listed.and_then(|files| files.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()),
    };
    let mut paths = match listed {
        Ok(paths) => paths,
        // Any result may be in a folder that can't be read.
        Err(error) => {
            let content = Err(Error::unavailable(folder.display().to_string(), error));
            return vec![SpoolFile {
                path: folder,
                content,
            }];
        }
    };
    paths.retain(is_named);
    paths.sort();
    let read = |path: PathBuf| {
        let content =
            SpooledResult::read(&path).and_then(|spooled| match spooled.lineage == stack.lineage() {
                true => Ok(spooled),
                false => Err(Error::invalid(
                    path.display().to_string(),
                    "it belongs to another stack",
                )),
            });
        SpoolFile { path, content }
    };
    paths.into_iter().map(read).collect()
}

/// The files with saved results, by operation id; if an operation has several, the first. Unreadable files are skipped.
pub(super) fn by_operation(files: &[SpoolFile]) -> BTreeMap<MutationId, &Path> {
    let readable = files.iter().rev().filter_map(|file| {
        let spooled = file.content.as_ref().ok()?;
        Some((spooled.end.id, &*file.path))
    });
    // Reversed, because collecting into a map keeps the last of several files with the same id.
    readable.collect()
}

/// Warnings about files that belong to no pending operation. Each may be the only evidence of a resource.
pub(in crate::commands) fn unmatched(files: &[SpoolFile], state: &State) -> Vec<String> {
    let warning = |file: &SpoolFile| {
        let path = file.path.display();
        match &file.content {
            Err(error) => Some(format!("{path} keeps a result that can't be read: {error}")),
            Ok(spooled) if state.pending().any(|operation| operation.id == spooled.end.id) => None,
            Ok(spooled) => Some(format!(
                "{path} keeps a result of operation {}, which is not pending: compare it with the state with `{}`",
                spooled.end.id,
                command(&file.path)
            )),
        }
    };
    files.iter().filter_map(warning).collect()
}

/// A warning for an operation that the user declares not done, although a file keeps a result of it; none if there is no file.
pub(super) fn contradiction(stack: &Stack, operation: MutationId) -> Option<String> {
    let files = files(stack);
    let file = by_operation(&files).get(&operation).copied()?;
    Some(format!(
        "{} keeps a result of this operation: if the resource exists, record it with `{} --as entry`",
        file.display(),
        command(file)
    ))
}

/// The hint for recording a result that is saved in a file.
pub(in crate::commands) fn hint(file: &Path) -> String {
    format!("record the result kept in a file with `{}`", command(file))
}

/// The command that records a result that is saved in a file.
fn command(file: &Path) -> String {
    let file = quoted(&file.display().to_string());
    format!("statectl pending resolve --from {file}")
}

/// Runs `pending resolve --from`.
pub(super) async fn resolve(context: &Context, file: &Path, placement: Option<Placement>) -> CommandResult {
    let spooled = SpooledResult::read(file)?;
    let stacks = context.store.open().await?;
    let name = context.settings.stack.as_ref().unwrap_or(&spooled.stack);
    let stack = context.store.find(&stacks, name).await?;
    let id = spooled.end.id;
    let work = async |session: &Session| {
        let message = format!("pending operation {id}: result from a file");
        let request = UpdateRequest::new(UpdateKind::Edit).with_message(message);
        let is_pending = session.state().pending().any(|operation| operation.id == id);
        let placement = placement.filter(|_| !is_pending);
        let revision = match placement {
            Some(placement) => {
                let placement = placement.into();
                Some(
                    session
                        .record_spooled_resource(request, &spooled, placement)
                        .await?,
                )
            }
            None => match session.record_spooled(request, &spooled).await? {
                SpoolOutcome::Recorded(revision) => Some(revision),
                SpoolOutcome::Known => None,
                SpoolOutcome::Conflict(found) => return Err(conflict(&found, file)),
                _ => {
                    let object = format!("operation {id}");
                    return Err(CliError::failed(object, "the outcome of the result is unknown"));
                }
            },
        };
        Ok((revision, session.state().pending().count()))
    };
    let (done, warnings) = context.store.locked(&stack, "pending resolve", work).await?;
    let (revision, still_pending) = done;
    let report = SpoolReport {
        stack: stack.name().to_string(),
        operation: id.to_string(),
        revision,
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

/// The error for a result whose operation was settled otherwise.
pub(in crate::commands) fn conflict(found: &SpoolConflict, file: &Path) -> CliError {
    let object = format!("result of operation {}", found.operation);
    let record = format!("{} --as", command(file));
    let hint = match &found.missing {
        Some(key) => format!(
            "if the resource exists, record it as {} with `{record} entry`, or for deletion by the next `up` with `{record} \
             deposed`; keep the file until then",
            key.address
        ),
        None => {
            format!(
                "check the real resource, and compare it with `statectl show`; record the result in its place with `{record} entry`, \
                 or delete the file if the state is right"
            )
        }
    };
    CliError::conflict(object, &found.reason).with_hint(hint)
}

/// The error for a file that may keep the only evidence of a resource, and can't be read.
pub(in crate::commands) fn unreadable(file: &Path, error: &Error) -> CliError {
    let message = format!("it keeps a result that can't be read: {error}");
    CliError::conflict(file.display().to_string(), &message).with_hint(
        "it may be the only evidence of a resource that the state doesn't record: look for that resource at its provider, and then \
         move the file away",
    )
}

impl From<Placement> for SpoolPlacement {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Entry => Self::Entry,
            Placement::Deposed => Self::Deposed,
        }
    }
}

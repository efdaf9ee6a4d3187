//! Spools provider results: keeps them in local files if they could not be recorded, because the store became
//! unavailable after the provider call.
//!
//! Without its result, the id of a created resource would be lost. The file contains the result in the form in which it
//! would have been recorded: sealed if the stack is sealed. [`Session::record_spooled`](crate::Session::record_spooled)
//! records it once the store is available again. Spooling is enabled by
//! [`Stacks::with_spool`](crate::Stacks::with_spool).

mod conflict;

use crate::intent::UpdateRequest;
use crate::keys::authenticate::{self, Authenticated};
use crate::keys::reveal::reveal;
use crate::objects::spooled_result::SpooledResult;
use crate::write::edits;
use crate::write::locked_stack::LockedStack;
pub(crate) use conflict::record_resource;
pub use conflict::{SpoolConflict, SpoolPlacement};
use state_core::mutation::{End, Resolution};
use state_core::{Entry, Error, ErrorKind, FactoryInfo, MutationId, Outcome, Result, RevisionId, Snapshot};
use std::sync::Arc;

/// The outcome of recording a spooled result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpoolOutcome {
    /// The result is recorded now, as this revision.
    Recorded(RevisionId),
    /// The result had been recorded before: the append that seemed to fail had succeeded.
    Known,
    /// The operation is settled, but the state doesn't prove that its result is recorded. Nothing was written.
    Conflict(SpoolConflict),
}

/// Spools a result that could not be recorded, if the store caused the failure and a spool folder is configured. The
/// returned error names the file.
pub(crate) async fn keep(locked: &LockedStack, end: End, error: Error) -> Error {
    let Some(folder) = locked.stack.spool().filter(|_| is_store_failure(&error)) else {
        return error;
    };
    let id = end.id;
    let mut spooled = SpooledResult {
        store: locked.stack.backend().url(),
        lineage: locked.stack.lineage(),
        stack: locked.stack.name().clone(),
        at: locked.stack.now(),
        end,
        key_id: None,
        tag: None,
    };
    let key = locked.seal.shared_key();
    if let Some(key) = &key {
        spooled.sign(&**key);
    }
    let written = tokio::task::spawn_blocking(move || spooled.write(&folder, key.as_deref())).await;
    let stack = locked.stack.name().short();
    let kept = match written {
        Ok(Ok(path)) => format!("is kept in {}", path.display()),
        Ok(Err(unkept)) => format!("could not be kept ({unkept})"),
        Err(_) => return error,
    };
    // `Indeterminate` even if the append had no effect: the real resource has changed, and the store doesn't show it.
    Error::Indeterminate {
        object: format!("stack {stack}: the result of mutation {id} {kept}"),
        mutations: vec![id],
        source: error.to_string().into(),
    }
}

/// Records a spooled result, as one revision. A result that was already recorded is reported as
/// [`SpoolOutcome::Known`].
pub(crate) async fn record_spooled(
    locked: &LockedStack,
    request: UpdateRequest,
    spooled: &SpooledResult,
) -> Result<SpoolOutcome> {
    let id = spooled.end.id;
    let end = authentic(locked, spooled).await?;
    if !locked.state().pending().any(|operation| operation.id == id) {
        // The operation isn't pending any more: the append may have succeeded although its acknowledgement was lost, or
        // another client may have settled the operation otherwise. Then the file is the only evidence of the resource.
        let conflict = conflict::compare(locked, &end).await?;
        return Ok(conflict.map_or(SpoolOutcome::Known, SpoolOutcome::Conflict));
    }
    let resolution = resolution(locked, id, end).await?;
    let resolved = edits::resolve(locked, request, id, resolution).await?;
    Ok(SpoolOutcome::Recorded(resolved))
}

/// The result, if it belongs to this stack and is authentic.
async fn authentic<'a>(locked: &LockedStack, spooled: &'a SpooledResult) -> Result<Authenticated<&'a End>> {
    if spooled.lineage != locked.stack.lineage() {
        let reason = format!(
            "the result belongs to stack {} ({})",
            spooled.stack, spooled.lineage
        );
        let object = locked.stack.object();
        return Err(Error::conflict(object, reason));
    }
    authenticate::spooled(&locked.stack, &locked.head, spooled).await
}

/// The resolution of a pending operation that a spooled result implies. `Invalid` for a deletion that was partly done.
async fn resolution(locked: &LockedStack, id: MutationId, end: Authenticated<&End>) -> Result<Resolution> {
    match (end.outcome, &end.entry) {
        (Outcome::Failed, _) => Ok(Resolution::NotDone),
        (Outcome::Partial, None) => Err(Error::invalid(
            format!("pending operation {id}"),
            "the deletion was partly done, and the result doesn't say what is left; check the resource and resolve the operation by hand",
        )),
        (_, None) => Ok(Resolution::Done(None)),
        (_, Some(entry)) => {
            let mut entry = Entry::clone(entry);
            entry.init_errors.clone_from(&end.reasons);
            let entry = opened(locked, entry).await?;
            Ok(Resolution::Done(Some(Arc::new(entry))))
        }
    }
}

/// Returns the entry with its values opened. They may be sealed with an earlier key of the stack, while
/// `edits::resolve` seals them with the present one.
async fn opened(locked: &LockedStack, entry: Entry) -> Result<Entry> {
    let mut carrier = Snapshot::new(FactoryInfo::default(), "", locked.stack.now());
    carrier.lineage = Some(locked.stack.lineage());
    carrier.entries = vec![Arc::new(entry.clone())];
    let mut opened = reveal(&locked.stack, &locked.head.current(), carrier).await?;
    Ok(opened.entries.pop().map_or(entry, |opened| Entry::clone(&opened)))
}

/// Whether the store may have caused this error. If the result itself caused it, the result would be refused again
/// later, so it isn't spooled.
fn is_store_failure(error: &Error) -> bool {
    // After a failed append the queue refuses all later results as `Closed`, so the store caused these errors too.
    matches!(
        error.kind(),
        ErrorKind::Fenced
            | ErrorKind::NotApplied
            | ErrorKind::Indeterminate
            | ErrorKind::Denied
            | ErrorKind::Unavailable
            | ErrorKind::Closed
    )
}

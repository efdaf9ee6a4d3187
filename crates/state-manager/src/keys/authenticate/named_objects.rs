//! Stored objects that count because an authenticated value names them by their digest: snapshots and logs. The bytes
//! are compared with the digest, and the value that they contain has the proof of the value that names them.

use super::Authenticated;
use crate::compute::compute;
use crate::context::StackContext;
use crate::objects::document::RevisionDocument;
use crate::objects::{logs, snapshots};
use state_core::backend::ObjectName;
use state_core::journal::LogRef;
use state_core::{Error, ErrorKind, LogLine, Result, Serial, Snapshot, SnapshotRef};

/// Reads a stored snapshot.
///
/// # Errors
/// `Corrupt`, which names the snapshot, if it is missing or doesn't match its digest.
pub(crate) async fn snapshot(
    stack: &StackContext,
    reference: &Authenticated<SnapshotRef>,
) -> Result<Authenticated<Snapshot>> {
    let (name, lineage) = (reference.object(), stack.lineage());
    let object = format!("stack {lineage}: {name}");
    let packed = match stack.backend().read(lineage, &name).await {
        Err(Error::NotFound { .. }) => return Err(Error::corrupt(object, 0, "it is missing")),
        read => read?,
    };
    let (reference, proof) = (SnapshotRef::clone(reference), reference.proof());
    let snapshot = compute(move || snapshots::unpack(&object, &packed, &reference)).await??;
    Ok(Authenticated::new(snapshot, proof))
}

/// Reads the content of a detached revision.
///
/// # Errors
/// As [`snapshot`]. `NotFound` for a revision that isn't detached: its content is replayed.
pub(crate) async fn detached(
    stack: &StackContext,
    document: &Authenticated<RevisionDocument>,
) -> Result<Authenticated<Snapshot>> {
    let Some(reference) = document.part_if(RevisionDocument::detached_snapshot) else {
        let object = format!("snapshot of revision {} of {}", document.revision, stack.object());
        return Err(Error::not_found(object));
    };
    snapshot(stack, &reference.cloned()).await
}

/// Reads the log of the update that made the revision with this serial; none if the log is missing.
///
/// # Errors
/// `Corrupt`, which names the log, if it doesn't match its digest.
pub(crate) async fn log(
    stack: &StackContext,
    update: Serial,
    log: Authenticated<LogRef>,
) -> Result<Option<Authenticated<Vec<LogLine>>>> {
    let (name, lineage) = (ObjectName::Log(update), stack.lineage());
    let packed = match stack.backend().read(lineage, &name).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let object = format!("stack {lineage}: {name}");
    let proof = log.proof();
    let lines = compute(move || logs::unpack(&object, &packed, &log)).await??;
    Ok(Some(Authenticated::new(lines, proof)))
}

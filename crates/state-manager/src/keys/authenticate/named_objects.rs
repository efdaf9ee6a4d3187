//! Stored objects that count because an authenticated value names them by their digest: snapshots and logs. The bytes
//! are compared with the digest, and the value that they contain has the proof of the value that names them.

use super::Authenticated;
use crate::compute::{compute, threads};
use crate::context::StackContext;
use crate::objects::document::RevisionDocument;
use crate::objects::{logs, snapshots as stored};
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::ObjectName;
use state_core::journal::LogRef;
use state_core::state::LoadedSnapshots;
use state_core::{Base, Digest, Error, ErrorKind, LogLine, Result, Serial, Snapshot, SnapshotRef};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// The number of snapshots that are read at a time. Each one is a whole state in memory.
const CONCURRENT_READS: usize = 4;

/// Snapshots that were read by authenticated references, by their digests.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadSnapshots(LoadedSnapshots);

impl ReadSnapshots {
    /// The snapshots of a stack that this client read, and that one of its values still uses.
    pub(crate) fn in_use(stack: &StackContext) -> Self {
        Self(stack.store().in_use.snapshots.of(stack.lineage()))
    }
}

impl Deref for ReadSnapshots {
    type Target = LoadedSnapshots;

    fn deref(&self) -> &LoadedSnapshots {
        &self.0
    }
}

/// Reads stored snapshots. Those in `known` aren't read again.
///
/// # Errors
/// `Corrupt`, which names the snapshot, if one is missing or doesn't match its digest.
pub(crate) async fn snapshots(
    stack: &StackContext,
    wanted: Vec<Authenticated<SnapshotRef>>,
    known: &ReadSnapshots,
) -> Result<ReadSnapshots> {
    let wanted: BTreeMap<Digest, _> = wanted
        .into_iter()
        .map(|reference| (reference.digest, reference))
        .collect();
    let reads: Vec<_> = wanted
        .into_values()
        .map(|reference| async move {
            let snapshot = match known.get(&reference.digest) {
                Some(snapshot) => Arc::clone(snapshot),
                None => Arc::new(snapshot(stack, &reference).await?.into_value()),
            };
            Ok((reference.digest, snapshot))
        })
        .collect();
    let reads = stream::iter(reads).buffered(CONCURRENT_READS);
    let read: Result<LoadedSnapshots> = reads.try_collect().await;
    let read = read?;
    for (digest, snapshot) in &read {
        stack
            .store()
            .in_use
            .snapshots
            .add(stack.lineage(), *digest, snapshot);
    }
    Ok(ReadSnapshots(read))
}

/// Reads a stored snapshot.
///
/// # Errors
/// As [`snapshots`].
async fn snapshot(
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
    let snapshot = compute(move || stored::unpack(&object, &packed, &reference, threads())).await??;
    Ok(Authenticated::new(snapshot, proof))
}

/// Reads the content of a detached revision.
///
/// # Errors
/// As [`snapshots`]. `NotFound` for a revision that isn't detached: its content is replayed.
pub(crate) async fn detached(
    stack: &StackContext,
    document: &Authenticated<RevisionDocument>,
) -> Result<Authenticated<Snapshot>> {
    let Some(reference) = document.detached_snapshot().cloned() else {
        let object = format!("snapshot of revision {} of {}", document.revision, stack.object());
        return Err(Error::not_found(object));
    };
    snapshot(stack, &Authenticated::new(reference, document.proof())).await
}

impl Authenticated<RevisionDocument> {
    /// The base from which the state at the revision can be replayed; none for a detached revision.
    pub(crate) fn base(&self) -> Option<Authenticated<&Base>> {
        let base = RevisionDocument::base(self)?;
        Some(Authenticated::new(base, self.proof()))
    }

    /// The log of the update that made the revision, if there is one.
    pub(crate) fn log(&self) -> Option<Authenticated<LogRef>> {
        let log = RevisionDocument::log(self)?;
        Some(Authenticated::new(*log, self.proof()))
    }
}

impl Authenticated<&Base> {
    /// The snapshots of the base.
    pub(crate) fn snapshots(&self) -> Vec<Authenticated<SnapshotRef>> {
        let snapshots = Base::snapshots(self).cloned();
        snapshots
            .map(|snapshot| Authenticated::new(snapshot, self.proof()))
            .collect()
    }
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

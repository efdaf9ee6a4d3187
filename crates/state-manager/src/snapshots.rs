//! Full snapshots as stored objects: encoded, digested, compressed, and back.

use crate::update::MAX_ENTRY;
use bytes::Bytes;
use state_core::{Backend, Digest, Error, Lineage, Result, Slot, Snapshot, SnapshotRef, Writer, codec};
use std::sync::Arc;

/// The fastest level: it also packs states best, which repeat their inputs in their outputs.
const LEVEL: i32 = 1;

/// The largest snapshot in bytes, uncompressed. Readers refuse more before they allocate.
const MAX_LENGTH: u64 = 4 << 30;

/// A snapshot ready to be stored.
pub(crate) struct Packed {
    pub(crate) reference: SnapshotRef,
    pub(crate) bytes: Bytes,
}

/// Encodes and compresses a snapshot as of a slot. Costs time proportional to it: not for the queue's task.
pub(crate) fn pack(snapshot: &Snapshot, slot: Slot) -> Result<Packed> {
    let stored = codec::encode_stored(snapshot);
    check_sizes(snapshot, &stored)?;
    let reference = SnapshotRef {
        slot,
        digest: Digest::of(&stored),
        length: stored.len() as u64,
    };
    let bytes = zstd::bulk::compress(&stored, LEVEL).map_err(|source| Error::NotApplied {
        object: reference.object().to_string(),
        source: source.into(),
    })?;
    Ok(Packed {
        reference,
        bytes: bytes.into(),
    })
}

/// Each entry has a line of its own behind the header: one that is too large is refused by name.
fn check_sizes(snapshot: &Snapshot, stored: &[u8]) -> Result<()> {
    let lines = stored.split(|&byte| byte == b'\n').skip(1);
    let too_large = snapshot
        .entries
        .iter()
        .zip(lines)
        .filter(|(_, line)| line.len() > MAX_ENTRY + 1);
    let violations: Vec<_> = too_large
        .map(|(entry, line)| crate::update::oversized(&entry.key(), line.len()))
        .collect();
    if violations.is_empty() {
        return Ok(());
    }
    Err(Error::Integrity {
        object: "snapshot".to_owned(),
        violations,
    })
}

/// Packs on a thread of its own and stores the result.
pub(crate) async fn store(writer: &dyn Writer, snapshot: Arc<Snapshot>, slot: Slot) -> Result<SnapshotRef> {
    let packed = blocking(move || pack(&snapshot, slot)).await??;
    writer.create(&packed.reference.object(), packed.bytes).await?;
    Ok(packed.reference)
}

/// Reads a stored snapshot and checks it against what vouches for it.
pub(crate) async fn read(
    backend: &dyn Backend,
    lineage: Lineage,
    reference: &SnapshotRef,
) -> Result<Snapshot> {
    let name = reference.object();
    let object = format!("stack {lineage}: {name}");
    let packed = backend.read(lineage, &name).await.map_err(|error| match error {
        Error::NotFound { .. } => Error::corrupt(&object, 0, "it is missing"),
        other => other,
    })?;
    let reference = reference.clone();
    blocking(move || unpack(&object, &packed, &reference)).await?
}

fn unpack(object: &str, packed: &[u8], reference: &SnapshotRef) -> Result<Snapshot> {
    let damaged = |reason| Error::corrupt(object, 0, reason);
    if reference.length > MAX_LENGTH {
        return Err(damaged("it claims to be larger than 4 GiB"));
    }
    let length =
        usize::try_from(reference.length).map_err(|_| damaged("it is too large for this machine"))?;
    let stored = zstd::bulk::decompress(packed, length).map_err(|_| damaged("it can't be decompressed"))?;
    if stored.len() != length || Digest::of(&stored) != reference.digest {
        return Err(damaged("its content doesn't fit the digest that vouches for it"));
    }
    codec::decode(object, &stored)
}

/// Runs work that takes long on a thread for such work.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::Closed {
            object: "the runtime".to_owned(),
            reason: format!("a background thread ended early: {error}"),
        })
}

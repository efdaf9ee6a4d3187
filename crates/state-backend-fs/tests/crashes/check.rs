//! The promises that the disk after a crash must keep.

use crate::draw::Draw;
use crate::progress::{Progress, StoreProgress, data, without_compactions};
use crate::script::{frame, name, request};
use bytes::Bytes;
use state_backend_fs::FsBackend;
use state_backend_fs::testkit::SimulatedFs;
use state_core::backend::{CollectableStore, CopyTarget, JournalView, ObjectKind, StoredItemName};
use state_core::{Backend, Error, Lineage};
use std::collections::BTreeSet;
use std::fmt::{self, Debug, Write as _};

/// How a disk breaks a promise.
pub(crate) struct BrokenPromise(String);

impl From<Error> for BrokenPromise {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Frames and objects may be long.
        self.0.chars().take(1_500).try_for_each(|c| f.write_char(c))
    }
}

/// Checks that the disk after a crash keeps every promise, and what a reader returned that made no sync; returns the reason if it
/// doesn't.
pub(crate) async fn check(
    machine: &SimulatedFs,
    progress: &Progress,
    read: Option<&JournalView>,
) -> Result<(), BrokenPromise> {
    check_store(machine, &progress.store, read).await?;
    let copy = &progress.copy;
    if copy.exists.acknowledged || !copy.exists.attempted.is_empty() {
        let checked = check_store(machine, copy, None).await;
        checked.map_err(|broken| BrokenPromise(format!("the copy: {broken}")))?;
    }
    Ok(())
}

async fn check_store(
    machine: &SimulatedFs,
    progress: &StoreProgress,
    read: Option<&JournalView>,
) -> Result<(), BrokenPromise> {
    let store = match machine.open(progress.root) {
        Err(Error::NotFound { .. }) if !progress.exists.acknowledged => machine.create(progress.root)?,
        opened => opened?,
    };
    let pointer = store.read_name(&name()).await?;
    let is_allowed = progress.pointer.allows(&pointer);
    require(is_allowed, || format!("the name points to {pointer:?}"))?;
    if progress.head.acknowledged.is_none() && progress.head.attempted.is_empty() {
        return Ok(());
    }
    if progress.head.acknowledged.is_none() {
        create_again(&store, progress).await?;
    }
    check_objects(&store, progress).await?;
    let view = check_journal(&store, progress).await?;
    if let Some(read) = read {
        equal("the head that a reader returned", &view.head, &read.head)?;
        equal("the frames that a reader returned", &view.frames, &read.frames)?;
    }
    check_deleted(&store, progress).await?;
    go_on(&store, progress.lineage, &view).await
}

/// Repeats the creation of a stack that wasn't acknowledged, unless the stack exists.
async fn create_again(store: &FsBackend, progress: &StoreProgress) -> Result<(), BrokenPromise> {
    let head = progress.head();
    match store.read_head(progress.lineage).await {
        Err(Error::NotFound { .. } | Error::Corrupt { .. }) => {}
        found => {
            found?;
            return Ok(());
        }
    }
    if progress.appending.is_empty() {
        return Ok(store.create_stack(head).await?);
    }
    for (name, bytes) in &progress.creating {
        let bytes = bytes.clone();
        store.adopt_object(progress.lineage, name, bytes).await?;
    }
    let frames = &progress.appending;
    Ok(store.adopt_stack(head, progress.before, frames).await?)
}

/// Checks that all acknowledged objects exist, and that no object is incomplete.
async fn check_objects(store: &FsBackend, progress: &StoreProgress) -> Result<(), BrokenPromise> {
    let lineage = progress.lineage;
    let mut found = BTreeSet::new();
    for kind in ObjectKind::ALL {
        for name in store.list(lineage, kind).await? {
            let bytes = store.read(lineage, &name).await?;
            require(progress.object(&name) == Some(&bytes), || {
                format!("{name} has other bytes")
            })?;
            found.insert(name);
        }
    }
    for name in progress.objects.keys() {
        let is_there = found.contains(name);
        let may_be_missing = || progress.may_be_deleted(&StoredItemName::Object(name.clone()));
        require(is_there || may_be_missing(), || format!("{name} is lost"))?;
    }
    Ok(())
}

/// Checks head and frames: the acknowledged ones exist unchanged, perhaps followed by those in progress.
async fn check_journal(store: &FsBackend, progress: &StoreProgress) -> Result<JournalView, BrokenPromise> {
    let lineage = progress.lineage;
    let head = store.read_head(lineage).await?;
    let from = head.floor;
    let head = Some(without_compactions(head));
    let is_allowed = progress.head.allows(&head);
    let expected = || format!("the head is {head:?}, not {:?}", progress.head);
    require(is_allowed, expected)?;
    let view = store.read_journal(lineage, Some(from)).await?;
    let (acknowledged, appending) = progress.expected(from);
    let found = data(&view.frames, from);
    let begun: Vec<&Bytes> = acknowledged.iter().chain(&appending).copied().collect();
    let is_whole = found.len() >= acknowledged.len() && begun.starts_with(&found);
    require(is_whole, || {
        let (found, acknowledged, begun) = (found.len(), acknowledged.len(), appending.len());
        format!("{found} frames instead of {acknowledged}, and {begun} in progress, or changed ones")
    })?;
    if from == view.head.base.start && view.head.compactions.is_empty() {
        return Ok(view);
    }
    // From the base on, a reader takes the frames of the compaction, if that survived.
    let tip = store.read_journal(lineage, None).await?;
    let base = tip.head.base.start;
    equal(
        "frames from the base on",
        &data(&tip.frames, base),
        &data(&view.frames, base),
    )?;
    Ok(tip)
}

async fn check_deleted(store: &FsBackend, progress: &StoreProgress) -> Result<(), BrokenPromise> {
    if progress.deleted.is_empty() {
        return Ok(());
    }
    let floor = progress.head().floor;
    let items = store.stored_items(progress.lineage, floor).await?;
    let back = items.iter().find(|item| progress.deleted.contains(&item.name));
    require(back.is_none(), || format!("deleted, but still there: {back:?}"))
}

/// Checks that a new owner finds the same frames, and can append.
async fn go_on(store: &FsBackend, lineage: Lineage, view: &JournalView) -> Result<(), BrokenPromise> {
    let draw = Draw::new(0);
    let base = view.head.base.start;
    let next = store.acquire(lineage, &request("next", None, &draw)).await?;
    equal("frames", &data(&next.frames, base), &data(&view.frames, base))?;
    let more = frame(next.writer.epoch(), next.tail, draw.nonce(), b"more");
    next.writer.append(&more).await?;
    next.writer.release().await?;
    let view = store.read_journal(lineage, None).await?;
    let last = data(&view.frames, base).last().copied();
    equal("the last frame", &last, &Some(more.bytes()))
}

fn require(is_kept: bool, reason: impl FnOnce() -> String) -> Result<(), BrokenPromise> {
    if is_kept {
        Ok(())
    } else {
        Err(BrokenPromise(reason()))
    }
}

fn equal<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result<(), BrokenPromise> {
    require(found == expected, || {
        format!("{what}: {found:?} instead of {expected:?}")
    })
}

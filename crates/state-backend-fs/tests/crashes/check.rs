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
use std::fmt::Debug;

/// Checks that the disk after a crash keeps every promise; returns the reason if it doesn't.
pub(crate) async fn check(machine: &SimulatedFs, progress: &Progress) -> Result<(), String> {
    check_store(machine, &progress.store).await?;
    let copy = &progress.copy;
    if copy.exists.acknowledged || !copy.exists.attempted.is_empty() {
        let checked = check_store(machine, copy).await;
        checked.map_err(|reason| format!("the copy: {reason}"))?;
    }
    Ok(())
}

async fn check_store(machine: &SimulatedFs, progress: &StoreProgress) -> Result<(), String> {
    let store = match machine.open(progress.root) {
        Err(Error::NotFound { .. }) if !progress.exists.acknowledged => {
            machine.create(progress.root).map_err(shown)?
        }
        opened => opened.map_err(shown)?,
    };
    let pointer = store.read_name(&name()).await.map_err(shown)?;
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
    check_deleted(&store, progress).await?;
    go_on(&store, progress.lineage, &view).await
}

/// Repeats the creation of a stack that wasn't acknowledged, unless the stack exists.
async fn create_again(store: &FsBackend, progress: &StoreProgress) -> Result<(), String> {
    let head = progress.head();
    match store.read_head(progress.lineage).await {
        Err(Error::NotFound { .. } | Error::Corrupt { .. }) => {}
        found => return found.map(drop).map_err(shown),
    }
    if progress.appending.is_empty() {
        return store.create_stack(head).await.map_err(shown);
    }
    for (name, bytes) in &progress.creating {
        let adopted = store.adopt_object(progress.lineage, name, bytes.clone()).await;
        adopted.map_err(shown)?;
    }
    let adopted = store.adopt_stack(head, progress.before, &progress.appending);
    adopted.await.map_err(shown)
}

/// Checks that all acknowledged objects exist, and that no object is incomplete.
async fn check_objects(store: &FsBackend, progress: &StoreProgress) -> Result<(), String> {
    let lineage = progress.lineage;
    let mut found = BTreeSet::new();
    for kind in ObjectKind::ALL {
        for name in store.list(lineage, kind).await.map_err(shown)? {
            let bytes = store.read(lineage, &name).await.map_err(shown)?;
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
async fn check_journal(store: &FsBackend, progress: &StoreProgress) -> Result<JournalView, String> {
    let lineage = progress.lineage;
    let head = store.read_head(lineage).await.map_err(shown)?;
    let from = head.floor;
    let head = Some(without_compactions(head));
    let is_allowed = progress.head.allows(&head);
    let expected = || format!("the head is {head:?}, not {:?}", progress.head);
    require(is_allowed, expected)?;
    let view = store.read_journal(lineage, Some(from)).await.map_err(shown)?;
    let (acknowledged, appending) = progress.expected(from);
    let found = data(&view.frames, from);
    let begun: Vec<&Bytes> = acknowledged.iter().chain(&appending).copied().collect();
    let is_whole = found.len() >= acknowledged.len() && begun.starts_with(&found);
    require(is_whole, || {
        let (found, acknowledged, begun) = (found.len(), acknowledged.len(), appending.len());
        format!("{found} frames instead of {acknowledged}, and {begun} in progress, or changed ones")
    })?;
    // From the base on, a reader takes the frames of the compaction, if that survived.
    let tip = store.read_journal(lineage, None).await.map_err(shown)?;
    let base = tip.head.base.start;
    equal(
        "frames from the base on",
        &data(&tip.frames, base),
        &data(&view.frames, base),
    )?;
    Ok(tip)
}

async fn check_deleted(store: &FsBackend, progress: &StoreProgress) -> Result<(), String> {
    if progress.deleted.is_empty() {
        return Ok(());
    }
    let floor = progress.head().floor;
    let items = store.stored_items(progress.lineage, floor).await.map_err(shown)?;
    let back = items.iter().find(|item| progress.deleted.contains(&item.name));
    require(back.is_none(), || format!("deleted, but still there: {back:?}"))
}

/// Checks that a new owner finds the same frames, and can append.
async fn go_on(store: &FsBackend, lineage: Lineage, view: &JournalView) -> Result<(), String> {
    let draw = Draw::new(0);
    let base = view.head.base.start;
    let next = store.acquire(lineage, &request("next", None, &draw)).await;
    let next = next.map_err(shown)?;
    equal("frames", &data(&next.frames, base), &data(&view.frames, base))?;
    let more = frame(next.writer.epoch(), next.tail, draw.nonce(), b"more");
    next.writer.append(&more).await.map_err(shown)?;
    next.writer.release().await.map_err(shown)?;
    let view = store.read_journal(lineage, None).await.map_err(shown)?;
    let last = data(&view.frames, base).last().copied();
    equal("the last frame", &last, &Some(more.bytes()))
}

/// Checks that a crash undid nothing that a reader returned.
pub(crate) async fn check_still_there(machine: &SimulatedFs, read: &JournalView) -> Result<(), String> {
    let store = machine.open("/store").map_err(shown)?;
    let view = store.read_journal(read.head.lineage, None).await.map_err(shown)?;
    equal("the head that a reader returned", &view.head, &read.head)?;
    equal("the frames that a reader returned", &view.frames, &read.frames)
}

fn shown(error: Error) -> String {
    error.to_string()
}

fn require(is_kept: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if is_kept { Ok(()) } else { Err(cut(reason())) }
}

fn equal<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    require(found == expected, || {
        cut(format!("{what}: {found:?} instead of {expected:?}"))
    })
}

fn cut(text: String) -> String {
    text.chars().take(1_500).collect()
}

//! Rules of garbage collection: which items a writer deletes, and which deletions it refuses. The history floor is a
//! slot in the head; all frames before it may be deleted.

use super::{Bench, Verdict, ensure, ensure_fails};
use crate::backend::{Acquired, ObjectName, StoredItem, StoredItemName, Tail};
use crate::counter::{Serial, Slot};
use crate::digest::Digest;
use crate::environment::Timestamp;
use crate::error::{ErrorKind, Result};
use crate::head::{Base, Collection, Head, SnapshotRef, Watermark};
use crate::id::Lineage;
use crate::journal::Frame;
use bytes::Bytes;

/// A stack with two journal segments and a snapshot before each.
struct Segments {
    lineage: Lineage,
    held: Acquired,
    /// The base at the start of the second segment.
    second: Base,
    /// The snapshot before the first segment.
    old: ObjectName,
    /// The watermark of the last clean close, in the first segment.
    closed: Watermark,
    /// The frames of the second segment.
    frames: Vec<Frame>,
    tail: Tail,
}

/// Stores a snapshot object whose content is the text of its slot.
async fn snapshot(held: &Acquired, slot: Slot) -> Result<SnapshotRef> {
    let content = slot.to_string();
    let reference = SnapshotRef {
        slot,
        digest: Digest::of(content.as_bytes()),
        length: content.len() as u64,
    };
    held.writer
        .create(&reference.object(), Bytes::from(content))
        .await?;
    Ok(reference)
}

/// Creates a stack with two segments. No part of its journal may be deleted before [`Segments::drop_first`] raises the
/// head's floor.
async fn segments(bench: &Bench<'_>) -> Result<Segments> {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let old = snapshot(&held, Slot::ZERO).await?.object();
    let (one, tail) = bench.append(&held, held.tail, b"\"one\"\n").await?;
    let closed = Watermark {
        slot: one.slot(),
        chain: *one.chain(),
    };
    let (_, end) = bench.append(&held, tail, b"\"two\"\n").await?;
    let tail = held.writer.rotate(end, bench.nonce()).await?;
    let second = Base {
        snapshot: Some(snapshot(&held, end.next).await?),
        content: None,
        start: end.next,
        chain: end.chain,
    };
    let (_, tail) = bench.append(&held, tail, b"\"three\"\n").await?;
    let view = bench.backend.read_journal(lineage, Some(end.next)).await?;
    Ok(Segments {
        lineage,
        held,
        second,
        old,
        closed,
        frames: view.frames,
        tail,
    })
}

impl Segments {
    fn second_snapshot(&self) -> ObjectName {
        ObjectName::Snapshot {
            slot: self.second.start,
            short: Digest::of(self.second.start.to_string().as_bytes()).short(),
        }
    }

    /// Moves the history floor in the head to the second segment, so that the first one may be deleted.
    async fn drop_first(&self, bench: &Bench<'_>) -> Result<Head> {
        let collection = Collection {
            base: self.second.clone(),
            serial: Serial(1),
            since: Timestamp::new("2026-01-01T00:00:00Z"),
            forgotten: std::collections::BTreeSet::new(),
        };
        let change = |head: &mut Head| {
            head.watermark = Some(self.closed);
            head.base = self.second.clone();
            head.floor = self.second.start;
            head.collection = Some(collection.clone());
            Ok(())
        };
        self.held.writer.swap_head(bench.nonce(), &change).await
    }

    /// Lists the objects of the stack, and its journal before the second segment.
    async fn stored_items(&self, bench: &Bench<'_>) -> Result<Vec<StoredItem>> {
        bench
            .backend
            .collectable()?
            .stored_items(self.lineage, self.second.start)
            .await
    }

    /// Returns the items that a collection deletes: the journal before the second segment, and the old snapshot.
    async fn deletable(&self, bench: &Bench<'_>) -> Result<Vec<StoredItemName>> {
        let is_deletable = |name: &StoredItemName| match name {
            StoredItemName::Object(name) => *name == self.old,
            StoredItemName::Journal(_) => true,
        };
        let names = self.stored_items(bench).await?.into_iter().map(|item| item.name);
        Ok(names.filter(is_deletable).collect())
    }
}

/// A store without collection returns `Unsupported`; a store with collection lists and deletes items.
pub async fn store_deletes_iff_it_claims_collection(bench: &Bench<'_>) -> Verdict {
    let stack = segments(bench).await?;
    if bench.backend.extensions().collectable.is_some() {
        ensure(
            !stack.stored_items(bench).await?.is_empty(),
            "the store claims to support collection, but lists no items",
        )?;
        stack
            .held
            .writer
            .delete(&[StoredItemName::Object(stack.old.clone())])
            .await?;
        return ensure_fails(
            bench.backend.read(stack.lineage, &stack.old).await,
            ErrorKind::NotFound,
            "reading a deleted object",
        );
    }
    ensure_fails(
        stack.stored_items(bench).await,
        ErrorKind::Unsupported,
        "listing items in a store without collection",
    )?;
    let deletable = [StoredItemName::Object(stack.old.clone())];
    ensure_fails(
        stack.held.writer.delete(&deletable).await,
        ErrorKind::Unsupported,
        "deleting in a store without collection",
    )?;
    bench.backend.read(stack.lineage, &stack.old).await?;
    Ok(())
}

/// A collection deletes exactly the items before the history floor. Deleting twice succeeds, because the first answer
/// may have been lost.
pub async fn collection_deletes_only_before_the_history_floor(bench: &Bench<'_>) -> Verdict {
    if bench.backend.extensions().collectable.is_none() {
        return Ok(());
    }
    let stack = segments(bench).await?;
    let kept = stack.stored_items(bench).await?.into_iter();
    let mut kept: Vec<_> = kept
        .filter(|item| item.name == StoredItemName::Object(stack.second_snapshot()))
        .collect();
    ensure(
        kept.len() == 1 && kept.iter().all(|item| item.bytes > 0),
        "a snapshot is not listed with its size",
    )?;
    stack.drop_first(bench).await?;
    let deletable = stack.deletable(bench).await?;
    for _ in 0..2 {
        stack.held.writer.delete(&deletable).await?;
        let left = stack.stored_items(bench).await?;
        ensure(
            left.iter().all(|item| !deletable.contains(&item.name)),
            "a deleted item is still listed",
        )?;
        kept.retain(|item| left.contains(item));
        ensure(kept.len() == 1, "an item is missing that was not deleted")?;
    }
    ensure_fails(
        bench.backend.read(stack.lineage, &stack.old).await,
        ErrorKind::NotFound,
        "reading a deleted object",
    )?;
    let view = bench.backend.read_journal(stack.lineage, None).await?;
    ensure(
        view.frames == stack.frames && view.tail == stack.tail,
        "a collection changed the journal after the history floor",
    )?;
    let (last, _) = bench.append(&stack.held, stack.tail, b"\"four\"\n").await?;
    stack.held.writer.release().await?;
    let next = bench.acquire(stack.lineage, "bert").await?;
    ensure(
        next.frames.contains(&last) && next.frames.starts_with(&stack.frames),
        "the next holder does not get the journal after the history floor",
    )
}

/// Reading from a slot before the history floor fails with [`Error::Collected`](crate::Error::Collected), whose kind is
/// `NotFound`, even if the frames have not been deleted yet.
pub async fn read_before_the_history_floor_is_not_found(bench: &Bench<'_>) -> Verdict {
    if bench.backend.extensions().collectable.is_none() {
        return Ok(());
    }
    let stack = segments(bench).await?;
    stack.drop_first(bench).await?;
    let deletable = stack.deletable(bench).await?;
    for is_deleted in [false, true] {
        if is_deleted {
            stack.held.writer.delete(&deletable).await?;
        }
        for from in 0..stack.second.start.get() {
            ensure_fails(
                bench.backend.read_journal(stack.lineage, Some(Slot(from))).await,
                ErrorKind::NotFound,
                "reading a journal before its history floor",
            )?;
        }
        let view = bench
            .backend
            .read_journal(stack.lineage, Some(stack.second.start))
            .await?;
        ensure(
            view.frames == stack.frames,
            "a journal can't be read from its history floor on",
        )?;
    }
    Ok(())
}

/// A writer refuses to delete journal objects at or after the history floor, and objects to which the head refers.
pub async fn items_in_use_are_not_deleted(bench: &Bench<'_>) -> Verdict {
    if bench.backend.extensions().collectable.is_none() {
        return Ok(());
    }
    let stack = segments(bench).await?;
    let before = stack.stored_items(bench).await?;
    for item in &before {
        if let StoredItemName::Journal(_) = item.name {
            ensure_fails(
                stack.held.writer.delete(std::slice::from_ref(&item.name)).await,
                ErrorKind::Invalid,
                "deleting a journal object without a history floor",
            )?;
        }
    }
    stack.drop_first(bench).await?;
    let named = StoredItemName::Object(stack.second_snapshot());
    let deletable = stack.deletable(bench).await?;
    let beyond = bench
        .backend
        .collectable()?
        .stored_items(stack.lineage, stack.tail.next)
        .await?;
    let beyond = beyond.into_iter().map(|item| item.name);
    let live = beyond.filter(|name| matches!(name, StoredItemName::Journal(_)) && !deletable.contains(name));
    for wrong in live.chain([named]) {
        ensure_fails(
            stack.held.writer.delete(&[wrong]).await,
            ErrorKind::Invalid,
            "deleting an item that is still in use",
        )?;
    }
    ensure(
        stack.stored_items(bench).await? == before,
        "a refused deletion had an effect",
    )
}

/// Only the current lock holder may delete.
pub async fn stale_writer_cannot_delete(bench: &Bench<'_>) -> Verdict {
    if bench.backend.extensions().collectable.is_none() {
        return Ok(());
    }
    let stack = segments(bench).await?;
    let head = stack.drop_first(bench).await?;
    let deletable = stack.deletable(bench).await?;
    let breaking = bench.request("bert", Some(head.epoch));
    let _next = bench.backend.acquire(stack.lineage, &breaking).await?;
    ensure_fails(
        stack.held.writer.delete(&deletable).await,
        ErrorKind::Fenced,
        "deleting through a stale writer",
    )?;
    ensure(
        stack.deletable(bench).await? == deletable,
        "a stale writer deleted something",
    )
}

/// A stale writer stays fenced even if a collection deleted the fence that stopped it.
pub async fn stale_writer_stays_fenced_after_collection(bench: &Bench<'_>) -> Verdict {
    if bench.backend.extensions().collectable.is_none() {
        return Ok(());
    }
    let lineage = bench.stack().await?;
    let stale = bench.acquire(lineage, "anna").await?;
    let breaking = bench.request("bert", Some(stale.head.epoch));
    let next = bench.backend.acquire(lineage, &breaking).await?;
    let (_, end) = bench.append(&next, next.tail, b"\"bert\"\n").await?;
    let tail = next.writer.rotate(end, bench.nonce()).await?;
    let (last, tail) = bench.append(&next, tail, b"\"last\"\n").await?;
    let base = Base {
        snapshot: None,
        content: None,
        start: end.next,
        chain: end.chain,
    };
    let collection = Collection {
        base: base.clone(),
        serial: Serial(1),
        since: Timestamp::new("2026-01-01T00:00:00Z"),
        forgotten: std::collections::BTreeSet::new(),
    };
    let change = |head: &mut Head| {
        head.base = base.clone();
        head.floor = base.start;
        head.collection = Some(collection.clone());
        Ok(())
    };
    next.writer.swap_head(bench.nonce(), &change).await?;
    let stored_items = bench
        .backend
        .collectable()?
        .stored_items(lineage, base.start)
        .await?;
    let names: Vec<_> = stored_items.into_iter().map(|item| item.name).collect();
    next.writer.delete(&names).await?;

    let stray = bench.frame(stale.writer.epoch(), stale.tail, b"\"stray\"\n")?;
    ensure_fails(
        stale.writer.append(&stray).await,
        ErrorKind::Fenced,
        "appending through a stale writer after a collection",
    )?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure(
        view.tail == tail && view.frames.last() == Some(&last),
        "a stale writer's frame is visible after a collection",
    )
}

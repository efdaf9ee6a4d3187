//! Rules of collection: what is deleted, and what never is.

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

/// A stack with two segments, and a snapshot before each.
struct Segments {
    lineage: Lineage,
    held: Acquired,
    /// Where the second one begins.
    second: Base,
    /// The snapshot before the first one.
    old: ObjectName,
    /// The last clean close, in the first one.
    closed: Watermark,
    /// The frames of the second one.
    frames: Vec<Frame>,
    tail: Tail,
}

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

    /// Lets the head say that history begins at the second segment.
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
        };
        self.held.writer.swap_head(bench.nonce(), &change).await
    }

    async fn stored_items(&self, bench: &Bench<'_>) -> Result<Vec<StoredItem>> {
        bench
            .backend
            .collectable()?
            .stored_items(self.lineage, self.second.start)
            .await
    }

    /// What a collection deletes here: the journal before the second segment, and the old snapshot.
    async fn doomed(&self, bench: &Bench<'_>) -> Result<Vec<StoredItemName>> {
        let is_doomed = |name: &StoredItemName| match name {
            StoredItemName::Object(name) => *name == self.old,
            StoredItemName::Journal(_) => true,
        };
        let names = self
            .stored_items(bench)
            .await?
            .into_iter()
            .map(|piece| piece.name);
        Ok(names.filter(is_doomed).collect())
    }
}

/// One that doesn't answers `Unsupported`, and one that does keeps the other rules here.
pub async fn a_store_deletes_exactly_when_it_says_so(bench: &Bench<'_>) -> Verdict {
    let there = segments(bench).await?;
    if bench.backend.extensions().collectable.is_some() {
        ensure(
            !there.stored_items(bench).await?.is_empty(),
            "it claims to collect, and lists nothing",
        )?;
        there
            .held
            .writer
            .delete(&[StoredItemName::Object(there.old.clone())])
            .await?;
        return ensure_fails(
            bench.backend.read(there.lineage, &there.old).await,
            ErrorKind::NotFound,
            "an object that was deleted",
        );
    }
    ensure_fails(
        there.stored_items(bench).await,
        ErrorKind::Unsupported,
        "it claims not to collect; its list of pieces",
    )?;
    let doomed = [StoredItemName::Object(there.old.clone())];
    ensure_fails(
        there.held.writer.delete(&doomed).await,
        ErrorKind::Unsupported,
        "it claims not to collect; a deletion",
    )?;
    bench.backend.read(there.lineage, &there.old).await?;
    Ok(())
}

/// Twice is fine, since the first answer may have got lost.
pub async fn what_lies_before_the_floor_goes_and_the_rest_stays(bench: &Bench<'_>) -> Verdict {
    if bench.backend.extensions().collectable.is_none() {
        return Ok(());
    }
    let there = segments(bench).await?;
    let kept = there.stored_items(bench).await?.into_iter();
    let mut kept: Vec<_> = kept
        .filter(|piece| piece.name == StoredItemName::Object(there.second_snapshot()))
        .collect();
    ensure(
        kept.len() == 1 && kept.iter().all(|piece| piece.bytes > 0),
        "a snapshot isn't listed with its size",
    )?;
    there.drop_first(bench).await?;
    let doomed = there.doomed(bench).await?;
    for _ in 0..2 {
        there.held.writer.delete(&doomed).await?;
        let left = there.stored_items(bench).await?;
        ensure(
            left.iter().all(|piece| !doomed.contains(&piece.name)),
            "a piece that was deleted is still listed",
        )?;
        kept.retain(|piece| left.contains(piece));
        ensure(kept.len() == 1, "a piece is gone that nobody deleted")?;
    }
    ensure_fails(
        bench.backend.read(there.lineage, &there.old).await,
        ErrorKind::NotFound,
        "an object that was deleted",
    )?;
    let view = bench.backend.read_journal(there.lineage, None).await?;
    ensure(
        view.frames == there.frames && view.tail == there.tail,
        "what is behind the floor reads back otherwise after a collection",
    )?;
    let (last, _) = bench.append(&there.held, there.tail, b"\"four\"\n").await?;
    there.held.writer.release().await?;
    let next = bench.acquire(there.lineage, "bert").await?;
    ensure(
        next.frames.contains(&last) && next.frames.starts_with(&there.frames),
        "the next holder doesn't get what is behind the floor",
    )
}

/// Before the deletion as after it.
pub async fn who_reads_before_the_floor_hears_that_it_was_collected(bench: &Bench<'_>) -> Verdict {
    if bench.backend.extensions().collectable.is_none() {
        return Ok(());
    }
    let there = segments(bench).await?;
    there.drop_first(bench).await?;
    let doomed = there.doomed(bench).await?;
    for is_deleted in [false, true] {
        if is_deleted {
            there.held.writer.delete(&doomed).await?;
        }
        for from in 0..there.second.start.get() {
            ensure_fails(
                bench.backend.read_journal(there.lineage, Some(Slot(from))).await,
                ErrorKind::NotFound,
                "reading a journal from before its floor",
            )?;
        }
        let view = bench
            .backend
            .read_journal(there.lineage, Some(there.second.start))
            .await?;
        ensure(
            view.frames == there.frames,
            "a journal can't be read from its floor on",
        )?;
    }
    Ok(())
}

/// Not without a head that dropped it, and not what the head names.
pub async fn what_still_counts_is_not_deleted(bench: &Bench<'_>) -> Verdict {
    if bench.backend.extensions().collectable.is_none() {
        return Ok(());
    }
    let there = segments(bench).await?;
    let before = there.stored_items(bench).await?;
    for piece in &before {
        if let StoredItemName::Journal(_) = piece.name {
            ensure_fails(
                there.held.writer.delete(std::slice::from_ref(&piece.name)).await,
                ErrorKind::Invalid,
                "deleting a part of a journal without a floor",
            )?;
        }
    }
    there.drop_first(bench).await?;
    let named = StoredItemName::Object(there.second_snapshot());
    let doomed = there.doomed(bench).await?;
    let beyond = bench
        .backend
        .collectable()?
        .stored_items(there.lineage, there.tail.next)
        .await?;
    let beyond = beyond.into_iter().map(|piece| piece.name);
    let live = beyond.filter(|name| matches!(name, StoredItemName::Journal(_)) && !doomed.contains(name));
    for wrong in live.chain([named]) {
        ensure_fails(
            there.held.writer.delete(&[wrong]).await,
            ErrorKind::Invalid,
            "deleting what still counts",
        )?;
    }
    ensure(
        there.stored_items(bench).await? == before,
        "a deletion that was refused had an effect",
    )
}

/// Whoever took over decides what goes.
pub async fn a_stale_writer_deletes_nothing(bench: &Bench<'_>) -> Verdict {
    if bench.backend.extensions().collectable.is_none() {
        return Ok(());
    }
    let there = segments(bench).await?;
    let head = there.drop_first(bench).await?;
    let doomed = there.doomed(bench).await?;
    let breaking = bench.request("bert", Some(head.epoch));
    let _next = bench.backend.acquire(there.lineage, &breaking).await?;
    ensure_fails(
        there.held.writer.delete(&doomed).await,
        ErrorKind::Fenced,
        "a deletion by a stale writer",
    )?;
    ensure(
        there.doomed(bench).await? == doomed,
        "a stale writer deleted something",
    )
}

/// The fence that stopped it may be gone by then.
pub async fn a_stale_writer_stays_fenced_after_a_collection(bench: &Bench<'_>) -> Verdict {
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
    };
    next.writer.swap_head(bench.nonce(), &change).await?;
    let stored_items = bench
        .backend
        .collectable()?
        .stored_items(lineage, base.start)
        .await?;
    let names: Vec<_> = stored_items.into_iter().map(|piece| piece.name).collect();
    next.writer.delete(&names).await?;

    let stray = bench.frame(stale.writer.epoch(), stale.tail, b"\"stray\"\n")?;
    ensure_fails(
        stale.writer.append(&stray).await,
        ErrorKind::Fenced,
        "an append of a stale writer after a collection",
    )?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure(
        view.tail == tail && view.frames.last() == Some(&last),
        "a stale writer's frame is visible after a collection",
    )
}

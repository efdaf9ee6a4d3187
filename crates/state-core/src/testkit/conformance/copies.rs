//! Rules of copies from another store that are brought up to date later.

use super::{Bench, Verdict, after, ensure, ensure_fails};
use crate::backend::{CopyUpdate, Tail};
use crate::counter::{Epoch, Slot};
use crate::error::{ErrorKind, Result};
use crate::head::{Head, Watermark};
use crate::id::Nonce;
use crate::journal::Frame;

/// The epoch of the source when it was copied again.
const LATER: Epoch = Epoch(7);

/// Copies a stack with two frames. Returns the update that brings the copy to four frames.
async fn copied(bench: &Bench<'_>) -> Result<CopyUpdate> {
    let lineage = bench.stack_of(2).await?;
    let there = bench.backend.read_journal(lineage, None).await?;
    let (first, tail) = next(bench, there.tail)?;
    let (second, tail) = next(bench, tail)?;
    let mut head = there.head.clone();
    head.epoch = LATER;
    head.nonce = bench.nonce();
    head.watermark = Some(Watermark {
        slot: second.slot(),
        chain: tail.chain,
    });
    Ok(CopyUpdate {
        expected: there.head.nonce,
        head,
        frames: vec![first, second],
        lock: bench.request("a copy", None),
    })
}

fn next(bench: &Bench<'_>, tail: Tail) -> Result<(Frame, Tail)> {
    let frame = bench.frame(LATER, tail, b"later\n")?;
    let tail = after(&frame);
    Ok((frame, tail))
}

async fn update(bench: &Bench<'_>, update: &CopyUpdate) -> Result<()> {
    bench.backend.copy_target()?.update_stack(update).await
}

/// An update adds the frames and replaces the head. Repeating it has no effect, and a second update can follow.
pub async fn updated_copy_has_the_new_frames_and_head(bench: &Bench<'_>) -> Verdict {
    let first = copied(bench).await?;
    update(bench, &first).await?;
    update(bench, &first).await?;
    let lineage = first.head.lineage;
    let there = bench.backend.read_journal(lineage, None).await?;
    ensure(
        there.head == first.head && there.frames.len() == 4 && there.frames[2..] == first.frames,
        "the copy doesn't have the frames and the head of the update",
    )?;
    let (third, tail) = next(bench, there.tail)?;
    let head = Head {
        nonce: bench.nonce(),
        ..there.head
    };
    let second = CopyUpdate {
        expected: first.head.nonce,
        head,
        frames: vec![third],
        lock: bench.request("a copy", None),
    };
    update(bench, &second).await?;
    let there = bench.backend.read_journal(lineage, None).await?;
    ensure(there.tail == tail, "the second update added no frame")
}

/// An update requires the head that the caller read, and a journal that ends before the new frames.
pub async fn copy_changed_since_it_was_read_is_not_updated(bench: &Bench<'_>) -> Verdict {
    let stale = copied(bench).await?;
    let other = CopyUpdate {
        expected: Nonce::from_bits([9; 16]),
        ..stale.clone()
    };
    let failed = update(bench, &other).await;
    ensure_fails(failed, ErrorKind::Conflict, "an update of another head")?;
    let lineage = stale.head.lineage;
    let held = bench.acquire(lineage, "anna").await?;
    held.writer.release().await?;
    let failed = update(bench, &stale).await;
    ensure_fails(failed, ErrorKind::Conflict, "an update after a takeover")?;
    let there = bench.backend.read_journal(lineage, None).await?;
    ensure(
        there.tail == held.tail,
        "a refused update changed the journal of the copy",
    )
}

/// A writer that holds the lock of the copy isn't disturbed.
pub async fn copy_is_not_updated_while_its_lock_is_held(bench: &Bench<'_>) -> Verdict {
    let mut late = copied(bench).await?;
    let held = bench.acquire(late.head.lineage, "anna").await?;
    late.expected = held.head.nonce;
    let failed = update(bench, &late).await;
    ensure_fails(failed, ErrorKind::Locked, "an update of a locked copy")?;
    bench.append(&held, held.tail, b"kept\n").await?;
    held.writer.release().await?;
    Ok(())
}

/// The next writer of the copy has a later epoch than every frame.
pub async fn updated_copy_can_be_taken_over(bench: &Bench<'_>) -> Verdict {
    let first = copied(bench).await?;
    update(bench, &first).await?;
    let held = bench.acquire(first.head.lineage, "anna").await?;
    ensure(
        held.writer.epoch() > LATER,
        "the epoch of the next writer isn't later",
    )?;
    let (frame, _) = bench.append(&held, held.tail, b"own\n").await?;
    held.writer.release().await?;
    let there = bench.backend.read_journal(first.head.lineage, None).await?;
    let expected = [Slot(0), Slot(1), Slot(2), Slot(3), Slot(4), frame.slot()];
    let slots: Vec<Slot> = there.frames.iter().map(Frame::slot).collect();
    ensure(slots == expected, "the journal of the copy isn't continued")
}

//! Rules of journals.

use super::{Bench, Verdict, after, ensure, ensure_fails};
use crate::backend::{Acquired, JournalView, Tail};
use crate::counter::Slot;
use crate::error::{ErrorKind, Result};
use crate::head::{Base, Watermark};
use crate::id::Lineage;
use crate::journal::{Frame, FrameKind, ParsedFrame, genesis};

/// Whether frames follow each other from `tail` on, byte for byte; their end.
fn linked(mut tail: Tail, frames: &[Frame]) -> Option<Tail> {
    for frame in frames {
        let parsed = Frame::parse(frame.bytes(), 0, &tail.chain);
        if frame.slot() != tail.next || !matches!(parsed, ParsedFrame::Frame(same) if same == *frame) {
            return None;
        }
        tail = after(frame);
    }
    Some(tail)
}

const fn beginning(base: &Base) -> Tail {
    Tail {
        next: base.start,
        chain: base.chain,
    }
}

fn ensure_whole(view: &JournalView) -> Verdict {
    ensure(
        linked(beginning(&view.head.base), &view.frames) == Some(view.tail),
        "the frames don't lead from the base to the end, each linked to the one before",
    )
}

async fn append_some(bench: &Bench<'_>, to: &Acquired, count: usize) -> Result<(Vec<Frame>, Tail)> {
    let (mut frames, mut tail) = (Vec::new(), to.tail);
    for index in 0..count {
        let payload = format!("{{\"index\":{index}}}\n");
        let (frame, next) = bench.append(to, tail, payload.as_bytes()).await?;
        frames.push(frame);
        tail = next;
    }
    Ok((frames, tail))
}

/// What was appended comes back, in slot order, bytes and all.
pub async fn frames_come_back_in_order_and_linked(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let empty = bench.backend.read_journal(lineage, None).await?;
    ensure(
        empty.frames.is_empty() && empty.tail.next == Slot::ZERO,
        "the journal of a new stack isn't empty",
    )?;
    ensure(
        empty.tail.chain == genesis(lineage),
        "the journal of a new stack doesn't begin at its genesis",
    )?;
    let held = bench.acquire(lineage, "anna").await?;
    let (frames, tail) = append_some(bench, &held, 5).await?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure_whole(&view)?;
    ensure(view.tail == tail, "the end is another one")?;
    ensure(
        view.frames.ends_with(&frames) && view.frames.len() == frames.len() + 1,
        "the journal isn't the fence and what was appended",
    )
}

/// Not into another slot, not onto another chain. Whatever the error, nothing is visible, and the writer
/// takes no more.
pub async fn a_frame_goes_only_where_it_belongs(bench: &Bench<'_>) -> Verdict {
    for wrong in [true, false] {
        let lineage = bench.stack().await?;
        let held = bench.acquire(lineage, "anna").await?;
        let mut tail = held.tail;
        if wrong {
            tail.next = tail.next.next();
        } else {
            tail.chain = genesis(Lineage::random(bench.entropy));
        }
        let stray = bench.frame(held.writer.epoch(), tail, b"{}\n")?;
        ensure(
            held.writer.append(&stray).await.is_err(),
            "a frame was taken that doesn't follow",
        )?;
        let view = bench.backend.read_journal(lineage, None).await?;
        ensure_whole(&view)?;
        ensure(view.tail == held.tail, "a refused frame is visible")?;
        let right = bench.frame(held.writer.epoch(), held.tail, b"{}\n")?;
        ensure(
            held.writer.append(&right).await.is_err(),
            "a writer takes frames after a failure",
        )?;
    }
    Ok(())
}

/// The next holder gets all that was acknowledged, then its own fence.
pub async fn an_acquire_gives_all_frames_and_its_fence_last(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let mut expected = Vec::new();
    for who in ["anna", "bert", "carl"] {
        let held = bench.acquire(lineage, who).await?;
        let view = JournalView {
            head: held.head.clone(),
            frames: held.frames.clone(),
            tail: held.tail,
        };
        ensure_whole(&view)?;
        let Some((fence, before)) = held.frames.split_last() else {
            return ensure(false, "an acquire gave no frames");
        };
        ensure(
            before == expected,
            "an acquire doesn't give what was there before",
        )?;
        ensure(
            fence.kind() == FrameKind::Fence && fence.epoch() == held.head.epoch,
            "the last frame of an acquire isn't its fence",
        )?;
        let (frames, _) = append_some(bench, &held, 2).await?;
        expected = [held.frames.clone(), frames].concat();
        held.writer.release().await?;
    }
    Ok(())
}

/// A reader that follows asks for what it doesn't have yet.
pub async fn reading_from_a_slot_gives_the_rest(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let (_, tail) = append_some(bench, &held, 4).await?;
    let whole = bench.backend.read_journal(lineage, None).await?;
    for from in 0..=tail.next.get() {
        let rest = bench.backend.read_journal(lineage, Some(Slot(from))).await?;
        let skipped = usize::try_from(from).unwrap_or(usize::MAX);
        ensure(
            whole.frames.get(skipped..) == Some(&rest.frames[..]),
            "the rest from a slot isn't the rest",
        )?;
        ensure(rest.tail == tail, "the rest has another end")?;
    }
    Ok(())
}

/// The journal goes on after it, and a head may name where it began; then replay starts there.
pub async fn a_rotation_begins_a_segment_that_a_base_can_name(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let (_, end) = append_some(bench, &held, 3).await?;
    let tail = held.writer.rotate(end, bench.nonce()).await?;
    let (last, tail) = bench.append(&held, tail, b"\"last\"\n").await?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure_whole(&view)?;
    ensure(
        view.tail == tail && view.frames.last() == Some(&last),
        "the journal doesn't go on after a rotation",
    )?;

    let base = Base {
        snapshot: None,
        start: end.next,
        chain: end.chain,
    };
    held.writer
        .swap_head(bench.nonce(), &|head| head.base = base.clone())
        .await?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure_whole(&view)?;
    ensure(
        view.frames.last() == Some(&last) && view.frames.iter().all(|frame| frame.slot() >= end.next),
        "the journal doesn't begin at its base",
    )?;
    held.writer.release().await?;
    let next = bench.acquire(lineage, "bert").await?;
    ensure(
        next.frames.first().map(Frame::slot) == view.frames.first().map(Frame::slot)
            && next.frames.contains(&last),
        "an acquire doesn't begin at the base",
    )
}

/// Bytes that were acknowledged and are gone are damage, not an end.
pub async fn a_journal_that_ends_before_its_watermark_is_corrupt(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let (_, tail) = append_some(bench, &held, 2).await?;
    let last = Slot(tail.next.get() - 1);
    for (slot, is_there) in [(last, true), (tail.next, false)] {
        let watermark = Watermark {
            slot,
            chain: tail.chain,
        };
        held.writer
            .swap_head(bench.nonce(), &|head| head.watermark = Some(watermark))
            .await?;
        let view = bench.backend.read_journal(lineage, None).await;
        if is_there {
            ensure_whole(&view?)?;
        } else {
            ensure_fails(
                view,
                ErrorKind::Corrupt,
                "reading a journal that ends before its watermark",
            )?;
        }
    }
    held.writer.release().await?;
    ensure_fails(
        bench.acquire(lineage, "bert").await,
        ErrorKind::Corrupt,
        "the lock of a journal that ends before its watermark",
    )
}

//! Rules of journals: order, linkage, rotation and damage.

use super::{Bench, Verdict, after, ensure, ensure_fails};
use crate::backend::{Acquired, JournalView, Tail};
use crate::counter::Slot;
use crate::error::{ErrorKind, Result};
use crate::head::{Base, Head, Watermark};
use crate::id::Lineage;
use crate::journal::{Frame, FrameKind, ParsedFrame, genesis};

/// Returns the end of a journal that continues at `tail` with these frames; `None` if a frame doesn't follow its
/// predecessor.
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

/// Returns the slot and the chain at which the journal after a base begins.
const fn beginning(base: &Base) -> Tail {
    Tail {
        next: base.start,
        chain: base.chain,
    }
}

/// Checks that the frames of a view form a chain from the base of its head to its end.
fn ensure_whole(view: &JournalView) -> Verdict {
    ensure(
        linked(beginning(&view.head.base), &view.frames) == Some(view.tail),
        "the frames are not a chain from the base to the end of the journal",
    )
}

/// Appends frames to a journal. Returns them and the new end of the journal.
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

/// Reading a journal returns the appended frames unchanged, in slot order.
pub async fn frames_are_read_in_order_and_linked(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let empty = bench.backend.read_journal(lineage, None).await?;
    ensure(
        empty.frames.is_empty() && empty.tail.next == Slot::ZERO,
        "the journal of a new stack is not empty",
    )?;
    ensure(
        empty.tail.chain == genesis(lineage),
        "the journal of a new stack does not begin with its genesis chain value",
    )?;
    let held = bench.acquire(lineage, "anna").await?;
    let (frames, tail) = append_some(bench, &held, 5).await?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure_whole(&view)?;
    ensure(
        view.tail == tail,
        "the end of the journal differs from the end after the last append",
    )?;
    ensure(
        view.frames.ends_with(&frames) && view.frames.len() == frames.len() + 1,
        "the journal differs from the fence and the appended frames",
    )
}

/// Reading the frames between two positions of a journal returns the same frames as reading all of it.
pub async fn frames_between_two_positions_are_those_of_the_journal(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    append_some(bench, &held, 5).await?;
    let JournalView { head, frames, .. } = bench.backend.read_journal(lineage, None).await?;
    for begin in 0..frames.len() {
        let from = match begin.checked_sub(1) {
            None => beginning(&head.base),
            Some(before) => after(&frames[before]),
        };
        for end in begin..=frames.len() {
            let until = frames.get(end).map_or(Slot(frames.len() as u64), Frame::slot);
            let read = bench.backend.read_frames(&head, from, until).await?;
            ensure(
                read == frames[begin..end],
                "the frames between two positions differ from those of the journal",
            )?;
        }
    }
    Ok(())
}

/// A writer refuses a frame for another slot or another chain. After that error, the frame is not visible, and the
/// writer accepts no more frames.
pub async fn frame_for_another_slot_or_chain_is_refused(bench: &Bench<'_>) -> Verdict {
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
            "a writer accepted a frame that does not follow the last one",
        )?;
        let view = bench.backend.read_journal(lineage, None).await?;
        ensure_whole(&view)?;
        ensure(view.tail == held.tail, "a refused frame is visible")?;
        let right = bench.frame(held.writer.epoch(), held.tail, b"{}\n")?;
        ensure(
            held.writer.append(&right).await.is_err(),
            "a writer accepts frames after a failure",
        )?;
    }
    Ok(())
}

/// An acquire returns all acknowledged frames, and then the fence that it wrote.
pub async fn acquire_returns_all_frames_with_its_fence_last(bench: &Bench<'_>) -> Verdict {
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
            return ensure(false, "an acquire returned no frames");
        };
        ensure(
            before == expected,
            "an acquire does not return the earlier frames",
        )?;
        ensure(
            fence.kind() == FrameKind::Fence && fence.epoch() == held.head.epoch,
            "the last frame of an acquire is not its fence",
        )?;
        let (frames, _) = append_some(bench, &held, 2).await?;
        expected = [held.frames.clone(), frames].concat();
        held.writer.release().await?;
    }
    Ok(())
}

/// Reading from a slot returns the frames from that slot on. A reader that follows a journal needs this.
pub async fn reading_from_a_slot_returns_the_later_frames(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let (_, tail) = append_some(bench, &held, 4).await?;
    let whole = bench.backend.read_journal(lineage, None).await?;
    for from in 0..=tail.next.get() {
        let rest = bench.backend.read_journal(lineage, Some(Slot(from))).await?;
        let skipped = usize::try_from(from).unwrap_or(usize::MAX);
        ensure(
            whole.frames.get(skipped..) == Some(&rest.frames[..]),
            "reading from a slot returned other frames than reading the whole journal",
        )?;
        ensure(
            rest.tail == tail,
            "reading from a slot returned another end of the journal",
        )?;
    }
    Ok(())
}

/// The journal continues after a rotation. After a head swap makes the start of the new segment the base, reads begin
/// at this base.
pub async fn rotation_starts_a_segment_for_a_new_base(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let (_, end) = append_some(bench, &held, 3).await?;
    let tail = held.writer.rotate(end, bench.nonce()).await?;
    let (last, tail) = bench.append(&held, tail, b"\"last\"\n").await?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure_whole(&view)?;
    ensure(
        view.tail == tail && view.frames.last() == Some(&last),
        "the journal does not continue after a rotation",
    )?;

    let base = Base {
        snapshot: None,
        content: None,
        start: end.next,
        chain: end.chain,
    };
    held.writer
        .swap_head(bench.nonce(), &|head| {
            head.base = base.clone();
            Ok(())
        })
        .await?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure_whole(&view)?;
    ensure(
        view.frames.last() == Some(&last) && view.frames.iter().all(|frame| frame.slot() >= end.next),
        "the journal does not begin at its base",
    )?;
    held.writer.release().await?;
    let next = bench.acquire(lineage, "bert").await?;
    ensure(
        next.frames.first().map(Frame::slot) == view.frames.first().map(Frame::slot)
            && next.frames.contains(&last),
        "the frames of an acquire do not begin at the base",
    )
}

/// A journal that ends before the watermark in the head has lost acknowledged frames: reading it fails with `Corrupt`.
pub async fn journal_that_ends_before_its_watermark_is_corrupt(bench: &Bench<'_>) -> Verdict {
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
            .swap_head(bench.nonce(), &|head| {
                head.watermark = Some(watermark);
                Ok(())
            })
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
        "acquiring a stack with a journal that ends before its watermark",
    )
}

/// Marks the journal as closed at its end.
async fn close(bench: &Bench<'_>, held: &Acquired, tail: Tail) -> Result<Head> {
    let watermark = Watermark {
        slot: Slot(tail.next.get() - 1),
        chain: tail.chain,
    };
    let closed = |head: &mut Head| {
        head.watermark = Some(watermark);
        head.closed = true;
        Ok(())
    };
    held.writer.swap_head(bench.nonce(), &closed).await
}

/// The head's mark of a closed journal lets readers end at the watermark. It hides no frame that was acknowledged, and
/// a takeover clears it.
pub async fn closed_journal_hides_no_acknowledged_frame(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let (_, tail) = append_some(bench, &held, 3).await?;
    close(bench, &held, tail).await?;
    let closed = bench.backend.read_journal(lineage, None).await?;
    ensure_whole(&closed)?;
    ensure(closed.tail == tail, "a reader of a closed journal misses frames")?;
    // A backend may refuse frames after the close. Otherwise its readers must see them.
    let end = match bench.append(&held, tail, b"late").await {
        Ok((_, end)) => end,
        Err(_) => tail,
    };
    let late = bench.backend.read_journal(lineage, None).await?;
    ensure(
        late.tail == end,
        "a frame after the close was acknowledged, and readers miss it",
    )?;
    held.writer.release().await?;
    let next = bench.acquire(lineage, "bert").await?;
    let (_, end) = bench.append(&next, next.tail, b"next").await?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure_whole(&view)?;
    ensure(
        view.tail == end,
        "a takeover of a closed journal hides the next frames",
    )?;
    ensure(
        !view.head.closed,
        "a takeover leaves the mark of a closed journal",
    )?;
    next.writer.release().await?;
    // A close may store frames a second time. Readers from the base on may take those, readers of the history don't.
    for who in ["carla", "dora"] {
        let held = bench.acquire(lineage, who).await?;
        let (_, tail) = append_some(bench, &held, 2).await?;
        close(bench, &held, tail).await?;
        held.writer.release().await?;
        let tip = bench.backend.read_journal(lineage, None).await?;
        let history = bench.backend.read_journal(lineage, Some(Slot::ZERO)).await?;
        ensure_whole(&tip)?;
        ensure(tip.tail == tail, "a reader of a closed journal misses frames")?;
        ensure(
            tip.frames == history.frames,
            "a reader of a closed journal and a reader of its history see different frames",
        )?;
    }
    Ok(())
}

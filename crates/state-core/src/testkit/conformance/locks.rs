//! Rules of the writer lock and its fences.

use super::{Bench, RuleViolation, Verdict, ensure, ensure_fails};
use crate::counter::Epoch;
use crate::error::{Error, ErrorKind};
use crate::journal::{Fence, FrameKind};

/// A second acquire fails with the identity of the lock holder, and changes nothing.
pub async fn second_acquire_is_refused_with_the_lock_holder(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    match bench.acquire(lineage, "bert").await {
        Err(Error::Locked { holder, .. }) => {
            ensure(holder.who == "anna", "the error names another holder")?;
        }
        Err(error) => {
            return Err(RuleViolation::failed(
                "acquiring a held lock failed with a wrong error",
                &error,
            ));
        }
        Ok(_) => return Err(RuleViolation::new("two writers hold the lock of one stack")),
    }
    let status = bench.backend.lock_status(lineage).await?;
    ensure(
        status.holder.is_some_and(|holder| holder.who == "anna"),
        "the lock status names another holder",
    )?;
    ensure(
        status.epoch == held.head.epoch,
        "the lock status has another epoch",
    )?;
    held.writer.check().await?;
    bench.append(&held, held.tail, b"{}\n").await?;
    Ok(())
}

/// A released lock can be acquired again, and every acquire uses the next epoch. A released writer can't append.
pub async fn released_lock_is_free_and_epoch_rises(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let mut epoch = bench.backend.read_head(lineage).await?.epoch;
    for who in ["anna", "bert", "anna"] {
        let held = bench.acquire(lineage, who).await?;
        ensure(
            Some(held.head.epoch) == epoch.successor(),
            "an acquire does not use the next epoch",
        )?;
        ensure(
            held.writer.epoch() == held.head.epoch,
            "the epoch of the writer differs from that of the head",
        )?;
        epoch = held.head.epoch;
        held.writer.release().await?;
        let status = bench.backend.lock_status(lineage).await?;
        ensure(status.holder.is_none(), "a released lock still has a holder")?;
        ensure(status.epoch == epoch, "a release changed the epoch")?;
        let frame = bench.frame(epoch, held.tail, b"{}\n")?;
        ensure(
            held.writer.append(&frame).await.is_err(),
            "a writer appends frames after its release",
        )?;
    }
    Ok(())
}

/// A store that claims to free the locks of crashed holders frees the lock of a dropped writer.
pub async fn dropped_writer_frees_the_lock(bench: &Bench<'_>) -> Verdict {
    if !bench.backend.capabilities().frees_lock_on_crash {
        return Ok(());
    }
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    drop(held);
    let status = bench.backend.lock_status(lineage).await?;
    ensure(status.holder.is_none(), "a dropped writer still holds the lock")?;
    bench.acquire(lineage, "bert").await?;
    Ok(())
}

/// A break must name the current epoch. Without this rule, an operator who saw that anna's process hangs could break
/// the lock of bert, who acquired it in the meantime.
pub async fn break_requires_the_current_epoch(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let epoch = held.head.epoch;
    for wrong in [Epoch(epoch.get() - 1), Epoch(epoch.get() + 1)] {
        let request = bench.request("bert", Some(wrong));
        ensure_fails(
            bench.backend.acquire(lineage, &request).await,
            ErrorKind::Conflict,
            "breaking the lock at another epoch",
        )?;
    }
    held.writer.check().await?;
    let request = bench.request("bert", Some(epoch));
    let broken = bench.backend.acquire(lineage, &request).await?;
    ensure(broken.head.epoch > epoch, "a break does not use a higher epoch")?;
    let status = bench.backend.lock_status(lineage).await?;
    ensure(
        status.holder.is_some_and(|holder| holder.who == "bert"),
        "after a break the lock holder is not the process that broke the lock",
    )?;
    ensure_fails(
        held.writer.check().await,
        ErrorKind::Fenced,
        "a check after a break",
    )
}

/// A writer that lost the lock can't change anything visible: no frame, no head.
pub async fn stale_writer_is_fenced_and_invisible(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let stale = bench.acquire(lineage, "anna").await?;
    let (kept, tail) = bench.append(&stale, stale.tail, b"\"before\"\n").await?;
    let request = bench.request("bert", Some(stale.head.epoch));
    let owner = bench.backend.acquire(lineage, &request).await?;
    ensure(
        owner.frames.contains(&kept),
        "a frame that was acknowledged before the break is missing",
    )?;

    let lost = bench.frame(stale.writer.epoch(), tail, b"\"after\"\n")?;
    match stale.writer.append(&lost).await {
        Err(Error::Fenced { mine, theirs, .. }) => ensure(
            mine == stale.head.epoch && theirs == owner.head.epoch,
            "the error names other epochs",
        )?,
        Err(error) => {
            return Err(RuleViolation::failed(
                "an append of a stale writer failed with a wrong error",
                &error,
            ));
        }
        Ok(()) => return Err(RuleViolation::new("a stale writer appended a frame")),
    }
    ensure_fails(
        stale
            .writer
            .swap_head(bench.nonce(), &|head| {
                head.floor = head.floor.next();
                Ok(())
            })
            .await,
        ErrorKind::Fenced,
        "a head swap of a stale writer",
    )?;
    ensure(
        stale.writer.remove(bench.nonce()).await.is_err(),
        "a stale writer removed the stack",
    )?;

    let (next, _) = bench.append(&owner, owner.tail, b"\"mine\"\n").await?;
    let view = bench.backend.read_journal(lineage, None).await?;
    ensure(
        !view.frames.contains(&lost),
        "a frame of a stale writer is visible",
    )?;
    ensure(view.head == owner.head, "a stale writer changed the head")?;
    let mut expected = owner.frames.clone();
    expected.push(next);
    ensure(
        view.frames == expected,
        "the journal differs from the frames of the new owner",
    )
}

/// Releasing or dropping a writer that lost the lock doesn't release the lock of its new holder.
pub async fn stale_writer_cannot_release_the_new_lock(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let stale = bench.acquire(lineage, "anna").await?;
    let request = bench.request("bert", Some(stale.head.epoch));
    let owner = bench.backend.acquire(lineage, &request).await?;
    // The contract leaves open whether a stale writer's release returns an error.
    drop(stale.writer.release().await);
    drop(stale);
    ensure_fails(
        bench.acquire(lineage, "carl").await,
        ErrorKind::Locked,
        "acquiring a lock that another writer holds",
    )?;
    owner.writer.check().await?;
    Ok(())
}

/// The last frame of an acquire is its fence, which contains the lock holder.
pub async fn fence_contains_the_lock_holder(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let Some(last) = held.frames.last() else {
        return Err(RuleViolation::new("an acquire returned no frames"));
    };
    ensure(last.kind() == FrameKind::Fence, "the last frame is not a fence")?;
    ensure(
        last.epoch() == held.head.epoch,
        "the fence has another epoch than the head",
    )?;
    let fence = Fence::decode("the fence", last.payload())?;
    ensure(fence.holder.who == "anna", "the fence names another holder")?;
    ensure(
        fence.chain == held.head.base.chain,
        "the fence of a new stack continues another chain",
    )
}

/// Every stack has its own lock and journal.
pub async fn stacks_are_locked_independently(bench: &Bench<'_>) -> Verdict {
    let (one, other) = (bench.stack().await?, bench.stack().await?);
    let first = bench.acquire(one, "anna").await?;
    let second = bench.acquire(other, "bert").await?;
    bench.append(&first, first.tail, b"1\n").await?;
    let (_, tail) = bench.append(&second, second.tail, b"2\n").await?;
    bench.append(&second, tail, b"3\n").await?;
    let lengths = (
        bench.backend.read_journal(one, None).await?.frames.len(),
        bench.backend.read_journal(other, None).await?.frames.len(),
    );
    ensure(lengths == (2, 3), "the journals of two stacks are mixed up")
}

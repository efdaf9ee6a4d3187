//! Rules of heads: created once, replaced as a whole, removed permanently.

use super::{Bench, Verdict, ensure, ensure_fails};
use crate::backend::{ClientLock, Holder, ObjectKind, ObjectName};
use crate::counter::{Epoch, Generation, Slot};
use crate::error::{Error, ErrorKind};
use crate::head::Head;
use crate::id::Lineage;
use crate::name::StackName;

/// A lineage can be used for one stack only.
pub async fn stack_is_created_once(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let first = bench.backend.read_head(lineage).await?;
    let second = Head::new(lineage, StackName::new("other", "name")?, bench.nonce());
    ensure_fails(
        bench.backend.create_stack(&second).await,
        ErrorKind::Conflict,
        "creating a second stack of the same lineage",
    )?;
    ensure(
        bench.backend.read_head(lineage).await? == first,
        "a refused stack had an effect",
    )
}

/// Every request for a missing stack or object fails with `NotFound`.
pub async fn missing_stack_or_object_is_not_found(bench: &Bench<'_>) -> Verdict {
    let store = bench.backend;
    let missing = Lineage::random(bench.entropy);
    let not_found = ErrorKind::NotFound;
    ensure_fails(
        store.read_head(missing).await,
        not_found,
        "reading the head of a missing stack",
    )?;
    ensure_fails(
        store.read_journal(missing, None).await,
        not_found,
        "reading the journal of a missing stack",
    )?;
    ensure_fails(
        bench.acquire(missing, "anna").await,
        not_found,
        "acquiring the lock of a missing stack",
    )?;
    ensure_fails(
        store.lock_status(missing).await,
        not_found,
        "reading the lock status of a missing stack",
    )?;
    let lineage = bench.stack().await?;
    let object = ObjectName::Snapshot {
        slot: Slot::ZERO,
        short: "0123456789abcdef".to_owned(),
    };
    ensure_fails(
        store.read(lineage, &object).await,
        not_found,
        "reading a missing object",
    )?;
    ensure(
        store.list(lineage, ObjectKind::Snapshot).await?.is_empty(),
        "a new stack has objects",
    )
}

/// A head swap ignores changes of epoch, generation, lineage and nonce, and stores changes of name and client lock.
pub async fn head_swap_keeps_fields_of_the_backend(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let before = bench.backend.read_head(lineage).await?;
    ensure(
        held.head == before,
        "the head returned by acquire differs from the stored one",
    )?;
    let (nonce, other) = (bench.nonce(), bench.nonce());
    let other_lineage = Lineage::random(bench.entropy);
    let name = StackName::new("rules", "renamed")?;
    let lock = ClientLock {
        id: "lock".to_owned(),
        holder: Holder::default(),
        message: "frozen".to_owned(),
        expires: None,
    };
    let swapped = held
        .writer
        .swap_head(nonce, &|head| {
            head.epoch = Epoch(99);
            head.generation = Generation(99);
            head.lineage = other_lineage;
            head.nonce = other;
            head.name = name.clone();
            head.client_lock = Some(lock.clone());
            Ok(())
        })
        .await?;
    let mut expected = before;
    expected.nonce = nonce;
    expected.name = name.clone();
    expected.client_lock = Some(lock.clone());
    ensure(
        swapped == expected,
        "the head returned by a swap differs from the changed one",
    )?;
    ensure(
        bench.backend.read_head(lineage).await? == expected,
        "the stored head differs from the swapped one",
    )?;
    let status = bench.backend.lock_status(lineage).await?;
    ensure(
        status.client_lock == Some(lock),
        "the lock status does not contain the client lock",
    )?;
    held.writer.check().await?;
    Ok(())
}

/// A head swap passes the latest head to the change, not the head at the time of the acquire.
pub async fn head_swap_receives_the_latest_head(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    for floor in 1..=3 {
        let head = held
            .writer
            .swap_head(bench.nonce(), &|head| {
                head.floor = head.floor.next();
                Ok(())
            })
            .await?;
        ensure(
            head.floor == Slot(floor),
            "a swap was not applied to the result of the previous swap",
        )?;
    }
    Ok(())
}

/// If the change returns an error, the swap returns this error. The stored head stays unchanged, and the writer can be
/// used further.
pub async fn failing_change_leaves_the_head_unchanged(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let before = bench.backend.read_head(lineage).await?;
    let refused = held
        .writer
        .swap_head(bench.nonce(), &|head| {
            head.floor = Slot(7);
            Err(Error::conflict("head", "the change was refused"))
        })
        .await;
    let is_own_error =
        matches!(&refused, Err(Error::Conflict { reason, .. }) if reason == "the change was refused");
    ensure(is_own_error, "a swap does not return the error of its change")?;
    ensure(
        bench.backend.read_head(lineage).await? == before,
        "a change that failed changed the stored head",
    )?;
    let change = |head: &mut Head| {
        head.floor = head.floor.next();
        Ok(())
    };
    let swapped = held.writer.swap_head(bench.nonce(), &change).await?;
    ensure(
        swapped.floor == Slot(1),
        "a swap after a failed change was not applied to the stored head",
    )?;
    Ok(held.writer.check().await?)
}

/// A removal keeps the head, marked as removed and with the next epoch. The writer can't append any more, the lock
/// can't be acquired, and the lineage can't be used again.
pub async fn removed_stack_cannot_be_acquired(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    // A session first sets `removed` with a head swap, so that the tag (the MAC) of the head covers it, and then calls
    // `remove`. No later swap may clear the mark.
    for removed in [true, false] {
        let change = |head: &mut Head| {
            head.removed = removed;
            Ok(())
        };
        let marked = held.writer.swap_head(bench.nonce(), &change).await?;
        ensure(
            marked.removed,
            "a swap does not set the mark of a removal, or clears it",
        )?;
    }
    held.writer.remove(bench.nonce()).await?;
    let head = bench.backend.read_head(lineage).await?;
    ensure(head.removed, "the head of a removed stack is not a tombstone")?;
    ensure(
        Some(head.epoch) == held.head.epoch.successor(),
        "a removal does not use the next epoch",
    )?;
    let frame = bench.frame(held.writer.epoch(), held.tail, b"{}\n")?;
    ensure(
        held.writer.append(&frame).await.is_err(),
        "a removed stack accepts frames",
    )?;
    for break_epoch in [None, Some(head.epoch)] {
        let request = bench.request("bert", break_epoch);
        ensure_fails(
            bench.backend.acquire(lineage, &request).await,
            ErrorKind::Conflict,
            "acquiring the lock of a removed stack",
        )?;
    }
    let again = Head::new(lineage, head.name, bench.nonce());
    ensure_fails(
        bench.backend.create_stack(&again).await,
        ErrorKind::Conflict,
        "creating a stack with a removed lineage",
    )
}

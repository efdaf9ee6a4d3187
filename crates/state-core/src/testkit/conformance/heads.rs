//! Rules of heads: made once, swapped whole, removed for ever.

use super::{Bench, Verdict, ensure, ensure_fails};
use crate::backend::{ClientLock, Holder, ObjectKind, ObjectName};
use crate::counter::{Epoch, Generation, Slot};
use crate::error::ErrorKind;
use crate::head::Head;
use crate::id::Lineage;
use crate::name::StackName;

/// A lineage is used once.
pub async fn a_stack_is_created_once(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let first = bench.backend.read_head(lineage).await?;
    let second = Head::new(lineage, StackName::new("other", "name")?, bench.nonce());
    ensure_fails(
        bench.backend.create_stack(&second).await,
        ErrorKind::Conflict,
        "a second stack of the same lineage",
    )?;
    ensure(
        bench.backend.read_head(lineage).await? == first,
        "a refused stack had an effect",
    )
}

/// Stacks and objects that aren't there are `NotFound`, whatever is asked.
pub async fn what_was_never_made_is_not_found(bench: &Bench<'_>) -> Verdict {
    let store = bench.backend;
    let nobody = Lineage::random(bench.entropy);
    let not_found = ErrorKind::NotFound;
    ensure_fails(store.read_head(nobody).await, not_found, "the head of no stack")?;
    ensure_fails(
        store.read_journal(nobody, None).await,
        not_found,
        "the journal of no stack",
    )?;
    ensure_fails(
        bench.acquire(nobody, "anna").await,
        not_found,
        "the lock of no stack",
    )?;
    ensure_fails(
        store.lock_status(nobody).await,
        not_found,
        "the lock status of no stack",
    )?;
    let lineage = bench.stack().await?;
    let object = ObjectName::Snapshot {
        slot: Slot::ZERO,
        short: "0123456789abcdef".to_owned(),
    };
    ensure_fails(
        store.read(lineage, &object).await,
        not_found,
        "an object that isn't there",
    )?;
    ensure(
        store.list(lineage, ObjectKind::Snapshot).await?.is_empty(),
        "a new stack has objects",
    )
}

/// Epoch, generation, lineage and nonce aren't for a change to set; all else is.
pub async fn head_swaps_keep_what_is_the_backends(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let before = bench.backend.read_head(lineage).await?;
    ensure(held.head == before, "acquire gave another head than there is")?;
    let (nonce, other) = (bench.nonce(), bench.nonce());
    let stranger = Lineage::random(bench.entropy);
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
            head.lineage = stranger;
            head.nonce = other;
            head.name = name.clone();
            head.client_lock = Some(lock.clone());
        })
        .await?;
    let mut expected = before;
    expected.nonce = nonce;
    expected.name = name.clone();
    expected.client_lock = Some(lock.clone());
    ensure(
        swapped == expected,
        "a swap returned another head than the changed one",
    )?;
    ensure(
        bench.backend.read_head(lineage).await? == expected,
        "a swapped head reads back otherwise",
    )?;
    let status = bench.backend.lock_status(lineage).await?;
    ensure(
        status.client_lock == Some(lock),
        "the lock status doesn't show the client's lock",
    )?;
    held.writer.check().await?;
    Ok(())
}

/// A change gets the latest head, not the one of the acquire.
pub async fn head_swaps_see_the_head_as_it_is_now(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    for floor in 1..=3 {
        let head = held
            .writer
            .swap_head(bench.nonce(), &|head| head.floor = head.floor.next())
            .await?;
        ensure(
            head.floor == Slot(floor),
            "a swap didn't begin from the one before",
        )?;
    }
    Ok(())
}

/// Its head stays as a tombstone with a higher epoch: nobody writes to it again, whoever held it.
pub async fn a_removed_stack_cannot_be_acquired(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    held.writer.remove(bench.nonce()).await?;
    let head = bench.backend.read_head(lineage).await?;
    ensure(head.removed, "the head of a removed stack doesn't say so")?;
    ensure(
        head.epoch == held.head.epoch.next(),
        "a removal doesn't take the next epoch",
    )?;
    let frame = bench.frame(held.writer.epoch(), held.tail, b"{}\n")?;
    ensure(
        held.writer.append(&frame).await.is_err(),
        "a removed stack takes frames",
    )?;
    for break_epoch in [None, Some(head.epoch)] {
        let request = bench.request("bert", break_epoch);
        ensure_fails(
            bench.backend.acquire(lineage, &request).await,
            ErrorKind::Conflict,
            "the lock of a removed stack",
        )?;
    }
    let again = Head::new(lineage, head.name, bench.nonce());
    ensure_fails(
        bench.backend.create_stack(&again).await,
        ErrorKind::Conflict,
        "a new stack of a removed lineage",
    )
}

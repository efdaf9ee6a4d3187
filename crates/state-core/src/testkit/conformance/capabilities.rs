//! Rules of capabilities: a store must have exactly the capabilities that it claims. With a false claim, callers rely
//! on a property that the store doesn't have; with a missing one, they do unnecessary work.
//!
//! These rules need several handles to one store, as several processes would have.

use super::{Bench, RuleViolation, Verdict, ensure, ensure_fails};
use crate::backend::{Backend, NamePointer, NameTarget};
use crate::environment::Entropy;
use crate::error::ErrorKind;
use crate::head::Head;
use crate::id::Lineage;
use crate::name::StackName;

/// Runs all rules of capabilities. `open` returns a new handle to the store with the given number, as another process
/// would open it. A store must be empty when it is first opened, and its handles may share nothing but its content.
pub async fn run_all<B: Backend>(
    open: impl AsyncFn(u32) -> B,
    entropy: &dyn Entropy,
) -> Vec<(&'static str, Verdict)> {
    vec![
        (
            "content_survives_iff_the_store_is_durable",
            content_survives_iff_the_store_is_durable(&open, entropy).await,
        ),
        (
            "handles_see_each_other_iff_the_store_is_shared",
            handles_see_each_other_iff_the_store_is_shared(&open, entropy).await,
        ),
        (
            "crashed_lock_is_freed_iff_the_store_claims_it",
            crashed_lock_is_freed_iff_the_store_claims_it(&open, entropy).await,
        ),
    ]
}

/// Creates a stack with a name and a frame.
async fn fill(bench: &Bench<'_>) -> Result<(Lineage, NamePointer), RuleViolation> {
    let name = StackName::new("rules", "kept")?;
    let lineage = Lineage::random(bench.entropy);
    let head = Head::new(lineage, name.clone(), bench.nonce());
    bench.backend.create_stack(&head).await?;
    let pointer = NamePointer::new(name.clone(), NameTarget::Lineage(lineage), bench.nonce());
    bench.backend.swap_name(&name, None, &pointer).await?;
    let held = bench.acquire(lineage, "anna").await?;
    bench.append(&held, held.tail, b"\"kept\"\n").await?;
    held.writer.release().await?;
    Ok((lineage, pointer))
}

async fn content_survives_iff_the_store_is_durable<B: Backend>(
    open: &impl AsyncFn(u32) -> B,
    entropy: &dyn Entropy,
) -> Verdict {
    let first = open(0).await;
    let claimed = first.capabilities().durable;
    let (lineage, pointer) = fill(&Bench::new(&first, entropy)).await?;
    let journal = first.read_journal(lineage, None).await?;
    drop(first);
    let second = open(0).await;
    let names = second.names().await?;
    if !claimed {
        return ensure(names.is_empty(), "the store claims not to be durable, but is");
    }
    ensure(
        names == [pointer],
        "the store claims to be durable, but a name is missing",
    )?;
    let kept = second.read_journal(lineage, None).await?;
    ensure(
        kept.frames == journal.frames && kept.head == journal.head,
        "the store claims to be durable, but its content changed",
    )
}

async fn handles_see_each_other_iff_the_store_is_shared<B: Backend>(
    open: &impl AsyncFn(u32) -> B,
    entropy: &dyn Entropy,
) -> Verdict {
    let (one, other) = (open(1).await, open(1).await);
    let claimed = one.capabilities().shared;
    let bench = Bench::new(&one, entropy);
    let (lineage, pointer) = fill(&bench).await?;
    let seen = other.names().await;
    if !claimed {
        let seen = seen.is_ok_and(|names| names.contains(&pointer));
        return ensure(!seen, "the store claims not to be shared, but is");
    }
    ensure(
        seen? == [pointer],
        "the store claims to be shared, but a name is not visible to another handle",
    )?;
    let held = bench.acquire(lineage, "anna").await?;
    ensure_fails(
        Bench::new(&other, entropy).acquire(lineage, "bert").await,
        ErrorKind::Locked,
        "acquiring a held lock through another handle of a shared store",
    )?;
    held.writer.release().await?;
    Bench::new(&other, entropy).acquire(lineage, "bert").await?;
    Ok(())
}

async fn crashed_lock_is_freed_iff_the_store_claims_it<B: Backend>(
    open: &impl AsyncFn(u32) -> B,
    entropy: &dyn Entropy,
) -> Verdict {
    let store = open(2).await;
    let bench = Bench::new(&store, entropy);
    let (lineage, _) = fill(&bench).await?;
    let held = bench.acquire(lineage, "anna").await?;
    let epoch = held.head.epoch;
    drop(held);
    let next = bench.acquire(lineage, "bert").await;
    if store.capabilities().frees_lock_on_crash {
        return next.map(drop).map_err(RuleViolation::from);
    }
    ensure_fails(
        next,
        ErrorKind::Locked,
        "acquiring the lock of a crashed holder in a store that claims to keep such locks",
    )?;
    let breaking = bench.request("bert", Some(epoch));
    store.acquire(lineage, &breaking).await?;
    Ok(())
}

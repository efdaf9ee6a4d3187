//! What a store claims of itself, checked both ways: who claims too much is dangerous, who claims too little is
//! asked for work that isn't needed.
//!
//! These rules need several handles to one place, as several processes would have them.

use super::{Bench, Broken, Verdict, ensure, ensure_fails};
use crate::backend::{Backend, NamePointer, NameTarget};
use crate::environment::Entropy;
use crate::error::ErrorKind;
use crate::head::Head;
use crate::id::Lineage;
use crate::name::StackName;

/// Runs all of them. `open` gives a new handle to the place with this number: a place is empty when it is first
/// opened, and handles share nothing but what the store keeps.
pub async fn run_all<B: Backend>(
    open: impl AsyncFn(u32) -> B,
    entropy: &dyn Entropy,
) -> Vec<(&'static str, Verdict)> {
    vec![
        (
            "what_is_written_stays_exactly_when_the_store_is_durable",
            what_is_written_stays_exactly_when_the_store_is_durable(&open, entropy).await,
        ),
        (
            "handles_see_each_other_exactly_when_the_store_is_shared",
            handles_see_each_other_exactly_when_the_store_is_shared(&open, entropy).await,
        ),
        (
            "a_lock_of_the_dead_is_free_exactly_when_the_store_says_so",
            a_lock_of_the_dead_is_free_exactly_when_the_store_says_so(&open, entropy).await,
        ),
    ]
}

/// Makes a stack with a name and some content.
async fn fill(bench: &Bench<'_>) -> Result<(Lineage, NamePointer), Broken> {
    let name = StackName::new("rules", "kept")?;
    let lineage = Lineage::random(bench.entropy);
    let head = Head::new(lineage, name.clone(), bench.nonce());
    bench.backend.create_stack(&head).await?;
    let pointer = NamePointer {
        name: name.clone(),
        target: NameTarget::Lineage(lineage),
        nonce: bench.nonce(),
    };
    bench.backend.swap_name(&name, None, &pointer).await?;
    let held = bench.acquire(lineage, "anna").await?;
    bench.append(&held, held.tail, b"\"kept\"\n").await?;
    held.writer.release().await?;
    Ok((lineage, pointer))
}

async fn what_is_written_stays_exactly_when_the_store_is_durable<B: Backend>(
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
        return ensure(names.is_empty(), "it claims not to be durable, and is");
    }
    ensure(names == [pointer], "it claims to be durable, and a name is gone")?;
    let kept = second.read_journal(lineage, None).await?;
    ensure(
        kept.frames == journal.frames && kept.head == journal.head,
        "it claims to be durable, and reads back otherwise",
    )
}

async fn handles_see_each_other_exactly_when_the_store_is_shared<B: Backend>(
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
        return ensure(!seen, "it claims not to be shared, and is");
    }
    ensure(
        seen? == [pointer],
        "it claims to be shared, and a handle doesn't see another's name",
    )?;
    let held = bench.acquire(lineage, "anna").await?;
    ensure_fails(
        Bench::new(&other, entropy).acquire(lineage, "bert").await,
        ErrorKind::Locked,
        "an acquire through another handle of a store that claims to be shared",
    )?;
    held.writer.release().await?;
    Bench::new(&other, entropy).acquire(lineage, "bert").await?;
    Ok(())
}

async fn a_lock_of_the_dead_is_free_exactly_when_the_store_says_so<B: Backend>(
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
        return next.map(drop).map_err(Broken::from);
    }
    ensure_fails(
        next,
        ErrorKind::Locked,
        "it claims that a lock outlives its holder; an acquire of one",
    )?;
    let breaking = bench.request("bert", Some(epoch));
    store.acquire(lineage, &breaking).await?;
    Ok(())
}

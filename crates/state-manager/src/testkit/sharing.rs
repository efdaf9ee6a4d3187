//! Several managers of one stack: nobody destroys what another persisted.

use super::{Bench, RuleViolation, change, ensure, ensure_conflict, held, initial, meta, same};
use crate::contracts::persistent::StateManager;
use state_core::persistent::{Persister, Refresher, Transient};
use state_core::testkit::conformance::Verdict;
use state_core::{Error, ErrorKind, Lineage, RevisionId, Snapshot};

/// Everything that was ever persisted, oldest first.
async fn persisted(manager: &StateManager) -> std::result::Result<Vec<RevisionId>, Error> {
    manager.stack().list().await
}

/// Who persists on top of something else than what is there is told so; after a refresh it works.
pub async fn what_others_persisted_is_not_destroyed(bench: &Bench) -> Verdict {
    let one = bench.preloaded().await?;
    let other = bench.another(&one).await?;
    let theirs = change(&other, "bar", "theirs")?;
    other.persist().await?;
    let there = persisted(&other).await?;

    let mine = change(&one, "bar", "mine")?;
    ensure_conflict(one.persist().await, "a persist on top of another one")?;
    ensure_conflict(one.persist().await, "the same persist again")?;
    ensure(
        persisted(&one).await? == there,
        "a persist that lost left something",
    )?;
    ensure(held(&one)? == mine, "a persist that lost changed the memory")?;
    let stored = one.stack().current().await?;
    ensure(same(&stored, &theirs), "a persist that lost changed the store")?;

    one.refresh().await?;
    change(&one, "bar", "mine")?;
    one.persist().await?;
    ensure(
        meta(&one)?.serial == meta(&other)?.serial + 1,
        "after a refresh a persist takes no effect",
    )
}

/// Who never looked doesn't know what it would destroy.
pub async fn a_first_persist_does_not_destroy_what_was_never_read(bench: &Bench) -> Verdict {
    let one = bench.preloaded().await?;
    let blind = StateManager::new(one.stack().clone());
    let mut snapshot = initial()?;
    snapshot.entries.clear();
    blind.write(snapshot);
    ensure_conflict(blind.persist().await, "a persist that never read")?;
    ensure(
        same(&one.stack().current().await?, &initial()?),
        "a persist that never read took effect",
    )
}

/// At the same moment: one wins, each loser hears of it, and history holds exactly the winner.
pub async fn of_concurrent_persists_one_loses_loudly(bench: &Bench) -> Verdict {
    let one = bench.preloaded().await?;
    let other = bench.another(&one).await?;
    let before = persisted(&one).await?.len();
    change(&one, "bar", "one")?;
    change(&other, "bar", "other")?;
    let (first, second) = tokio::join!(one.persist(), other.persist());
    for error in [&first, &second]
        .into_iter()
        .filter_map(|done| done.as_ref().err())
    {
        ensure(
            matches!(error.kind(), ErrorKind::Locked | ErrorKind::Conflict),
            "a loser is told something else than that it lost",
        )?;
    }
    ensure(
        first.is_ok() != second.is_ok(),
        "not exactly one of two persists won",
    )?;
    ensure(
        persisted(&one).await?.len() == before + 1,
        "two persists that exclude each other left not exactly one revision",
    )?;
    let winner = if first.is_ok() { &one } else { &other };
    ensure(
        same(&winner.stack().current().await?, &held(winner)?),
        "the winner's snapshot isn't what is stored",
    )
}

/// A snapshot that says it belongs elsewhere doesn't come in by the back door.
pub async fn a_snapshot_of_another_lineage_is_refused(bench: &Bench) -> Verdict {
    let manager = bench.preloaded().await?;
    let foreign = Lineage::from_bits([7; 16]);
    let snapshot = Snapshot {
        lineage: Some(foreign),
        ..change(&manager, "bar", "baz")?
    };
    manager.write(snapshot);
    ensure_conflict(manager.persist().await, "a persist of another lineage")?;
    ensure(persisted(&manager).await?.len() == 1, "it left something")
}

/// Both say the same: the second one has nothing to add, and knows where it stands.
pub async fn what_others_said_already_is_not_said_again(bench: &Bench) -> Verdict {
    let one = bench.preloaded().await?;
    let other = bench.another(&one).await?;
    change(&one, "bar", "baz")?;
    change(&other, "bar", "baz")?;
    one.persist().await?;
    other.persist().await?;
    ensure(meta(&one)? == meta(&other)?, "the same was stored twice")?;
    change(&other, "bar", "qux")?;
    other.persist().await?;
    Ok(())
}

/// Terraform's `TestRemoteLocks`, and the unlock with a wrong id.
pub async fn locks_of_two_managers_exclude_each_other(bench: &Bench) -> Verdict {
    let one = bench.preloaded().await?;
    let other = bench.another(&one).await?;
    let first = one.lock("one").await?;
    match other.lock("other").await {
        Err(Error::Locked { holder, .. }) => {
            ensure(holder.operation == "one", "the error names another holder")?;
        }
        other => return Err(RuleViolation::new(format!("two hold one stack: {other:?}"))),
    }
    change(&other, "bar", "other")?;
    ensure(
        other.persist().await.is_err(),
        "a persist while another holds the lock",
    )?;
    change(&one, "bar", "one")?;
    one.persist().await?;
    ensure_conflict(one.unlock(first.next()).await, "an unlock with another id")?;
    ensure(
        other.lock("other").await.is_err(),
        "a refused unlock freed the lock",
    )?;
    one.unlock(first).await?;
    ensure_conflict(one.unlock(first).await, "a second unlock")?;
    let second = other.lock("other").await?;
    ensure(second != first, "two locks have one id")?;
    other.unlock(second).await?;
    Ok(())
}

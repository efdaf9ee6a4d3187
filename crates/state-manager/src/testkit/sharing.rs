//! Rules for several managers of one stack: no manager overwrites a snapshot that it didn't read.

use super::{Bench, RuleViolation, change, ensure, ensure_conflict, initial, meta, same, snapshot_of};
use crate::contracts::persistent::StateManager;
use state_core::persistent::{Persister, Refresher, Transient};
use state_core::testkit::conformance::Verdict;
use state_core::{Error, ErrorKind, Lineage, RevisionId, Snapshot};

/// The ids of all persisted revisions, oldest first.
async fn persisted(manager: &StateManager) -> std::result::Result<Vec<RevisionId>, Error> {
    manager.stack().list().await
}

/// A persist based on an outdated snapshot fails with a conflict; after a refresh it succeeds.
pub async fn persist_keeps_the_snapshot_of_another_manager(bench: &Bench) -> Verdict {
    let one = bench.preloaded().await?;
    let other = bench.another(&one).await?;
    let theirs = change(&other, "bar", "theirs")?;
    other.persist().await?;
    let existing = persisted(&other).await?;

    let mine = change(&one, "bar", "mine")?;
    ensure_conflict(one.persist().await, "a persist based on an outdated snapshot")?;
    ensure_conflict(one.persist().await, "the same persist repeated")?;
    ensure(
        persisted(&one).await? == existing,
        "a refused persist made a revision",
    )?;
    ensure(snapshot_of(&one)? == mine, "a refused persist changed the memory")?;
    let stored = one.stack().current().await?;
    ensure(same(&stored, &theirs), "a refused persist changed the store")?;

    one.refresh().await?;
    change(&one, "bar", "mine")?;
    one.persist().await?;
    ensure(
        meta(&one)?.serial == meta(&other)?.serial + 1,
        "a persist after a refresh had no effect",
    )
}

/// A manager that never refreshed has no revision to compare with the stored one, so its persist is refused.
pub async fn persist_without_refresh_is_refused(bench: &Bench) -> Verdict {
    let one = bench.preloaded().await?;
    let blind = StateManager::new(one.stack().clone());
    let mut snapshot = initial()?;
    snapshot.entries.clear();
    blind.write(snapshot);
    ensure_conflict(blind.persist().await, "a persist without a refresh")?;
    ensure(
        same(&one.stack().current().await?, &initial()?),
        "a persist without a refresh took effect",
    )
}

/// Of two simultaneous persists exactly one succeeds, the other one fails, and history contains only the revision of
/// the successful one.
pub async fn one_of_two_concurrent_persists_fails(bench: &Bench) -> Verdict {
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
            "the failed persist must return Locked or Conflict",
        )?;
    }
    ensure(
        first.is_ok() != second.is_ok(),
        "not exactly one of two persists succeeded",
    )?;
    ensure(
        persisted(&one).await?.len() == before + 1,
        "two concurrent persists must make exactly one revision",
    )?;
    let winner = if first.is_ok() { &one } else { &other };
    ensure(
        same(&winner.stack().current().await?, &snapshot_of(winner)?),
        "the stored snapshot differs from the successful persist's",
    )
}

/// A snapshot with another stack's lineage is refused.
pub async fn snapshot_of_another_lineage_is_refused(bench: &Bench) -> Verdict {
    let manager = bench.preloaded().await?;
    let foreign = Lineage::from_bits([7; 16]);
    let snapshot = Snapshot {
        lineage: Some(foreign),
        ..change(&manager, "bar", "baz")?
    };
    manager.write(snapshot);
    ensure_conflict(manager.persist().await, "a persist of another lineage")?;
    ensure(
        persisted(&manager).await?.len() == 1,
        "a refused persist made a revision",
    )
}

/// Two managers persist equal snapshots: the second persist makes no revision, and the second manager can persist
/// further changes.
pub async fn equal_snapshot_is_not_persisted_twice(bench: &Bench) -> Verdict {
    let one = bench.preloaded().await?;
    let other = bench.another(&one).await?;
    change(&one, "bar", "baz")?;
    change(&other, "bar", "baz")?;
    one.persist().await?;
    other.persist().await?;
    ensure(meta(&one)? == meta(&other)?, "an equal snapshot was stored twice")?;
    change(&other, "bar", "qux")?;
    other.persist().await?;
    Ok(())
}

/// Locks exclude each other, as in Terraform's `TestRemoteLocks`, and an unlock with a wrong epoch is refused.
pub async fn locks_of_two_managers_are_exclusive(bench: &Bench) -> Verdict {
    let one = bench.preloaded().await?;
    let other = bench.another(&one).await?;
    let first = one.lock("one").await?;
    match other.lock("other").await {
        Err(Error::Locked { holder, .. }) => {
            ensure(holder.operation == "one", "the error names another holder")?;
        }
        other => {
            return Err(RuleViolation::new(format!(
                "two managers hold one stack: {other:?}"
            )));
        }
    }
    change(&other, "bar", "other")?;
    ensure(
        other.persist().await.is_err(),
        "a persist succeeded while another manager holds the lock",
    )?;
    change(&one, "bar", "one")?;
    one.persist().await?;
    ensure_conflict(
        one.unlock(state_core::Epoch(first.get() + 1)).await,
        "an unlock with another epoch",
    )?;
    ensure(
        other.lock("other").await.is_err(),
        "a refused unlock released the lock",
    )?;
    one.unlock(first).await?;
    ensure_conflict(one.unlock(first).await, "a second unlock")?;
    let second = other.lock("other").await?;
    ensure(second != first, "two locks have the same epoch")?;
    other.unlock(second).await?;
    Ok(())
}

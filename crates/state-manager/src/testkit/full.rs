//! Rules for one `StateManager` without concurrent clients: the steps of Terraform's `TestFull`, and further
//! guarantees.

use super::{Bench, RuleViolation, change, ensure, initial, meta, named, same, set_output, snapshot_of};
use state_core::persistent::{OutputReader, PersistentMeta, Persister, Refresher, Transient};
use state_core::testkit::conformance::Verdict;
use state_core::{Dependency, Entry, Error, ErrorKind, Relation};
use std::sync::Arc;

/// Passes the nine steps of Terraform's `TestFull`.
pub async fn terraform_test_full_steps_pass(bench: &Bench) -> Verdict {
    let manager = bench.preloaded().await?;
    manager.refresh().await?;
    ensure(
        same(&snapshot_of(&manager)?, &initial()?),
        "2: the refreshed snapshot differs from the persisted one",
    )?;
    let meta0 = meta(&manager)?;

    let mut current = change(&manager, "bar", "baz")?;
    ensure(
        snapshot_of(&manager)? == current,
        "4: the snapshot that was read differs from the one that was written",
    )?;
    manager.persist().await?;
    manager.refresh().await?;
    let meta1 = meta(&manager)?;
    ensure(meta1.lineage == meta0.lineage, "5: the lineage changed")?;
    ensure(
        meta1.relation_to(&meta0) == Relation::Newer,
        "5: a change didn't raise the serial",
    )?;

    manager.write(current.clone());
    manager.persist().await?;
    ensure(
        meta(&manager)?.serial == meta1.serial,
        "6: persisting an equal snapshot changed the serial",
    )?;

    set_output(&mut current, "serialCheck", "true");
    manager.write(current.clone());
    manager.persist().await?;
    let meta2 = meta(&manager)?;
    ensure(meta2.serial > meta1.serial, "7: a change didn't raise the serial")?;
    ensure(
        (&meta2.lineage, &meta2.version) == (&meta1.lineage, &meta1.version),
        "7: lineage or version changed",
    )?;

    let mut copy = snapshot_of(&manager)?;
    let another = Entry::leaf("module.another.null_resource.foo".parse()?, "null_resource");
    copy.entries.push(Arc::new(another));
    Arc::make_mut(&mut copy.entries[0]).kind = Some("changed".to_owned());
    ensure(
        snapshot_of(&manager)? != copy,
        "8: changing a copy changed the original",
    )?;
    ensure(
        state_core::encode_snapshot(&snapshot_of(&manager)?) == state_core::encode_snapshot(&current),
        "9: the bytes of the snapshot that was read differ from those of the one that was written",
    )?;
    manager.refresh().await?;
    ensure(
        same(&snapshot_of(&manager)?, &current),
        "9: the refreshed snapshot differs from the persisted one",
    )
}

/// An empty stack reads as none without an error, and persisting without a snapshot in memory writes nothing.
pub async fn stack_without_a_snapshot_reads_as_none(bench: &Bench) -> Verdict {
    let manager = bench.empty().await?;
    ensure(
        manager.read().is_none(),
        "memory contains a snapshot before the first refresh",
    )?;
    manager.refresh().await?;
    manager.persist().await?;
    ensure(
        manager.read().is_none() && manager.snapshot_meta().is_none(),
        "a snapshot was read although nothing was persisted",
    )?;
    match manager.root_outputs().await {
        Err(Error::NoCurrent { .. }) => {}
        other => {
            return Err(RuleViolation::new(format!(
                "outputs of an empty stack must fail with NoCurrent: {other:?}"
            )));
        }
    }
    manager.write(initial()?);
    ensure(
        manager.snapshot_meta().is_none(),
        "a write to memory made a persistent snapshot",
    )?;
    manager.persist().await?;
    ensure(meta(&manager)?.serial == 1, "the first serial isn't 1")?;
    ensure(
        !meta(&manager)?.lineage.is_empty(),
        "a persistent snapshot has no lineage",
    )
}

/// Outputs are read from the persistent snapshot, not from memory, with their sensitivity.
pub async fn outputs_are_read_from_the_persistent_snapshot(bench: &Bench) -> Verdict {
    let manager = bench.preloaded().await?;
    change(&manager, "only_in_memory", "x")?;
    let outputs = manager.root_outputs().await?;
    ensure(
        named(&outputs) == ["nonsensitive_output", "sensitive_output"],
        "the outputs differ from the persisted ones",
    )?;
    ensure(
        outputs.sensitive == ["sensitive_output"],
        "the sensitivity of an output is lost",
    )
}

/// A snapshot that breaks a rule is refused as a whole, and the manager's memory doesn't change.
pub async fn refused_snapshot_stays_in_memory_for_a_later_persist(bench: &Bench) -> Verdict {
    let manager = bench.preloaded().await?;
    let before = meta(&manager)?;
    let mut broken = change(&manager, "bar", "baz")?;
    let mut dangling = Entry::leaf("null_resource.bar".parse()?, "null_resource");
    dangling
        .depends_on
        .push(Dependency::Entry("null_resource.nowhere".parse()?));
    broken.entries.push(Arc::new(dangling));
    manager.write(broken.clone());
    match manager.persist().await {
        Err(error) if error.kind() == ErrorKind::Integrity => {}
        other => {
            return Err(RuleViolation::new(format!(
                "a snapshot that breaks a rule must fail with Integrity: {other:?}"
            )));
        }
    }
    ensure(
        snapshot_of(&manager)? == broken,
        "a refused snapshot was removed from memory",
    )?;
    ensure(
        manager.stack().snapshot_meta().await? == before,
        "a refused snapshot is visible",
    )?;
    broken.entries.pop();
    manager.write(broken);
    manager.persist().await?;
    ensure(
        meta(&manager)?.relation_to(&before) == Relation::Newer,
        "a persist after a refused one had no effect",
    )
}

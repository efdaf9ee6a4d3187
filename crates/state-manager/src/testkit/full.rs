//! One manager alone: `TestFull`, and what a single program may rely on beyond it.

use super::{Bench, RuleViolation, change, ensure, held, initial, meta, named, same, set_output};
use state_core::persistent::{OutputReader, PersistentMeta, Persister, Refresher, Transient};
use state_core::testkit::conformance::Verdict;
use state_core::{Dependency, Entry, Error, ErrorKind, Relation};
use std::sync::Arc;

/// The nine steps.
pub async fn the_steps_of_test_full(bench: &Bench) -> Verdict {
    let manager = bench.preloaded().await?;
    manager.refresh().await?;
    ensure(
        same(&held(&manager)?, &initial()?),
        "2: it isn't what was persisted",
    )?;
    let meta0 = meta(&manager)?;

    let mut current = change(&manager, "bar", "baz")?;
    ensure(
        held(&manager)? == current,
        "4: what was written isn't what is read",
    )?;
    manager.persist().await?;
    manager.refresh().await?;
    let meta1 = meta(&manager)?;
    ensure(meta1.lineage == meta0.lineage, "5: the lineage changed")?;
    ensure(
        meta1.relation_to(&meta0) == Relation::Newer,
        "5: a change has no higher serial",
    )?;

    manager.write(current.clone());
    manager.persist().await?;
    ensure(
        meta(&manager)?.serial == meta1.serial,
        "6: the same again took another serial",
    )?;

    set_output(&mut current, "serialCheck", "true");
    manager.write(current.clone());
    manager.persist().await?;
    let meta2 = meta(&manager)?;
    ensure(meta2.serial > meta1.serial, "7: a change has no higher serial")?;
    ensure(
        (&meta2.lineage, &meta2.version) == (&meta1.lineage, &meta1.version),
        "7: lineage or version changed",
    )?;

    let mut copy = held(&manager)?;
    let another = Entry::leaf("module.another.null_resource.foo".parse()?, "null_resource");
    copy.entries.push(Arc::new(another));
    Arc::make_mut(&mut copy.entries[0]).kind = Some("changed".to_owned());
    ensure(
        held(&manager)? != copy,
        "8: a change of a copy is a change of the original",
    )?;
    ensure(
        state_core::encode_snapshot(&held(&manager)?) == state_core::encode_snapshot(&current),
        "9: what was written isn't what is read, byte for byte",
    )?;
    manager.refresh().await?;
    ensure(
        same(&held(&manager)?, &current),
        "9: what was persisted isn't what is refreshed",
    )
}

/// Nothing in the store is no error, and nothing in memory writes nothing.
pub async fn a_stack_without_a_snapshot_reads_as_none(bench: &Bench) -> Verdict {
    let manager = bench.empty().await?;
    ensure(
        manager.read().is_none(),
        "there is a snapshot before the first refresh",
    )?;
    manager.refresh().await?;
    manager.persist().await?;
    ensure(
        manager.read().is_none() && manager.snapshot_meta().is_none(),
        "there is a snapshot where nothing was persisted",
    )?;
    match manager.root_outputs().await {
        Err(Error::NoCurrent { .. }) => {}
        other => return Err(RuleViolation::new(format!("outputs of nothing: {other:?}"))),
    }
    manager.write(initial()?);
    ensure(
        manager.snapshot_meta().is_none(),
        "a write in memory made a persistent snapshot",
    )?;
    manager.persist().await?;
    ensure(meta(&manager)?.serial == 1, "the first serial isn't 1")?;
    ensure(
        !meta(&manager)?.lineage.is_empty(),
        "a persistent snapshot has no lineage",
    )
}

/// The outputs of the persistent snapshot, not of the one in memory, with their marks.
pub async fn outputs_are_read_alone(bench: &Bench) -> Verdict {
    let manager = bench.preloaded().await?;
    change(&manager, "only_in_memory", "x")?;
    let outputs = manager.root_outputs().await?;
    ensure(
        named(&outputs) == ["nonsensitive_output", "sensitive_output"],
        "the outputs aren't those that were persisted",
    )?;
    ensure(
        outputs.sensitive == ["sensitive_output"],
        "the mark of a secret output is lost",
    )
}

/// A snapshot that breaks a rule is refused as a whole, and the manager stays as it was.
pub async fn what_was_refused_is_kept_in_memory_and_can_be_persisted_later(bench: &Bench) -> Verdict {
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
                "a snapshot that breaks a rule: {other:?}"
            )));
        }
    }
    ensure(
        held(&manager)? == broken,
        "a refused snapshot is gone from memory",
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
        "a persist after a refused one took no effect",
    )
}

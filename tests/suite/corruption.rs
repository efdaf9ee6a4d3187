//! Promise P3 of `docs/architecture.md`: a changed or missing byte causes an error that names the file, or has no
//! visible effect.

mod damage;

use crate::store::{block_on, create, open};
use damage::{Damage, Files};
use state_core::head::SealingPolicy;
use state_core::testkit::run::scaled;
use state_core::{
    Address, Entry, FactoryInfo, Result, RevisionId, Snapshot, StackName, State, Timestamp, UpdateKind,
    UpdateResult,
};
use state_manager::{Intent, Revision, Session, Stack, UpdateRequest};
use state_tests::dice::{Dice, replay, seed};
use state_tests::workload;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Number of damaged files; [`scaled`] multiplies this number.
const CASES: u32 = 1_000;

/// Number of threads. Each thread damages its own copy of the store.
const THREADS: u64 = 2;

#[test]
fn damaged_file_is_named_in_an_error_or_changes_nothing() {
    let seed = seed(20_260_803);
    let replay = replay(seed);
    eprintln!("corruption: {replay}");
    let dir = tempfile::tempdir().expect("a folder");
    block_on(build(dir.path())).expect("a store");
    let intact = block_on(observe(dir.path())).expect("the store is intact");
    assert!(intact.contents.len() > 6, "the store must have several revisions");

    let counted: Vec<Counts> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (dir, intact, replay) = (dir.path(), &intact, replay.as_str());
                scope.spawn(move || damage_repeatedly(dir, intact, Dice::new(seed + thread), replay))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no case fails"))
            .collect()
    });
    let mut total = Counts::new();
    for (class, (errors, same)) in counted.into_iter().flatten() {
        let (all_errors, all_same) = total.entry(class).or_default();
        *all_errors += errors;
        *all_same += same;
    }
    for (class, (errors, same)) in &total {
        eprintln!("corruption of {class}: {errors} errors that name the file, {same} times the same state");
    }
    let cases: u64 = total.values().map(|(errors, same)| errors + same).sum();
    assert_eq!(cases, u64::from(scaled(CASES)));
    for class in damage::CLASSES {
        assert!(
            total.contains_key(class),
            "files of class {class} must be damaged too"
        );
    }
}

/// By class of file: the number of errors that name the file, and the number of cases in which the damage had no
/// effect.
type Counts = BTreeMap<&'static str, (u64, u64)>;

/// Copies the store. Then repeatedly damages one file of the copy, compares the result of [`observe`] with that of the
/// intact store, and restores the file.
fn damage_repeatedly(dir: &Path, intact: &Observed, mut dice: Dice, replay: &str) -> Counts {
    let copy = tempfile::tempdir().expect("a folder");
    let files = Files::copy(dir, copy.path());
    let mut counts = Counts::new();
    for case in 0..u64::from(scaled(CASES)) / THREADS {
        let damage = Damage::random(&files, &mut dice);
        damage.inflict(copy.path());
        let (errors, same) = counts.entry(damage.class()).or_default();
        match block_on(observe(copy.path())) {
            Ok(observed) => {
                assert!(
                    observed == *intact,
                    "{damage}: a wrong state without an error; case {case}, {replay}"
                );
                *same += 1;
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    damage.is_named_in(&text),
                    "{damage}: the error doesn't name the file: {text}; case {case}, {replay}"
                );
                *errors += 1;
            }
        }
        damage.undo(copy.path());
    }
    counts
}

/// Everything that a reader can observe in a store.
#[derive(PartialEq)]
struct Observed {
    names: Vec<StackName>,
    tip: Snapshot,
    state: Arc<State>,
    history: Vec<Revision>,
    contents: Vec<(RevisionId, Snapshot)>,
    /// Number of journal frames that `verify` read.
    frames: u64,
    /// Number of snapshots that `verify` read.
    snapshots: u64,
}

/// Reads the whole store without a lock, and verifies it.
async fn observe(dir: &Path) -> Result<Observed> {
    let stacks = open(dir)?;
    let names = stacks.names().await?;
    let stack = stacks
        .get(&workload::STACK.parse()?)
        .await?
        .ok_or_else(|| state_core::Error::not_found("the stack"))?;
    let view = stack.tip().await?;
    let history = stack.history().await?;
    let mut contents = Vec::new();
    for revision in &history {
        contents.push((revision.id.clone(), stack.get(&revision.id).await?));
    }
    let found = stack.verify(true).await?;
    assert!(found.report.violations.is_empty(), "{:?}", found.report);
    Ok(Observed {
        names,
        tip: view.snapshot(),
        state: view.state,
        history,
        contents,
        frames: found.frames,
        snapshots: found.snapshots,
    })
}

/// Creates a store with an import, a detached revision (stored, but never current), several sessions, checkpoints, a
/// rollback and a clean close.
async fn build(dir: &Path) -> Result<()> {
    let stacks = create(dir)?;
    let stack = stacks
        .new_stack_with(&workload::STACK.parse()?, SealingPolicy::Plaintext)
        .await?;
    let session = stack.lock("build").await?;
    let imported = session
        .import(
            UpdateRequest::new(UpdateKind::Import),
            snapshot("imported")?,
            None,
        )
        .await?;
    session.write(snapshot("stored")?).await?;
    session.close().await?;
    for round in 0..3 {
        let session = stack.lock("build").await?;
        update(&session, &format!("small-{round}"), 4).await?;
        if round < 2 {
            bulk(&session, round).await?;
        }
        session.close().await?;
    }
    let session = stack.lock("build").await?;
    session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &imported)
        .await?;
    pending(&session).await?;
    session.close().await?;
    assert_all_classes_exist(&stack, dir).await
}

/// Asserts that the store has files of every class, several snapshots and several journal segments.
async fn assert_all_classes_exist(stack: &Stack, dir: &Path) -> Result<()> {
    let found = stack.verify(true).await?;
    assert!(
        found.snapshots > 2,
        "expected the snapshots of an import and of a detached revision, and checkpoints: {found:?}"
    );
    let files = Files::list(dir);
    for class in damage::CLASSES {
        assert!(files.of(class).next().is_some(), "no files of class {class}");
    }
    assert!(files.of("journal").count() > 4, "too few journal segments");
    Ok(())
}

fn snapshot(name: &str) -> Result<Snapshot> {
    let moment = Timestamp::new("2026-01-01T00:00:00Z");
    let mut snapshot = Snapshot::new(FactoryInfo::default(), workload::STACK, moment);
    for number in 0..5 {
        let tag = format!("{name}-{number}");
        snapshot
            .entries
            .push(Arc::new(workload::made(Address::new(tag.as_str())?, &tag)?));
    }
    Ok(snapshot)
}

async fn update(session: &Session, name: &str, entries: u64) -> Result<()> {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update).with_message(name))
        .await?;
    for number in 0..entries {
        let tag = format!("{name}-{number}");
        let entry = workload::made(Address::new(tag.as_str())?, &tag)?;
        let begun = update.begin(Intent::create(entry.clone())).await?;
        assert!(begun.succeed(Some(entry)).await?.is_empty());
    }
    update.finish(UpdateResult::Succeeded).await?;
    Ok(())
}

/// Writes one entry four times with large outputs, so that a checkpoint is due, and then once with small outputs.
async fn bulk(session: &Session, round: u64) -> Result<()> {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await?;
    let tags = (0..4).map(|number| format!("{}-{round}-{number}", workload::LARGE));
    for tag in tags.chain([format!("small-again-{round}")]) {
        let address = Address::new("bulk")?;
        let intended = workload::intended(address.clone())?;
        let exists = session.state().entry(&intended.key()).is_some();
        let intent = if exists {
            Intent::update(intended)
        } else {
            Intent::create(intended)
        };
        let begun = update.begin(intent).await?;
        assert!(
            begun
                .succeed(Some(workload::made(address, &tag)?))
                .await?
                .is_empty()
        );
    }
    update.finish(UpdateResult::Succeeded).await?;
    Ok(())
}

/// Leaves an operation pending, so that the test detects damage that hides pending operations.
async fn pending(session: &Session) -> Result<()> {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await?;
    let entry = Entry::leaf(Address::new("pending")?, "thing");
    drop(update.begin(Intent::create(entry)).await?);
    update.finish(UpdateResult::Failed).await?;
    Ok(())
}

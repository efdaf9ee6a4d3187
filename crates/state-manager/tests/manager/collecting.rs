//! Collection of history: revisions that the retention keeps don't change, dropped revisions are reported as collected,
//! and their objects are deleted after the grace period.

mod declined;
mod interrupted;
mod laws;
#[cfg(feature = "fs")]
mod racing;

use super::*;
use state_core::backend::{CollectableStore, ObjectKind, StoredItemName};
use state_core::{
    Backend, Clock, Error, ErrorKind, FactoryInfo, LogLevel, LogLine, RevisionId, Slot, Snapshot, Timestamp,
};
use state_manager::{CollectionReport, Retention};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A stack on a clock that the test controls.
struct Driver {
    backend: MemoryBackend,
    clock: Arc<ManualClock>,
    stack: Stack,
}

impl Driver {
    async fn new() -> Self {
        let backend = MemoryBackend::default();
        let clock = Arc::new(ManualClock::default());
        let stack = on(Arc::new(backend.clone()), &clock)
            .new_stack_with(&"shop/production".parse().unwrap(), SealingPolicy::Plaintext)
            .await
            .unwrap();
        Self {
            backend,
            clock,
            stack,
        }
    }

    /// A stack with one revision for each day, each made by its own session. The last revision is a day old. Also
    /// returns the revisions, oldest first.
    async fn of_days(days: usize) -> (Self, Vec<RevisionId>) {
        let driver = Self::new().await;
        let mut made = Vec::new();
        for day in 0..days {
            made.push(deploy(&driver.stack, &[&format!("e{day}")]).await);
            driver.clock.advance(DAY);
        }
        (driver, made)
    }

    /// Collects in a session of its own. Requires that the collection does what its plan said, which is computed
    /// before.
    async fn collect(&self, retention: &Retention) -> CollectionReport {
        let planned = self.stack.plan_collection(retention).await.unwrap();
        let session = self.stack.lock("gc").await.unwrap();
        let done = session.collect(retention).await.unwrap();
        session.close().await.unwrap();
        assert_eq!(
            planned.dropped, done.dropped,
            "the plan must match the collection"
        );
        assert_eq!(planned.deleted, done.deleted);
        done
    }

    /// Requires that a full verification finds no violation.
    async fn assert_valid(&self) {
        assert!(self.stack.verify(true).await.unwrap().report.is_valid());
    }

    /// Number of stored items, including all journal items.
    async fn stored_items(&self) -> usize {
        self.backend
            .stored_items(self.stack.lineage(), Slot(u64::MAX))
            .await
            .unwrap()
            .len()
    }
}

/// The stacks of a backend, on this clock.
fn on(backend: Arc<dyn Backend>, clock: &Arc<ManualClock>) -> Stacks {
    on_seeded(backend, clock, 1)
}

/// As [`on`], for another process: its nonces differ.
fn on_seeded(backend: Arc<dyn Backend>, clock: &Arc<ManualClock>, seed: u64) -> Stacks {
    let clock = Arc::clone(clock);
    Stacks::new(
        backend,
        Environment {
            clock,
            ..environment(seed)
        },
    )
}

/// A retention that keeps the revisions of the last `days` days and the last `last` revisions.
fn keep(days: u32, last: usize, grace: Duration) -> Retention {
    let mut retention = Retention::default();
    retention.keep_for = DAY * days;
    retention.keep_last = last;
    retention.grace = grace;
    retention
}

/// A snapshot with these resources.
fn snapshot(names: &[&str]) -> Snapshot {
    let mut snapshot = Snapshot::new(
        FactoryInfo::default(),
        "s",
        Timestamp::new("2026-01-01T00:00:00Z"),
    );
    snapshot.entries = names.iter().map(|name| Arc::new(entry(name, &[]))).collect();
    snapshot
}

/// Whether a result is the error that a revision was collected.
fn is_collected<T: std::fmt::Debug>(result: &state_core::Result<T>) -> bool {
    let Err(error) = result else { return false };
    matches!(error, Error::Collected { .. })
        && error.kind() == ErrorKind::NotFound
        && error.to_string().contains("was collected")
}

#[tokio::test]
async fn young_and_last_revisions_stay_and_others_are_collected() {
    for (days, last, dropped) in [
        (4, 2, 7),
        (3, 4, 6),
        (0, 4, 6),
        (100, 1, 0),
        (0, 100, 0),
        (0, 0, 9),
    ] {
        let (driver, made) = Driver::of_days(10).await;
        let mut before = Vec::new();
        for revision in &made {
            before.push(driver.stack.get(revision).await.unwrap());
        }
        let report = driver.collect(&keep(days, last, DAY)).await;
        assert_eq!(report.dropped, made[..dropped], "{days} days, {last} revisions");
        assert_eq!(
            (report.kept, report.oldest),
            (10 - dropped, Some(made[dropped].clone()))
        );
        assert_eq!(report.held_back, 0);
        assert_eq!(driver.stack.list().await.unwrap(), made[dropped..]);
        for (revision, before) in made.iter().zip(&before).skip(dropped) {
            assert_eq!(driver.stack.get(revision).await.unwrap(), *before);
        }
        for revision in &made[..dropped] {
            assert!(is_collected(&driver.stack.get(revision).await));
        }
        driver.assert_valid().await;
    }
}

#[tokio::test]
async fn every_query_reports_a_collected_revision() {
    let (driver, made) = Driver::of_days(5).await;
    driver.collect(&keep(0, 1, Duration::ZERO)).await;
    let stack = &driver.stack;
    assert_eq!(stack.collected_before().await.unwrap(), Some(made[4].serial()));
    let session = stack.lock("x").await.unwrap();
    let request = || UpdateRequest::new(UpdateKind::Rollback);
    assert!(is_collected(&session.rollback(request(), &made[0]).await));
    assert!(is_collected(&session.set_current(&made[1]).await));
    assert!(is_collected(&session.undo(String::new()).await));
    session.delete(&made[0]).await.unwrap();
    session.close().await.unwrap();
    assert!(is_collected(&stack.blame(&address("e0"), Some(&made[0])).await));
    let blame = stack.blame(&address("e0"), None).await.unwrap();
    assert!(
        !blame.lines.is_empty(),
        "older properties must be attributed to the beginning of history"
    );
    assert_eq!(stack.history().await.unwrap().len(), 1);
    assert_eq!(stack.history_page(None, 10).await.unwrap().len(), 1);
    let mut revisions = stack.revisions().await.unwrap();
    assert_eq!(revisions.next().await.unwrap().unwrap().id, made[4]);
    assert!(revisions.next().await.unwrap().is_none());
    let unknown = stack
        .get(&"99-0123456789abcdef".parse().unwrap())
        .await
        .unwrap_err();
    assert!(matches!(unknown, Error::NotFound { .. }), "{unknown}");
}

#[tokio::test]
async fn dropped_items_are_deleted_only_after_the_grace_period() {
    let (driver, made) = Driver::of_days(6).await;
    let all = driver.stored_items().await;
    let retention = keep(0, 2, DAY);
    let first = driver.collect(&retention).await;
    assert_eq!((first.dropped.len(), first.deleted.files), (4, 0));
    let waiting = first.waiting.unwrap();
    assert_eq!(waiting.until.as_str(), "2026-01-08T00:00:00Z");
    assert!(waiting.amount.files > 0 && waiting.amount.bytes > 0);
    assert!(driver.stored_items().await > all, "nothing may be deleted yet");

    driver.clock.advance(23 * HOUR);
    let second = driver.collect(&retention).await;
    assert!(second.is_idle(), "{second:?}");
    assert_eq!(second.waiting.as_ref(), Some(&waiting));

    driver.clock.advance(HOUR);
    let before = driver.stored_items().await;
    let third = driver.collect(&retention).await;
    assert_eq!(third.deleted, waiting.amount);
    assert_eq!(third.waiting, None);
    // The session of the collection added one fence.
    let gone = usize::try_from(third.deleted.files).unwrap();
    assert_eq!(driver.stored_items().await, before + 1 - gone);
    assert!(
        driver.collect(&retention).await.is_idle(),
        "a repeated collection must have nothing to do"
    );
    assert_eq!(driver.stack.list().await.unwrap(), made[4..]);
    driver.assert_valid().await;
}

#[tokio::test]
async fn hourly_collections_do_not_postpone_the_deletion() {
    let (driver, _) = Driver::of_days(4).await;
    let retention = keep(0, 1, DAY);
    let mut deleted = 0;
    for round in 0..50 {
        deploy(&driver.stack, &[&format!("more{round}")]).await;
        deleted += driver.collect(&retention).await.deleted.files;
        driver.clock.advance(HOUR);
    }
    assert!(deleted > 50, "{deleted}");
    driver.assert_valid().await;
}

#[tokio::test]
async fn planning_a_collection_changes_nothing() {
    let (driver, made) = Driver::of_days(5).await;
    let head = driver.backend.read_head(driver.stack.lineage()).await.unwrap();
    let stored_items = driver.stored_items().await;
    let planned = driver
        .stack
        .plan_collection(&keep(0, 1, Duration::ZERO))
        .await
        .unwrap();
    assert_eq!(planned.dropped, made[..4]);
    assert!(planned.deleted.files > 0);
    assert_eq!(
        driver.backend.read_head(driver.stack.lineage()).await.unwrap(),
        head
    );
    assert_eq!(driver.stored_items().await, stored_items);
    assert_eq!(driver.stack.list().await.unwrap(), made);
}

/// The journal can be cut only where a writer took the lock, or at a checkpoint. The revisions of one session without a
/// checkpoint are therefore dropped together or not at all.
#[tokio::test]
async fn revisions_without_a_cut_point_are_held_back() {
    let driver = Driver::new().await;
    let session = driver.stack.lock("deploy").await.unwrap();
    for round in 0..5 {
        let update = start(&session).await;
        create(&update, entry(&format!("e{round}"), &[])).await;
        update.finish(UpdateResult::Succeeded).await.unwrap();
    }
    session.close().await.unwrap();
    let report = driver.collect(&keep(0, 2, Duration::ZERO)).await;
    assert_eq!((report.dropped.len(), report.held_back, report.kept), (0, 3, 5));
    let last = deploy(&driver.stack, &["f"]).await;
    let report = driver.collect(&keep(0, 1, Duration::ZERO)).await;
    assert_eq!((report.dropped.len(), report.held_back), (5, 0));
    assert_eq!(driver.stack.list().await.unwrap(), [last]);
    driver.assert_valid().await;
}

#[tokio::test]
async fn objects_of_a_deleted_revision_are_collected() {
    let driver = Driver::new().await;
    deploy(&driver.stack, &["a"]).await;
    let session = driver.stack.lock("x").await.unwrap();
    let one = session.write(snapshot(&["b"])).await.unwrap();
    let two = session.write(snapshot(&["c"])).await.unwrap();
    session.delete(&one).await.unwrap();
    session.close().await.unwrap();
    let list = async |kind| {
        driver
            .backend
            .list(driver.stack.lineage(), kind)
            .await
            .unwrap()
            .len()
    };
    assert_eq!(
        (list(ObjectKind::Snapshot).await, list(ObjectKind::Update).await),
        (2, 0)
    );
    let report = driver.collect(&keep(100, 100, DAY)).await;
    assert_eq!((report.dropped.len(), report.forgotten), (0, vec![one.clone()]));
    assert_eq!(report.waiting.unwrap().amount.files, 1);
    driver.clock.advance(DAY);
    assert_eq!(driver.collect(&keep(100, 100, DAY)).await.deleted.files, 1);
    assert_eq!(
        (list(ObjectKind::Snapshot).await, list(ObjectKind::Update).await),
        (1, 0)
    );
    // The next session must not store anything of the deleted revision again.
    deploy(&driver.stack, &["d"]).await;
    assert!(driver.collect(&keep(100, 100, DAY)).await.is_idle());
    assert_eq!(
        driver.stack.get(&one).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(driver.stack.get(&two).await.unwrap().entries.len(), 1);
    driver.assert_valid().await;
}

#[tokio::test]
async fn current_revision_survives_collection_in_open_update() {
    let driver = Driver::new().await;
    deploy(&driver.stack, &["old"]).await;
    let current = deploy(&driver.stack, &["a"]).await;
    let session = driver.stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    for round in 0..12 {
        create(&update, heavy(&format!("e{round:02}"), 200_000)).await;
    }
    let report = session.collect(&keep(0, 0, Duration::ZERO)).await.unwrap();
    assert_eq!(report.dropped.len(), 1);
    assert_eq!(driver.stack.current_rev().await.unwrap(), current);
    assert_eq!(driver.stack.current().await.unwrap().entries.len(), 2);
    create(&update, entry("last", &[])).await;
    let made = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(driver.stack.get(&made).await.unwrap().entries.len(), 15);
    assert_eq!(driver.stack.get(&current).await.unwrap().entries.len(), 2);
    driver.assert_valid().await;
}

#[tokio::test]
async fn logs_are_collected_with_their_revisions() {
    let driver = Driver::new().await;
    for round in 0..3 {
        let session = driver.stack.lock("deploy").await.unwrap();
        let update = start(&session).await;
        let time = driver.clock.now();
        update.log(&LogLine::new(time, LogLevel::Info, format!("round {round}")));
        update.finish(UpdateResult::Succeeded).await.unwrap();
        session.close().await.unwrap();
    }
    let count_lines = async || {
        driver
            .stack
            .logs(&state_manager::LogQuery::default())
            .await
            .unwrap()
            .len()
    };
    assert_eq!(count_lines().await, 3);
    driver.collect(&keep(0, 1, DAY)).await;
    assert_eq!(count_lines().await, 1);
    driver.clock.advance(DAY);
    driver.collect(&keep(0, 1, DAY)).await;
    let logs = driver
        .backend
        .list(driver.stack.lineage(), ObjectKind::Log)
        .await
        .unwrap();
    assert_eq!((count_lines().await, logs.len()), (1, 1));
}

#[tokio::test]
async fn concurrent_imports_survive_collections() {
    let driver = Driver::new().await;
    let session = driver.stack.lock("x").await.unwrap();
    let imports = async {
        for round in 0..20 {
            let names = format!("e{round}");
            session
                .import(UpdateRequest::new(UpdateKind::Import), snapshot(&[&names]), None)
                .await
                .unwrap();
            tokio::task::yield_now().await;
        }
    };
    let collections = async {
        for _ in 0..20 {
            session.collect(&keep(0, 1, Duration::ZERO)).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(imports, collections);
    session.close().await.unwrap();
    driver.assert_valid().await;
    for revision in driver.stack.list().await.unwrap() {
        driver.stack.get(&revision).await.unwrap();
    }
}

#[tokio::test]
async fn rename_works_after_a_collection() {
    let (driver, made) = Driver::of_days(3).await;
    driver.collect(&keep(0, 1, Duration::ZERO)).await;
    let stacks = on(Arc::new(driver.backend.clone()), &driver.clock);
    let live = "shop/live".parse().unwrap();
    stacks.rename(driver.stack.name(), &live).await.unwrap();
    let stack = stacks.get(&live).await.unwrap().unwrap();
    assert_eq!(stack.list().await.unwrap(), made[2..]);
    deploy(&stack, &["more"]).await;
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

/// A resource whose outputs have about this many bytes.
fn heavy(name: &str, bytes: usize) -> Entry {
    let outputs = state_core::Json::parse(&format!(r#"{{"data":"{}"}}"#, "x".repeat(bytes))).unwrap();
    Entry {
        outputs: state_core::Properties::new(outputs),
        ..entry(name, &[])
    }
}

/// The names of all stored items, except for journal items from the floor on.
async fn stored(backend: &dyn Backend, stack: &Stack) -> Vec<StoredItemName> {
    let floor = backend.read_head(stack.lineage()).await.unwrap().floor;
    let store = backend.collectable().unwrap();
    let stored_items = store.stored_items(stack.lineage(), floor).await.unwrap();
    let mut names: Vec<_> = stored_items.into_iter().map(|item| item.name).collect();
    names.sort();
    names
}

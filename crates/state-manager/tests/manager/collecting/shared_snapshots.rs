//! Snapshots that frames on both sides of a cut name: a collection keeps them.

use super::*;
use state_core::backend::ObjectName;

/// A rollback stores no snapshot: its frame names the snapshot of the earlier import.
#[tokio::test]
async fn snapshot_before_the_cut_stays_if_a_kept_frame_names_it() {
    let driver = Driver::new().await;
    let session = driver.stack.lock("import").await.unwrap();
    let request = || UpdateRequest::new(UpdateKind::Import);
    let imported = session
        .import(request(), snapshot(&["a", "b"]), None)
        .await
        .unwrap();
    let other = session.import(request(), snapshot(&["c"]), None).await.unwrap();
    session.close().await.unwrap();
    let session = driver.stack.lock("rollback").await.unwrap();
    let last = session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &imported)
        .await
        .unwrap();
    session.close().await.unwrap();
    let before = driver.stack.get(&last).await.unwrap();
    let report = driver.collect(&keep(0, 1, Duration::ZERO)).await;
    assert_eq!(report.dropped, [imported, other]);
    let head = driver.backend.read_head(driver.stack.lineage()).await.unwrap();
    let stored = driver
        .backend
        .list(head.lineage, ObjectKind::Snapshot)
        .await
        .unwrap();
    let is_before_the_cut =
        |name: &ObjectName| matches!(name, ObjectName::Snapshot { slot, .. } if *slot < head.floor);
    assert!(
        stored.iter().any(is_before_the_cut),
        "{stored:?} below {}",
        head.floor
    );
    assert_eq!(driver.stack.get(&last).await.unwrap(), before);
    assert_eq!(names(&driver.stack).await, ["a", "b"]);
    driver.assert_valid().await;
}

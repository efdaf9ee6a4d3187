//! Readers that read files while a collection deletes them: they get the correct content, or the error that the
//! revision was collected. A plan of a collection needs no second try, and a copy says that it needs one.

use super::*;
use state_manager::state_backend_fs::FsBackend;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs without a grace period, so readers have no guaranteed time to finish.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reader_gets_content_or_a_collected_error() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let root = folder.path().join("store");
    let stack = on(Arc::new(FsBackend::create(&root).unwrap()), &clock)
        .new_stack_with(&"shop/production".parse().unwrap(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    deploy(&stack, &["first"]).await;
    let done = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for _ in 0..3 {
        let stacks = on(Arc::new(FsBackend::open(&root).unwrap()), &clock);
        let stack = stacks.get(stack.name()).await.unwrap().unwrap();
        readers.push(tokio::spawn(read(stack, Arc::clone(&done))));
    }
    for round in 0..30 {
        let session = stack.lock("x").await.unwrap();
        let imported = snapshot(&["first", &format!("e{round}")]);
        let request = UpdateRequest::new(UpdateKind::Import);
        session.import(request, imported, None).await.unwrap();
        session.collect(&keep(0, 2, Duration::ZERO)).await.unwrap();
        session.close().await.unwrap();
        clock.advance(HOUR);
    }
    done.store(true, Ordering::Relaxed);
    let mut reads = 0;
    for reader in readers {
        reads += reader.await.unwrap();
    }
    assert!(reads > 30, "{reads}");
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

/// Reads all revisions again and again until `done` is set. Returns the number of reads.
async fn read(stack: Stack, done: Arc<AtomicBool>) -> usize {
    let mut reads = 0;
    while !done.load(Ordering::Relaxed) {
        for revision in stack.list().await.unwrap() {
            let held = stack.get(&revision).await;
            match &held {
                Ok(held) => assert!(held.entries.iter().any(|entry| entry.address == address("first"))),
                Err(_) => assert!(is_collected(&held), "{held:?}"),
            }
            reads += 1;
        }
        assert!(stack.verify(true).await.unwrap().report.is_valid());
        assert!(!stack.history().await.unwrap().is_empty());
        stack.plan_collection(&keep(0, 2, Duration::ZERO)).await.unwrap();
        let elsewhere = on(Arc::new(MemoryBackend::default()), &Arc::default());
        if let Err(error) = elsewhere.copy_from(&stack).await {
            assert!(
                error.to_string().contains("was collected while it was copied"),
                "{error}"
            );
        }
        assert!(stack.current().await.unwrap().entries.len() <= 2);
    }
    reads
}

//! One fault at every request of thirty operations: with retries, no caller notices it.

use super::*;
use model::{Actor, new_stack};
use oracle::{Oracle, WriteOutcome};
use state_backend_object_store::testkit::StoreFault;
use state_core::backend::RemoteStore;
use state_core::{ErrorKind, Lineage, Result};

/// Runs thirty operations of two writers, of which the second takes over from the first twice. All results must be
/// the same as without the fault.
async fn thirty([one, other]: [ObjectBackend; 2]) -> Result<(Arc<Oracle>, Lineage)> {
    let (entropy, oracle) = (Arc::new(SeededEntropy::new(7)), Arc::<Oracle>::default());
    let lineage = new_stack(&one, &entropy).await?;
    let mut anna = Actor::new("anna", one, lineage, &entropy, &oracle);
    let mut bert = Actor::new("bert", other, lineage, &entropy, &oracle);
    anna.rename().await?;
    anna.acquire(None).await?;
    for _ in 0..3 {
        anna.append().await?;
    }
    anna.freeze().await?;
    bert.check_reader_view().await?;
    anna.checkpoint().await?;
    anna.append().await?;
    let locked = bert.acquire(None).await.unwrap_err();
    assert_eq!(locked.kind(), ErrorKind::Locked, "{locked}");
    anna.append().await?;
    anna.release().await?;
    bert.acquire(None).await?;
    bert.append().await?;
    bert.freeze().await?;
    bert.rename().await?;
    bert.append().await?;
    anna.break_lock().await?;
    let fenced = bert.append().await.unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Fenced, "{fenced}");
    anna.append().await?;
    anna.checkpoint().await?;
    anna.append().await?;
    anna.collect().await?;
    bert.check_reader_view().await?;
    anna.append().await?;
    bert.break_lock().await?;
    bert.append().await?;
    bert.collect().await?;
    bert.append().await?;
    bert.freeze().await?;
    bert.release().await?;
    anna.check_reader_view().await?;
    Ok((oracle, lineage))
}

/// A store with two handles that have opened it, since the first request isn't retried for long.
async fn opened() -> (FaultyStore, [ObjectBackend; 2]) {
    let store = faulty();
    let pair = [backend(&store), backend(&store)];
    for handle in &pair {
        handle.ready().await.unwrap();
    }
    (store, pair)
}

#[tokio::test(start_paused = true)]
async fn one_fault_anywhere_in_thirty_operations_is_retried() {
    let (clean, pair) = opened().await;
    let before = clean.counts().all();
    thirty(pair).await.unwrap();
    let requests = clean.counts().all() - before;
    assert!((80..400).contains(&requests), "{requests}");
    for fault in StoreFault::ALL {
        for at in 0..requests {
            let (store, pair) = opened().await;
            store.fail(at, fault);
            let run = thirty(pair).await;
            let (oracle, lineage) =
                run.unwrap_or_else(|error| panic!("{fault:?} at request {at}: {error:?}"));
            store.heal();
            store.deliver().await;
            oracle.judge_store(&backend(&store), lineage).await;
            assert_eq!(
                oracle.count(WriteOutcome::Acknowledged),
                12,
                "{fault:?} at request {at}"
            );
            assert_eq!(
                oracle.count(WriteOutcome::Unknown),
                0,
                "{fault:?} at request {at}"
            );
        }
    }
}

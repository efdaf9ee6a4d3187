//! Every HTTP status in place of an effect or after it, and stale reads, at every request of a run of two writers: what
//! was acknowledged stays, what was refused isn't there, and the next writer can take over.

use super::*;
use model::{Actor, Oracle, new_stack};
use state_backend_object_store::testkit::StoreFault;
use state_core::backend::RemoteStore;
use state_core::{Lineage, Result};

/// Two writers, of which the second takes over; up to the first error.
async fn run(anna: &mut Actor, bert: &mut Actor) -> Result<()> {
    anna.rename().await?;
    anna.acquire(None).await?;
    anna.append().await?;
    anna.freeze().await?;
    anna.checkpoint().await?;
    anna.append().await?;
    bert.look().await?;
    bert.break_lock().await?;
    bert.append().await?;
    bert.release().await
}

/// Runs with one fault. Gives back what the run ended with, and how many requests it made.
async fn with_fault(at: usize, fault: StoreFault) -> (Result<()>, usize) {
    let store = faulty();
    let (entropy, oracle) = (Arc::new(SeededEntropy::new(7)), Arc::<Oracle>::default());
    let pair = [backend(&store), backend(&store)];
    for handle in &pair {
        handle.ready().await.unwrap();
    }
    let lineage: Lineage = new_stack(&pair[0], &entropy).await.unwrap();
    let actor = |name, backend| Actor::new(name, backend, lineage, &entropy, &oracle);
    let [one, other] = pair;
    let (mut anna, mut bert) = (actor("anna", one), actor("bert", other));
    let before = store.counts().all();
    store.fail(at, fault);
    let result = run(&mut anna, &mut bert).await;
    let requests = store.counts().all() - before;
    store.heal();
    store.deliver().await;
    oracle.judge_store(&backend(&store), lineage).await;
    let mut next = actor("next", backend(&store));
    next.break_lock().await.unwrap();
    next.append().await.unwrap();
    oracle.judge_store(&backend(&store), lineage).await;
    (result, requests)
}

#[tokio::test(start_paused = true)]
async fn any_status_anywhere_loses_nothing_that_was_acknowledged() {
    let (clean, requests) = with_fault(usize::MAX / 2, StoreFault::Before).await;
    clean.unwrap();
    let mut failed = std::collections::BTreeMap::<String, usize>::new();
    for status in StoreFault::STATUSES {
        for fault in [StoreFault::Status(status), StoreFault::StatusAfter(status)] {
            for at in 0..requests {
                if let (Err(error), _) = with_fault(at, fault).await {
                    let ending = format!("{fault:?}: {:?}", error.kind());
                    *failed.entry(ending).or_default() += 1;
                }
            }
        }
    }
    eprintln!("statuses at {requests} requests: {failed:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_stale_read_anywhere_loses_nothing_that_was_acknowledged() {
    let (_, requests) = with_fault(usize::MAX / 2, StoreFault::Before).await;
    let mut failed = 0;
    for at in 0..requests {
        let (result, _) = with_fault(at, StoreFault::StaleRead).await;
        failed += usize::from(result.is_err());
    }
    eprintln!("stale reads at {requests} requests: {failed} runs ended with an error");
}

//! Leases: their duration, and the operations of a holder that lost its lease.

use super::*;
use model::{Actor, new_stack};
use oracle::{Oracle, WriteOutcome};
use state_core::backend::{Acquire, RemoteStore};
use state_core::{Backend, Error, ErrorKind, Lineage};
use std::task::Poll;
use std::time::Duration;

struct Pair {
    anna: Actor,
    bert: Actor,
    /// The faulty store that anna uses.
    line: FaultyStore,
    lineage: Lineage,
    oracle: Arc<Oracle>,
}

async fn pair() -> Pair {
    let store: Arc<InMemory> = Arc::default();
    let (line, direct) = (FaultyStore::new(store.clone()), FaultyStore::new(store));
    let (entropy, oracle) = (Arc::new(SeededEntropy::new(3)), Arc::<Oracle>::default());
    let lineage = new_stack(&backend(&line), &entropy).await.unwrap();
    let actor = |who, line| Actor::new(who, backend(line), lineage, &entropy, &oracle);
    Pair {
        anna: actor("anna", &line),
        bert: actor("bert", &direct),
        line,
        lineage,
        oracle,
    }
}

/// Tries to acquire every second, as `--lock-timeout` does; returns the time it took.
async fn wait_for_lock(actor: &mut Actor, most: u64) -> Option<u64> {
    for second in 0..most {
        match actor.acquire(None).await {
            Ok(()) => return Some(second),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn running_holder_keeps_its_lease_by_renewals() {
    let Pair {
        mut anna,
        mut bert,
        line,
        ..
    } = pair().await;
    anna.acquire(None).await.unwrap();
    let before = line.counts();
    assert_eq!(wait_for_lock(&mut bert, 600).await, None);
    let renewals = line.counts().all() - before.all();
    assert!(
        (38..=42).contains(&renewals),
        "one request every 15 seconds: {renewals}"
    );
    anna.append().await.unwrap();
    anna.release().await.unwrap();
    assert_eq!(wait_for_lock(&mut bert, 1).await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn check_sends_no_request_while_the_lease_surely_holds() {
    let Pair {
        mut anna,
        mut bert,
        line,
        ..
    } = pair().await;
    anna.acquire(None).await.unwrap();
    let (writer, _) = anna.held.clone().unwrap();
    let before = line.counts().all();
    for _ in 0..1000 {
        writer.check_held().await.unwrap();
    }
    assert_eq!(line.counts().all(), before);
    line.pause();
    wait_for_lock(&mut bert, 200).await.unwrap();
    line.resume();
    let before = line.counts().all();
    let error = writer.check_held().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert!(line.counts().all() > before, "the store was asked");
}

#[tokio::test(start_paused = true)]
async fn holder_asks_the_store_one_margin_before_its_lease_ends() {
    let Pair { mut anna, line, .. } = pair().await;
    let millisecond = Duration::from_millis(1);
    anna.acquire(None).await.unwrap();
    let (writer, _) = anna.held.clone().unwrap();
    // No renewal gets an answer, so the lease counts from its acquisition.
    line.pause();
    tokio::time::sleep(options().lease - options().margin - millisecond).await;
    let trusted = futures_util::poll!(&mut writer.check_held());
    assert!(matches!(trusted, Poll::Ready(Ok(()))), "{trusted:?}");
    tokio::time::sleep(millisecond).await;
    assert!(futures_util::poll!(&mut writer.check_held()).is_pending());
}

#[tokio::test(start_paused = true)]
async fn disconnected_holder_is_fenced_when_it_returns() {
    let Pair {
        mut anna,
        mut bert,
        line,
        lineage,
        oracle,
    } = pair().await;
    anna.acquire(None).await.unwrap();
    anna.append().await.unwrap();
    line.pause();
    let waited = wait_for_lock(&mut bert, 200).await.unwrap();
    // The age of the lease by the clock of the store, which runs in real time here, counts as waited.
    assert!((65..=70).contains(&waited), "the lease and a margin: {waited} s");
    bert.append().await.unwrap();
    line.resume();
    // Anna's view is stale by now, and she may write before she learns that.
    match anna.append().await.unwrap_err() {
        Error::Fenced { indeterminate, .. } => assert!(!indeterminate),
        other => panic!("{other:?}"),
    }
    bert.append().await.unwrap();
    oracle.judge_store(&bert.backend, lineage).await;
    assert_eq!(oracle.count(WriteOutcome::Acknowledged), 3);
}

#[tokio::test(start_paused = true)]
async fn append_delayed_until_after_a_takeover_is_not_acknowledged() {
    let Pair {
        mut anna,
        mut bert,
        line,
        lineage,
        oracle,
    } = pair().await;
    anna.acquire(None).await.unwrap();
    anna.append().await.unwrap();
    line.pause();
    let standing = async {
        let error = anna.append().await.unwrap_err();
        (anna, error)
    };
    let meanwhile = async {
        wait_for_lock(&mut bert, 200).await.unwrap();
        bert.append().await.unwrap();
        line.resume();
    };
    let ((anna, error), ()) = futures_util::join!(standing, meanwhile);
    assert!(
        matches!(error.kind(), ErrorKind::Fenced | ErrorKind::Indeterminate),
        "{error:?}"
    );
    drop(anna);
    oracle.judge_store(&bert.backend, lineage).await;
}

#[tokio::test(start_paused = true)]
async fn expired_lease_is_renewed_before_the_next_append() {
    let Pair {
        mut anna,
        line,
        lineage,
        oracle,
        ..
    } = pair().await;
    anna.acquire(None).await.unwrap();
    line.pause();
    tokio::time::sleep(Duration::from_secs(300)).await;
    line.resume();
    anna.append().await.unwrap();
    oracle.judge_store(&anna.backend, lineage).await;
}

#[tokio::test(start_paused = true)]
async fn disconnected_writer_without_lease_writes_nothing() {
    let Pair {
        mut anna,
        mut bert,
        line,
        lineage,
        oracle,
    } = pair().await;
    anna.acquire(None).await.unwrap();
    line.pause();
    tokio::time::sleep(Duration::from_secs(300)).await;
    let error = anna.append().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");
    assert_eq!(wait_for_lock(&mut bert, 200).await.map(|_| ()), Some(()));
    line.resume();
    tokio::time::sleep(Duration::from_secs(60)).await;
    oracle.judge_store(&bert.backend, lineage).await;
}

#[tokio::test(start_paused = true)]
async fn lock_of_a_dropped_acquire_is_released() {
    let Pair {
        mut bert,
        line,
        lineage,
        ..
    } = pair().await;
    let store = backend(&line);
    store.ready().await.unwrap();
    line.interleave(1);
    let entropy = SeededEntropy::new(9);
    let request = Acquire {
        holder: state_core::backend::Holder::new("carl", "host", 1, "test", None),
        break_epoch: None,
        head_nonce: state_core::Nonce::random(&entropy),
        fence_nonce: state_core::Nonce::random(&entropy),
    };
    {
        let mut waiting = store.acquire(lineage, &request);
        for _ in 0..10 {
            assert!(futures_util::poll!(&mut waiting).is_pending());
            tokio::task::yield_now().await;
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(wait_for_lock(&mut bert, 1).await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn locked_error_names_the_lock_holder() {
    let Pair {
        mut anna,
        bert,
        lineage,
        ..
    } = pair().await;
    anna.acquire(None).await.unwrap();
    let status = bert.backend.lock_status(lineage).await.unwrap();
    assert_eq!(status.holder.unwrap().who, "anna");
    let mut bert = bert;
    match bert.acquire(None).await.unwrap_err() {
        Error::Locked { holder, .. } => assert_eq!(holder.who, "anna"),
        other => panic!("{other:?}"),
    }
}

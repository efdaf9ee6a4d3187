//! The first request to a store: what it waits for.

use super::*;
use futures_util::join;
use state_backend_object_store::testkit::StoreFault;
use state_core::ErrorKind;
use state_core::backend::RemoteStore;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Returns a store that another handle made.
async fn made() -> FaultyStore {
    let store = faulty();
    backend(&store).ready().await.unwrap();
    store
}

#[tokio::test(start_paused = true)]
async fn first_request_waits_for_a_slow_server() {
    let store = made().await;
    let handle = backend(&store);
    store.pause();
    let recovery = async {
        sleep(Duration::from_secs(15)).await;
        store.resume();
    };
    let (ready, ()) = join!(handle.ready(), recovery);
    ready.unwrap();
}

#[tokio::test(start_paused = true)]
async fn first_request_to_a_silent_server_ends() {
    let store = made().await;
    store.pause();
    let began = Instant::now();
    let error = backend(&store).ready().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(21), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn failing_server_is_reported_after_a_second() {
    let store = made().await;
    for request in 0..100 {
        store.fail(request, StoreFault::Before);
    }
    let began = Instant::now();
    let error = backend(&store).ready().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(2), "{took:?}");
}

//! Tests of the generic backend over an in-memory store with injected failures.

#![expect(clippy::unwrap_used, reason = "a test that fails during its setup may panic")]

mod conformance;
mod faults;
mod races;
mod store;

use state_backend_generic::{GenericBackend, KeyValueStore, Settings};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use store::MemoryStore;

fn backend(store: &MemoryStore) -> GenericBackend {
    let mut settings = Settings::new("test:");
    settings.deletes = true;
    let store: Arc<dyn KeyValueStore> = Arc::new(store.clone());
    GenericBackend::new(store, settings)
}

/// Polls a future until it is ready. Nothing wakes the future, so it is polled again at once, a million times at most.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1_000_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("the future stays pending");
}

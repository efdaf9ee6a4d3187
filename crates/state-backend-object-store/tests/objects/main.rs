//! Tests of stacks on object stores, on a store in memory with injected faults, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test that can't set up its case fails")]

mod compactions;
mod conformance;
mod disturbed;
mod faults;
mod first_contact;
mod history;
mod leases;
mod model;
mod oracle;
mod order;
mod schedules;
mod simulation;
mod statuses;
mod uploads;

use object_store::memory::InMemory;
use object_store::path::Path;
use state_backend_object_store::testkit::{FaultyStore, VirtualClock};
use state_backend_object_store::{ObjectBackend, Options, object_store};
use state_core::backend::Opening;
use state_core::testkit::clock::SeededEntropy;
use std::sync::Arc;

/// The default options, in virtual time.
fn options() -> Options {
    let mut options = Options::new("s3://bucket/a/prefix", Path::from("a/prefix"));
    // The store is known to be safe, and the tests count its requests, so it isn't probed.
    options.proof = None;
    // Fixed bits, so that equal seeds give equal runs.
    options.entropy = Arc::new(SeededEntropy::new(8));
    options.with_clock(Arc::new(VirtualClock::start()))
}

fn backend(store: &FaultyStore) -> ObjectBackend {
    ObjectBackend::new(Arc::new(store.clone()), options(), Opening::Create)
}

fn faulty() -> FaultyStore {
    FaultyStore::new(Arc::new(InMemory::new()))
}

//! Counts the entries that this process has encoded. Tests use it to check that a mutation encodes each entry once.

use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Returns the number of entries that this process has encoded so far, on all threads.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Counts one encoding; [`codec`](crate::codec) calls it.
pub(crate) fn add_one() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

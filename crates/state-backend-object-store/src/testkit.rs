//! Tools for tests (feature `testkit`): a store with injected faults and request counts, a store with an attacker, and
//! a clock on tokio's virtual time.
//!
//! ```
//! use object_store::memory::InMemory;
//! use state_backend_object_store::testkit::{FaultyStore, StoreFault};
//! use state_backend_object_store::object_store;
//! use std::sync::Arc;
//!
//! let store = FaultyStore::new(Arc::new(InMemory::new()));
//! store.fail(2, StoreFault::After); // the third request from now takes effect, and its answer is lost
//! assert_eq!(store.counts().all(), 0);
//! ```

mod clock;
mod faulty;
mod hostile;

pub use clock::VirtualClock;
pub use faulty::{FaultyStore, RequestCounts, StoreFault};
pub use hostile::HostileStore;

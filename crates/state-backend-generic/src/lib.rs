//! A backend of infrastructure state over any store that can create a key once and replace it if nobody else did.
//!
//! Implement [`KeyValueStore`] with its four methods, `get`, `create`, `compare_and_swap` and `list`, and
//! [`GenericBackend`] does the rest: locks, takeovers, fences, journals, heads, names, copies. `delete` is optional:
//! with it, history can be collected. The [`guide`] walks through a backend on SQLite.
//!
//! # What keeps two writers apart
//! The lock keeps them out of each other's way, the *fence* makes it safe. A new owner puts its epoch into the head,
//! reads the journal, and creates a fence in the first free slot. A stale owner, however long it slept, writes to the
//! first slot that it doesn't know: there is the fence, and its frame is refused; or its own frame is there already,
//! and then the new owner has read it. So an append is one request. Fences are never deleted.
//!
//! # Unknown outcomes
//! A request that was not answered may have taken effect. The generic layer reads the key back: every document and frame
//! holds a nonce, so the same bytes are the same write. If nothing is there, it sends the *same* bytes again. What can't
//! be settled within [`Settings::retry_timeout`] is [`Error::Indeterminate`](state_core::Error::Indeterminate): nothing
//! is cleaned up then, and the slot is never tried with another frame.

mod backend;
mod backoff;
mod collection;
#[cfg(doc)]
pub mod guide;
mod layout;
mod lease;
mod names;
mod owner;
mod prefetch;
mod reader;
mod settings;
mod settle;
mod stack;
mod store;
mod takeover;
mod writer;

pub use backend::GenericBackend;
pub use settings::Settings;
pub use store::{KeyValueStore, ListedKey, RequestError, Value, Version};

/// The parts of [`GenericBackend`], for backends that need more than it offers: leases, uploads, background work.
pub mod protocol {
    pub use crate::backoff::Backoff;
    pub use crate::collection::{delete, stored_items};
    pub use crate::layout::{JournalName, Lease, MAX_DOCUMENT, MAX_FRAME, MAX_OBJECT, StackPaths};
    pub use crate::lease::{LeaseTerms, NoExpiry};
    pub use crate::owner::{HeadGuard, Owner, Renewal};
    pub use crate::prefetch::SnapshotPrefetch;
    pub use crate::reader::read_journal;
    pub use crate::settle::{Created, SettledStore, Swapped};
    pub use crate::stack::{Stack, VersionedHead, adopt_stack};
    pub use crate::takeover::{HeldLease, Takeover, take_over};

    /// Name pointers.
    pub mod names {
        pub use crate::names::{list, read, swap};
    }
}

//! Implements a backend of infrastructure state over any store with an atomic create and an atomic compare-and-swap.
//!
//! Implement the four methods of [`KeyValueStore`], `get`, `create`, `compare_and_swap` and `list`;
//! [`GenericBackend`] adds locks, takeovers, fences, journals, heads, names and copies. `delete` is optional: with
//! it, old history can be deleted. The [`guide`] explains a backend on SQLite.
//!
//! # How concurrent writers are kept apart
//! The lock makes conflicts rare; the *fence* makes them harmless. A new owner writes its epoch into the head, reads
//! the journal, and creates a fence frame in the first free slot. A stale owner, however long it slept, appends to the
//! slot after the last frame that it has seen. If the fence occupies that slot, the stale frame is refused. If the
//! stale frame was stored first, the new owner has read it. Appending therefore takes a single request. Fences are
//! never deleted.
//!
//! # Requests with an unknown outcome
//! A request without an answer may have taken effect. The generic layer reads the key back. Every document and frame
//! contains a nonce, so equal bytes prove that the write succeeded. If the key doesn't exist, the layer sends the
//! *same* bytes again. An outcome that is still unknown after [`Settings::retry_timeout`] is reported as
//! [`Error::Indeterminate`](state_core::Error::Indeterminate): nothing is cleaned up then, and the slot is never
//! written with another frame.

mod backend;
mod backoff;
mod collection;
mod compactions;
mod copies;
#[cfg(doc)]
pub mod guide;
mod layout;
mod lease;
mod names;
mod owner;
mod prefetch;
mod reader;
mod repair;
mod settings;
mod settle;
mod stack;
mod store;
mod takeover;
mod writer;

pub use backend::GenericBackend;
pub use settings::Settings;
pub use store::{KeyValueStore, ListedKey, RequestError, Value, Version};

/// The building blocks of [`GenericBackend`], for backends that need more, such as leases, multipart uploads or
/// background work.
pub mod protocol {
    pub use crate::backoff::Backoff;
    pub use crate::collection::{delete, stored_items};
    pub use crate::copies::update_stack;
    pub use crate::layout::{JournalName, Lease, MAX_DOCUMENT, MAX_FRAME, MAX_OBJECT, StackPaths};
    pub use crate::lease::{LeaseTerms, NoExpiry};
    pub use crate::owner::{HeadGuard, Owner, Renewal};
    pub use crate::prefetch::{FetchedObjects, SeenDocuments};
    pub use crate::reader::{read_frames, read_journal};
    pub use crate::settle::{CreateOutcome, SettledStore, SwapOutcome};
    pub use crate::stack::{Stack, VersionedHead, adopt_stack};
    pub use crate::takeover::{HeldLease, Takeover, take_over};

    /// Functions that read and write single objects of a damaged store.
    pub mod repair {
        pub use crate::repair::{create, delete, entries, list, lock, lock_damage, read, renew, replace};
    }

    /// Functions that list, read and swap name pointers.
    pub mod names {
        pub use crate::names::{list, read, swap};
    }
}

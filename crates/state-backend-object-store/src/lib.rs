//! Infrastructure state on object stores: S3, GCS, Azure, and whatever implements [`object_store::ObjectStore`].
//!
//! [`ObjectBackend`] keeps a store of stacks under a prefix:
//!
//! ```text
//! format                                layout version                              made once
//! names/<project>/<stack>.json          → lineage, or a tombstone                   swapped
//! stacks/<lineage>/
//!   meta.json                           lineage                                     made once
//!   head.json                           base, epoch, name, compaction, …                  swapped
//!   lease.json                          who writes: epoch, holder, since when       swapped
//!   clock.json                          says what time it is at the store           replaced
//!   journal/<slot:020>                  one batch, or a fence                       made once
//!   journal/<slot:020>-<slot:020>-<digest16>   many of them in one object           made once
//!   snapshots/<slot:020>-<digest16>.json.zst                                        made once
//!   keys/, updates/, logs/                                                          made once
//! outputs/<lineage>/<serial:020>.json   for those who may read nothing else         made once
//! ```
//!
//! The store must be able to do two things: create an object and fail if it is there, and replace one and fail if
//! somebody else did. It must show what was written to whoever reads or lists next.
//!
//! # What keeps two writers apart
//! The *lease* keeps them out of each other's way: a minute, renewed every 15 seconds in the background. Others take it
//! when it was released, or when it stayed the same for a lease and a margin on their own clock, helped by its age by
//! the store's clock. Two hosts' clocks are never compared.
//!
//! The *fence* makes it safe. A new owner puts its epoch into the head, reads the journal, and creates a fence in the
//! first free slot. A stale owner, however long it slept, writes to the first slot that it doesn't know: there is the
//! fence, and its frame is refused; or its own frame is there already, and then the new owner has read it. So an append
//! is one request and asks nothing. Only when the lease isn't known to hold any more is it renewed first, and the head
//! read before the acknowledgement.
//!
//! # What an answer means
//! | the store says | it may be that | so |
//! |---|---|---|
//! | done | it is | acknowledged |
//! | the condition isn't met, 409, 412 | somebody else was quicker; or our own first try was | read back, compare the nonce |
//! | 5xx, 429, a reset, nothing | it had an effect, has none, or will | read back; if nothing is there, the *same* bytes again |
//! | denied, not supported | it had no effect | told at once |
//!
//! What can't be settled within [`Options::patience`] is [`Error::Indeterminate`](state_core::Error::Indeterminate). Nothing is cleaned up then, and the
//! slot is never tried with another batch.
//!
//! ```
//! use object_store::memory::InMemory;
//! use object_store::path::Path;
//! use state_backend_object_store::{ObjectBackend, Options, object_store};
//! use state_core::Backend;
//! use state_core::backend::Opening;
//! use std::sync::Arc;
//!
//! let options = Options::new("s3://bucket/states", Path::from("states"));
//! let store = ObjectBackend::new(Arc::new(InMemory::new()), options, Opening::Create);
//! assert!(store.capabilities().durable && !store.capabilities().frees_lock_on_crash);
//! ```

#[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
mod catalogue;
mod clock;
mod compaction;
mod entropy;
mod etags;
mod failure;
mod layout;
mod objects;
mod options;
mod probe;
mod store;
mod terms;
#[cfg(feature = "testkit")]
pub mod testkit;
mod writer;

#[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
pub use catalogue::backend_types;
pub use etags::UnquotedEtags;
pub use object_store;
pub use options::Options;
pub use probe::{ProbeDepth, ProbeReport, ProbeTarget, prove};
pub use store::ObjectBackend;

//! Backend that stores infrastructure state on S3, GCS, Azure, or any other [`object_store::ObjectStore`].
//!
//! [`ObjectBackend`] keeps a store of stacks in these objects below a prefix:
//!
//! ```text
//! format                                layout version, result of the probe         created; swapped by a late probe
//! names/<project>/<stack>.json          → lineage, or a tombstone                   swapped
//! stacks/<lineage>/
//!   meta.json                           lineage                                     created once
//!   head.json                           base, epoch, name, compaction, …            swapped
//!   lease.json                          the writer's epoch, holder and start time   swapped
//!   clock.json                          written to read the store's clock           replaced
//!   journal/<slot:020>                  one batch, or a fence                       created once
//!   journal/<slot:020>-<slot:020>-<digest16>   a compaction of many slots           created once
//!   snapshots/<slot:020>-<digest16>.json.zst                                        created once
//!   keys/, updates/, logs/                                                          created once
//! outputs/<lineage>/<serial:020>.json   outputs, for users who may not read stacks  created once
//! ```
//!
//! The store must support two conditional writes: create an object only if it doesn't exist, and replace an object only
//! if it has the expected version. Reads and lists must show a write as soon as it was acknowledged.
//!
//! # What keeps two writers apart
//! The *lease* keeps writers from working at the same time. It lasts a minute and is renewed every 15 seconds in the
//! background. Another process may take it after it was released, or after it stayed unchanged for the lease's duration
//! and a margin on that process's own clock; the lease's age by the store's clock shortens the wait. The clocks of two
//! hosts are never compared.
//!
//! The *fence* guarantees safety. A new owner writes its epoch into the head, reads the journal, and creates a fence in
//! the first free slot. A stale owner, however long it was suspended, writes to the slot after the last frame that it
//! has seen. If the fence is in that slot, the stale frame is refused. If the stale frame was stored first, the new
//! owner has read it. So an append is one request, without a check. If the lease may have ended before the request, it
//! is renewed first. If it may have ended during the request, the head is read before the acknowledgement.
//!
//! # How answers are interpreted
//! | answer of the store | possible states | reaction |
//! |---|---|---|
//! | success | written | acknowledge |
//! | condition not met (409, 412) | another writer was first, or an earlier attempt of this one succeeded | read the object and compare the nonce |
//! | 5xx, 429, connection reset, no answer | written, not written, or written later | read the object; if it is missing, send the *same* bytes again |
//! | denied, not supported | not written | report the error at once |
//!
//! An outcome that is still unknown after [`Options::retry_timeout`] is
//! [`Error::Indeterminate`](state_core::Error::Indeterminate). Nothing is cleaned up then, and the slot is never used
//! for another batch.
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
mod error;
mod etags;
mod layout;
mod objects;
mod options;
mod probe;
mod repair;
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

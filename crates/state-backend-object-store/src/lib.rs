//! Infrastructure state on object stores: S3, GCS, Azure, and whatever implements [`object_store::ObjectStore`].
//!
//! [`ObjectBackend`] keeps a store of stacks under a prefix:
//!
//! ```text
//! format                                layout version                              made once
//! names/<project>/<stack>.json          → lineage, or a tombstone                   swapped
//! stacks/<lineage>/
//!   meta.json                           lineage                                     made once
//!   head.json                           base, epoch, name, fold, …                  swapped
//!   lease.json                          who writes: epoch, holder, since when       swapped
//!   clock.json                          says what time it is at the store           replaced
//!   journal/<slot:020>                  one batch, or a fence                       made once
//!   journal/<slot:020>-<slot:020>-<digest16>   many of them in one object           made once
//!   snapshots/<slot:020>-<digest16>.json.zst                                        made once
//!   keys/, updates/, logs/                                                          made once
//! ```
//!
//! The store must be able to do two things: create an object and fail if it is there, and replace one and fail if
//! somebody else did. One that can't is refused when it is first written to.

mod adoption;
#[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
mod catalogue;
mod clock;
mod collection;
mod entropy;
mod etags;
mod failure;
mod fold;
mod layout;
mod names;
mod objects;
mod options;
mod owner;
mod probe;
mod reader;
mod stack;
mod store;
mod takeover;
#[cfg(feature = "testkit")]
pub mod testkit;
mod upload;
mod watch;
mod writer;

#[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
pub use catalogue::backend_types;
pub use etags::UnquotedEtags;
pub use object_store;
pub use options::Options;
pub use probe::{Candidate, Effort, Proof, prove};
pub use store::ObjectBackend;

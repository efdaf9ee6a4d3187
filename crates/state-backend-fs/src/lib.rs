//! Infrastructure state on a local filesystem: fenced, fsynced, recovered after any crash.
//!
//! [`FsBackend`] keeps a store of stacks in a folder:
//!
//! ```text
//! format                                layout version                              made once
//! names.lock                            OS lock under which names change
//! names/<project>/<stack>.json          → lineage, or a tombstone                   replaced
//! stacks/<lineage>/
//!   meta.json                           lineage                                     made once
//!   head.json                           base, epoch, lock generation, name, …       replaced
//!   head.lock                           OS lock under which the head changes
//!   lock.<generation>                   OS lock of the writer; says who it is
//!   journal/<slot:020>-<epoch>.log      a segment: a fence, then frames             appended to
//!   journal/<slot:020>-0.log            the journal of a stack from another store   made once
//!   snapshots/<slot:020>-<digest16>.json.zst                                        made once
//!   updates/<serial:020>-<rev16>.json                                               made once
//!   logs/<serial:020>.jsonl.zst                                                     made once
//!   keys/<number:020>-<key-id>.age                                                  made once
//! outputs/<lineage>/<serial:020>.json   for those who may read nothing else         made once
//! ```
//!
//! Files are for their owner alone (0600, folders 0700), and no symbolic link below the root is followed. Files
//! that begin with `.tmp-` are left over from a process that died, and mean nothing.
//!
//! # What a crash leaves
//!
//! | it strikes | what is there afterwards |
//! |---|---|
//! | while a file is made or replaced | the old content or the new one, perhaps a `.tmp-` file |
//! | while a stack is made | a folder that no name points to |
//! | in an append, before its sync | the frame, a piece of it, zeros, or nothing: it wasn't acknowledged; a whole frame counts, a torn one doesn't |
//! | in an append, after its sync | the frame: the next owner has it, acknowledged or not |
//! | in a takeover, before the head | nothing changed; the system frees the lock of the dead |
//! | in a takeover, after the head | an epoch without a segment: the next takeover reads what this one would have |
//! | in a deletion | some of the files that the head dropped a grace ago; nobody reads them any more |
//! | in a rotation | the old segment, or both, and the new one's fence says where the old one ends |
//!
//! Everything else that isn't as it was written is [`Error::Corrupt`](state_core::Error::Corrupt), with file and
//! offset.
//!
//! # Where it works
//! Unix, on filesystems whose `flock`, `rename` and `fsync` do what they say. A network filesystem must carry
//! locks to its server.
//!
//! ```
//! use state_backend_fs::FsBackend;
//! use state_core::Backend;
//! # let folder = tempfile::tempdir()?;
//! # let root = folder.path().join("states");
//! let store = FsBackend::create(&root)?;
//! assert!(store.url().starts_with("file:///"));
//! assert!(store.capabilities().durable);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod catalogue;
mod collection;
mod counts;
mod dir;
mod examination;
mod failure;
mod files;
mod layout;
mod lock;
mod names;
mod owner;
mod reader;
mod segment;
mod stack;
mod staged;
mod store;
mod takeover;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod walk;
mod worker;
mod writer;

pub use catalogue::backend_type;
pub use counts::IoCounts;
pub use store::FsBackend;

#[cfg(test)]
mod tests;

//! Backend that stores infrastructure state in a local folder, with fencing, fsync and crash recovery.
//!
//! [`FsBackend`] keeps a store of stacks in this tree of files:
//!
//! ```text
//! format                                layout version                              created once
//! names.lock                            OS lock held while a name pointer changes
//! names/<project>/<stack>.json          → lineage, or a tombstone                   replaced
//! stacks/<lineage>/
//!   meta.json                           lineage                                     created once
//!   head.json                           base, epoch, lock generation, name, …       replaced
//!   head.lock                           OS lock held while the head changes
//!   lock.<generation>                   OS lock of the writer; content: the holder
//!   journal/<slot:020>-<epoch>.log      a segment: a fence, then frames             appended to
//!   journal/<slot:020>-0.log            journal copied from another store           created once
//!   journal/<slot:020>.frames           a compaction: the frames since a base again appended to
//!   snapshots/<slot:020>-<digest16>.json.zst                                        created once
//!   updates/<serial:020>-<digest16>.page                                            created once
//!   logs/<serial:020>.jsonl.zst                                                     created once
//!   keys/<number:020>-<key-id>.age                                                  created once
//! outputs/<lineage>/<serial:020>.json   outputs, for users who may not read stacks  created once
//! ```
//!
//! Only the owner may access the files (mode 0600, folders 0700), and no symbolic link below the root is followed.
//! Files whose name begins with `.tmp-` were left over by a crashed process and are ignored.
//!
//! # What a crash leaves
//!
//! | crash during | state on disk afterwards |
//! |---|---|
//! | creating or replacing a file | the old content or the new content, perhaps also a `.tmp-` file |
//! | creating a stack | a folder that no name pointer refers to |
//! | an append, before its sync | the whole frame, a part of it, zeros, or nothing. The frame wasn't acknowledged: a whole frame counts, a torn one is ignored |
//! | a clean close, before the head names the longer compaction | the compaction with bytes that don't count |
//! | a clean close, after that | perhaps a compaction without its last bytes: its digest is wrong, and readers read the segments |
//! | an append, after its sync | the frame: the next owner reads it, whether or not it was acknowledged |
//! | a takeover, before the head is replaced | nothing changed; the system frees the lock of the crashed process |
//! | a takeover, after the head is replaced | an epoch without a segment: the next takeover reads the same journal |
//! | a deletion | some of the files that were to be deleted; they lie before the history floor, so no reader needs them |
//! | a rotation | the old segment, or both segments; the fence of the new segment records where the old one ends |
//!
//! Any other difference from what was written is [`Error::Corrupt`](state_core::Error::Corrupt), with the file and
//! the offset.
//!
//! # Requirements
//! Unix, and a filesystem whose `flock`, `rename` and `fsync` follow POSIX. A network filesystem must forward locks
//! to its server.
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
mod compaction;
mod copied;
mod counts;
mod dir;
mod error;
mod files;
mod journal_end;
mod layout;
mod leftovers;
mod lock;
mod names;
mod owner;
mod reader;
mod reserve;
mod segment;
mod stack;
mod staged;
mod store;
mod store_check;
mod takeover;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod torn;
mod walk;
mod worker;
mod writer;

pub use catalogue::backend_type;
pub use counts::IoCounts;
pub use error::read_failed;
pub use store::FsBackend;

#[cfg(test)]
mod tests;

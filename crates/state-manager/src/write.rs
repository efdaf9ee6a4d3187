//! Writes to a stack whose lock is held.
//!
//! | file | purpose |
//! |---|---|
//! | `opening` | acquires the lock, authenticates and replays the journal, starts the queue |
//! | `locked_stack` | the acquired lock: queues records, makes revisions, closes |
//! | `queue`, `queue/batch` | the serial mutation queue: one append and one sync for all waiting jobs |
//! | `background` | the task that publishes outputs and writes checkpoints in the background |
//! | `checkpoint`, `checkpointer`, `resets` | stored checkpoints; when one is due; the resets that make one due |
//! | `session_history` | the pages of the history, and the documents that are on no page yet |
//! | `steps`, `provider_result` | the records of an open update: intents, results, steps |
//! | `edits`, `snapshots` | changes that are one revision each; whole snapshots that replace the state |
//! | `naming`, `renaming` | stack names: create, rename, remove |
//! | `log_buffer`, `spool` | logs of updates; results that could not be recorded |

pub(crate) mod background;
pub(crate) mod checkpoint;
pub(crate) mod checkpointer;
pub(crate) mod edits;
pub(crate) mod locked_stack;
pub(crate) mod log_buffer;
pub(crate) mod naming;
pub(crate) mod opening;
pub(crate) mod parked;
pub(crate) mod provider_result;
pub(crate) mod queue;
pub(crate) mod renaming;
pub(crate) mod resets;
pub(crate) mod session_history;
pub(crate) mod snapshots;
pub(crate) mod spool;
pub(crate) mod steps;

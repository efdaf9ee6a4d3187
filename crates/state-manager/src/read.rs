//! Reads a stack without a lock: reads head and journal, authenticates, replays, then answers the query.
//!
//! | file | purpose |
//! |---|---|
//! | `replay` | stored bytes to a state: base snapshot, frames, replay |
//! | `history_floor` | the slot at which history begins after a collection |
//! | `descent` | the revision that a caller without memory expects |
//! | `tip` | the tip of a stack, authenticated and replayed; retries of reads that a collection interfered with |
//! | `view` | the state at one moment, the current revision |
//! | `history` | revisions, their documents and contents |
//! | `revision_spec` | revisions as people specify them |
//! | `name_memory` | names compared with what this client remembers |
//! | `blame`, `verify`, `logs`, `outputs`, `names` | the queries of the same names |
//! | `sealing_changes` | reports changes of recipients and policy |
//! | `rollback_guard` | moves between stacks that a rollback would revert on one side only |

pub(crate) mod blame;
pub(crate) mod descent;
pub(crate) mod history;
pub(crate) mod history_floor;
pub(crate) mod logs;
pub(crate) mod name_memory;
pub(crate) mod names;
pub(crate) mod outputs;
pub(crate) mod replay;
pub(crate) mod revision_spec;
pub(crate) mod rollback_guard;
pub(crate) mod sealing_changes;
pub(crate) mod tip;
pub(crate) mod verify;
pub(crate) mod view;

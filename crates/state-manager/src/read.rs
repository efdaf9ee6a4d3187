//! Reading a stack without a lock: read, authenticate, replay, then answer.
//!
//! | file | job |
//! |---|---|
//! | `replay` | from stored bytes to a state: base snapshot, frames, replay |
//! | `history_floor` | where history begins after a collection |
//! | `tip` | the tip of a stack, authenticated and replayed; restarts of reads that a collection outran |
//! | `view` | the state at one moment, the current revision |
//! | `history` | revisions, their documents and contents |
//! | `revision_spec` | revisions by the names that people use |
//! | `blame`, `verify`, `logs`, `outputs`, `names` | the questions of the same names |
//! | `rollback_guard` | moves between stacks that a rollback would take back on one side only |

pub(crate) mod blame;
pub(crate) mod history;
pub(crate) mod history_floor;
pub(crate) mod logs;
pub(crate) mod names;
pub(crate) mod outputs;
pub(crate) mod replay;
pub(crate) mod revision_spec;
pub(crate) mod rollback_guard;
pub(crate) mod tip;
pub(crate) mod verify;
pub(crate) mod view;

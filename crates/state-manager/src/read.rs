//! Reads a stack without a lock: reads head and journal, authenticates, replays, then answers the query.
//!
//! | file | purpose |
//! |---|---|
//! | `replay` | loads the base snapshot and replays the frames after it to a state |
//! | `history_floor` | the slot at which history begins after a collection |
//! | `descent` | checks that the history contains the revision that a caller expects |
//! | `open` | opens a stack for readers and writers: authenticates, compares with expectations and memory, remembers |
//! | `forks` | detects forks before the base from the pages of the history |
//! | `lookup` | looks a name up and opens its stack at once |
//! | `stored` | reads heads and journals; private to this folder |
//! | `tip` | the tip of a stack, authenticated and replayed |
//! | `retrying` | repeats reads after a concurrent collection |
//! | `view` | the state at one moment, the current revision |
//! | `history` | the list of the revisions, and their documents |
//! | `listed_document` | the documents in that list, decoded on demand |
//! | `revision_lookup`, `revision_state` | the document of one revision, and the state at it |
//! | `revision_spec` | resolves revision specifications such as `@-` |
//! | `name_memory` | checks that a name still leads to the stack that this client remembers |
//! | `blame`, `verify`, `logs`, `outputs` | the queries of the same names |
//! | `names` | resolves a name to its stack, and accepts a stack anew |
//! | `stack_list` | the names and the summaries of all stacks |
//! | `sealing_changes` | reports changes of recipients and policy |
//! | `rollback_guard` | moves between stacks that a rollback would revert in this stack but not in the other one |

pub(crate) mod blame;
pub(crate) mod descent;
mod forks;
pub(crate) mod history;
pub(crate) mod history_floor;
mod listed_document;
pub(crate) mod logs;
pub(crate) mod lookup;
pub(crate) mod name_memory;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod outputs;
pub(crate) mod replay;
pub(crate) mod retrying;
mod revision_lookup;
pub(crate) mod revision_spec;
mod revision_state;
pub(crate) mod rollback_guard;
pub(crate) mod sealing_changes;
pub(crate) mod stack_list;
mod stored;
pub(crate) mod tip;
mod trail;
pub(crate) mod verify;
pub(crate) mod view;

//! How a pending operation is settled, decided but not written yet.

use state_core::mutation::Resolution;
use state_core::{Entry, Op};

/// The decided settlement of a pending operation.
pub(super) enum Verdict {
    /// The operation is resolved with this resolution. The text describes the result to the user.
    Resolved(Resolution, &'static str),
    /// This entry, which describes the current object, is recorded. With `None`, the recorded entry is removed. Then
    /// the operation is resolved as not done. The text describes the result to the user.
    Recorded(Option<Box<Entry>>, &'static str),
    /// The outcome stays unknown. The text is the reason.
    Open(String),
}

impl Verdict {
    /// Whether the object is as it may have been before the operation, so that the operation may change it later.
    pub(super) fn finds_no_effect(&self, op: Op, recorded: Option<&Entry>) -> bool {
        match self {
            Self::Resolved(Resolution::NotDone, _) => matches!(op, Op::Create | Op::Delete),
            Self::Recorded(Some(found), _) => recorded.is_none_or(|old| old.outputs == found.outputs),
            _ => false,
        }
    }
}

//! The actions of a caller on a stack, valid or not, independent of the state: an action picks its targets by number, and
//! [`resolver`](super::resolver) maps the numbers to existing entries when the action runs. A history with some actions
//! removed is therefore a valid history, so shrinking works.

use proptest::sample::Index;
use state_core::{Op, Outcome, UpdateResult};

/// One action of a caller.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Begins an update of a kind.
    Start,
    /// Begins a step and leaves it pending.
    Begin(Intention),
    /// Ends a pending step with a result.
    End(Index, Report),
    /// Begins a step and ends it at once.
    Run(Intention, Report),
    /// Records that an entry was compared with its object and is unchanged.
    Same(Target, Change),
    /// Records that a create and a delete form one replacement.
    Replace(Target),
    /// Records the result of a refresh of an entry; None if its object is missing.
    Refresh(Target, Option<Change>),
    /// Removes a tombstone from the state.
    RemovePendingReplace(Target),
    /// Records the outputs of an entry.
    Outputs(Target, u8),
    /// Records an edit of the state.
    Edit(Vec<Hand>),
    /// Resolves a pending step; None if it was not done.
    Resolve(Index, Option<Report>),
    /// Records a plugin in the manifest.
    Plugin(u8),
    /// Records the outputs of the stack.
    StackOutputs(u8),
    /// Marks the state as unreliable before objects are changed without records.
    Invalidate,
    /// Marks the state as reliable; nothing else changes.
    Validate,
    /// Records the first entries of an earlier revision as the current state of the objects.
    Save(Index, Index),
    /// Ends the update with a result.
    Finish(UpdateResult),
    /// Crashes the writer; another writer takes over.
    Crash,
    /// Stores the state as a checkpoint and reads it again.
    Checkpoint,
    /// Rolls back to an earlier revision.
    Restore(Index),
    /// Imports the first entries of an earlier revision with a foreign serial.
    Import(Index, Index, u8),
    /// Stores the first entries of an earlier revision as a revision that isn't current.
    Write(Index, Index),
    /// Deletes a revision from the history.
    Forget(Index),
}

/// The intent of a step.
#[derive(Clone, Debug)]
pub(crate) struct Intention {
    pub(crate) op: Op,
    pub(crate) target: Target,
    pub(crate) change: Change,
    /// Whether the step states the opposite of whether it is a replacement.
    pub(crate) contrary: bool,
    pub(crate) tombstone: bool,
    /// Whether the entry has another key than the target, is missing, or must not be present.
    pub(crate) misfit: bool,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    /// How the resulting entry differs from the intended one; None if they are equal.
    pub(crate) change: Option<Change>,
    pub(crate) misfit: bool,
}

/// Selects the entry of an action.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The first entry that the open update hasn't recorded.
    Next,
    /// Any entry, chosen by number.
    Any(Index),
    /// The first entry that awaits replacement or deletion.
    Leftover,
    /// The last entry without references to it.
    Last,
    /// The live entry with this name, which may not exist.
    Name(u8),
}

/// How an entry differs from the existing one, or from a new one.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Whether the references are replaced.
    pub(crate) links: Option<Vec<Link>>,
    /// The new group, if it changes.
    pub(crate) group: Option<Option<u8>>,
    pub(crate) uid: Identity,
    /// The new id, if it changes.
    pub(crate) id: Option<u8>,
    pub(crate) size: u8,
    pub(crate) protect: bool,
    pub(crate) pending_replacement: bool,
    pub(crate) external: bool,
    /// Whether the kind that the entry type requires is missing.
    pub(crate) kindless: bool,
}

/// Selects the uid of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// The uid of the existing entry, or a new one.
    Kept,
    New,
    Missing,
    /// The uid of any entry, chosen by number.
    Stolen(Index),
}

/// A reference to another entry.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) field: Field,
    pub(crate) to: To,
}

/// The field that contains a reference.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    DependsOn,
    Property(u8),
    Parent,
    /// The provider, with the id of the existing provider or with an arbitrary one.
    Provider(Option<Result<(), u8>>),
    DeletedWith,
    ReplaceWith,
}

/// Selects the target of a reference.
#[derive(Clone, Debug)]
pub(crate) enum To {
    /// An entry that the open update has recorded.
    Recorded(Index),
    /// Any entry, chosen by number.
    Any(Index),
    Name(u8),
    Group(u8),
}

/// One change of an edit.
#[derive(Clone, Debug)]
pub(crate) enum Hand {
    Remove(Target),
    /// Replaces an entry in place, optionally under another name.
    Put(Target, Change, Option<u8>),
    Append(u8, Change),
}

//! The valid and invalid actions of a caller on a stack.
//!
//! An action doesn't depend on the state: it selects its targets by number, and [`resolver`](super::resolver) maps the
//! numbers to existing entries when the action runs. Proptest can therefore remove any action from a failing history to
//! find a shorter one that fails too.

use proptest::sample::Index;
use state_core::{Op, Outcome, UpdateResult};

/// One action of a caller.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Begins an update of the stack.
    Start,
    /// Begins a step and leaves it pending.
    Begin(Intention),
    /// Ends the pending step that the index selects, with a result.
    End(Index, Report),
    /// Begins a step and ends it at once.
    Run(Intention, Report),
    /// Records an entry as unchanged. If the entry doesn't exist, records the changed entry instead, which the state
    /// may refuse. The laws of the core do the same for half of the existing entries, at random; the laws of the
    /// manager do it if the change has size 0.
    Same(Target, Change),
    /// Records that a create and a delete form one replacement.
    Replace(Target),
    /// Records the result of a refresh of an entry: the change, or `None` if the object is missing.
    Refresh(Target, Option<Change>),
    /// Removes a tombstone from the state: an entry that is pending replacement, because its object was deleted.
    RemovePendingReplace(Target),
    /// Records outputs of an entry that contain this number.
    Outputs(Target, u8),
    /// Records an edit of the state.
    Edit(Vec<Hand>),
    /// Resolves the pending step that the index selects: as done with a result, or as not done (`None`).
    Resolve(Index, Option<Report>),
    /// Records the plugin with this number in the manifest.
    Plugin(u8),
    /// Records outputs of the stack that contain this number.
    StackOutputs(u8),
    /// Marks the state as unreliable, as a caller does before it changes objects without recording each change.
    Invalidate,
    /// Marks the state as reliable without another change.
    Validate,
    /// Replaces the state within the update by the first entries of an earlier revision. The indices select the
    /// revision and the number of its entries, here and in the following variants.
    Save(Index, Index),
    /// Ends the update with a result.
    Finish(UpdateResult),
    /// Crashes the writer. Another writer takes over and ends the update.
    Crash,
    /// Continues from the stored state: the laws of the core write and load a checkpoint; the laws of the manager close
    /// the session and open another.
    Checkpoint,
    /// Rolls back to an earlier revision.
    Restore(Index),
    /// Imports the first entries of an earlier revision with this foreign serial.
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
    /// Whether the step gets the wrong value of `replaces` (see [`resolver`](super::resolver)): the opposite of the
    /// correct value.
    pub(crate) contrary: bool,
    /// Whether a delete leaves a tombstone: it keeps the entry and marks it as pending replacement.
    pub(crate) tombstone: bool,
    /// Whether the intent is made invalid: a delete or discard has an entry, all other operations have none. In the
    /// laws of the core, which apply records without a manager, the begin also reuses the id of a pending step.
    pub(crate) misfit: bool,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    /// How the resulting entry differs from the intended entry; `None` if they are equal.
    pub(crate) change: Option<Change>,
    /// Whether the result is made invalid: its entry has another key than the target, or is present where none is
    /// allowed.
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
    /// The last entry that no other entry depends on.
    Last,
    /// The live entry with the name of this number, which may not exist.
    Name(u8),
}

/// How an entry differs from the existing entry, or from a new entry if none exists.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The new references, if they change.
    pub(crate) links: Option<Vec<Link>>,
    /// The new group, if it changes; `Some(None)` removes the group.
    pub(crate) group: Option<Option<u8>>,
    pub(crate) uid: Identity,
    /// The new id, if it changes.
    pub(crate) id: Option<u8>,
    /// The value of the only input.
    pub(crate) size: u8,
    pub(crate) protect: bool,
    pub(crate) pending_replacement: bool,
    pub(crate) external: bool,
    /// Whether the entry has no kind, which makes it invalid.
    pub(crate) kindless: bool,
}

/// Selects the uid of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// The uid of the existing entry, or a new uid if there is none.
    Kept,
    New,
    Missing,
    /// The uid of any entry, chosen by number, which makes the uid a duplicate.
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
    /// The provider: without an id (`None`), with the id of the existing provider (`Ok`), or with this id (`Err`).
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
    /// The address with the name of this number, which may have no entry.
    Name(u8),
    /// The group with this number, which may have no members.
    Group(u8),
}

/// One change of an edit.
#[derive(Clone, Debug)]
pub(crate) enum Hand {
    Remove(Target),
    /// Replaces an entry in place. With a number, the entry gets the name of this number.
    Put(Target, Change, Option<u8>),
    /// Appends an entry with the name of this number.
    Append(u8, Change),
}

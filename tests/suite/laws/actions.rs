//! What a caller may do to a stack, sensible or not, without a word about what is there: an action picks its
//! targets by number, and [`resolver`](super::resolver) turns the numbers into what exists when its turn comes. So a history
//! with actions taken out is a history too, and shrinking works.

use proptest::sample::Index;
use state_core::{Op, Outcome, UpdateResult};

/// One thing that a caller does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Begins an update.
    Start,
    /// Begins a step.
    Begin(Intention),
    /// Ends a pending step.
    End(Index, Report),
    /// Begins a step and ends it at once.
    Run(Intention, Report),
    /// An entry was looked at.
    Same(Target, Change),
    /// A create and a delete belong together.
    Replace(Target),
    /// An entry is compared with the world; none: it is gone.
    Refresh(Target, Option<Change>),
    /// A tombstone goes.
    RemovePendingReplace(Target),
    /// Outputs of an entry.
    Outputs(Target, u8),
    /// A change by hand.
    Edit(Vec<Hand>),
    /// A pending step is settled by hand; none: it was not done.
    Resolve(Index, Option<Report>),
    /// A plugin takes part.
    Plugin(u8),
    /// The stack's own outputs.
    StackOutputs(u8),
    /// The world is about to be changed beyond what is recorded.
    Invalidate,
    /// What is recorded is right; nothing else changes.
    Validate,
    /// The first entries of an earlier revision are what the world is now.
    Save(Index, Index),
    /// The update ends.
    Finish(UpdateResult),
    /// The writer dies and another one takes over.
    Crash,
    /// The state is stored and read again.
    Checkpoint,
    /// An earlier revision comes back.
    Restore(Index),
    /// The first entries of an earlier revision come in from elsewhere, as serial so and so there.
    Import(Index, Index, u8),
    /// The first entries of an earlier revision are stored as a revision that isn't current.
    Write(Index, Index),
    /// A revision is forgotten.
    Forget(Index),
}

/// A step that is about to touch the world.
#[derive(Clone, Debug)]
pub(crate) struct Intention {
    pub(crate) op: Op,
    pub(crate) target: Target,
    pub(crate) change: Change,
    /// Says that it replaces, or that it doesn't, against what would fit.
    pub(crate) contrary: bool,
    pub(crate) tombstone: bool,
    /// Its entry isn't that of its target, or is missing, or shouldn't be there.
    pub(crate) misfit: bool,
}

/// What came back from the world.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    /// How what is there differs from what was meant; none: not at all.
    pub(crate) change: Option<Change>,
    pub(crate) misfit: bool,
}

/// Which entry an action is about.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The first that the open update hasn't recorded.
    Next,
    /// Any.
    Any(Index),
    /// The first that awaits its replacement or its deletion.
    Leftover,
    /// The one that nothing refers to and that stands last.
    Last,
    /// The live one with this name, there or not.
    Name(u8),
}

/// How an entry differs from the one that is there, or from nothing.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Other references than before.
    pub(crate) links: Option<Vec<Link>>,
    /// Another group than before.
    pub(crate) group: Option<Option<u8>>,
    pub(crate) uid: Identity,
    /// Another id than before.
    pub(crate) id: Option<u8>,
    pub(crate) size: u8,
    pub(crate) protect: bool,
    pub(crate) pending_replacement: bool,
    pub(crate) external: bool,
    /// Lacks the kind that its type requires.
    pub(crate) kindless: bool,
}

/// The uid that an entry comes with.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// The one of the entry that is there; a new one when there is none.
    Kept,
    New,
    Missing,
    /// That of any entry.
    Stolen(Index),
}

/// A reference.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) field: Field,
    pub(crate) to: To,
}

/// Where a reference stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    DependsOn,
    Property(u8),
    Parent,
    /// With the id of the provider that is there, or with one that may not be.
    Provider(Option<Result<(), u8>>),
    DeletedWith,
    ReplaceWith,
}

/// What a reference names.
#[derive(Clone, Debug)]
pub(crate) enum To {
    /// An entry that the open update recorded.
    Recorded(Index),
    /// Any entry.
    Any(Index),
    Name(u8),
    Group(u8),
}

/// A part of a change by hand.
#[derive(Clone, Debug)]
pub(crate) enum Hand {
    Remove(Target),
    /// In its place; perhaps under another name.
    Put(Target, Change, Option<u8>),
    Append(u8, Change),
}

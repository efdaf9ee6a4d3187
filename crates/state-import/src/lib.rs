//! Records the state of another system, such as Terraform, as one revision of a stack.
//!
//! `statectl import` and the server for Terraform's http backend both call [`import`]. It keeps the protection of resources,
//! marks the secrets of the state, compares the state with the stack, refuses a state that would lose newer changes, and records it.
//!
//! ```text
//!  Imported ──mark secrets──► same as the stack? ──► allowed? ──► record
//!                                   │                   │           ├─ as changes: a revision that costs what changed
//!                              Unchanged             Refused        └─ as a whole snapshot
//! ```
//!
//! [`RecordMethod::Changes`] records only the resources and outputs that differ. It is used if the export of the result equals
//! the export of the imported state byte for byte, so that a reader gets exactly the state that was imported. Otherwise the whole
//! snapshot is recorded, for example if the version of Terraform changed, or if an old resource now depends on a new one: changes
//! append new resources to the list, and a resource must come after its dependencies.

mod changes;
mod comparison;
mod protection;

use changes::Changes;
use comparison::{is_same, without_key_changes};
use protection::keep_protection;
use state_core::sensitive::{KeptMarks, keep_marks};
use state_core::{Error, FactoryInfo, RevisionId, Snapshot, State, Timestamp};
use state_formats::{Formats, ImportVerdict, Imported, MarkedSecrets, Refusal, mark_secrets};
use state_manager::{Session, UpdateRequest, compute};
use std::sync::Arc;

/// The way in which an import is recorded in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordMethod {
    /// The whole snapshot is stored.
    Snapshot,
    /// Only the changes are stored, if that reproduces the state byte for byte; otherwise the whole snapshot.
    Changes,
}

/// What to do with a state that is refused, with marks that only the stack has, and how to record the import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Description of the update in the history.
    pub update: UpdateRequest,
    /// Whether to import a state that would be refused otherwise. The history records that the import was forced.
    pub force: bool,
    /// Whether to give up the marks of secrets that only the stack has.
    pub drop_marks: bool,
    /// The way in which the import is recorded.
    pub method: RecordMethod,
}

impl ImportOptions {
    /// Options of an import that isn't forced, keeps all marks and stores the whole snapshot.
    pub const fn new(update: UpdateRequest) -> Self {
        Self {
            update,
            force: false,
            drop_marks: false,
            method: RecordMethod::Snapshot,
        }
    }
}

/// Counts of the secrets that an import marked.
#[derive(Clone, Debug)]
pub struct ImportMarks {
    /// Number of values that only the stack had marked.
    pub kept: usize,
    /// The secrets that the state itself doesn't mark.
    pub added: MarkedSecrets,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The stack already had this state, as this revision.
    Unchanged(Option<RevisionId>),
    /// The state was recorded.
    Recorded {
        /// The revision that holds the state.
        revision: RevisionId,
        /// Whether a refusal was overridden.
        forced: bool,
    },
}

/// The reason why a state was not imported. The stack is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The state would replace newer changes, or describes other objects.
    #[error("{0}")]
    Refused(Refusal),
    /// Operations are pending, whose outcome the state doesn't contain.
    #[error("the stack has {0} pending operation{s}", s = if *.0 == 1 { "" } else { "s" })]
    Pending(usize),
    /// The state can't be compared with the stack.
    #[error(transparent)]
    Format(#[from] state_formats::Error),
    /// The state can't be read or written in the store.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Imports a state into a locked stack, as one revision. `describe` receives the state with all of its marks; the import then
/// moves the snapshot out of `new`, because a large state fits into memory only once.
///
/// # Errors
/// [`ImportError`]; then the stack is unchanged.
pub async fn import<T: Send + 'static>(
    session: &Session,
    formats: &Formats,
    new: &mut Imported,
    options: ImportOptions,
    describe: impl FnOnce(&Snapshot, ImportMarks) -> T + Send + 'static,
) -> Result<(ImportOutcome, T), ImportError> {
    let state = session.state();
    let now = new.snapshot.generated_at.clone();
    let existing = state.snapshot(session.stack().name().to_string(), now.clone());
    let existing = session.reveal_snapshot(existing).await?;
    keep_protection(formats, &existing, new);
    let (mut snapshot, drop_marks) = (take(&mut new.snapshot, &now), options.drop_marks);
    let marked = compute(move || {
        let kept = match drop_marks {
            true => 0,
            false => keep_marks(&existing, &mut snapshot, KeptMarks::Chosen),
        };
        let added = mark_secrets(&mut snapshot);
        let description = describe(&snapshot, ImportMarks { kept, added });
        (existing, snapshot, description)
    });
    let (existing, snapshot, description) = marked.await?;
    new.snapshot = snapshot;
    let outcome = record(session, formats, state, existing, new, options).await?;
    Ok((outcome, description))
}

/// Compares the marked state with the stack, and records it.
async fn record(
    session: &Session,
    formats: &Formats,
    state: Arc<State>,
    existing: Snapshot,
    new: &mut Imported,
    options: ImportOptions,
) -> Result<ImportOutcome, ImportError> {
    // An identical state is still imported if the stack is marked as unreliable: the import confirms the state, and its
    // revision clears the mark.
    let is_settled = state.current().is_some() && state.invalidated().is_none();
    let unchanged = || ImportOutcome::Unchanged(state.current().cloned());
    if is_settled && is_same(&existing, new) {
        return Ok(unchanged());
    }
    let mut existing = existing;
    let mut verdict = formats.check_import(Some(&existing), new)?;
    if matches!(verdict, ImportVerdict::Refused(_)) {
        // A change of the data key raises the exported serial without a change of the state. The history is read only now,
        // because most imports are accepted without it.
        existing = without_key_changes(session, existing).await?;
        if is_settled && is_same(&existing, new) {
            return Ok(unchanged());
        }
        verdict = formats.check_import(Some(&existing), new)?;
    }
    let forced = match refusal(verdict, &state) {
        Some(refusal) if !options.force => return Err(refusal),
        refusal => refusal.is_some(),
    };
    let request = UpdateRequest {
        forced,
        ..options.update
    };
    if options.method == RecordMethod::Changes && is_settled && !forced {
        let changes = Changes::between(formats, &state, existing, new).await?;
        if let Some(Changes { entries, outputs }) = changes {
            let revision = session.record_changes(request, &state, entries, outputs).await?;
            return Ok(ImportOutcome::Recorded { revision, forced });
        }
    } else {
        drop(existing);
    }
    let foreign = new
        .foreign
        .as_ref()
        .map(|foreign| (foreign.system.to_owned(), foreign.serial));
    let now = new.snapshot.generated_at.clone();
    let snapshot = take(&mut new.snapshot, &now);
    drop(state);
    let revision = session.import(request, snapshot, foreign).await?;
    Ok(ImportOutcome::Recorded { revision, forced })
}

/// The reason why the stack doesn't accept the state; none if it does.
fn refusal(verdict: ImportVerdict, state: &State) -> Option<ImportError> {
    if let ImportVerdict::Refused(refusal) = verdict {
        return Some(ImportError::Refused(refusal));
    }
    let pending = state.pending().count();
    (pending > 0).then_some(ImportError::Pending(pending))
}

/// Moves a snapshot out, and leaves an empty one.
fn take(snapshot: &mut Snapshot, now: &Timestamp) -> Snapshot {
    std::mem::replace(snapshot, Snapshot::new(FactoryInfo::default(), "", now.clone()))
}

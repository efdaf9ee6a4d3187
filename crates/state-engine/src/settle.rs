//! Settles the operations that an earlier run left pending: the store holds their intent, but not their result.
//!
//! | operation | the provider finds | settled as |
//! |---|---|---|
//! | create | the object | done; if the provider returns no inputs of the object, the next run updates it |
//! | create | no object | not done |
//! | update | the object | the current object is recorded; the next run compares it with the program |
//! | update | no object | the entry is removed |
//! | delete | the object | not done |
//! | delete | no object | done |
//! | read, import | – | not done: they change no real resource |
//! | discard | – | done: it affects no real resource |
//!
//! An operation whose work still runs (see [`Provider::earlier_work`](crate::Provider::earlier_work)) isn't asked about
//! unless the user gives its outcome. If it is unknown whether the work still runs, an object that is as before settles nothing. An operation whose outcome stays unknown stays pending. No run changes the resource of a pending operation until
//! settling determines the outcome or the user decides.

mod foresight;
mod verdict;

use crate::call::{CallError, CallTarget, Caller, Preparations, RecordedObject};
use crate::error::Result;
use crate::event::{Event, Observer};
use crate::planner::{applied, as_found, without_references_to};
use crate::provider::{EarlierWork, Object, ReadResult};
use crate::record::unrecorded_dependencies;
pub(crate) use foresight::foresee;
use state_core::mutation::Resolution;
use state_core::{
    Address, Dependency, Entry, EntryKey, Error, LogLevel, LogLine, MutationId, Op, PendingOperation,
    SharedEntry, State, UpdateKind, UpdateResult,
};
use state_manager::{Session, Update, UpdateRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use verdict::Verdict;

/// The user's decision about a pending operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Ask the provider for the outcome.
    #[default]
    Ask,
    /// The object exists with this id: read the object, and settle the operation by the result.
    Exists {
        /// The provider's id of the object.
        id: String,
    },
    /// The operation changed nothing: settle it as not done.
    NotDone,
    /// Leave the operation pending.
    Leave,
}

/// The user's decisions about pending operations. By default, the engine asks the providers.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// Decisions about single operations.
    pub by_id: BTreeMap<MutationId, Decision>,
    /// Decision about all other operations.
    pub otherwise: Decision,
}

/// Result of settling. The caller passes it to the run that follows, in [`Run::settled`](crate::Run::settled).
#[derive(Clone, Debug, Default)]
pub struct Settling {
    /// Log lines of the engine and the providers, to be stored with the run's update.
    pub(crate) lines: Vec<LogLine>,
    /// The providers that were configured for settling.
    pub(crate) preparations: Preparations,
}

/// The state whose pending operations are settled.
struct SettleBasis<'a> {
    state: Arc<State>,
    /// The session of a locked stack, which decrypts the values of the state. `None` for a state that is decrypted.
    session: Option<&'a Session>,
}

impl SettleBasis<'_> {
    fn reveal(&self, entry: &SharedEntry) -> Result<SharedEntry> {
        match self.session {
            Some(session) => Ok(session.reveal(entry)?),
            None => Ok(Arc::clone(entry)),
        }
    }
}

/// Settles all pending operations whose outcome can be determined, until the run is interrupted. A crash between two
/// records is safe: the next run settles the rest.
pub(crate) async fn settle(
    caller: &Caller,
    session: &Session,
    decisions: &Decisions,
    observer: &dyn Observer,
) -> Result<()> {
    let pending: Vec<PendingOperation> = session.state().pending().cloned().collect();
    for operation in pending {
        if caller.interrupt.is_stopping() {
            break;
        }
        let basis = SettleBasis {
            state: session.state(),
            session: Some(session),
        };
        let verdict = settle_one(caller, &basis, decisions, &operation).await?;
        let settled = match verdict {
            Verdict::Open(reason) => Err(reason),
            Verdict::Resolved(resolution, how) => {
                let resolution = with_recorded_dependencies(session, &operation, resolution).await?;
                match resolve(session, &operation, resolution, how).await? {
                    // The object is deleted, but other entries still refer to its entry, so the state refuses to
                    // resolve the delete as done. Recording a missing object also removes those references.
                    Err(_) if operation.op == Op::Delete => {
                        record_state(session, &operation, None, how).await?
                    }
                    settled => settled,
                }
            }
            Verdict::Recorded(entry, how) => {
                record_state(session, &operation, entry.map(|entry| *entry), how).await?
            }
        };
        let log = caller.logger.for_address(&operation.target.address);
        match settled {
            Ok(how) => {
                if let Some(kind) = kind_of(&basis.state, &operation) {
                    caller.registry.forget_work(&kind, operation.id);
                }
                let how = how.to_owned();
                observer.event(&Event::Settled { operation, how });
            }
            Err(reason) => {
                let what = format!("{} {} of {}", operation.op, operation.id, operation.target);
                log.emit(LogLevel::Warning, format!("{what} is still pending: {reason}"));
                observer.event(&Event::Pending(operation));
            }
        }
    }
    Ok(())
}

/// Records `entry`, which describes the current object, or with `None` removes the recorded entry. Then resolves the
/// operation as not done. The inner error is the reason why the operation stays pending.
async fn record_state(
    session: &Session,
    operation: &PendingOperation,
    entry: Option<Entry>,
    how: &'static str,
) -> Result<Result<&'static str, String>> {
    record_entry(session, operation.target.clone(), entry, how).await?;
    resolve(session, operation, Resolution::NotDone, how).await
}

/// Resolves an operation. If the resolution violates rules of the state, the operation stays pending, and the inner
/// error describes the violations.
async fn resolve(
    session: &Session,
    operation: &PendingOperation,
    resolution: Resolution,
    how: &'static str,
) -> Result<Result<&'static str, String>> {
    let unfinished = match &resolution {
        Resolution::Done(Some(entry)) if !entry.init_errors.is_empty() => Some(Entry::clone(entry)),
        _ => None,
    };
    match session.resolve(request(how), operation.id, resolution).await {
        Ok(_) => {}
        Err(Error::Integrity { violations, .. }) => {
            let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
            return Ok(Err(reasons.join("; ")));
        }
        Err(error) => return Err(error.into()),
    }
    if let Some(entry) = unfinished {
        record_entry(session, operation.target.clone(), Some(entry), how).await?;
    }
    Ok(Ok(how))
}

/// Records `entry` in an update of its own, or with `None` removes the recorded entry. Does nothing if no entry is
/// recorded under the key.
async fn record_entry(session: &Session, key: EntryKey, entry: Option<Entry>, how: &str) -> Result<()> {
    if session.state().entry(&key).is_none() {
        return Ok(());
    }
    let update = session.start_update(request(how)).await?;
    let marked = update.refresh(key, entry).await;
    let result = match &marked {
        Ok(()) => UpdateResult::Succeeded,
        Err(_) => UpdateResult::Failed,
    };
    update.finish(result).await?;
    Ok(marked?)
}

fn request(how: &str) -> UpdateRequest {
    UpdateRequest::new(UpdateKind::Edit).with_message(format!("settle a pending operation: {how}"))
}

/// Decides how a pending operation is settled, by the user's decision or by what its provider finds. Writes nothing.
async fn settle_one(
    caller: &Caller,
    basis: &SettleBasis<'_>,
    decisions: &Decisions,
    operation: &PendingOperation,
) -> Result<Verdict> {
    let decision = decisions.by_id.get(&operation.id).unwrap_or(&decisions.otherwise);
    let id = match decision {
        Decision::Leave => return Ok(Verdict::Open("the user asked to leave it pending".to_owned())),
        Decision::NotDone => {
            return Ok(Verdict::Resolved(
                Resolution::NotDone,
                "declared as not done by the user",
            ));
        }
        Decision::Ask => None,
        Decision::Exists { id } => Some(id.clone()),
    };
    let unseen = match earlier_work(caller, &basis.state, operation) {
        EarlierWork::Running(reason) if id.is_none() => return Ok(Verdict::Open(reason)),
        EarlierWork::Unseen(reason) if id.is_none() => Some(reason),
        _ => None,
    };
    let open = |entry: &SharedEntry| basis.reveal(entry);
    let verdict = match operation.op {
        Op::Read | Op::Import => Verdict::Resolved(Resolution::NotDone, "it changes no real resource"),
        Op::Discard => Verdict::Resolved(Resolution::Done(None), "it affects no real resource"),
        Op::Create => {
            let Some(intended) = operation.entry.as_ref().map(open).transpose()? else {
                return Ok(Verdict::Open("the operation has no entry".to_owned()));
            };
            let result = operation.result.as_ref().and_then(|result| result.entry.as_ref());
            let known = result.and_then(|entry| entry.id.clone());
            settle_create(caller, &basis.state, &intended, operation, (id, known)).await?
        }
        Op::Update | Op::Delete => {
            let state = &basis.state;
            let Some(old) = state.entry(&operation.target).map(open).transpose()? else {
                return Ok(Verdict::Resolved(
                    Resolution::NotDone,
                    "its entry was removed in the meantime",
                ));
            };
            settle_change(caller, operation.op, &old, id, state).await?
        }
        other => Verdict::Open(format!("an operation of kind {other} can't be settled")),
    };
    let Some(reason) = unseen else {
        return Ok(verdict);
    };
    let recorded = basis.state.entry(&operation.target).map(open).transpose()?;
    Ok(match verdict.finds_no_effect(operation.op, recorded.as_deref()) {
        true => Verdict::Open(reason),
        false => verdict,
    })
}

/// Whether the work for an operation may go on.
fn earlier_work(caller: &Caller, state: &State, operation: &PendingOperation) -> EarlierWork {
    let kind = kind_of(state, operation);
    kind.map_or(EarlierWork::Ended, |kind| {
        caller.registry.earlier_work(&kind, operation.id)
    })
}

/// The kind of an operation's resource.
fn kind_of(state: &State, operation: &PendingOperation) -> Option<String> {
    let entry = operation.entry.as_ref();
    entry.or_else(|| state.entry(&operation.target))?.kind.clone()
}

/// Decides how a pending create is settled. `given_id` is the object's id in the user's decision. `known` is the id
/// that the create returned, if the state refused to record its result.
async fn settle_create(
    caller: &Caller,
    state: &State,
    intended: &SharedEntry,
    operation: &PendingOperation,
    (given_id, known): (Option<String>, Option<String>),
) -> Result<Verdict> {
    if let Some(id) = &given_id {
        caller.declare_object(intended, id);
    }
    let others = state.entries().filter(|entry| entry.kind == intended.kind);
    let others: BTreeSet<String> = others.filter_map(|entry| entry.id.clone()).collect();
    let known = RecordedObject {
        id: given_id.clone().or(known),
        others: others.clone(),
        mutation: Some(operation.id),
        ..RecordedObject::of(intended)
    };
    Ok(match inspect(caller, intended, known).await? {
        Ok(ReadResult::Object(object)) if others.contains(&object.id) => Verdict::Open(format!(
            "its provider found {}, which belongs to another resource",
            object.id
        )),
        Ok(ReadResult::Object(object)) => {
            // Dependencies may have been removed since the intent was recorded.
            let intended = without_missing_references(intended, state, |_| true);
            let mut entry = applied(intended, &object, caller.clock.now());
            match &object.inputs {
                Some(inputs) => entry.inputs = Some(inputs.clone()),
                // The create may have stopped halfway, so an init error forces the next run to update the object.
                None => entry.init_errors = vec!["the outcome of its create was unknown".to_owned()],
            }
            Verdict::Resolved(
                Resolution::Done(Some(SharedEntry::new(entry))),
                "the object was created",
            )
        }
        Ok(ReadResult::Missing) => match given_id {
            Some(id) => no_such_object(&id),
            None => Verdict::Resolved(Resolution::NotDone, "the object wasn't created"),
        },
        Ok(ReadResult::Indeterminate) => {
            Verdict::Open("its provider can't determine whether the object was created".to_owned())
        }
        Err(reason) => Verdict::Open(reason),
    })
}

/// Decides how a pending update or delete is settled. `given_id` is the object's id in the user's decision.
async fn settle_change(
    caller: &Caller,
    op: Op,
    old: &SharedEntry,
    given_id: Option<String>,
    state: &State,
) -> Result<Verdict> {
    let known = RecordedObject::of(old);
    match (&known.id, &given_id) {
        (None, None) => {
            return Ok(Verdict::Open(
                "the entry has no id, so its object can't be read".to_owned(),
            ));
        }
        (Some(known), Some(given_id)) if known != given_id => {
            return Ok(Verdict::Open(format!(
                "its recorded id is {known}, not {given_id}: settling can't assign another object"
            )));
        }
        (None, Some(given_id)) => {
            let is_its = |entry: &&SharedEntry| entry.kind == old.kind && entry.id.as_ref() == Some(given_id);
            if let Some(other) = state.entries().find(is_its) {
                let reason = format!("{given_id} is the id of {}", other.key());
                return Ok(Verdict::Open(reason));
            }
        }
        _ => {}
    }
    if let Some(id) = &given_id {
        caller.declare_object(old, id);
    }
    let known = RecordedObject {
        id: known.id.or(given_id.clone()),
        ..known
    };
    Ok(match (inspect(caller, old, known).await?, op) {
        (Ok(ReadResult::Object(_)), Op::Delete) => {
            Verdict::Resolved(Resolution::NotDone, "the object still exists")
        }
        // The user declared that the object exists, so a missing object contradicts the user.
        (Ok(ReadResult::Missing), _) if given_id.is_some() => no_such_object(&given_id.unwrap_or_default()),
        (Ok(ReadResult::Missing), Op::Delete) => {
            Verdict::Resolved(Resolution::Done(None), "the object was deleted")
        }
        (Ok(ReadResult::Object(object)), _) => Verdict::Recorded(
            Some(Box::new(interrupted_update(old, &object))),
            "the current object was recorded",
        ),
        (Ok(ReadResult::Missing), _) => Verdict::Recorded(None, "the object doesn't exist any more"),
        (Ok(ReadResult::Indeterminate), _) => {
            Verdict::Open("its provider can't determine the outcome".to_owned())
        }
        (Err(reason), _) => Verdict::Open(reason),
    })
}

fn no_such_object(id: &str) -> Verdict {
    Verdict::Open(format!("there is no object with the id {id}"))
}

/// Returns the entry after an update with an unknown outcome. If the provider returned no inputs of the object, an init
/// error forces the next run to update the object again.
fn interrupted_update(old: &Entry, object: &Object) -> Entry {
    let mut entry = as_found(old, object);
    if object.inputs.is_none() {
        entry.init_errors = vec!["the outcome of its last update was unknown".to_owned()];
    }
    entry
}

/// Reads the object. The inner error is the reason why the object can't be read; the outer error is a lost lock,
/// which ends settling.
async fn inspect(
    caller: &Caller,
    entry: &Entry,
    known: RecordedObject,
) -> Result<std::result::Result<ReadResult, String>> {
    match caller.read(&CallTarget::entry(entry), known).await {
        Ok(found) => Ok(Ok(found)),
        Err(CallError::Failed(failure)) => Ok(Err(failure.to_string())),
        Err(CallError::Abandoned) => Ok(Err("the run was asked to stop".to_owned())),
        Err(CallError::LockLost(error)) => Err(error.into()),
    }
}

/// Prepares the entry of a create that takes the position of its tombstone in the list, if it has one: the entry of a
/// deleted object that waits for its replacement. All dependencies of the entry must precede that position. Dependencies
/// after it are recorded again in an update of their own, which moves them before the tombstone. This is impossible if a
/// dependency depends on the tombstone itself. The entry then loses its references to all entries after the tombstone.
async fn with_recorded_dependencies(
    session: &Session,
    operation: &PendingOperation,
    resolution: Resolution,
) -> Result<Resolution> {
    // A replacement is appended to the list, so all its dependencies precede it already.
    let intended = match &resolution {
        Resolution::Done(Some(entry)) if operation.op == Op::Create && operation.deposes.is_none() => entry,
        _ => return Ok(resolution),
    };
    let state = session.state();
    let key = intended.key();
    let precedes = |other: &SharedEntry| state.comes_before(&other.key(), &key);
    // Without a tombstone the entry is appended to the list, so all its dependencies precede it.
    if state.entry(&key).is_none() {
        return Ok(resolution);
    }
    let reached = without_missing_references(intended, &state, precedes);
    if reached == **intended {
        return Ok(resolution);
    }
    // All dependencies are needed, because the update that re-records them has recorded nothing yet.
    let needed = unrecorded_dependencies(&state, &|_| false, intended);
    if needed.iter().any(|entry| entry.key() == key) {
        return Ok(Resolution::Done(Some(Arc::new(reached))));
    }
    let request = request("record dependencies before the settled resource");
    let update = session.start_update(request).await?;
    let re_recorded = record_again(session, &update, &needed).await;
    let result = match re_recorded {
        Ok(()) => UpdateResult::Succeeded,
        Err(_) => UpdateResult::Failed,
    };
    update.finish(result).await?;
    re_recorded.map(|()| resolution)
}

async fn record_again(session: &Session, update: &Update, needed: &[SharedEntry]) -> Result<()> {
    for entry in needed {
        update.same(Entry::clone(&*session.reveal(entry)?)).await?;
    }
    Ok(())
}

/// Returns the entry without its references to addresses that have no suitable entry. An address may have several
/// recorded entries (generations). The reference to the address is kept if `is_such` accepts one of these entries.
/// References to groups are always kept.
fn without_missing_references(
    intended: &Entry,
    state: &State,
    is_such: impl Fn(&SharedEntry) -> bool,
) -> Entry {
    let has_one = |address: &Address, id: Option<&str>| {
        let mut all = state.generations(address);
        all.any(|generation| (id.is_none() || generation.id.as_deref() == id) && is_such(generation))
    };
    let references = intended.references();
    let gone = references.filter_map(|reference| match reference.to {
        Dependency::Entry(address) => Some(address).filter(|address| !has_one(address, None)),
        Dependency::Group(_) => None,
    });
    let mut entry = without_references_to(intended, &gone.collect());
    let provider = entry.provider.into_inner();
    entry.provider = provider
        .filter(|by| has_one(&by.address, by.id.as_deref()))
        .into();
    entry
}

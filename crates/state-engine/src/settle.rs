//! What became of the operations that a run before left pending.
//!
//! | pending | the world says | settled as |
//! |---|---|---|
//! | create | it is there | done, with what is there; if nobody knows its inputs, the next update mends it |
//! | create | it isn't | not done |
//! | update | it is there | what is there is recorded; the next update sees the difference |
//! | update | it isn't | the entry goes |
//! | delete | it is there | not done |
//! | delete | it isn't | done |
//! | read, import | – | not done: they change no world |
//! | discard | – | done: it touches no world |
//!
//! What nobody can tell stays pending: its entry isn't touched by any run until somebody decides.

use crate::call::{CallError, CallTarget, Caller, Known, Preparations};
use crate::error::Result;
use crate::event::{Event, Observer};
use crate::planner::{applied, as_found, without_references_to};
use crate::provider::{Found, Object};
use crate::record::unrecorded_dependencies;
use state_core::mutation::Resolution;
use state_core::{
    Address, Dependency, Entry, EntryKey, Error, LogLevel, LogLine, MutationId, Op, PendingOperation,
    SharedEntry, State, UpdateKind, UpdateResult,
};
use state_manager::{Session, Update, UpdateRequest};
use std::collections::{BTreeMap, BTreeSet};

/// What somebody knows of a pending operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Ask the provider.
    #[default]
    Ask,
    /// The object exists, under this id: read it and record it.
    Exists {
        /// The provider's name for it.
        id: String,
    },
    /// The world didn't change: discard the operation.
    NotDone,
    /// Leave it as it is.
    Leave,
}

/// Decisions by operation; what isn't in it is decided by `otherwise`. By default the providers are asked.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// By operation.
    pub by_id: BTreeMap<MutationId, Decision>,
    /// For all others.
    pub otherwise: Decision,
}

/// What settling leaves for the run after it.
#[derive(Clone, Debug, Default)]
pub struct Settling {
    /// What engine and providers said: it is stored with the run's update.
    pub(crate) lines: Vec<LogLine>,
    /// The providers that were asked.
    pub(crate) preparations: Preparations,
}

/// What turned out.
enum Verdict {
    /// This resolves it.
    Resolved(Resolution, &'static str),
    /// First this is recorded of the entry, then it is as if it was never begun.
    Recorded(Option<Box<Entry>>, &'static str),
    /// Nobody can tell.
    Open(String),
}

/// Settles all that is pending, as far as it can be told. What happens between two records is told by the next run.
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
        let verdict = judge(caller, session, decisions, &operation).await?;
        let settled = match verdict {
            Verdict::Open(reason) => Err(reason),
            Verdict::Resolved(resolution, how) => {
                match resolve(session, &operation, resolution, how).await? {
                    // It is gone, whatever still refers to it.
                    Err(_) if operation.op == Op::Delete => recorded(session, &operation, None, how).await?,
                    settled => settled,
                }
            }
            Verdict::Recorded(entry, how) => {
                recorded(session, &operation, entry.map(|entry| *entry), how).await?
            }
        };
        let log = caller.logger.about(&operation.target.address);
        match settled {
            Ok(how) => {
                let how = how.to_owned();
                observer.event(&Event::Settled { operation, how });
            }
            Err(reason) => {
                let what = format!("{} {} of {}", operation.op, operation.id, operation.target);
                log.say(LogLevel::Warning, format!("{what} is still pending: {reason}"));
                observer.event(&Event::Pending(operation));
            }
        }
    }
    Ok(())
}

/// Records what the world says; then it is as if the operation was never begun.
async fn recorded(
    session: &Session,
    operation: &PendingOperation,
    entry: Option<Entry>,
    how: &'static str,
) -> Result<Result<&'static str, String>> {
    mark(session, operation.target.clone(), entry, how).await?;
    resolve(session, operation, Resolution::NotDone, how).await
}

/// Records what turned out. A rule that it breaks leaves it pending.
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
        mark(session, operation.target.clone(), Some(entry), how).await?;
    }
    Ok(Ok(how))
}

/// Records what the world says of an entry.
async fn mark(session: &Session, key: EntryKey, entry: Option<Entry>, how: &str) -> Result<()> {
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
    UpdateRequest::new(UpdateKind::Edit).with_message(format!("a pending operation was settled: {how}"))
}

async fn judge(
    caller: &Caller,
    session: &Session,
    decisions: &Decisions,
    operation: &PendingOperation,
) -> Result<Verdict> {
    let decision = decisions.by_id.get(&operation.id).unwrap_or(&decisions.otherwise);
    let id = match decision {
        Decision::Leave => return Ok(Verdict::Open("it was asked to be left".to_owned())),
        Decision::NotDone => {
            return Ok(Verdict::Resolved(
                Resolution::NotDone,
                "it was said that nothing was done",
            ));
        }
        Decision::Ask => None,
        Decision::Exists { id } => Some(id.clone()),
    };
    let open = |entry: &SharedEntry| session.reveal(entry);
    Ok(match operation.op {
        Op::Read | Op::Import => Verdict::Resolved(Resolution::NotDone, "it doesn't change the world"),
        Op::Discard => Verdict::Resolved(Resolution::Done(None), "it doesn't touch the world"),
        Op::Create => {
            let Some(meant) = operation.entry.as_ref().map(open).transpose()? else {
                return Ok(Verdict::Open("its entry is missing".to_owned()));
            };
            let result = operation.result.as_ref().and_then(|result| result.entry.as_ref());
            let known = result.and_then(|entry| entry.id.clone());
            created(caller, session, &meant, operation, (id, known)).await?
        }
        Op::Update | Op::Delete => {
            let state = session.state();
            let Some(old) = state.entry(&operation.target).map(open).transpose()? else {
                return Ok(Verdict::Resolved(Resolution::NotDone, "its entry went meanwhile"));
            };
            changed(caller, operation.op, &old, id, &state).await?
        }
        other => Verdict::Open(format!("a step of kind {other} is never pending")),
    })
}

async fn created(
    caller: &Caller,
    session: &Session,
    meant: &SharedEntry,
    operation: &PendingOperation,
    (said, known): (Option<String>, Option<String>),
) -> Result<Verdict> {
    let state = session.state();
    let others = state.entries().filter(|entry| entry.kind == meant.kind);
    let others: BTreeSet<String> = others.filter_map(|entry| entry.id.clone()).collect();
    let known = Known {
        id: said.clone().or(known),
        others: others.clone(),
        mutation: Some(operation.id),
        ..Known::of(meant)
    };
    Ok(match look(caller, meant, known).await? {
        Ok(Found::Object(object)) if others.contains(&object.id) => Verdict::Open(format!(
            "its provider found {}, which is another entry's",
            object.id
        )),
        Ok(Found::Object(object)) => {
            // What it refers to may have gone since it was meant to be made.
            let mut meant = without(meant, &state, |_| true);
            // What deposes another comes behind all that there is.
            if operation.deposes.is_none() {
                meant = in_reach(session, meant).await?;
            }
            let mut entry = applied(meant, &object, caller.clock.now());
            match &object.inputs {
                Some(inputs) => entry.inputs = Some(inputs.clone()),
                // Nobody knows how far it got.
                None => entry.init_errors = vec!["nobody saw its create end".to_owned()],
            }
            Verdict::Resolved(Resolution::Done(Some(SharedEntry::new(entry))), "it was made")
        }
        Ok(Found::Gone) => match said {
            Some(id) => nothing_there(&id),
            None => Verdict::Resolved(Resolution::NotDone, "it wasn't made"),
        },
        Ok(Found::CannotTell) => Verdict::Open("its provider can't tell whether it was made".to_owned()),
        Err(reason) => Verdict::Open(reason),
    })
}

async fn changed(
    caller: &Caller,
    op: Op,
    old: &SharedEntry,
    said: Option<String>,
    state: &State,
) -> Result<Verdict> {
    let known = Known::of(old);
    match (&known.id, &said) {
        (None, None) => return Ok(Verdict::Open("it has no id to read it by".to_owned())),
        (Some(known), Some(said)) if known != said => {
            return Ok(Verdict::Open(format!(
                "it is {known} on record, not {said}: which object an entry has isn't changed by settling"
            )));
        }
        (None, Some(said)) => {
            let is_its = |entry: &&SharedEntry| entry.kind == old.kind && entry.id.as_ref() == Some(said);
            if let Some(other) = state.entries().find(is_its) {
                let reason = format!("{said} is that of {}", other.key());
                return Ok(Verdict::Open(reason));
            }
        }
        _ => {}
    }
    let known = Known {
        id: known.id.or(said.clone()),
        ..known
    };
    Ok(match (look(caller, old, known).await?, op) {
        (Ok(Found::Object(_)), Op::Delete) => Verdict::Resolved(Resolution::NotDone, "it is still there"),
        // Somebody says that it is there.
        (Ok(Found::Gone), _) if said.is_some() => nothing_there(&said.unwrap_or_default()),
        (Ok(Found::Gone), Op::Delete) => Verdict::Resolved(Resolution::Done(None), "it was deleted"),
        (Ok(Found::Object(object)), _) => Verdict::Recorded(
            Some(Box::new(half_done(old, &object))),
            "what is there was recorded",
        ),
        (Ok(Found::Gone), _) => Verdict::Recorded(None, "it isn't there any more"),
        (Ok(Found::CannotTell), _) => Verdict::Open("its provider can't tell".to_owned()),
        (Err(reason), _) => Verdict::Open(reason),
    })
}

fn nothing_there(id: &str) -> Verdict {
    Verdict::Open(format!("it was said to be {id}, and there is no such object"))
}

/// An entry whose update nobody saw end: the next one has to go over it again.
fn half_done(old: &Entry, object: &Object) -> Entry {
    let mut entry = as_found(old, object);
    if object.inputs.is_none() {
        entry.init_errors = vec!["nobody saw its last update end".to_owned()];
    }
    entry
}

/// What the provider says, or why it doesn't. A lock that is lost ends it all.
async fn look(caller: &Caller, entry: &Entry, known: Known) -> Result<std::result::Result<Found, String>> {
    match caller.read(&CallTarget::entry(entry), known).await {
        Ok(found) => Ok(Ok(found)),
        Err(CallError::Failed(failure)) => Ok(Err(failure.to_string())),
        Err(CallError::Left) => Ok(Err("the run was asked to stop".to_owned())),
        Err(CallError::Lost(error)) => Err(error.into()),
    }
}

/// The entry with nothing that it refers to behind the tombstone whose place it takes: that is brought before it, or, if
/// it needs the tombstone itself, referred to no more.
async fn in_reach(session: &Session, meant: Entry) -> Result<Entry> {
    let state = session.state();
    let key = meant.key();
    // What has no place yet stands behind everything.
    let comes_before = |other: &SharedEntry| state.comes_before(&other.key(), &key);
    if state.entry(&key).is_none() {
        return Ok(meant);
    }
    let reached = without(&meant, &state, comes_before);
    if reached == meant {
        return Ok(meant);
    }
    // All of it, for nothing of the update that brings it is recorded yet.
    let needed = unrecorded_dependencies(&state, &|_| false, &meant);
    if needed.iter().any(|entry| entry.key() == key) {
        return Ok(reached);
    }
    let request = request("what it needs is brought before it");
    let update = session.start_update(request).await?;
    let brought = bring(session, &update, &needed).await;
    let result = match brought {
        Ok(()) => UpdateResult::Succeeded,
        Err(_) => UpdateResult::Failed,
    };
    update.finish(result).await?;
    brought.map(|()| meant)
}

async fn bring(session: &Session, update: &Update, needed: &[SharedEntry]) -> Result<()> {
    for entry in needed {
        update.same(Entry::clone(&*session.reveal(entry)?)).await?;
    }
    Ok(())
}

/// The entry without its references to what has no such generation.
fn without(meant: &Entry, state: &State, is_such: impl Fn(&SharedEntry) -> bool) -> Entry {
    let has_one = |address: &Address, id: Option<&str>| {
        let mut all = state.generations(address);
        all.any(|generation| (id.is_none() || generation.id.as_deref() == id) && is_such(generation))
    };
    let references = meant.references();
    let gone = references.filter_map(|reference| match reference.to {
        Dependency::Entry(address) => Some(address).filter(|address| !has_one(address, None)),
        Dependency::Group(_) => None,
    });
    let mut entry = without_references_to(meant, &gone.collect());
    let provider = entry.provider.into_inner();
    entry.provider = provider
        .filter(|by| has_one(&by.address, by.id.as_deref()))
        .into();
    entry
}

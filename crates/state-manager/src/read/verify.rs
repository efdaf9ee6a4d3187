//! Verifies a stack: its tags, digests and integrity rules, and on request its whole history.

use crate::compute::compute;
use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, OpenedJournal, ReadSnapshots};
use crate::keys::proof::Proof;
use crate::keys::reveal::reveal;
use crate::keys::wrapped;
use crate::objects::document::RevisionDocument;
use crate::read::history;
use crate::read::history_floor::ATTEMPTS;
use crate::read::open::{self, Extent};
use crate::read::replay;
use crate::read::stored::UncheckedJournal;
use crate::read::tip::Tip;
use serde::Serialize;
use state_core::backend::{ObjectKind, Tail};
use state_core::head::Collection;
use state_core::history::page_of;
use state_core::verify::{self, Report};
use state_core::{
    Base, Digest, Error, Frame, Head, KeyId, Result, RevisionId, Serial, Slot, SnapshotRef, State, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The result of a verification: counts of the items that were read, and the violations.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// Number of frames that were read.
    pub frames: u64,
    /// Number of stored snapshots that were read.
    pub snapshots: u64,
    /// Number of revisions in the history.
    pub revisions: u64,
    /// Number of resources in the tip.
    pub entries: u64,
    /// Number of logs that were read. Only a deep verification reads them.
    pub logs: u64,
    /// Updates whose log is missing, by the serials of their revisions: it was deleted, or the writer crashed before it
    /// stored the log. Only a deep verification lists them.
    #[serde(rename = "missing-logs", skip_serializing_if = "Vec::is_empty")]
    pub missing_logs: Vec<Serial>,
    /// Replaced data keys that none of this client's identities opens, by id. Values of earlier revisions that are sealed
    /// with them can't be opened. Only a deep verification by a client that opens the key in use lists them.
    #[serde(rename = "unopened-keys", skip_serializing_if = "Vec::is_empty")]
    pub unopened_keys: Vec<KeyId>,
    /// Missing snapshots of earlier checkpoints, by path below the stack's folder. The frames before them lead to the same states.
    /// Only a deep verification lists them.
    #[serde(rename = "missing-checkpoints", skip_serializing_if = "Vec::is_empty")]
    pub missing_checkpoints: Vec<String>,
    /// Stored history pages that the head doesn't name, by path below the stack's folder. They are ignored: a crash or
    /// a merge of pages left them, or another client of the store added them. Only a deep verification lists them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreferenced: Vec<String>,
    /// Violations of integrity rules, and notes.
    #[serde(flatten)]
    pub report: Report,
}

/// Verifies a stack; retries if a writer or a collection changed it during an attempt that failed.
pub(crate) async fn verify(stack: &StackContext, deep: bool) -> Result<VerifyReport> {
    let mut attempt = 1;
    loop {
        // A check of the store must not use what was read before.
        let stack = &stack.reading_anew();
        let mut read_to = None;
        let verified = verify_once(stack, deep, &mut read_to).await;
        let (Err(_), Some(end), true) = (&verified, read_to, attempt < ATTEMPTS) else {
            return verified;
        };
        let now = UncheckedJournal::read(stack, None).await?.end();
        // A concurrent collection may have deleted objects that this attempt needed. The failure is real only if the
        // stack didn't change during the attempt.
        if now == end {
            return verified;
        }
        attempt += 1;
    }
}

/// One attempt. `read_to` becomes the end of the journal that was read, and the collection in its head.
async fn verify_once(
    stack: &StackContext,
    deep: bool,
    read_to: &mut Option<(Tail, Option<Collection>)>,
) -> Result<VerifyReport> {
    let extent = if deep { Extent::Whole } else { Extent::Live };
    let journal = open::journal(stack, extent).await?.journal;
    *read_to = Some((journal.tail, journal.head.collection.clone()));
    let tip = Tip::of(stack, &journal).await?;
    let revisions = history::documents(stack, &tip).await?;
    let mut read: BTreeSet<Digest> = tip.loaded().keys().copied().collect();
    let mut unreferenced = Vec::new();
    let mut logs = CheckedLogs::default();
    let mut unopened_keys = Vec::new();
    let mut missing_checkpoints = Vec::new();
    if deep {
        for document in &revisions {
            if let Some(stored) = document.detached_snapshot() {
                authenticate::detached(stack, document).await?;
                read.insert(stored.digest);
            }
        }
        authenticate::check_earlier_frames(stack, &journal).await?;
        let from = tip.floor.beginning.clone();
        compare_documents(stack, &journal, &tip, &revisions)?;
        missing_checkpoints =
            compare_checkpoints(stack, &journal, from, &tip.replayed.state, &mut read).await?;
        unreferenced = unreferenced_pages(stack, &tip).await?;
        logs = check_logs(stack, &revisions).await?;
        unopened_keys = unopened(stack, &tip.head).await?;
    }
    let replayed = tip.replayed;
    let snapshot = replayed.state.snapshot(stack.name().to_string(), replayed.moment);
    Ok(VerifyReport {
        report: compute(move || verify::verify(&snapshot)).await?,
        frames: journal.frames.len() as u64,
        snapshots: read.len() as u64,
        revisions: revisions.len() as u64,
        entries: replayed.state.len() as u64,
        logs: logs.read,
        missing_logs: logs.missing,
        unopened_keys,
        missing_checkpoints,
        unreferenced,
    })
}

/// Compares the revision documents of the history with the journal, from which they are derived.
fn compare_documents(
    stack: &StackContext,
    journal: &OpenedJournal,
    tip: &Tip,
    revisions: &[Authenticated<RevisionDocument>],
) -> Result<()> {
    let differs = |id: &RevisionId, reason: &str| {
        let page = page_of(&tip.head.history.pages, id);
        let object = page.map_or_else(|| format!("revision {id}"), |page| page.object().to_string());
        let object = format!("stack {}: {object}", stack.lineage());
        Err(Error::corrupt(object, 0, reason))
    };
    let mut made = BTreeMap::new();
    for frame in journal.frames().each() {
        if let Some(document) = authenticate::document(stack.lineage(), frame)? {
            made.insert(document.revision.clone(), document.into_value());
        }
    }
    for document in revisions {
        if made.remove(&document.revision).as_ref() != Some(&**document) {
            return differs(&document.revision, "it does not match the journal");
        }
    }
    match made.keys().find(|id| tip.lists(id)) {
        Some(missing) => differs(missing, "a revision that the journal contains is missing"),
        None => Ok(()),
    }
}

/// The result of reading all logs.
#[derive(Default)]
struct CheckedLogs {
    read: u64,
    missing: Vec<Serial>,
}

/// Reads the log of each update and compares it with the digest in the update's revision.
async fn check_logs(
    stack: &StackContext,
    revisions: &[Authenticated<RevisionDocument>],
) -> Result<CheckedLogs> {
    let mut checked = CheckedLogs::default();
    for document in revisions {
        let Some(log) = document.log() else {
            continue;
        };
        let serial = document.revision.serial();
        match authenticate::log(stack, serial, log).await? {
            Some(_) => checked.read += 1,
            None => checked.missing.push(serial),
        }
    }
    Ok(checked)
}

/// The replaced data keys that no available identity opens; none on a client that can't open the key in use either, such as
/// one without an identity.
async fn unopened(stack: &StackContext, head: &Authenticated<Head>) -> Result<Vec<KeyId>> {
    let mut unopened = Vec::new();
    if !matches!(head.proof(), Proof::Mac(_)) {
        return Ok(unopened);
    }
    let replaced = wrapped::keys_of(head).into_iter();
    for id in replaced.filter(|id| head.key_id != Some(*id)) {
        match wrapped::unwrap(stack, id).await {
            Err(Error::Sealed { .. }) => unopened.push(id),
            opened => drop(opened?),
        }
    }
    Ok(unopened)
}

/// The stored history pages that the head doesn't name.
async fn unreferenced_pages(stack: &StackContext, tip: &Tip) -> Result<Vec<String>> {
    let named = authenticate::pages(stack, &tip.head).await?;
    let pages = stack.backend().list(stack.lineage(), ObjectKind::Update).await?;
    let pages = pages.iter().filter(|page| !named.names(page));
    Ok(pages.map(ToString::to_string).collect())
}

/// Replays the journal from the beginning of history and compares every checkpoint, and the tip, with the replayed
/// state. Returns the missing snapshots of earlier checkpoints, which nothing needs while the journal is whole.
async fn compare_checkpoints(
    stack: &StackContext,
    journal: &OpenedJournal,
    mut from: Authenticated<Base>,
    tip: &State,
    read: &mut BTreeSet<Digest>,
) -> Result<Vec<String>> {
    let (frames, base) = (journal.frames(), journal.head.base());
    let stored = stack
        .backend()
        .list(stack.lineage(), ObjectKind::Snapshot)
        .await?;
    let mut lost = Vec::new();
    let mut checkpoints: BTreeMap<Slot, Authenticated<Base>> = BTreeMap::new();
    for frame in frames.each() {
        let noted = authenticate::checkpoints(stack.lineage(), frame)?.into_iter();
        checkpoints.extend(noted.map(|base| (base.start, base)));
    }
    checkpoints.insert(base.start, base.cloned());
    // A checkpoint record may name a checkpoint from before the beginning of history, whose snapshot was collected.
    let begins = from.start;
    for checkpoint in checkpoints
        .into_values()
        .filter(|checkpoint| checkpoint.snapshot.is_some() && checkpoint.start >= begins)
    {
        let mut named = checkpoint.snapshots().map(SnapshotRef::object);
        let missing = named.find(|object| !stored.contains(object));
        drop(named);
        if let Some(missing) = missing.filter(|_| checkpoint.start != base.start) {
            lost.push(missing.to_string());
            continue;
        }
        let expected = replay_between(stack, frames, &from, checkpoint.start, read).await?;
        let stored = replay::at_base(stack, checkpoint.by_ref(), &ReadSnapshots::default()).await?;
        if !means_the_same(stack, &journal.head, &expected, &stored.state).await? {
            let name = checkpoint
                .snapshot
                .as_ref()
                .map_or_else(String::new, |s| s.object().to_string());
            let object = format!("stack {}: {name}", stack.lineage());
            return Err(Error::corrupt(
                object,
                0,
                "it does not match the journal before it",
            ));
        }
        read.extend(stored.loaded.keys());
        from = checkpoint;
    }
    if replay_between(stack, frames, &from, Slot(u64::MAX), read).await? == *tip {
        return Ok(lost);
    }
    Err(Error::corrupt(
        format!("journal of stack {}", stack.lineage()),
        0,
        "replaying it doesn't yield the tip",
    ))
}

/// Whether two states are equal apart from the keys with which their values are sealed. If this client can't open these
/// keys, only the identity and the order of the entries are compared.
async fn means_the_same(
    stack: &StackContext,
    head: &Authenticated<Head>,
    one: &State,
    other: &State,
) -> Result<bool> {
    if one == other {
        return Ok(true);
    }
    if !continues_alike(one, other) {
        return Ok(false);
    }
    let snapshot = |state: &State| state.snapshot(String::new(), Timestamp::new(""));
    let open = reveal(stack, head, snapshot(one)).await;
    match (open, reveal(stack, head, snapshot(other)).await) {
        (Ok(one), Ok(other)) => Ok(one == other),
        (Err(Error::Sealed { .. }), _) | (_, Err(Error::Sealed { .. })) => {
            let identities = |state: &State| -> Vec<_> {
                let entries = state.entries();
                entries.map(|entry| (entry.key(), entry.uid)).collect()
            };
            Ok(identities(one) == identities(other))
        }
        (one, other) => one.and(other).map(|_| false),
    }
}

/// Whether a replayed and a stored state are continued in the same way. The stored one may remember more mutations: a history
/// whose beginning a salvage made doesn't know those before it.
fn continues_alike(replayed: &State, stored: &State) -> bool {
    let (mut replayed, stored) = (replayed.continuation(), stored.continuation());
    if !stored.recent.ends_with(&replayed.recent) {
        return false;
    }
    replayed.recent.clone_from(&stored.recent);
    replayed == stored
}

/// The state at a slot, replayed from a base.
async fn replay_between(
    stack: &StackContext,
    frames: Authenticated<&[Frame]>,
    from: &Authenticated<Base>,
    to: Slot,
    read: &mut BTreeSet<Digest>,
) -> Result<State> {
    let between = frames.starting_at(from.start).ending_before(to);
    let replayed = replay::from_base(stack, from.by_ref(), between, &ReadSnapshots::default()).await?;
    read.extend(replayed.loaded.keys());
    Ok(Arc::unwrap_or_clone(replayed.state))
}

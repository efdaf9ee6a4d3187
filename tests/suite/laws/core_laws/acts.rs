//! Applies each action of a history to the [`Bench`], as one or a few records.

use super::super::actions::{Action, Intention, Report};
use super::super::naive::Verdict;
use super::super::resolver::number;
use super::bench::{Bench, Checked, lineage, moment};
use proptest::sample::Index;
use proptest::{prop_assert, prop_assert_eq};
use state_core::journal::{
    ChangeKind, CheckpointNote, CompletionReason, DetachedRevision, EntryChange, ResetBase, ResetCause,
    RevisionChanges, UpdateEnd,
};
use state_core::mutation::{Begin, Edit, End, Resolve, StackOutputs, Step, StepChange};
use state_core::snapshot::{Invalidation, Plugin};
use state_core::{
    Address, Base, DeposedKey, Digest, Entropy, Entry, MutationId, Record, SharedEntry, Slot, Snapshot,
    SnapshotRef, UpdateId, UpdateInfo, UpdateKind, UpdateResult, codec, diff,
};
use std::sync::Arc;

impl Bench {
    /// Performs an action if possible. Starts an update first if the action needs one and none is open. Each record is
    /// checked by [`Bench::apply`].
    pub(crate) fn act(&mut self, action: &Action) -> Checked {
        if !matches!(
            action,
            Action::Start | Action::Crash | Action::Checkpoint | Action::End(..)
        ) && self.state.update().is_none()
        {
            self.start(UpdateKind::Update)?;
        }
        match action {
            Action::Start => self.start(UpdateKind::Update),
            Action::Begin(intention) => {
                let begin = self.begin(intention);
                self.apply(begin).map(drop)
            }
            Action::Run(intention, report) => {
                let begin = self.begin(intention);
                let pending = self.state.pending().count();
                if self.apply(begin)? != Verdict::Accepted {
                    return Ok(());
                }
                self.end(pending, report)
            }
            Action::End(which, report) => match self.state.pending().count() {
                0 => self
                    .apply(Record::End(End {
                        id: MutationId::from_bits([0; 16]),
                        outcome: report.outcome,
                        entry: None,
                        reasons: Vec::new(),
                    }))
                    .map(drop),
                pending => self.end(which.index(pending), report),
            },
            Action::Resolve(which, report) => self.resolve(which, report.as_ref()),
            Action::Edit(hands) => {
                let changes = hands.iter().map(|hand| self.resolver().hand(hand)).collect();
                let id = self.mutation();
                self.apply(Record::Edit(Edit { id, changes })).map(drop)
            }
            Action::Plugin(_) | Action::StackOutputs(_) => self.header(action),
            Action::Finish(result) => self.finish(*result),
            Action::Crash => self.crash(),
            Action::Checkpoint => self.checkpoint(),
            Action::Restore(_)
            | Action::Import(..)
            | Action::Write(..)
            | Action::Forget(_)
            | Action::Save(..) => self.act_on_revisions(action),
            Action::Invalidate => self.invalidate(),
            Action::Validate => self.apply(Record::Validate(CompletionReason::Resolved)).map(drop),
            _ => self.step(action),
        }
    }

    /// Applies an action that changes the manifest or the outputs of the stack.
    fn header(&mut self, action: &Action) -> Checked {
        match action {
            Action::Plugin(number) => {
                let plugin = Plugin {
                    kind: "resource".to_owned(),
                    name: format!("p{number}"),
                    version: String::new(),
                };
                self.apply(Record::RecordPlugin(plugin)).map(drop)
            }
            Action::StackOutputs(value) => {
                let values = [("v".to_owned(), number("n", *value).json().clone())];
                let outputs = StackOutputs {
                    values: values.into_iter().collect(),
                    sensitive: Vec::new(),
                };
                self.apply(Record::SetOutputs(outputs)).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Applies an action that is recorded as a single `Step` record.
    fn step(&mut self, action: &Action) -> Checked {
        let resolver = self.resolver();
        let change = match action {
            Action::Same(target, change) => {
                let target = resolver.target(target);
                let mut entry = resolver.changed(self.state.entry(&target), &target, change);
                let choice = self.entropy.bits()[0];
                if choice.is_multiple_of(2)
                    && let Some(old) = self.state.entry(&target)
                {
                    entry = state_core::Entry::clone(old);
                }
                if choice.is_multiple_of(4) {
                    return self.unchanged(target.address);
                }
                StepChange::Same(entry.into())
            }
            Action::Replace(target) => StepChange::Replace(resolver.target(target)),
            Action::Refresh(target, change) => {
                let target = resolver.target(target);
                let old = self.state.entry(&target);
                let entry = change
                    .as_ref()
                    .map(|change| resolver.changed(old, &target, change).into());
                StepChange::Refresh { target, entry }
            }
            Action::RemovePendingReplace(target) => StepChange::RemovePendingReplace(resolver.target(target)),
            Action::Outputs(target, value) => StepChange::Outputs {
                target: resolver.target(target),
                outputs: number("out", *value),
                sensitive: Vec::new(),
            },
            other => unreachable!("not a step: {other:?}"),
        };
        let id = self.mutation();
        self.apply(Record::Step(Step { id, change })).map(drop)
    }

    /// Records an entry as unchanged by its address, sometimes together with the next entry of the list.
    fn unchanged(&mut self, address: Address) -> Checked {
        let mut addresses = vec![address];
        if self.entropy.bits()[0].is_multiple_of(2) {
            let mut rest = self
                .state
                .entries()
                .skip_while(|entry| entry.address != addresses[0]);
            addresses.extend(rest.nth(1).map(|entry| entry.address.clone()));
        }
        self.apply(Record::Unchanged(addresses)).map(drop)
    }

    /// Performs an action that needs an earlier revision; does nothing if there is none.
    fn act_on_revisions(&mut self, action: &Action) -> Checked {
        let count = self.revisions.len();
        if count == 0 {
            return Ok(());
        }
        match action {
            Action::Forget(which) => {
                let revision = self.revisions[which.index(count)].0.clone();
                self.apply(Record::Forget(revision)).map(drop)
            }
            Action::Restore(which) => {
                let (revision, snapshot) = self.revisions[which.index(count)].clone();
                self.rebase(&snapshot, ResetCause::Restore { revision })
            }
            Action::Import(which, length, serial) => {
                let snapshot = self.first_of(which, length);
                let foreign = Some(("terraform".to_owned(), u64::from(*serial)));
                self.rebase(&snapshot, ResetCause::Import { foreign })
            }
            Action::Save(which, length) => {
                let snapshot = self.first_of(which, length);
                self.rebase(&snapshot, ResetCause::Import { foreign: None })?;
                self.apply(Record::Validate(CompletionReason::Saved)).map(drop)
            }
            Action::Write(which, length) => {
                let snapshot = self.first_of(which, length);
                let reference = self.store(&snapshot);
                let stored = DetachedRevision {
                    serial: self.state.serial().next(),
                    snapshot: reference,
                    entries: snapshot.entries.len() as u64,
                };
                self.apply(Record::DetachedRevision(stored)).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn invalidate(&mut self) -> Checked {
        let mark = Invalidation {
            update: UpdateId::random(&self.entropy),
            since: moment(),
        };
        self.apply(Record::Invalidate(mark)).map(drop)
    }

    /// Returns a revision's snapshot with only its first entries, which are still in topological order.
    fn first_of(&self, which: &Index, length: &Index) -> Arc<Snapshot> {
        let mut snapshot = Snapshot::clone(&self.revisions[which.index(self.revisions.len())].1);
        snapshot
            .entries
            .truncate(length.index(snapshot.entries.len() + 1));
        snapshot.into()
    }

    /// Replaces the base by a snapshot, with a `ResetBase` record.
    fn rebase(&mut self, snapshot: &Arc<Snapshot>, cause: ResetCause) -> Checked {
        let reference = self.store(snapshot);
        // An import with a foreign serial takes over the pending operations of its snapshot, without their refused
        // results. All other resets take over no pending operations.
        let mut pending = match cause {
            ResetCause::Import { foreign: Some(_) } => snapshot.pending_operations.clone(),
            _ => Vec::new(),
        };
        pending.iter_mut().for_each(|operation| operation.result = None);
        let id = self.mutation();
        let rebase = ResetBase {
            id,
            snapshot: reference,
            cause,
            pending,
        };
        self.apply(Record::ResetBase(rebase)).map(drop)
    }

    /// Makes a snapshot available to later records, and returns a reference to it.
    fn store(&mut self, snapshot: &Arc<Snapshot>) -> SnapshotRef {
        let stored = codec::encode_stored(snapshot);
        let digest = Digest::of(&stored);
        self.loaded.insert(digest, Arc::clone(snapshot));
        SnapshotRef {
            slot: Slot(self.frames.len() as u64),
            digest,
            length: stored.len() as u64,
        }
    }

    fn start(&mut self, kind: UpdateKind) -> Checked {
        let info = UpdateInfo::new(UpdateId::random(&self.entropy), kind, moment());
        self.apply(Record::UpdateStart(info)).map(drop)
    }

    fn finish(&mut self, result: UpdateResult) -> Checked {
        let Some(update) = self.state.update().cloned() else {
            return Ok(());
        };
        self.compare_changes()?;
        let mark = UpdateEnd {
            serial: self.state.serial().next(),
            update: UpdateInfo {
                end: Some(moment()),
                result: Some(result),
                ..update
            },
            base: Base::empty(lineage()),
            entries: self.state.len() as u64,
            changed: None,
            log: None,
        };
        self.apply(Record::UpdateEnd(mark)).map(drop)
    }

    /// Asserts that the state lists exactly the entries that differ from those of the last revision. A state that was
    /// loaded from a checkpoint may not know them.
    fn compare_changes(&self) -> Checked {
        let before = self
            .revisions
            .last()
            .map_or(&[][..], |(_, snapshot)| &snapshot.entries);
        let expected = changes(before, &self.naive.entries());
        match self.state.changes() {
            Some(RevisionChanges::Listed(found)) => prop_assert_eq!(found, expected),
            Some(other) => prop_assert!(false, "{:?}", other),
            None => prop_assert!(!self.state.is_committed()),
        }
        if self.state.is_committed() {
            prop_assert_eq!(before, &self.naive.entries());
        }
        Ok(())
    }

    /// Writes the records since the last frame as a frame, and ends the update as interrupted, as the next writer does
    /// after a crash.
    fn crash(&mut self) -> Checked {
        self.write_frame()?;
        self.finish(UpdateResult::Interrupted)
    }

    /// Records a checkpoint, and continues with the state that a reader decodes from it.
    fn checkpoint(&mut self) -> Checked {
        self.write_frame()?;
        let note = CheckpointNote {
            base: Base::empty(lineage()),
        };
        self.apply(Record::Checkpoint(note))?;
        self.state = self.reloaded()?;
        Ok(())
    }

    fn begin(&mut self, intention: &Intention) -> Record {
        let concrete = self.resolver().intention(intention);
        let id = match self.state.pending().next() {
            Some(begun) if intention.misfit => begun.id,
            _ => self.mutation(),
        };
        let deposes = concrete.replaces.then(|| {
            let key = format!("{:02x}", self.entropy.bits()[0]);
            DeposedKey::new(key).expect("two hexadecimal digits are a deposed key")
        });
        Record::Begin(Begin {
            id,
            op: concrete.op,
            target: concrete.target,
            entry: concrete.entry.map(Arc::new),
            deposes,
            tombstone: concrete.tombstone,
            at: None,
        })
    }

    /// Ends the pending operation with the index `place`.
    fn end(&mut self, place: usize, report: &Report) -> Checked {
        let operation = self.state.pending().nth(place).cloned();
        let operation = operation.expect("the index is below the number of pending operations");
        let result = self.resolver().report(&operation, report);
        let end = End {
            id: operation.id,
            outcome: result.outcome,
            entry: result.entry.map(Arc::new),
            reasons: result.reasons,
        };
        self.apply(Record::End(end)).map(drop)
    }

    fn resolve(&mut self, which: &Index, report: Option<&Report>) -> Checked {
        let pending: Vec<_> = self.state.pending().cloned().collect();
        if pending.is_empty() {
            return Ok(());
        }
        let operation = which.get(&pending);
        let resolution = self.resolver().resolution(operation, report);
        let id = operation.id;
        self.apply(Record::Resolve(Resolve { id, resolution })).map(drop)
    }
}

/// The differences between two lists of entries, sorted by key. Entries are matched by key, unless both have uids that
/// differ; the others by uid.
fn changes(before: &[SharedEntry], after: &[SharedEntry]) -> Vec<EntryChange> {
    let find = |list: &[SharedEntry], entry: &Entry| {
        let fits = |other: &&SharedEntry| {
            other.key() == entry.key()
                && (other.uid == entry.uid || other.uid.is_none() || entry.uid.is_none())
        };
        let by_uid = |other: &&SharedEntry| entry.uid.is_some() && other.uid == entry.uid;
        list.iter()
            .find(fits)
            .or_else(|| list.iter().find(by_uid))
            .cloned()
    };
    let change = |entry: &Entry, change| EntryChange {
        address: entry.address.clone(),
        deposed: entry.deposed.clone(),
        uid: entry.uid,
        change,
        from: None,
        properties: Vec::new(),
    };
    let mut found = Vec::new();
    for entry in after {
        let Some(old) = find(before, entry) else {
            found.push(change(entry, ChangeKind::Created));
            continue;
        };
        let pointers = diff::entry_changes(&old, entry)
            .into_iter()
            .map(|change| change.pointer);
        let properties: Vec<String> = pointers.collect();
        if properties.is_empty() && old.key() == entry.key() {
            continue;
        }
        let is_long = properties.len() > EntryChange::MOST_PROPERTIES;
        found.push(EntryChange {
            from: Some(old.key()).filter(|from| *from != entry.key()),
            properties: if is_long { Vec::new() } else { properties },
            ..change(
                entry,
                if is_long {
                    ChangeKind::Rewritten
                } else {
                    ChangeKind::Updated
                },
            )
        });
    }
    let gone = before.iter().filter(|old| find(after, old).is_none());
    found.extend(gone.map(|old| change(old, ChangeKind::Removed)));
    found.sort_by_key(|change| (change.key(), change.change == ChangeKind::Removed));
    found
}

//! A second client that reads the store while the session writes. It compares the store with the session, applies every
//! record of the journal to the naive merge, and remembers the content of every revision.

use super::super::naive::{Naive, Verdict};
use super::{Checked, equal_up_to_new_uids, failed, records};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use state_core::journal::{FrameKind, Record, ResetCause};
use state_core::state::LoadedSnapshots;
use state_core::testkit::oracle;
use state_core::{Backend, RevisionId, Serial, Slot, Snapshot, State};
use state_manager::Stack;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The second client, with everything that it has read.
pub(crate) struct Reader {
    backend: Arc<dyn Backend>,
    stack: Stack,
    naive: Naive,
    loaded: LoadedSnapshots,
    /// The first slot that wasn't read yet.
    next: Slot,
    /// The acknowledged states of the session. The key is the first free slot of the journal when the state was
    /// acknowledged.
    shown: BTreeMap<Slot, Arc<State>>,
    /// The content of every revision since the stack was created, deleted revisions included.
    revisions: BTreeMap<RevisionId, StoredRevision>,
    /// The revisions that were deleted.
    forgotten: Vec<RevisionId>,
    /// The highest foreign serial so far: the serial number that a revision has in an export to Terraform.
    exported: Option<u64>,
    /// The foreign serial of an import whose revision isn't committed yet.
    imported: Option<u64>,
}

/// The content of a revision.
struct StoredRevision {
    snapshot: Snapshot,
    /// Whether the revision was current at some time. A revision that `Session::write` made is never current.
    was_current: bool,
}

impl Reader {
    pub(super) fn new(backend: Arc<dyn Backend>, stack: Stack) -> Self {
        Self {
            backend,
            stack,
            naive: Naive::default(),
            loaded: LoadedSnapshots::new(),
            next: Slot::ZERO,
            shown: BTreeMap::new(),
            revisions: BTreeMap::new(),
            forgotten: Vec::new(),
            exported: None,
            imported: None,
        }
    }

    /// Returns the acknowledged states of the session, each by the first free slot of the journal at the time of the
    /// acknowledgement.
    pub(crate) const fn shown(&self) -> &BTreeMap<Slot, Arc<State>> {
        &self.shown
    }

    /// Returns all revisions that weren't deleted, oldest first.
    pub(super) fn revisions(&self) -> Vec<RevisionId> {
        let all = self.revisions.keys();
        all.filter(|id| !self.forgotten.contains(id)).cloned().collect()
    }

    /// Returns the content that a revision had when it was remembered.
    pub(super) fn stored(&self, revision: &RevisionId) -> &Snapshot {
        &self.revisions[revision].snapshot
    }

    pub(super) fn forget(&mut self, revision: &RevisionId) {
        self.forgotten.push(revision.clone());
    }

    /// Compares the state in the store, and the naive merge of its journal, with the acknowledged state of the session.
    pub(super) async fn inspect(&mut self, shown: &Arc<State>) -> Checked {
        let tip = self.stack.tip().await.map_err(failed)?;
        prop_assert!(
            *tip.state == **shown,
            "the state in the store differs from the state of the session"
        );
        let entries: Vec<_> = shown.entries().cloned().collect();
        prop_assert!(oracle::is_topological(&entries));
        let view = self
            .backend
            .read_journal(self.stack.lineage(), Some(self.next))
            .await;
        let view = view.map_err(failed)?;
        for frame in view.frames.iter().filter(|frame| frame.kind() == FrameKind::Data) {
            for record in records(frame.payload())? {
                self.follow(&record, shown)?;
            }
        }
        self.next = view.tail.next;
        self.shown.insert(self.next, Arc::clone(shown));
        prop_assert_eq!(self.naive.difference(shown), None);
        Ok(())
    }

    /// Applies a record of the journal to the naive merge.
    fn follow(&mut self, record: &Record, shown: &State) -> Checked {
        if let Record::ResetBase(rebase) = record {
            // In a frame, only the end of the update may follow a reset, and an end changes no entry and no output. The
            // session's state therefore still has the entries and outputs of the snapshot that the reset names, and the
            // test needn't read that snapshot from the store.
            let moment = state_core::Timestamp::new("");
            let snapshot = shown.snapshot("", moment);
            self.loaded.insert(rebase.snapshot.digest, snapshot.into());
            if let ResetCause::Import {
                foreign: Some((_, serial)),
            } = &rebase.cause
            {
                self.imported = Some(*serial);
            }
        }
        let verdict = self.naive.apply(record, &self.loaded);
        prop_assert_ne!(
            verdict,
            Verdict::Refused,
            "a record of the journal was refused: {:?}",
            record
        );
        Ok(())
    }

    /// Remembers a newly committed revision. Asserts that the revision is current. Also asserts that its foreign serial
    /// is the serial of the import, or higher than all earlier ones if the revision isn't an import.
    pub(super) async fn remember_committed(&mut self, revision: RevisionId) -> Checked {
        self.check_serial(&revision)?;
        let tip = self.stack.tip().await.map_err(failed)?;
        prop_assert_eq!(tip.state.current(), Some(&revision));
        let snapshot = tip.snapshot();
        prop_assert_eq!(snapshot.serial, Some(revision.serial()));
        let current = self.stack.current().await.map_err(failed)?;
        prop_assert!(
            current == snapshot,
            "the current revision differs from the committed state"
        );
        if let Some(foreign) = tip.state.foreign_serials().get("terraform") {
            let exported = foreign.export(revision.serial());
            match self.imported.take() {
                Some(imported) => prop_assert_eq!(exported, imported),
                None => prop_assert!(
                    Some(exported) > self.exported,
                    "a foreign serial must be higher than all before"
                ),
            }
            self.exported = self.exported.max(Some(exported));
        }
        let held = StoredRevision {
            snapshot,
            was_current: true,
        };
        self.revisions.insert(revision, held);
        Ok(())
    }

    /// Remembers a revision that was stored without becoming current.
    pub(super) fn remember_stored(&mut self, revision: RevisionId, written: &Snapshot) -> Checked {
        self.check_serial(&revision)?;
        let mut snapshot = written.clone();
        snapshot.serial = Some(revision.serial());
        let was_current = false;
        self.revisions.insert(
            revision,
            StoredRevision {
                snapshot,
                was_current,
            },
        );
        Ok(())
    }

    /// Asserts that the serial of a new revision is the highest serial plus one.
    fn check_serial(&self, revision: &RevisionId) -> Checked {
        let highest = self.revisions.keys().map(RevisionId::serial).max();
        let next = highest.unwrap_or(Serial::ZERO).next();
        prop_assert_eq!(
            revision.serial(),
            next,
            "the serial must be the highest serial plus one"
        );
        Ok(())
    }

    /// Asserts that all revisions are unchanged and listed in order, and that a deleted revision can't be read.
    pub(crate) async fn inspect_revisions(&self) -> Result<(), TestCaseError> {
        let stack = &self.stack;
        let left = self.revisions();
        prop_assert_eq!(&stack.list().await.map_err(failed)?, &left);
        let history = stack.history().await.map_err(failed)?;
        prop_assert!(history.iter().map(|revision| &revision.id).eq(left.iter().rev()));
        let last = self.revisions.iter().rfind(|(_, held)| held.was_current);
        let current: Vec<_> = history.iter().filter(|revision| revision.current).collect();
        prop_assert!(
            current
                .iter()
                .map(|revision| &revision.id)
                .eq(last.map(|(id, _)| id))
        );
        for (revision, held) in &self.revisions {
            let found = stack.get(revision).await;
            if self.forgotten.contains(revision) {
                prop_assert!(
                    found.is_err(),
                    "the deleted revision {revision} can still be read"
                );
                continue;
            }
            let found = found.map_err(failed)?;
            prop_assert!(oracle::is_topological(&found.entries));
            if held.was_current {
                prop_assert!(found == held.snapshot, "{revision} has changed");
            } else {
                prop_assert!(
                    equal_up_to_new_uids(&held.snapshot.entries, &found.entries),
                    "{revision} has changed"
                );
                prop_assert_eq!(found.serial, held.snapshot.serial);
            }
        }
        Ok(())
    }
}

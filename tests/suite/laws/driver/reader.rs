//! Who reads the store beside its writer: replays what is there, follows the journal with the naive merge, and
//! remembers every revision as it was when it was made.

use super::super::naive::{Naive, Verdict};
use super::{Checked, brought_back, failed, records};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use state_core::journal::{FrameKind, Record, ResetCause};
use state_core::state::LoadedSnapshots;
use state_core::testkit::oracle;
use state_core::{Backend, RevisionId, Serial, Slot, Snapshot, State};
use state_manager::Stack;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reader.
pub(crate) struct Reader {
    backend: Arc<dyn Backend>,
    stack: Stack,
    naive: Naive,
    loaded: LoadedSnapshots,
    next: Slot,
    /// What was shown when the journal ended before this slot.
    shown: BTreeMap<Slot, Arc<State>>,
    revisions: BTreeMap<RevisionId, Held>,
    forgotten: Vec<RevisionId>,
    exported: Option<u64>,
    imported: Option<u64>,
}

/// What a revision holds.
struct Held {
    snapshot: Snapshot,
    /// Whether it was current once; else it was only stored.
    marked: bool,
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

    /// What was shown when the journal ended before each slot.
    pub(crate) const fn shown(&self) -> &BTreeMap<Slot, Arc<State>> {
        &self.shown
    }

    /// All revisions that weren't forgotten, oldest first.
    pub(super) fn revisions(&self) -> Vec<RevisionId> {
        let all = self.revisions.keys();
        all.filter(|id| !self.forgotten.contains(id)).cloned().collect()
    }

    pub(super) fn held(&self, revision: &RevisionId) -> &Snapshot {
        &self.revisions[revision].snapshot
    }

    pub(super) fn forget(&mut self, revision: &RevisionId) {
        self.forgotten.push(revision.clone());
    }

    /// Compares what the store says with what the writer shows.
    pub(super) async fn look(&mut self, shown: &Arc<State>) -> Checked {
        let tip = self.stack.tip().await.map_err(failed)?;
        prop_assert!(
            *tip.state == **shown,
            "the store holds another state than its writer shows"
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

    fn follow(&mut self, record: &Record, shown: &State) -> Checked {
        if let Record::ResetBase(rebase) = record {
            // The last in its frame but for the mark: what is shown is what it brought.
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
        prop_assert_ne!(verdict, Verdict::Refused, "it is in the journal: {:?}", record);
        Ok(())
    }

    /// A revision was made and is current: remembers it.
    pub(super) async fn marked(&mut self, revision: RevisionId) -> Checked {
        self.follows(&revision)?;
        let tip = self.stack.tip().await.map_err(failed)?;
        prop_assert_eq!(tip.state.current(), Some(&revision));
        let snapshot = tip.snapshot();
        prop_assert_eq!(snapshot.serial, Some(revision.serial()));
        let current = self.stack.current().await.map_err(failed)?;
        prop_assert!(
            current == snapshot,
            "the current revision isn't what was committed"
        );
        if let Some(foreign) = tip.state.foreign_serials().get("terraform") {
            let exported = foreign.export(revision.serial());
            match self.imported.take() {
                Some(imported) => prop_assert_eq!(exported, imported),
                None => prop_assert!(Some(exported) > self.exported, "a foreign serial is given twice"),
            }
            self.exported = self.exported.max(Some(exported));
        }
        let held = Held {
            snapshot,
            marked: true,
        };
        self.revisions.insert(revision, held);
        Ok(())
    }

    /// A revision was stored and isn't current: remembers it.
    pub(super) fn stored(&mut self, revision: RevisionId, written: &Snapshot) -> Checked {
        self.follows(&revision)?;
        let mut snapshot = written.clone();
        snapshot.serial = Some(revision.serial());
        let marked = false;
        self.revisions.insert(revision, Held { snapshot, marked });
        Ok(())
    }

    fn follows(&self, revision: &RevisionId) -> Checked {
        let highest = self.revisions.keys().map(RevisionId::serial).max();
        let next = highest.unwrap_or(Serial::ZERO).next();
        prop_assert_eq!(revision.serial(), next, "serials increase by one");
        Ok(())
    }

    /// Every revision still holds what it held, and the lists tell all of them, in order.
    pub(crate) async fn look_back(&self) -> Result<(), TestCaseError> {
        let stack = &self.stack;
        let left = self.revisions();
        prop_assert_eq!(&stack.list().await.map_err(failed)?, &left);
        let history = stack.history().await.map_err(failed)?;
        prop_assert!(history.iter().map(|revision| &revision.id).eq(left.iter().rev()));
        let last = self.revisions.iter().rfind(|(_, held)| held.marked);
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
                prop_assert!(found.is_err(), "{revision} was deleted");
                continue;
            }
            let found = found.map_err(failed)?;
            prop_assert!(oracle::is_topological(&found.entries));
            if held.marked {
                prop_assert!(found == held.snapshot, "{revision} holds something else now");
            } else {
                prop_assert!(
                    brought_back(&held.snapshot.entries, &found.entries),
                    "{revision} holds something else now"
                );
                prop_assert_eq!(found.serial, held.snapshot.serial);
            }
        }
        Ok(())
    }
}

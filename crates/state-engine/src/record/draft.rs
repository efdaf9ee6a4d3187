//! A copy of a state that changes by the same rules, and that nobody sees: what a preview is made on.

use state_core::journal::Record;
use state_core::mutation::{Begin, Edit, EditChange, End, StackOutputs, Step, StepChange};
use state_core::state::{Applied, Loaded};
use state_core::verify::Violation;
use state_core::{
    DeposedKey, Entropy, Entry, Error, MutationId, Op, Outcome, Result, State, Uid, UpdateId, UpdateInfo,
    UpdateKind, UpdateResult,
};
use state_manager::{Environment, Intent};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A copy of a state, with an update open.
pub(crate) struct Draft {
    state: Mutex<Arc<State>>,
    entropy: Arc<dyn Entropy>,
}

impl Draft {
    pub(super) fn new(mut state: State, environment: &Environment) -> Result<Self> {
        let entropy = Arc::clone(&environment.entropy);
        let info = |kind| UpdateInfo::new(UpdateId::random(&*entropy), kind, environment.clock.now());
        if let Some(open) = state.update().cloned() {
            // Whoever writes right now: the preview goes on from what is there.
            let mark = state_core::journal::Mark {
                serial: state.serial().next(),
                update: UpdateInfo {
                    result: Some(UpdateResult::Interrupted),
                    ..open
                },
                base: state_core::Base::empty(state.lineage()),
                entries: state.len() as u64,
            };
            apply(&mut state, &Record::Mark(mark))?;
        }
        apply(&mut state, &Record::UpdateStart(info(UpdateKind::Update)))?;
        Ok(Self {
            state: Mutex::new(Arc::new(state)),
            entropy,
        })
    }

    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.lock())
    }

    pub(super) fn begin(&self, intent: Intent) -> Result<MutationId> {
        let Intent {
            op,
            target,
            entry,
            replaces,
            tombstone,
        } = intent;
        let id = MutationId::random(&*self.entropy);
        let uid = match op {
            Op::Update | Op::Read => self.state().entry(&target).and_then(|old| old.uid),
            _ => None,
        };
        let uid = uid.unwrap_or_else(|| Uid::random(&*self.entropy));
        let deposes = replaces.then(|| self.deposed_key()).transpose()?;
        let entry = entry.map(|entry| {
            Arc::new(Entry {
                uid: Some(uid),
                ..entry
            })
        });
        self.apply(&Record::Begin(Begin {
            id,
            op,
            target,
            entry,
            deposes,
            tombstone,
            at: None,
        }))?;
        Ok(id)
    }

    pub(super) fn end(
        &self,
        id: MutationId,
        outcome: Outcome,
        entry: Option<Entry>,
        reasons: Vec<String>,
    ) -> Result<Vec<Violation>> {
        let state = self.state();
        let begun = state.pending().find(|operation| operation.id == id);
        let uid = begun.and_then(|operation| operation.entry.as_ref()?.uid);
        let entry = entry.map(|entry| Arc::new(Entry { uid, ..entry }));
        let end = End {
            id,
            outcome,
            entry,
            reasons,
        };
        self.apply(&Record::End(end)).map(|applied| applied.refused)
    }

    pub(super) fn step(&self, change: StepChange) -> Result<()> {
        let id = MutationId::random(&*self.entropy);
        self.apply(&Record::Step(Step { id, change })).map(drop)
    }

    pub(super) fn edit(&self, changes: Vec<EditChange>) -> Result<()> {
        let id = MutationId::random(&*self.entropy);
        self.apply(&Record::Edit(Edit { id, changes })).map(drop)
    }

    pub(super) fn set_outputs(&self, outputs: StackOutputs) -> Result<()> {
        self.apply(&Record::SetOutputs(outputs)).map(drop)
    }

    /// The entry under the uid of the one that is recorded.
    pub(super) fn known(&self, entry: Entry) -> Entry {
        let uid = self.state().entry(&entry.key()).and_then(|old| old.uid);
        Entry { uid, ..entry }
    }

    fn apply(&self, record: &Record) -> Result<Applied> {
        let mut state = self.lock();
        apply(Arc::make_mut(&mut state), record)
    }

    fn deposed_key(&self) -> Result<DeposedKey> {
        let [a, b, c, d, ..] = self.entropy.bits();
        Ok(DeposedKey::new(format!(
            "{:08x}",
            u32::from_be_bytes([a, b, c, d])
        ))?)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn apply(state: &mut State, record: &Record) -> Result<Applied> {
    state
        .apply(record, &Loaded::new())
        .map_err(|violations| Error::Integrity {
            object: "the step".to_owned(),
            violations,
        })
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft").finish_non_exhaustive()
    }
}

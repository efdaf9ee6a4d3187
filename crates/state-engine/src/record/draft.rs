//! A private copy of a state. A plan changes the copy by the same rules by which a run changes the stored state.

use state_core::journal::Record;
use state_core::mutation::{Edit, EditChange, End, Resolution, Resolve, StackOutputs, Step, StepChange};
use state_core::state::{ApplyReport, LoadedSnapshots};
use state_core::verify::Violation;
use state_core::{
    Entropy, Entry, Error, MutationId, Outcome, Result, State, UpdateId, UpdateInfo, UpdateKind,
};
use state_manager::{Environment, Intent};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A copy of a state in which an update is open.
pub(crate) struct Draft {
    state: Mutex<Arc<State>>,
    entropy: Arc<dyn Entropy>,
}

impl Draft {
    pub(super) fn new(mut state: State, environment: &Environment) -> Result<Self> {
        let entropy = Arc::clone(&environment.entropy);
        let id = UpdateId::random(&*entropy);
        let info = UpdateInfo::new(id, UpdateKind::Update, environment.clock.now());
        apply(&mut state, &Record::UpdateStart(info))?;
        Ok(Self {
            state: Mutex::new(Arc::new(state)),
            entropy,
        })
    }

    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.lock())
    }

    pub(super) fn begin(&self, intent: Intent) -> Result<MutationId> {
        // The same function as in a stored update, so a plan fails on the same violations as the run.
        let (begin, _) = intent.begin(&self.state(), &*self.entropy, None)?;
        let id = begin.id;
        self.apply(&Record::Begin(begin))?;
        Ok(id)
    }

    /// Ends a step. Returns the rules that the result violates; empty if the result was recorded.
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

    pub(super) fn resolve(&self, id: MutationId, resolution: Resolution) -> Result<()> {
        self.apply(&Record::Resolve(Resolve { id, resolution })).map(drop)
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

    fn apply(&self, record: &Record) -> Result<ApplyReport> {
        let mut state = self.lock();
        apply(Arc::make_mut(&mut state), record)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn apply(state: &mut State, record: &Record) -> Result<ApplyReport> {
    state
        .apply(record, &LoadedSnapshots::new())
        .map_err(|violations| Error::Integrity {
            object: "the step".to_owned(),
            violations,
        })
}

#[cfg(test)]
mod tests {
    use super::Draft;
    use state_core::testkit::clock::{ManualClock, SeededEntropy};
    use state_core::{Entry, Lineage, MemoryBackend, State, Uid, UpdateKind};
    use state_manager::{Actor, Environment, Intent, Stacks, UpdateRequest};
    use std::sync::Arc;

    fn environment() -> Environment {
        Environment {
            clock: Arc::new(ManualClock::default()),
            entropy: Arc::new(SeededEntropy::new(1)),
            actor: Actor::default(),
            writer_version: "0".to_owned(),
        }
    }

    /// Uid in the entry of the first pending operation.
    fn begun(state: &State) -> Option<Uid> {
        let operation = state.pending().next().unwrap();
        operation.entry.as_ref().unwrap().uid
    }

    #[tokio::test]
    async fn preview_and_update_begin_an_import_under_the_same_uid() {
        let environment = environment();
        let uid = Some(Uid::random(&*environment.entropy));
        let entry = Entry {
            uid,
            ..Entry::leaf("a".parse().unwrap(), "thing")
        };

        let lineage = Lineage::random(&*environment.entropy);
        let draft = Draft::new(State::new(lineage), &environment).unwrap();
        draft.begin(Intent::import(entry.clone())).unwrap();
        assert_eq!(begun(&draft.state()), uid);

        let stacks = Stacks::new(Arc::new(MemoryBackend::default()), environment);
        let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
        let session = stack.lock("test").await.unwrap();
        let request = UpdateRequest::new(UpdateKind::Update);
        let update = session.start_update(request).await.unwrap();
        let _pending = update.begin(Intent::import(entry)).await.unwrap();
        assert_eq!(begun(&session.state()), uid);
    }
}

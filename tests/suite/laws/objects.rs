//! The laws on an object store: at every revision and at every object with which a journal can end.

use super::config;
use super::driver::{Checked, Driver, environment, failed, run};
use super::strategies::histories;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::object_store::{Error, ObjectStoreExt};
use state_backend_object_store::{ObjectBackend, Options};
use state_core::backend::Opening;
use state_core::journal::FrameKind;
use state_core::testkit::oracle;
use state_core::{Backend, Lineage, Slot, State};
use state_manager::Stacks;
use std::sync::Arc;

/// Fewer than in memory: a reader looks at every object of the journal after each of them.
const ACTIONS: usize = 12;

/// Folds that are made often.
const FOLD: u64 = 8;

fn backend(store: &Arc<InMemory>, compaction: u64) -> ObjectBackend {
    let mut options = Options::new("s3://bucket", Path::default());
    options.compaction = compaction;
    options.proof = None;
    ObjectBackend::new(Arc::<InMemory>::clone(store), options, Opening::Create)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_revision_in_objects_holds_what_it_held(history in histories(ACTIONS)) {
        run(async {
            let store = Arc::new(InMemory::new());
            let mut driver = Driver::new(Arc::new(backend(&store, FOLD))).await?;
            for action in &history {
                driver.act(action).await?;
            }
            driver.reader().look_back().await
        })?;
    }

    #[test]
    fn every_prefix_of_a_journal_in_objects_is_a_state_that_was_shown(history in histories(ACTIONS)) {
        run(async {
            let store = Arc::new(InMemory::new());
            // A fold would hide that the slots behind it are gone.
            let mut driver = Driver::new(Arc::new(backend(&store, u64::MAX))).await?;
            for action in &history {
                driver.act(action).await?;
            }
            let shown = |slot: Slot| {
                let states = driver.reader().shown();
                let found = states.range(..=slot).next_back();
                found.map_or_else(|| State::new(driver.session().state().lineage()), |(_, state)| (**state).clone())
            };
            cut_object_by_object(&Arc::new(store.fork()), driver.session().state().lineage(), &shown).await
        })?;
    }
}

/// Takes the last object away, again and again down to the fence of the writer: what is left is what was shown then.
async fn cut_object_by_object(
    store: &Arc<InMemory>,
    lineage: Lineage,
    shown: &impl Fn(Slot) -> State,
) -> Checked {
    let name = "shop/production".parse().map_err(failed)?;
    let view = backend(store, u64::MAX)
        .read_journal(lineage, None)
        .await
        .map_err(failed)?;
    let behind_fence = view
        .frames
        .iter()
        .rev()
        .take_while(|frame| frame.kind() == FrameKind::Data);
    for frame in behind_fence {
        let slot = frame.slot();
        let path = format!("stacks/{lineage}/journal/{:020}", slot.get());
        store.delete(&Path::from(path)).await.map_err(lost)?;
        let stacks = Stacks::new(Arc::new(backend(store, u64::MAX)), environment());
        let stack = stacks.get(&name).await.map_err(failed)?;
        let stack = stack.ok_or_else(|| TestCaseError::fail("the stack is gone"))?;
        let tip = stack.tip().await.map_err(failed)?;
        let entries: Vec<_> = tip.state.entries().cloned().collect();
        prop_assert!(oracle::is_topological(&entries));
        prop_assert!(*tip.state == shown(slot), "without slot {slot}");
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn lost(error: Error) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

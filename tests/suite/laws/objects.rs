//! The laws on an object store: revisions never change, and every prefix of a journal is an acknowledged state.

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
use state_core::testkit::run::property_config;
use state_core::{Backend, Lineage, Slot, State};
use state_manager::Stacks;
use std::sync::Arc;

/// Maximum number of actions; fewer than in `core_laws`, because the reader reads every object of the journal after
/// each action.
const ACTIONS: usize = 12;

/// Number of new slots that cause a compaction; low, so that compactions are frequent.
const COMPACTION: u64 = 8;

fn backend(store: &Arc<InMemory>, compaction: u64) -> ObjectBackend {
    let mut options = Options::new("s3://bucket", Path::default());
    options.compaction = compaction;
    options.proof = None;
    ObjectBackend::new(Arc::<InMemory>::clone(store), options, Opening::Create)
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn revisions_in_objects_never_change(history in histories(ACTIONS)) {
        run(async {
            let store = Arc::new(InMemory::new());
            let mut driver = Driver::new(Arc::new(backend(&store, COMPACTION))).await?;
            for action in &history {
                driver.act(action).await?;
            }
            driver.reader().inspect_revisions().await
        })?;
    }

    #[test]
    fn every_journal_prefix_in_objects_is_an_acknowledged_state(history in histories(ACTIONS)) {
        run(async {
            let store = Arc::new(InMemory::new());
            // No compaction, because the compacted object would still contain slots that the test deletes.
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

/// Deletes the last object of the journal repeatedly, down to the fence that the session wrote when it took the lock.
/// After each deletion, a reader must see the last state that was acknowledged before the session wrote the deleted
/// slot. `shown` returns this state for a slot.
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
        let stack = stack.ok_or_else(|| TestCaseError::fail("the stack is missing"))?;
        let tip = stack.tip().await.map_err(failed)?;
        let entries: Vec<_> = tip.state.entries().cloned().collect();
        prop_assert!(oracle::is_topological(&entries));
        prop_assert!(
            *tip.state == shown(slot),
            "another state after slot {slot} was deleted"
        );
    }
    Ok(())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "`map_err` passes the error by value"
)]
fn lost(error: Error) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

//! The laws at the manager, with the memory backend.

use super::driver::{Driver, run};
use super::strategies::{histories, work};
use proptest::prelude::*;
use state_core::MemoryBackend;
use state_core::testkit::run::property_config;
use std::sync::Arc;

/// Maximum number of actions; fewer than in `core_laws`, because the reader replays the whole journal after each
/// action.
const ACTIONS: usize = 24;

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn session_state_equals_the_store_after_each_ack(history in histories(ACTIONS)) {
        run(async {
            let mut driver = Driver::new(Arc::new(MemoryBackend::new())).await?;
            for action in &history {
                driver.act(action).await?;
            }
            Ok(())
        })?;
    }

    #[test]
    fn revisions_never_change(history in histories(ACTIONS)) {
        run(async {
            let mut driver = Driver::new(Arc::new(MemoryBackend::new())).await?;
            for action in &history {
                driver.act(action).await?;
            }
            driver.reader().inspect_revisions().await
        })?;
    }

    #[test]
    fn concurrent_steps_keep_the_laws(history in histories(ACTIONS), work in work(8)) {
        run(async {
            let mut driver = Driver::new(Arc::new(MemoryBackend::new())).await?;
            for action in &history {
                driver.act(action).await?;
            }
            driver.act_at_once(&work).await
        })?;
    }
}

//! The laws at the manager, over the memory backend.

use super::driver::{Driver, run};
use super::{
    config,
    strategies::{histories, work},
};
use proptest::prelude::*;
use state_core::MemoryBackend;
use std::sync::Arc;

/// Fewer than in memory: the reader beside the writer replays the whole journal after each of them.
const ACTIONS: usize = 24;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_a_session_shows_is_what_the_store_holds_after_each_acknowledgement(history in histories(ACTIONS)) {
        run(async {
            let mut driver = Driver::new(Arc::new(MemoryBackend::new())).await?;
            for action in &history {
                driver.act(action).await?;
            }
            Ok(())
        })?;
    }

    #[test]
    fn every_revision_holds_what_it_held_when_it_was_made(history in histories(ACTIONS)) {
        run(async {
            let mut driver = Driver::new(Arc::new(MemoryBackend::new())).await?;
            for action in &history {
                driver.act(action).await?;
            }
            driver.reader().look_back().await
        })?;
    }

    #[test]
    fn steps_of_many_tasks_keep_the_laws(history in histories(ACTIONS), work in work(8)) {
        run(async {
            let mut driver = Driver::new(Arc::new(MemoryBackend::new())).await?;
            for action in &history {
                driver.act(action).await?;
            }
            driver.act_at_once(&work).await
        })?;
    }
}

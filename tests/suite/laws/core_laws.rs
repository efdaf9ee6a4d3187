//! The laws at the state core, without a manager or backend: for records, frames and states in memory.

mod acts;
mod bench;

use super::{ACTIONS, strategies::histories};
pub(crate) use bench::Bench;
use proptest::prelude::*;
use state_core::testkit::run::property_config;

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn merge_is_topological_and_equals_the_naive_merge(history in histories(ACTIONS)) {
        let mut bench = Bench::new();
        for action in &history {
            bench.act(action)?;
        }
    }

    #[test]
    fn incremental_checks_agree_with_the_verifier(history in histories(ACTIONS)) {
        let mut bench = Bench::new();
        for action in &history {
            bench.act(action)?;
            bench.verify()?;
        }
    }

    #[test]
    fn every_journal_prefix_replays_to_the_acknowledged_state(history in histories(ACTIONS)) {
        let mut bench = Bench::new();
        for action in &history {
            bench.act(action)?;
        }
        bench.replay_every_prefix()?;
    }

    #[test]
    fn reloaded_state_behaves_like_the_original(history in histories(ACTIONS), cut in 0..ACTIONS) {
        let mut bench = Bench::new();
        let cut = cut.min(history.len());
        for action in &history[..cut] {
            bench.act(action)?;
        }
        let mut resumed = bench.resumed()?;
        for action in &history[cut..] {
            bench.act(action)?;
            resumed.act(action)?;
            prop_assert!(bench.state() == resumed.state(), "the states differ after {action:?}");
        }
    }
}

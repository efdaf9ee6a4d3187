//! The laws in memory: records, frames, states.

mod acts;
mod bench;

use super::{ACTIONS, config, strategies::histories};
pub(crate) use bench::Bench;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_state_is_topological_and_what_the_naive_merge_says(history in histories(ACTIONS)) {
        let mut bench = Bench::new();
        for action in &history {
            bench.act(action)?;
        }
    }

    #[test]
    fn the_incremental_checks_agree_with_the_verifier(history in histories(ACTIONS)) {
        let mut bench = Bench::new();
        for action in &history {
            bench.act(action)?;
            bench.verify()?;
        }
    }

    #[test]
    fn every_prefix_of_a_journal_replays_to_the_state_that_was_shown(history in histories(ACTIONS)) {
        let mut bench = Bench::new();
        for action in &history {
            bench.act(action)?;
        }
        bench.replay_every_prefix()?;
    }

    #[test]
    fn a_state_that_was_stored_goes_on_as_if_it_had_not_been(history in histories(ACTIONS), cut in 0..ACTIONS) {
        let mut bench = Bench::new();
        let cut = cut.min(history.len());
        for action in &history[..cut] {
            bench.act(action)?;
        }
        let mut resumed = bench.resumed()?;
        for action in &history[cut..] {
            bench.act(action)?;
            resumed.act(action)?;
            prop_assert!(bench.state() == resumed.state(), "they parted at {action:?}");
        }
    }
}

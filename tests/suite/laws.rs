//! The laws, at every boundary: the topological law and the replay law, judged by oracles that know nothing of
//! the real code.
//!
//! Each property runs at least 1,000 cases; `PROPTEST_CASES` asks for more. A failure prints the smallest history
//! that breaks the law and saves its seed in `tests/proptest-regressions/`: commit that file, and every later run
//! tries the seed first.

mod actions;
mod codec_laws;
mod core_laws;
mod driver;
mod files;
mod listing;
mod manager;
mod naive;
mod objects;
mod resolver;
mod strategies;

use proptest::test_runner::Config;
use state_core::testkit::run::scaled;

/// The fewest cases of a law.
const CASES: u32 = 1_000;

/// The most actions of a history.
const ACTIONS: usize = 40;

fn config() -> Config {
    let default = Config::default();
    Config {
        cases: default.cases.max(scaled(CASES)),
        ..default
    }
}

//! Checks the topological law and the replay law at every interface (state core, codec, manager, backends, command
//! line), with oracles that are independent of the code under test. `docs/architecture.md` defines the laws.
//!
//! Each property runs at least 1,000 cases; `PROPTEST_CASES` sets a higher number. A failed property prints the
//! smallest history that violates the law, and saves its seed in `tests/proptest-regressions/`. Commit that file, so
//! that every later run tries the seed first.

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

/// Maximum number of actions in a history.
const ACTIONS: usize = 40;

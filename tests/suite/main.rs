//! The tests that involve several crates, in one binary. `P1` to `P9` are the promises of `docs/architecture.md`.

mod corruption;
mod cost;
mod crash;
mod format_vectors;
mod fuzzed;
mod golden;
mod hostile;
mod http;
mod laws;
mod live;
mod memory;
mod process;
mod python_reader;
mod race;
mod soak;
mod store;
mod table;
mod terraform;

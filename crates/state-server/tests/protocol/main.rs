//! The protocol over real connections: locks, writes, refusals, and clients that do harm.

#![expect(clippy::unwrap_used, reason = "a test that can't continue should panic")]

mod client;
mod hostile;
mod locks;
mod states;

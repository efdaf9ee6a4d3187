//! The protocol over real connections: locks, writes, refusals, and clients that do harm.

mod client;
mod hostile;
mod locks;
mod states;

//! Models of the protocols, which the checker `stateright` searches for a state that breaks a promise.
//!
//! | module | models |
//! |---|---|
//! | [`objects`] | the journal on an object store: takeovers, fences, checkpoints, requests that land late |
//! | [`files`] | the journal in local files: locks, breaks, segments, syncs, deaths and power losses, readers without a lock |
//! | [`names`] | name pointers: creation, rename, removal and key rotation, with a crash anywhere |
//!
//! A model is a set of processes that take one step at a time, in any order. A step is one request, one system call, or a
//! longer part that no other process can observe. The checker visits every state that these steps can reach within the
//! bounds of a model, and evaluates each rule in each state. Nothing is cut off: a bound limits how often a process may *begin*
//! something, such as a takeover, so the space that remains is finite, and a search ends when all of it was visited.
//!
//! Each module names, for each step, the function of the product that makes this step. Each model has *flaws*: variants of the
//! protocol with a known error. The checker must find a counterexample for every flaw, or it proves nothing.

pub mod check;
pub mod extensions;
pub mod files;
pub mod names;

pub mod objects;
pub mod records;

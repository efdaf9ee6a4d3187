//! `statectl` as its users have it: the real binary in folders of its own.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic")]

mod across;
mod backends;
mod changes;
mod completions;
mod config;
mod described;
mod exits;
mod gc;
mod import;
mod inspect;
mod json;
mod locks;
mod logs;
mod pulumi;
mod reading;
mod sandbox;
mod schemas;
mod sealed;
mod secrets;
mod stores;
mod surgery;
mod unobin;
mod unreliable;
mod waiting;

//! Tests of the `statectl` binary, each in its own folder.

#![expect(clippy::unwrap_used, reason = "a test that can't continue should panic")]

mod across;
mod approvals;
mod backends;
mod canary;
mod changes;
mod completions;
mod config;
mod copies;
mod deploying;
mod described;
mod doctor;
mod edits;
mod exits;
mod first_up;
mod foreign;
mod found_paths;
mod gc;
mod guides;
mod hygiene;
mod import;
mod inspect;
mod json;
mod killed;
mod kinds;
mod locks;
mod login;
mod logs;
mod ownership;
mod programs;
mod pulumi;
mod reading;
mod reports;
mod sandbox;
mod schemas;
mod sealed;
mod secrets;
mod stores;
mod trusted;
mod unasked;
mod unobin;
mod unreliable;
mod waiting;

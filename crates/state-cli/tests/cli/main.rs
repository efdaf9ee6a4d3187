//! `statectl` as its users have it: the real binary in folders of its own.

mod changes;
mod exits;
mod import;
mod json;
mod reading;
mod sandbox;
mod secrets;
mod stores;

//! Identifiers: names, addresses, counters and digests. Nothing here knows what an entry or a record is.

pub mod address;
pub mod counter;
pub mod digest;
pub mod id;
pub mod name;
pub mod revision;

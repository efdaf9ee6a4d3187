//! What `benches/commit.rs` measures: a session of ours, and other ways to make bytes durable.

pub mod group;
pub mod ours;
pub mod peers;

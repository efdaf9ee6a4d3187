//! The reference backend: in memory, stricter than real ones.

/// Keeps stacks in memory; clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryBackend {}

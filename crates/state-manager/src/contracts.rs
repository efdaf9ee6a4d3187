//! Adapters: implementations of the traits of `state-core` for whole snapshots and for backends. They add no rules.
//!
//! | file | interface |
//! |---|---|
//! | `targets` | `TargetProvider`, `SnapshotProvider`, `SnapshotMutation`, `SnapshotPersister`: whole snapshots around an update |
//! | `persistent` | `StateManager`: a snapshot in memory, refreshed and persisted |
//! | `registry`, `store_url` | backend types by name, stores by URL |

pub(crate) mod persistent;
pub(crate) mod registry;
pub(crate) mod store_url;
pub(crate) mod targets;

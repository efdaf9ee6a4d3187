//! The interfaces of the projects that this one follows, as adapters without rules of their own.
//!
//! | file | interface |
//! |---|---|
//! | `targets` | `TargetProvider`, `SnapshotProvider`, `SnapshotMutation`, `SnapshotPersister`: whole snapshots around an update |
//! | `persistent` | the persistent state manager: a snapshot in memory, refreshed and persisted |
//! | `registry`, `store_url` | backend types by name, stores by URL |

pub(crate) mod persistent;
pub(crate) mod registry;
pub(crate) mod store_url;
pub(crate) mod targets;

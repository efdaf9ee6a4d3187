//! The contracts of the systems that this crate grew out of, declared together. They are stable: a tool that was written
//! for one of them keeps working, on any stack of any store.
//!
//! | contract | items | implemented by |
//! |---|---|---|
//! | Targets and whole-snapshot mutations (seed 000) | [`TargetProvider`], [`SnapshotProvider`], [`SnapshotMutation`] | `state_manager::Stacks` |
//! | Untyped, versioned deployments, and the secrets of a stack's configuration (seed 001) | [`UntypedDeployment`], [`Crypter`], [`CrypterProvider`] | `state_manager::Stacks`; `state_encrypt::ConfigCrypter` |
//! | A transient and a persistent snapshot, lineage and serial (seed 002) | [`Transient`], [`Refresher`], [`Persister`], [`OutputReader`], [`PersistentMeta`], [`Full`] | `state_manager::StateManager` |
//! | Kinds of backends with a schema of their configuration (seed 003) | [`BackendType`], [`BackendFactory`], [`ConfigurationType`] | each backend crate |
//! | A snapshot manager's storage (seed 004) | [`SnapshotPersister`] | `state_manager::Update` |
//!
//! None of them has rules of its own: whatever they write goes through the same session, the same verifier and the same
//! journal as every other write.

pub mod backend_type;
pub mod configuration;
pub mod deployment;
pub mod persistent;
pub mod target;

pub use crate::crypter::{Crypter, CrypterProvider};
pub use backend_type::{BackendFactory, BackendType, OpenRequest, Opening};
pub use configuration::{Configuration, ConfigurationType};
pub use deployment::UntypedDeployment;
pub use persistent::{Full, OutputReader, Persistent, PersistentMeta, Persister, Refresher, Transient};
pub use target::{SnapshotMutation, SnapshotPersister, SnapshotProvider, Target, TargetProvider};

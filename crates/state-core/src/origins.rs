//! Contracts of other systems (Pulumi, Terraform and unobin) that this project implements. The contracts are stable: a
//! tool that was written for one of these systems works with any stack in any store.
//!
//! | contract | items | implemented by |
//! |---|---|---|
//! | Targets and whole-snapshot mutations (Pulumi's engine) | [`TargetProvider`], [`SnapshotProvider`], [`SnapshotMutation`] | `state_manager::Stacks` |
//! | Untyped, versioned deployments, and encrypted configuration values (Pulumi's backend) | [`UntypedDeployment`], [`Crypter`], [`CrypterProvider`] | `state_manager::Stacks`; `state_encrypt::ConfigCrypter` |
//! | A transient and a persistent snapshot, lineage and serial (Terraform's state manager) | [`Transient`], [`Refresher`], [`Persister`], [`OutputReader`], [`PersistentMeta`], [`Full`] | `state_manager::StateManager` |
//! | Kinds of backends with a configuration schema (the unobin contract) | [`BackendType`], [`BackendFactory`], [`ConfigurationType`] | each backend crate |
//! | A snapshot manager's storage (Pulumi's snapshot manager) | [`SnapshotPersister`] | `state_manager::Update` |
//!
//! These contracts add no rules. Implementations write through the same session, verifier and journal as all other
//! writes.

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

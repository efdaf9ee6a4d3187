//! For the tests of backends (feature `testkit`): seed 002's contract over a backend, rule by rule. The first rule is
//! Terraform's `TestFull`, step by step; the others are what it leaves out.
//!
//! ```
//! use state_core::{MemoryBackend, testkit::conformance};
//! use state_manager::{Actor, Environment, testkit};
//! use std::sync::Arc;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let results = testkit::run_all(
//!     async || Arc::new(MemoryBackend::new()) as Arc<dyn state_core::Backend>,
//!     &Environment::system(Actor::default()),
//! )
//! .await;
//! conformance::expect_all(&results);
//! # });
//! ```

pub mod full;
pub mod sharing;

use crate::contracts::persistent::StateManager;
use crate::environment::Environment;
use crate::stacks::Stacks;
use state_core::head::SealingPolicy;
use state_core::json::Properties;
use state_core::mutation::StackOutputs;
use state_core::persistent::{PersistentMeta, Persister, Refresher, Transient};
use state_core::testkit::conformance::{RuleViolation, Verdict};
use state_core::{Backend, Entry, ErrorKind, FactoryInfo, Json, Result, Snapshot, SnapshotMeta, Timestamp};
use std::sync::Arc;

/// A stack on the backend under test, and the managers that share it.
#[derive(Debug)]
pub struct Bench {
    stacks: Stacks,
}

macro_rules! rules {
    ($($module:ident :: $rule:ident,)*) => {
        /// Runs every rule, each on a store of its own that `make` opens empty.
        pub async fn run_all(
            make: impl AsyncFn() -> Arc<dyn Backend>,
            environment: &Environment,
        ) -> Vec<(&'static str, Verdict)> {
            let mut results = Vec::new();
            $(
                let bench = Bench::new(make().await, environment.clone());
                results.push((stringify!($rule), $module::$rule(&bench).await));
            )*
            results
        }
    };
}

rules! {
    full::the_steps_of_test_full,
    full::a_stack_without_a_snapshot_reads_as_none,
    full::outputs_are_read_alone,
    full::what_was_refused_is_kept_in_memory_and_can_be_persisted_later,
    sharing::what_others_persisted_is_not_destroyed,
    sharing::a_first_persist_does_not_destroy_what_was_never_read,
    sharing::of_concurrent_persists_one_loses_loudly,
    sharing::a_snapshot_of_another_lineage_is_refused,
    sharing::what_others_said_already_is_not_said_again,
    sharing::locks_of_two_managers_exclude_each_other,
}

impl Bench {
    /// A bench on an empty store.
    pub fn new(backend: Arc<dyn Backend>, environment: Environment) -> Self {
        Self {
            stacks: Stacks::new(backend, environment),
        }
    }

    /// The first manager of a stack without a snapshot.
    async fn empty(&self) -> Result<StateManager> {
        let stack = self
            .stacks
            .new_stack_with(&"rules/stack".parse()?, SealingPolicy::Plaintext)
            .await?;
        Ok(StateManager::new(stack))
    }

    /// The first manager of a stack that holds the initial state of `TestFull`, refreshed.
    async fn preloaded(&self) -> Result<StateManager> {
        let first = self.empty().await?;
        first.write(initial()?);
        first.persist().await?;
        self.another(&first).await
    }

    /// One more manager of the same stack, refreshed.
    async fn another(&self, first: &StateManager) -> Result<StateManager> {
        let found = self.stacks.get(first.stack().name()).await?;
        let manager = StateManager::new(found.unwrap_or_else(|| first.stack().clone()));
        manager.refresh().await?;
        Ok(manager)
    }
}

/// A resource in a module, without anything inside; one output that is secret, and one that isn't.
fn initial() -> Result<Snapshot> {
    let mut snapshot = Snapshot::new(
        FactoryInfo::default(),
        "rules/stack",
        Timestamp::new("2026-05-30T12:00:00Z"),
    );
    let mut resource = Entry::leaf("module.child.null_resource.foo".parse()?, "null_resource");
    resource.inputs = Some(Properties::empty());
    snapshot.entries.push(Arc::new(resource));
    set_output(&mut snapshot, "sensitive_output", "it's a secret");
    set_output(&mut snapshot, "nonsensitive_output", "hello, world!");
    snapshot.sensitive_outputs.push("sensitive_output".to_owned());
    Ok(snapshot)
}

fn set_output(snapshot: &mut Snapshot, name: &str, value: &str) {
    snapshot.outputs.insert(name.to_owned(), Json::from_string(value));
}

/// Changes one output of what a manager holds, in memory.
fn change(manager: &StateManager, name: &str, value: &str) -> std::result::Result<Snapshot, RuleViolation> {
    let mut snapshot = held(manager)?;
    set_output(&mut snapshot, name, value);
    manager.write(snapshot.clone());
    Ok(snapshot)
}

fn held(manager: &StateManager) -> std::result::Result<Snapshot, RuleViolation> {
    manager
        .read()
        .ok_or_else(|| RuleViolation::new("there is no snapshot after a refresh"))
}

fn meta(manager: &StateManager) -> std::result::Result<SnapshotMeta, RuleViolation> {
    manager
        .snapshot_meta()
        .ok_or_else(|| RuleViolation::new("a persisted snapshot has no meta"))
}

/// Whether both say the same, apart from the header and from uids that the store gave.
fn same(left: &Snapshot, right: &Snapshot) -> bool {
    let bare = |snapshot: &Snapshot| {
        let mut content = snapshot.content();
        for entry in &mut content.entries {
            Arc::make_mut(entry).uid = None;
        }
        state_core::encode_snapshot(&content)
    };
    bare(left) == bare(right)
}

fn ensure(kept: bool, otherwise: &str) -> Verdict {
    if kept {
        Ok(())
    } else {
        Err(RuleViolation::new(otherwise))
    }
}

fn ensure_conflict<T>(result: Result<T>, call: &str) -> Verdict {
    match result {
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
        Err(error) => Err(RuleViolation::new(format!(
            "{call} had to be a conflict: {error}"
        ))),
        Ok(_) => Err(RuleViolation::new(format!("{call} succeeded"))),
    }
}

/// The outputs by name.
fn named(outputs: &StackOutputs) -> Vec<&str> {
    outputs.values.keys().map(String::as_str).collect()
}

//! Conformance tests for backends (feature `testkit`): each rule of the contract of [`StateManager`] must hold on the
//! backend. The first rule repeats the steps of `TestFull`, a test in Terraform's package `statemgr`.
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
use crate::objects::history_page::PageLimits;
use crate::stacks::Stacks;
use state_core::head::SealingPolicy;
use state_core::json::Properties;
use state_core::mutation::StackOutputs;
use state_core::persistent::{PersistentMeta, Persister, Refresher, Transient};
use state_core::testkit::conformance::{RuleViolation, Verdict};
use state_core::{Backend, Entry, ErrorKind, FactoryInfo, Json, Result, Snapshot, SnapshotMeta, Timestamp};
use std::sync::Arc;

/// The same store with at most two revisions on a history page and at most four pages in a head. Even a short history
/// then needs an index, which names the older pages.
pub fn with_small_pages(stacks: Stacks) -> Stacks {
    stacks.with_page_limits(PageLimits {
        revisions: 2,
        most_in_head: 4,
        ..PageLimits::default()
    })
}

/// The same store with checkpoints after 16 KiB of frames. Tests then need no large states for checkpoints.
pub fn with_small_checkpoints(stacks: Stacks) -> Stacks {
    stacks.with_checkpoint_bytes(16 << 10)
}

/// A store on the backend under test. Each rule creates its stack and the managers that share it.
#[derive(Debug)]
pub struct Bench {
    stacks: Stacks,
}

macro_rules! rules {
    ($($module:ident :: $rule:ident,)*) => {
        /// Runs every rule, each on its own empty store that `make` opens.
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
    full::terraform_test_full_steps_pass,
    full::stack_without_a_snapshot_reads_as_none,
    full::outputs_are_read_from_the_persistent_snapshot,
    full::refused_snapshot_stays_in_memory_for_a_later_persist,
    sharing::persist_keeps_the_snapshot_of_another_manager,
    sharing::persist_without_refresh_is_refused,
    sharing::one_of_two_concurrent_persists_fails,
    sharing::snapshot_of_another_lineage_is_refused,
    sharing::equal_snapshot_is_not_persisted_twice,
    sharing::locks_of_two_managers_are_exclusive,
}

impl Bench {
    /// A bench on an empty store of this backend.
    pub fn new(backend: Arc<dyn Backend>, environment: Environment) -> Self {
        Self {
            stacks: Stacks::new(backend, environment),
        }
    }

    /// The first manager of a new stack without a snapshot.
    async fn empty(&self) -> Result<StateManager> {
        let stack = self
            .stacks
            .new_stack_with(&"rules/stack".parse()?, SealingPolicy::Plaintext)
            .await?;
        Ok(StateManager::new(stack))
    }

    /// A manager of a stack that contains the initial state of `TestFull`, refreshed.
    async fn preloaded(&self) -> Result<StateManager> {
        let first = self.empty().await?;
        first.write(initial()?);
        first.persist().await?;
        self.another(&first).await
    }

    /// Another manager of the same stack, refreshed.
    async fn another(&self, first: &StateManager) -> Result<StateManager> {
        let found = self.stacks.get(first.stack().name()).await?;
        let manager = StateManager::new(found.unwrap_or_else(|| first.stack().clone()));
        manager.refresh().await?;
        Ok(manager)
    }
}

/// A resource in a module, without inputs or outputs; one sensitive output of the stack, and one that isn't.
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

/// Changes one output of a manager's snapshot, in memory.
fn change(manager: &StateManager, name: &str, value: &str) -> std::result::Result<Snapshot, RuleViolation> {
    let mut snapshot = snapshot_of(manager)?;
    set_output(&mut snapshot, name, value);
    manager.write(snapshot.clone());
    Ok(snapshot)
}

/// The snapshot in a manager's memory.
fn snapshot_of(manager: &StateManager) -> std::result::Result<Snapshot, RuleViolation> {
    manager
        .read()
        .ok_or_else(|| RuleViolation::new("there is no snapshot after a refresh"))
}

fn meta(manager: &StateManager) -> std::result::Result<SnapshotMeta, RuleViolation> {
    manager
        .snapshot_meta()
        .ok_or_else(|| RuleViolation::new("a persisted snapshot has no meta"))
}

/// Whether two snapshots are equal, apart from the header and from uids that the store assigned.
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

/// Passes if the rule is kept, and otherwise fails with this description of the violation.
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
            "{call} must fail with a conflict, not with: {error}"
        ))),
        Ok(_) => Err(RuleViolation::new(format!("{call} succeeded"))),
    }
}

/// The names of the outputs.
fn named(outputs: &StackOutputs) -> Vec<&str> {
    outputs.values.keys().map(String::as_str).collect()
}

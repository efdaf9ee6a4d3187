//! The test harness: a store, an engine, a simulated cloud, and a checker of the stored state after every append.

use crate::cloud::SimulatedCloud;
use crate::{checker::DurabilityChecker, now};
use state_core::head::SealingPolicy;
use state_core::mutation::EditChange;
use state_core::testkit::clock::{ManualClock, SeededEntropy};
use state_core::testkit::fault::{FaultPlan, FaultyBackend, Operation as Call};
use state_core::{EntryKey, MemoryBackend, SharedEntry, Snapshot, StackName, State, UpdateKind};
use state_encrypt::{AgeKeys, Identities, generate_identity};
use state_engine::{Basis, Engine, Operation, Plan, Report, Run};
use state_manager::{Actor, Environment, Session, Stack, Stacks, UpdateRequest};
use std::sync::{Arc, Mutex};

pub(crate) struct Harness {
    pub(crate) cloud: SimulatedCloud,
    pub(crate) stacks: Stacks,
    pub(crate) engine: Engine,
    pub(crate) faults: FaultPlan,
    pub(crate) checker: Arc<Mutex<DurabilityChecker>>,
    pub(crate) name: StackName,
    pub(crate) stack: Stack,
}

pub(crate) fn environment(seed: u64) -> Environment {
    Environment {
        clock: Arc::new(ManualClock::default()),
        entropy: Arc::new(SeededEntropy::new(seed)),
        actor: Actor::default(),
        writer_version: "0".into(),
    }
}

impl Harness {
    pub(crate) async fn new(seed: u64) -> Self {
        Self::with(seed, SealingPolicy::Plaintext, None).await
    }

    /// A stack that encrypts secret values.
    pub(crate) async fn sealed(seed: u64) -> Self {
        Self::with_keys(seed, SealingPolicy::Sensitive).await
    }

    /// A stack that encrypts every value.
    pub(crate) async fn sealed_whole(seed: u64) -> Self {
        Self::with_keys(seed, SealingPolicy::All).await
    }

    async fn with_keys(seed: u64, policy: SealingPolicy) -> Self {
        let identity = generate_identity();
        let identities = Identities::parse("identity", identity.file()).unwrap();
        let recipients = identity.recipient().parse().unwrap();
        let entropy = Arc::new(SeededEntropy::new(seed));
        Self::with(seed, policy, Some(AgeKeys::new(identities, recipients, entropy))).await
    }

    async fn with(seed: u64, policy: SealingPolicy, keys: Option<AgeKeys>) -> Self {
        let cloud = SimulatedCloud::default();
        let memory = MemoryBackend::default();
        let faulty = FaultyBackend::new(Arc::new(memory.clone()));
        let faults = faulty.plan();
        let mut stacks = Stacks::new(Arc::new(faulty), environment(seed));
        if let Some(keys) = keys {
            stacks = stacks.with_keys(Arc::new(keys));
        }
        let name: StackName = "shop/production".parse().unwrap();
        let stack = stacks.new_stack_with(&name, policy).await.unwrap();
        let checker = DurabilityChecker::new(memory, stack.lineage(), cloud.clone());
        let checker = Arc::new(Mutex::new(checker));
        watch(&faults, &checker, None);
        let engine = Engine::new(stacks.clone(), environment(seed ^ 1));
        Self {
            cloud,
            stacks,
            engine,
            faults,
            checker,
            name,
            stack,
        }
    }

    /// Runs `act` once, at append number `after`. The next append has the number 0. If `before` is true, `act` runs
    /// before the effect of the append, and otherwise after it.
    pub(crate) fn at_append(&self, after: usize, before: bool, act: impl FnMut() + Send + 'static) {
        let trap = Trap {
            at: after,
            before,
            act: Box::new(act),
        };
        watch(&self.faults, &self.checker, Some(trap));
    }

    /// Removes the callback of `at_append`. The stored state is still checked after every append.
    pub(crate) fn check_only(&self) {
        watch(&self.faults, &self.checker, None);
    }

    /// A run without a time limit. The manual clock ends every sleep at once, so with a limit every call would time
    /// out.
    pub(crate) fn default_run(&self) -> Run {
        let mut run = Run::new(self.cloud.registry());
        run.options.timeout = None;
        run
    }

    pub(crate) async fn run(&self, operation: Operation, run: Run) -> Report {
        self.engine.run(&self.name, operation, run).await.unwrap()
    }

    /// A plan against the recorded state, without a lock.
    pub(crate) async fn plan(&self, operation: Operation, run: Run) -> Plan {
        let basis = Basis::tip(&self.stack).await.unwrap();
        self.engine.plan(basis, operation, run).await.unwrap()
    }

    pub(crate) async fn preview(&self, operation: Operation, run: Run) -> Report {
        self.plan(operation, run).await.into_report()
    }

    /// Plans and applies under a lock.
    pub(crate) async fn run_under(&self, session: &Session, operation: Operation, run: Run) -> Report {
        let plan = self
            .engine
            .plan(Basis::locked(session), operation, run)
            .await
            .unwrap();
        self.engine.apply(session, plan).await.unwrap()
    }

    /// Acquires the lock. Breaks a lock that another session holds.
    pub(crate) async fn lock(&self) -> Session {
        self.free().await;
        self.stack.lock("test").await.unwrap()
    }

    /// Breaks the current lock, if any, such as the lock of a crashed run.
    pub(crate) async fn free(&self) {
        let status = self.stack.lock_status().await.unwrap();
        let _ = self.stack.force_unlock(status.epoch).await.ok();
    }

    /// Edits the recorded state.
    pub(crate) async fn edit(&self, changes: Vec<EditChange>) {
        let session = self.lock().await;
        let request = UpdateRequest::new(UpdateKind::Edit);
        let state = session.state();
        session.edit(request, &state, changes).await.unwrap();
        session.close().await.unwrap();
    }

    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&now(self.stack.tip()).unwrap().state)
    }

    pub(crate) fn entry(&self, name: &str) -> Option<SharedEntry> {
        let key = EntryKey::live(name.parse().unwrap());
        self.state().entry(&key).cloned()
    }

    /// The recorded snapshot with decrypted values.
    pub(crate) async fn open(&self) -> Snapshot {
        let snapshot = self.stack.current().await.unwrap();
        self.stack.reveal(snapshot).await.unwrap()
    }

    /// The keys of all entries in list order.
    pub(crate) fn keys(&self) -> Vec<String> {
        let state = self.state();
        state.entries().map(|entry| entry.key().to_string()).collect()
    }

    /// Checks the stored state now. Returns all violations that the checker has found so far.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut checker = self.checker.lock().unwrap();
        checker.check_durable_point();
        checker.complaints.clone()
    }
}

/// A callback that runs at append number `at`, before or after the effect of that append.
struct Trap {
    at: usize,
    before: bool,
    act: Box<dyn FnMut() + Send>,
}

/// Checks the stored state after every append, and runs the callback of `trap` at its append. Replaces an earlier
/// watch.
fn watch(faults: &FaultPlan, checker: &Arc<Mutex<DurabilityChecker>>, trap: Option<Trap>) {
    let looks = Arc::clone(checker);
    let trap = Mutex::new((0, trap));
    faults.watch(move |call, before| {
        if call != Call::Append {
            return;
        }
        if !before {
            looks.lock().unwrap().check_durable_point();
        }
        let mut trap = trap.lock().unwrap();
        let (seen, armed) = &mut *trap;
        if let Some(trap) = armed.as_mut().filter(|trap| trap.before == before) {
            if *seen == trap.at {
                (trap.act)();
            }
            *seen += 1;
        }
    });
}

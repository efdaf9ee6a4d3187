//! Promise P3 of `docs/architecture.md` while an attacker changes the store between two requests of a command: the
//! command returns a typed error or the correct state. The tests use files and objects, and plain and sealed stacks.

mod binary;
mod epochs;
mod names;
mod oracle;
mod vanished;

use crate::store::{block_on, environment};
use state_backend_fs::testkit::{HostileFs, SimulatedFs};
use state_backend_object_store::object_store::ObjectStore;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::testkit::HostileStore;
use state_backend_object_store::{ObjectBackend, Options};
use state_core::backend::Opening;
use state_core::head::SealingPolicy;
use state_core::testkit::hostile::{Action, Attacker, Forgery, Intervention, Request, Verb};
use state_core::{Address, Backend, Enveloped, Error, Result, Snapshot, StackName, UpdateKind, UpdateResult};
use state_encrypt::{AgeKeys, GeneratedIdentity, Identities, generate_identity};
use state_manager::{Intent, MemoryKnownStacks, Rekey, Stacks, UpdateRequest};
use state_tests::workload;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const ROOT: &str = "/store";

/// Address of the entry that a command adds.
const APPENDED: &str = "appended";

/// The recipient that the commands `AddRecipient` and `AddOutputRecipient` add.
const COLLEAGUE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

/// Timeout of locks and requests. Short, because nothing here becomes available by waiting.
const PATIENCE: Duration = Duration::from_millis(20);

/// The tests damage the store only before each request whose number is a multiple of this.
const STRIDE: usize = 3;

/// The kind of backend of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Files,
    Objects,
}

/// The storage of a scenario. Each run of a command uses a copy of it.
#[derive(Clone)]
enum Disk {
    Files(SimulatedFs),
    Objects(Arc<InMemory>),
}

impl Disk {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Files => Self::Files(SimulatedFs::new()),
            Kind::Objects => Self::Objects(Arc::default()),
        }
    }

    async fn copy(&self) -> Self {
        match self {
            Self::Files(machine) => Self::Files(machine.copy()),
            Self::Objects(store) => Self::Objects(Arc::new(store.fork())),
        }
    }

    /// Opens the store with an attacker between client and store. The attacker records the current version of every
    /// object, so that it can restore this version later.
    async fn under(&self, attacker: &Attacker) -> Result<Arc<dyn Backend>> {
        match self {
            Self::Files(machine) => {
                let hostile = HostileFs::simulated(machine, ROOT, attacker.clone());
                let store = hostile.create()?;
                hostile.record_all().map_err(|error| Error::Unavailable {
                    object: ROOT.to_owned(),
                    source: error.into(),
                })?;
                Ok(Arc::new(store.with_lock_timeout(PATIENCE)))
            }
            Self::Objects(store) => {
                let inner: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(store);
                let hostile = HostileStore::new(inner, attacker.clone());
                hostile
                    .record_all()
                    .await
                    .expect("a store in memory doesn't fail");
                let mut options = Options::new("s3://bucket", Path::default());
                options.proof = None;
                options.retry_timeout = PATIENCE;
                Ok(Arc::new(ObjectBackend::new(
                    Arc::new(hostile),
                    options,
                    Opening::Create,
                )))
            }
        }
    }
}

/// A store with one stack, and the identity that can open it.
struct Scenario {
    kind: Kind,
    policy: SealingPolicy,
    disk: Disk,
    identity: GeneratedIdentity,
}

impl Scenario {
    /// Creates a stack with two updates, the second one with a checkpoint.
    async fn build(kind: Kind, policy: SealingPolicy) -> Result<Self> {
        let scenario = Self {
            kind,
            policy,
            disk: Disk::new(kind),
            identity: generate_identity(),
        };
        let stacks = scenario.stacks(scenario.disk.under(&Attacker::default()).await?);
        let stack = stacks.new_stack_with(&name(), policy).await?;
        for update in 0..2 {
            let session = stack.lock("build").await?;
            add(&session, &format!("built-{update}")).await?;
            session.close().await?;
        }
        Ok(scenario)
    }

    /// Returns a client of a backend. It has the scenario's identity if the stack is sealed.
    fn stacks(&self, backend: Arc<dyn Backend>) -> Stacks {
        let stacks = Stacks::new(backend, environment());
        if self.policy == SealingPolicy::Plaintext {
            return stacks;
        }
        let identities = Identities::parse("identity", self.identity.file()).expect("a valid identity");
        let recipients = self.identity.recipient().parse().expect("a valid recipient");
        stacks.with_keys(Arc::new(AgeKeys::new(
            identities,
            recipients,
            environment().entropy,
        )))
    }

    /// Returns the recipient of the scenario's identity.
    fn recipient(&self) -> String {
        self.identity.recipient().to_owned()
    }

    /// Runs a command on a copy of the store with interventions, and then reads the copy without interventions.
    async fn run(&self, command: Command, plan: Vec<Intervention>) -> Outcome {
        self.run_as(command, plan, None).await
    }

    /// Like [`Scenario::run`]. With a `memory`, the client remembers each stack that it opens, and compares the stack
    /// with its memory when it opens the stack again.
    async fn run_as(
        &self,
        command: Command,
        plan: Vec<Intervention>,
        memory: Option<Arc<MemoryKnownStacks>>,
    ) -> Outcome {
        let disk = self.disk.copy().await;
        let attacker = Attacker::default();
        let backend = disk.under(&attacker).await.expect("nothing is damaged yet");
        attacker.plan(plan);
        let mut stacks = self.stacks(backend);
        if let Some(memory) = memory {
            stacks = stacks.with_known_stacks(memory);
        }
        let shown = command.run(&stacks).await;
        let requests = attacker.requests();
        let left = async {
            let backend = disk.under(&Attacker::default()).await?;
            observe(&self.stacks(backend)).await
        };
        Outcome {
            shown,
            left: left.await,
            requests,
            edits: attacker.edits_made(),
            attacker,
            disk,
        }
    }
}

/// The result of a command, and the state that the next reader finds.
struct Outcome {
    /// The observation at the end of the command, by the client that ran it.
    shown: Result<Observed>,
    /// The observation of another client after the command, without an attacker.
    left: Result<Observed>,
    /// The requests of the command, in order.
    requests: Vec<Request>,
    /// Number of changes that the attacker made.
    edits: usize,
    attacker: Attacker,
    /// The store after the command.
    disk: Disk,
}

/// Everything that a reader sees of the stack.
#[derive(Clone, Debug, PartialEq)]
struct Stack {
    tip: Snapshot,
    policy: Option<SealingPolicy>,
    revisions: usize,
}

/// The observed stack; `None` if it doesn't exist.
type Observed = Option<Stack>;

/// Reads the stack. Two runs of the same command give equal observations.
async fn observe(stacks: &Stacks) -> Result<Observed> {
    let Some(stack) = stacks.get(&name()).await? else {
        return Ok(None);
    };
    let view = stack.tip().await?;
    let mut tip = view.snapshot();
    // Timestamps and random ids differ between two runs of a command, and sealed outputs contain random bits. Remove
    // them from the observation.
    tip.manifest = Default::default();
    tip.generated_at = state_core::Timestamp::new("");
    let is_sealed = stacks
        .bound_head(&name())
        .await?
        .is_some_and(|head| head.keys.is_some());
    for entry in &mut tip.entries {
        if entry.address.as_str() != APPENDED {
            continue;
        }
        let entry = Arc::make_mut(entry);
        (entry.uid, entry.created, entry.modified) = (None, None, None);
        if is_sealed {
            entry.outputs = None;
        }
    }
    let policy = stacks.bound_head(&name()).await?.map(|head| head.policy);
    Ok(Some(Stack {
        tip,
        policy,
        revisions: stack.history().await?.len(),
    }))
}

/// A command of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// Reads tip and history.
    Read,
    /// Opens the stack, and creates it if it doesn't exist, as `up` does.
    Create,
    /// Appends a mutation, and swaps the head at close.
    Append,
    /// Renames the stack twice, so that it has its first name again. Swaps the head and both name pointers.
    Rename,
    /// Imports the current snapshot, which replaces all resources.
    Import,
    /// Replaces the data key, which swaps the head.
    Rekey,
    /// Encrypts the data key for one more recipient.
    AddRecipient,
    /// Adds a recipient of the outputs.
    AddOutputRecipient,
    /// Takes and releases a client lock.
    ClientLock,
}

impl Command {
    /// The commands that run on a damaged store, see [`damage_everywhere`].
    const ALL: [Self; 3] = [Self::Read, Self::Append, Self::Rename];

    /// The commands that sign a head.
    const SIGNING: [Self; 7] = [
        Self::Append,
        Self::Rename,
        Self::Import,
        Self::Rekey,
        Self::AddRecipient,
        Self::AddOutputRecipient,
        Self::ClientLock,
    ];

    async fn run(self, stacks: &Stacks) -> Result<Observed> {
        match self {
            Self::Read => {}
            Self::Create => {
                if stacks.get(&name()).await?.is_none() {
                    stacks.new_stack(&name()).await?;
                }
            }
            Self::Append => {
                let stack = found(stacks).await?;
                let session = stack.lock("append").await?;
                add(&session, APPENDED).await?;
                session.close().await?;
            }
            Self::Rename => {
                let other: StackName = "tests/other".parse()?;
                stacks.rename(&name(), &other).await?;
                stacks.rename(&other, &name()).await?;
            }
            Self::Import => {
                let stack = found(stacks).await?;
                let session = stack.lock("import").await?;
                let snapshot = stack.current().await?;
                let request = UpdateRequest::new(UpdateKind::Import);
                session.import(request, snapshot, None).await?;
                session.close().await?;
            }
            Self::Rekey => {
                let stack = found(stacks).await?;
                stack.rekey("rekey", Rekey::default()).await?;
            }
            Self::AddRecipient => {
                let stack = found(stacks).await?;
                let more = [COLLEAGUE.to_owned()];
                stack.add_recipients("recipients add", &more).await?;
            }
            Self::AddOutputRecipient => {
                let stack = found(stacks).await?;
                let more = [COLLEAGUE.to_owned()];
                stack.add_output_recipients("recipients add", &more).await?;
            }
            Self::ClientLock => {
                let stack = found(stacks).await?;
                let lock = stack.acquire_client_lock("lock", "freeze", None).await?;
                stack.free_client_lock("unlock", &lock.id).await?;
            }
        }
        observe(stacks).await
    }
}

async fn found(stacks: &Stacks) -> Result<state_manager::Stack> {
    let stack = stacks.get(&name()).await?;
    stack.ok_or_else(|| Error::not_found("the stack"))
}

/// Returns the action of changing a document and recomputing its digest, which needs no key. The action leaves an
/// object as it is if the object contains no document of this type.
fn forge<T: Enveloped + 'static>(
    name: &'static str,
    change: impl Fn(&mut T) + Send + Sync + 'static,
) -> Action {
    Action::Forge(Forgery::new(name, move |bytes| {
        let Ok(mut document) = T::decode("forged", bytes) else {
            return bytes.to_vec();
        };
        change(&mut document);
        document.encode()
    }))
}

fn name() -> StackName {
    workload::STACK.parse().expect("a valid name")
}

async fn add(session: &state_manager::Session, tag: &str) -> Result<()> {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await?;
    let entry = workload::made(Address::new(tag)?, tag)?;
    let begun = update.begin(Intent::create(entry.clone())).await?;
    assert!(begun.succeed(Some(entry)).await?.is_empty());
    update.finish(UpdateResult::Succeeded).await?;
    Ok(())
}

/// Damage that any reader must detect.
fn damages() -> Vec<Action> {
    let flip = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let middle = bytes.len() / 2;
        if let Some(byte) = bytes.get_mut(middle) {
            *byte ^= 1;
        }
        bytes
    };
    vec![
        Action::Forge(Forgery::new("a flipped bit", flip)),
        Action::Forge(Forgery::new("cut in half", |bytes| {
            bytes[..bytes.len() / 2].to_vec()
        })),
        Action::Forge(Forgery::new("zeros", |bytes| vec![0; bytes.len()])),
        Action::Forge(Forgery::new("an additional byte", |bytes| [bytes, b"x"].concat())),
    ]
}

/// Runs each command once per request and kind of damage, and damages the object of the request right before it. Only
/// each third request is tested ([`STRIDE`]). The command must return an error or show the correct state.
async fn damage_everywhere(scenario: &Scenario, counts: &mut BTreeMap<&'static str, usize>) {
    let before = scenario
        .run(Command::Read, Vec::new())
        .await
        .shown
        .expect("the store is intact");
    for command in Command::ALL {
        let honest = scenario.run(command, Vec::new()).await;
        let after = honest.shown.expect("nothing is damaged");
        for (at, request) in honest.requests.iter().enumerate().step_by(STRIDE) {
            if matches!(request.verb, Verb::Sync | Verb::List) {
                continue;
            }
            for action in damages() {
                let context = format!(
                    "{:?}, {:?}, {command:?}: {action:?} of {request:?} at {at}",
                    scenario.kind, scenario.policy
                );
                // The object has the name that the run without damage gave it. Names of new objects contain random bits
                // and differ in this run, so damage of a new object has no effect.
                let plan = vec![Intervention::new(at, request.object.clone(), action)];
                let outcome = scenario.run(command, plan).await;
                if outcome.edits == 0 {
                    *counts.entry("without effect").or_default() += 1;
                    continue;
                }
                match &outcome.shown {
                    Ok(shown) => {
                        assert_eq!(*shown, after, "a wrong state without an error: {context}");
                        *counts.entry("the same answer").or_default() += 1;
                    }
                    Err(error) => {
                        assert!(!error.to_string().is_empty(), "{context}");
                        *counts.entry("a typed error").or_default() += 1;
                    }
                }
                if let Ok(left) = &outcome.left {
                    let is_known = *left == before || *left == after || partial(left, &before, &after);
                    assert!(is_known, "the command left a wrong state: {context}: {left:?}");
                }
            }
        }
    }
}

/// Returns whether a command that failed midway may have left this state: the policy is unchanged, no resource is
/// missing, and each new resource is one that the complete command adds.
fn partial(left: &Observed, before: &Observed, after: &Observed) -> bool {
    let (Some(left), Some(before), Some(after)) = (left, before, after) else {
        // The rename failed while the stack had its other name.
        return left.is_none();
    };
    let addresses = |stack: &Stack| -> BTreeSet<String> {
        let entries = stack.tip.entries.iter();
        entries.map(|entry| entry.address.to_string()).collect()
    };
    left.policy == before.policy
        && addresses(left).is_superset(&addresses(before))
        && addresses(left).is_subset(&addresses(after))
}

#[test]
fn damage_between_requests_never_gives_a_wrong_state() {
    block_on(async {
        let mut counts = BTreeMap::new();
        for kind in [Kind::Files, Kind::Objects] {
            for policy in [SealingPolicy::Plaintext, SealingPolicy::All] {
                let scenario = Scenario::build(kind, policy).await.unwrap();
                damage_everywhere(&scenario, &mut counts).await;
            }
        }
        eprintln!("hostile: {counts:?}");
        assert!(counts["a typed error"] > 100, "{counts:?}");
        assert!(counts["the same answer"] > 20, "{counts:?}");
    });
}

//! Damaged object stores: each object of a store with 6 revisions is removed and zeroed in turn. Surviving revisions are read
//! byte for byte, and a salvage ends in a stack that works.

mod earlier_compactions;
mod interrupted;
mod lost_revisions;
mod raced;
mod unproven;
mod watched_store;

use super::*;
use bytes::Bytes;
use futures_util::TryStreamExt;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::object_store::{ObjectStore, ObjectStoreExt};
use state_backend_object_store::{ObjectBackend, Options};
use state_core::backend::Opening;
use state_core::{FactoryInfo, Lineage, RevisionId, Snapshot, StackName, Timestamp, encode_snapshot};
use state_encrypt::{AgeKeys, generate_identity};
use state_manager::{KnownStacks, MemoryKnownStacks, Salvage, SalvageReport, View};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each process of the client has random bits of its own.
static PROCESSES: AtomicU64 = AtomicU64::new(1000);

/// A way to damage an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Removed,
    Zeroed,
}

/// A store of objects, and a client with its memory and its identity.
struct Client {
    objects: Arc<InMemory>,
    /// The store as the client reaches it.
    store: Arc<dyn ObjectStore>,
    keys: Option<Arc<AgeKeys>>,
    known: Arc<MemoryKnownStacks>,
}

impl Client {
    /// A client with an empty stack `shop` in a new store.
    async fn with_stack(is_sealed: bool) -> (Self, Stack) {
        let keys = is_sealed.then(|| keys(7, &generate_identity()));
        let objects: Arc<InMemory> = Arc::default();
        let client = Self {
            store: Arc::clone(&objects) as Arc<dyn ObjectStore>,
            objects,
            keys,
            known: Arc::default(),
        };
        let making = ObjectBackend::new(
            Arc::clone(&client.store),
            client.backend().options().clone(),
            Opening::Create,
        );
        let stacks = Stacks::new(Arc::new(making), Self::environment());
        let stacks = stacks.with_known_stacks(client.known.clone());
        let stack = match &client.keys {
            Some(keys) => stacks.with_keys(keys.clone()).new_stack(&shop()).await.unwrap(),
            None => stacks
                .new_stack_with(&shop(), SealingPolicy::Plaintext)
                .await
                .unwrap(),
        };
        (client, stack)
    }

    fn backend(&self) -> Arc<ObjectBackend> {
        let mut options = Options::new("s3://bucket", Path::default());
        options.lease = Duration::from_secs(2 * 60 * 60);
        options.renewal = Duration::from_secs(60 * 60);
        options.proof = None;
        Arc::new(ObjectBackend::new(
            Arc::clone(&self.store),
            options,
            Opening::Existing,
        ))
    }

    fn environment() -> Environment {
        environment(PROCESSES.fetch_add(1, Ordering::Relaxed))
    }

    /// The stacks in a new process.
    fn stacks(&self) -> Stacks {
        let stacks = Stacks::new(self.backend(), Self::environment());
        let stacks = stacks.with_known_stacks(self.known.clone());
        match &self.keys {
            Some(keys) => stacks.with_keys(keys.clone()),
            None => stacks,
        }
    }

    fn salvage(&self) -> Salvage {
        let salvage = Salvage::of_backend(self.backend(), Self::environment()).unwrap();
        let salvage = salvage.with_known_stacks(self.known.clone());
        match &self.keys {
            Some(keys) => salvage.with_keys(keys.clone()),
            None => salvage,
        }
    }

    /// The state of the stack as a client reads it; the error if it is refused or missing.
    async fn view(&self) -> state_core::Result<View> {
        let stack = self.stacks().get(&shop()).await?;
        let stack = stack.ok_or_else(|| state_core::Error::not_found("stack shop"))?;
        stack.tip().await
    }

    /// The content of a revision: from the stack if it can be read, else from what is intact.
    async fn export(&self, lineage: Lineage, id: &RevisionId) -> state_core::Result<String> {
        if let Ok(view) = self.view().await
            && let Ok(snapshot) = view.get(id).await
            && let Ok(revealed) = view.reveal(snapshot).await
        {
            return Ok(encode_snapshot(&revealed));
        }
        let view = self
            .salvage()
            .view_at(lineage, &id.to_string().parse().unwrap())
            .await?;
        let snapshot = view.get(id).await?;
        Ok(encode_snapshot(&view.reveal(snapshot).await?))
    }

    async fn works(&self) -> bool {
        let changed = async {
            let stack = self.stacks().get(&shop()).await?;
            let stack = stack.ok_or_else(|| state_core::Error::not_found("stack shop"))?;
            let session = stack.lock("deploy").await?;
            let update = session
                .start_update(UpdateRequest::new(UpdateKind::Update))
                .await?;
            update.finish(UpdateResult::Succeeded).await?;
            session.close().await?;
            stack.verify(true).await
        };
        let survey = self.salvage().survey().await.unwrap();
        matches!(changed.await, Ok(verified) if verified.report.is_valid()) && survey.is_intact()
    }
}

/// A store with 6 revisions, the content of each, and what its client remembers.
struct Original {
    objects: BTreeMap<String, Bytes>,
    keys: Option<Arc<AgeKeys>>,
    known: Arc<MemoryKnownStacks>,
    lineage: Lineage,
    exports: BTreeMap<RevisionId, String>,
    current: RevisionId,
}

/// What became of a store after one damage.
struct Outcome {
    case: String,
    works: bool,
    survivors: usize,
    current_survives: bool,
}

fn shop() -> StackName {
    "shop/production".parse().unwrap()
}

async fn contents(objects: &InMemory) -> BTreeMap<String, Bytes> {
    let listed: Vec<_> = objects.list(None).try_collect().await.unwrap();
    let mut contents = BTreeMap::new();
    for meta in listed {
        let bytes = objects.get(&meta.location).await.unwrap().bytes().await.unwrap();
        contents.insert(meta.location.to_string(), bytes);
    }
    contents
}

fn imported() -> Snapshot {
    let created = Timestamp::new("2026-01-01T00:00:00Z");
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", created);
    snapshot.entries = vec![
        Arc::new(entry("network", &[])),
        Arc::new(entry("host", &["network"])),
    ];
    snapshot
}

impl Original {
    /// An import, four updates and a rollback, each in a session of its own.
    async fn new(is_sealed: bool) -> Self {
        let (client, stack) = Client::with_stack(is_sealed).await;
        let session = stack.lock("import").await.unwrap();
        let request = UpdateRequest::new(UpdateKind::Import);
        session.import(request, imported(), None).await.unwrap();
        session.close().await.unwrap();
        let mut before = deploy(&stack, &["a"]).await;
        for name in ["b", "c"] {
            before = deploy(&stack, &[name]).await;
        }
        let session = stack.lock("rollback").await.unwrap();
        let request = UpdateRequest::new(UpdateKind::Rollback);
        session.rollback(request, &before).await.unwrap();
        session.close().await.unwrap();
        let current = deploy(&stack, &["d"]).await;
        let view = client.view().await.unwrap();
        let lineage = view.head.lineage;
        let mut exports = BTreeMap::new();
        for revision in view.history().await.unwrap() {
            let export = client.export(lineage, &revision.id).await.unwrap();
            exports.insert(revision.id, export);
        }
        assert_eq!(exports.len(), 6);
        assert!(client.salvage().survey().await.unwrap().is_intact());
        Self {
            objects: contents(&client.objects).await,
            keys: client.keys,
            known: client.known,
            lineage,
            exports,
            current,
        }
    }

    /// A copy of the store and of what the client remembers.
    async fn copy(&self) -> Client {
        let objects = InMemory::new();
        for (key, bytes) in &self.objects {
            let path = Path::parse(key).unwrap();
            objects.put(&path, bytes.clone().into()).await.unwrap();
        }
        let known = MemoryKnownStacks::default();
        let pin = self.known.seen(self.lineage).await.unwrap();
        assert!(known.replace(self.lineage, None, pin.as_ref()).await);
        assert!(known.replace_name(&shop(), None, Some(self.lineage)).await);
        let objects = Arc::new(objects);
        Client {
            store: Arc::clone(&objects) as Arc<dyn ObjectStore>,
            objects,
            keys: self.keys.clone(),
            known: Arc::new(known),
        }
    }

    async fn outcome(&self, key: &str, harm: Harm) -> Outcome {
        let case = format!("{harm:?} {key}");
        let client = self.copy().await;
        let path = Path::parse(key).unwrap();
        match harm {
            Harm::Removed => client.objects.delete(&path).await.unwrap(),
            Harm::Zeroed => {
                let zeros = Bytes::from(vec![0; self.objects[key].len()]);
                client.objects.put(&path, zeros.into()).await.map(drop).unwrap();
            }
        }
        if let Ok(view) = client.view().await {
            let current = view.state.current();
            assert_eq!(
                current,
                Some(&self.current),
                "{case}: another state is shown as current"
            );
        }
        let (surviving, lost) = self.survivors(&client, &case).await;
        let before = contents(&client.objects).await;
        let salvaged = client.salvage().salvage(None).await;
        self.require_evidence(&client, &before, &case).await;
        for id in &surviving {
            let read = client.export(self.lineage, id).await;
            assert_eq!(
                read.as_ref().ok(),
                Some(&self.exports[id]),
                "{case}: {id}: {read:?}"
            );
        }
        let works = is_salvaged(&salvaged) && client.works().await;
        if works && lost.contains(&self.current) {
            let report = salvaged.unwrap();
            assert!(
                report.stacks[0].lost.contains(&self.current),
                "{case}: {report:?}"
            );
        }
        Outcome {
            current_survives: surviving.contains(&self.current),
            survivors: surviving.len(),
            works,
            case,
        }
    }

    /// The revisions that survive and those that don't, as the survey lists them. Each survivor is compared.
    async fn survivors(&self, client: &Client, case: &str) -> (Vec<RevisionId>, Vec<RevisionId>) {
        let survey = client.salvage().survey().await.unwrap();
        let Some(stack) = survey.stacks.first().filter(|stack| !stack.damage.is_empty()) else {
            return (self.exports.keys().cloned().collect(), Vec::new());
        };
        for id in &stack.surviving {
            let read = client.export(self.lineage, id).await;
            assert_eq!(
                read.as_ref().ok(),
                Some(&self.exports[id]),
                "{case}: {id}: {read:?}"
            );
        }
        (stack.surviving.clone(), stack.lost.clone())
    }

    /// Requires that what a salvage replaced or deleted was kept aside: the damaged object, and all objects of a stack that was
    /// rebuilt. A stack that was only attached is changed by an ordinary update.
    async fn require_evidence(&self, client: &Client, before: &BTreeMap<String, Bytes>, case: &str) {
        let after = contents(&client.objects).await;
        let kept = |key: &str, bytes: &Bytes| {
            let mut aside = after.iter().filter(|(other, _)| other.starts_with("damaged/"));
            aside.any(|(other, copy)| other.ends_with(key) && copy == bytes)
        };
        let is_rebuilt = after
            .keys()
            .any(|key| key.starts_with("damaged/") && key.contains("/stacks/"));
        for (key, bytes) in before {
            let is_lock = ["lease.json", "clock.json"]
                .iter()
                .any(|file| key.ends_with(file));
            let is_damaged = self.objects.get(key) != Some(bytes);
            if after.get(key) != Some(bytes) && (is_damaged || (is_rebuilt && !is_lock)) {
                assert!(kept(key, bytes), "{case}: {key} was overwritten");
            }
        }
    }
}

fn is_salvaged(salvaged: &state_core::Result<SalvageReport>) -> bool {
    let report = salvaged.as_ref();
    report.is_ok_and(|report| report.stacks.iter().all(|stack| stack.obstacle.is_none()))
}

async fn outcomes(is_sealed: bool) -> Vec<Outcome> {
    let original = Original::new(is_sealed).await;
    let mut outcomes = Vec::new();
    for key in original.objects.keys() {
        for harm in [Harm::Removed, Harm::Zeroed] {
            outcomes.push(original.outcome(key, harm).await);
        }
    }
    outcomes
}

#[tokio::test]
async fn single_damage_of_an_object_ends_in_a_working_stack() {
    let mut total = outcomes(false).await;
    total.extend(outcomes(true).await);
    let count = |is_so: fn(&Outcome) -> bool| total.iter().filter(|outcome| is_so(outcome)).count();
    let working = count(|outcome| outcome.works);
    let current = count(|outcome| outcome.current_survives);
    let survivors: usize = total.iter().map(|outcome| outcome.survivors).sum();
    eprintln!("{} single damages: {working} end in a working stack", total.len());
    eprintln!(
        "the current state survives {current} of them; {survivors} of {} revisions do",
        total.len() * 6
    );
    assert!(working * 100 >= total.len() * 95, "{working} of {}", total.len());
    for lost in total.iter().filter(|outcome| !outcome.current_survives) {
        // The snapshot that the rollback restored, and the wrapped data key, have no copy.
        let only_copies = ["snapshots/00000000000000000018-", "keys/"];
        let is_only_copy = only_copies.iter().any(|copy| lost.case.contains(copy));
        assert!(is_only_copy, "{}", lost.case);
    }
}

#[tokio::test]
async fn lost_slot_costs_only_the_revisions_after_it() {
    // Without the compactions, each slot is the only copy of its frame.
    let mut original = Original::new(false).await;
    original.objects.retain(|key, _| !is_compaction(key));
    let slots: Vec<&String> = original
        .objects
        .keys()
        .filter(|key| key.contains("/journal/"))
        .collect();
    let mut before = 0;
    for slot in slots {
        for harm in [Harm::Removed, Harm::Zeroed] {
            let outcome = original.outcome(slot, harm).await;
            // A lost fence before the first frame of a revision costs that revision too.
            assert!(
                outcome.survivors >= before,
                "{}: {}",
                outcome.case,
                outcome.survivors
            );
            assert!(outcome.survivors < 6, "{}", outcome.case);
            assert_eq!(outcome.works, outcome.survivors > 0, "{}", outcome.case);
            assert!(!outcome.current_survives, "{}", outcome.case);
            before = outcome.survivors;
        }
    }
    assert!(before > 0, "a late damage leaves the earlier revisions");
}

fn is_compaction(key: &str) -> bool {
    let file = key.rsplit('/').next().unwrap_or_default();
    key.contains("/journal/") && file.contains('-')
}

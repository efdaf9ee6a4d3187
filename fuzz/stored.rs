//! Replaces one object of a small store, and reads everything that the store holds.

use bytes::Bytes;
use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::object_store::{ObjectStore, ObjectStoreExt};
use state_backend_object_store::{ObjectBackend, Options};
use state_core::backend::Opening;
use state_core::head::SealingPolicy;
use state_core::testkit::clock::{ManualClock, SeededEntropy};
use state_core::{Address, Entry, Enveloped, Result, Snapshot, StackName, UpdateKind, UpdateResult};
use state_manager::{Actor, Environment, Intent, Stack, Stacks, UpdateRequest};
use std::cell::OnceCell;
use std::sync::{Arc, OnceLock};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
}

/// The objects of the store, by path, and what a reader of the store sees.
struct Original {
    objects: Vec<(Path, Bytes)>,
    seen: Vec<Snapshot>,
}

/// Decodes the layout, names, heads, leases, frames, compactions, pages and snapshots of a store. The first byte chooses an
/// object, and the second how the rest changes it.
///
/// No change may cause a panic. A change that doesn't compute a new digest must cause an error or have no effect.
pub(crate) fn stored(bytes: &[u8]) {
    let [which, how, rest @ ..] = bytes else {
        return;
    };
    let original = original();
    let (path, old) = &original.objects[usize::from(*which) % original.objects.len()];
    let new = match how % 3 {
        0 => rest.to_vec(),
        1 => spliced(old, rest),
        _ => enveloped(old, rest).unwrap_or_else(|| rest.to_vec()),
    };
    let has_digest = how % 3 == 2;
    let found = block_on(async {
        let store = InMemory::new();
        for (other, bytes) in &original.objects {
            let bytes = if other == path {
                Bytes::from(new.clone())
            } else {
                bytes.clone()
            };
            store
                .put(other, bytes.into())
                .await
                .expect("a store in memory is writable");
        }
        read(&Arc::new(store)).await
    });
    if let (Ok(found), false) = (found, has_digest) {
        assert!(found == original.seen, "{path}: a changed object was accepted");
    }
}

/// Returns the old bytes with a part replaced: the first two bytes of the input say where it begins.
fn spliced(old: &[u8], input: &[u8]) -> Vec<u8> {
    let [high, low, part @ ..] = input else {
        return old.to_vec();
    };
    let begin = usize::from(u16::from_be_bytes([*high, *low])) % (old.len() + 1);
    let end = old.len().min(begin + part.len());
    [&old[..begin], part, &old[end..]].concat()
}

/// Returns the input in an envelope of the same kind as the old bytes, with a digest that fits. Returns `None` if the old bytes
/// are no envelope, or the input is no JSON.
fn enveloped(old: &[u8], input: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    let kind = serde_json::from_slice::<Kind>(old).ok()?.kind;
    let body = serde_json::from_slice::<Box<RawValue>>(input).ok()?;
    macro_rules! kinds {
        ($($name:ident = $kind:literal,)*) => {
            $(
                #[derive(Serialize, Deserialize)]
                struct $name(Box<RawValue>);

                impl Enveloped for $name {
                    const KIND: &'static str = $kind;
                }
            )*
            match kind.as_str() {
                $($kind => Some($name(body).encode()),)*
                other => panic!("an envelope of an unknown kind: {other}"),
            }
        };
    }
    kinds! {
        Layout = "format",
        Meta = "meta",
        Lease = "lease",
        Name = "name",
        Head = "head",
        Page = "history",
        Index = "history-index",
    }
}

fn original() -> &'static Original {
    static ORIGINAL: OnceLock<Original> = OnceLock::new();
    ORIGINAL.get_or_init(|| block_on(build()).expect("the store of the fuzzer can be built"))
}

/// Builds a store with one plain stack, which was imported, changed in two sessions and compacted.
async fn build() -> Result<Original> {
    let store = Arc::new(InMemory::new());
    let stacks = stacks(&store, Opening::Create);
    let stack = stacks.new_stack_with(&name(), SealingPolicy::Plaintext).await?;
    for number in 0..3 {
        update(&stack, number).await?;
    }
    let seen = read(&store).await?;
    let listed: Vec<_> = store
        .list(None)
        .try_collect()
        .await
        .expect("a store in memory can be listed");
    let mut objects = Vec::new();
    for meta in listed {
        let found = store.get(&meta.location).await.expect("a listed object exists");
        objects.push((
            meta.location,
            found.bytes().await.expect("an object in memory is readable"),
        ));
    }
    objects.sort_by(|one, other| one.0.as_ref().cmp(other.0.as_ref()));
    Ok(Original { objects, seen })
}

async fn update(stack: &Stack, number: u8) -> Result<()> {
    let session = stack.lock("fuzz").await?;
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await?;
    let mut entry = Entry::leaf(Address::new(format!("thing-{number}"))?, "thing");
    let begun = update.begin(Intent::create(entry.clone())).await?;
    entry.id = Some(format!("id-{number}"));
    begun.succeed(Some(entry)).await?;
    update.finish(UpdateResult::Succeeded).await?;
    session.close().await
}

/// Reads the current state and all revisions, and takes the lock over.
async fn read(store: &Arc<InMemory>) -> Result<Vec<Snapshot>> {
    let stacks = stacks(store, Opening::Existing);
    let mut seen = Vec::new();
    for name in stacks.names().await? {
        let Some(stack) = stacks.get(&name).await? else {
            continue;
        };
        seen.push(stack.tip().await?.snapshot());
        for revision in stack.history().await? {
            seen.push(stack.get(&revision.id).await?);
        }
        stack.verify(true).await?;
        stack.lock("read").await?.close().await?;
    }
    Ok(seen)
}

fn stacks(store: &Arc<InMemory>, opening: Opening) -> Stacks {
    let mut options = Options::new("s3://bucket", Path::default());
    options.proof = None;
    let store = Arc::clone(store) as Arc<dyn ObjectStore>;
    let backend = ObjectBackend::new(store, options, opening);
    let environment = Environment {
        clock: Arc::new(ManualClock::new()),
        entropy: Arc::new(SeededEntropy::new(1)),
        ..Environment::system(Actor::default())
    };
    Stacks::new(Arc::new(backend), environment)
}

fn name() -> StackName {
    "shop".parse().expect("a name")
}

/// Runs a future. Waiting takes no time, because the clock of the runtime goes on as soon as nothing else can.
fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.with(|runtime| {
        let build = || {
            Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
        };
        runtime
            .get_or_init(|| build().expect("a runtime"))
            .block_on(future)
    })
}

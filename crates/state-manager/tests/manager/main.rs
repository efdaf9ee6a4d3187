//! Tests of the manager's guarantees through its public interface, mostly on the memory backend. This file has the
//! helpers that the modules share.

#![expect(clippy::unwrap_used, reason = "a test that can't set up its case fails")]

mod accepted;
mod bound_logs;
mod checkpoints;
mod client_locks;
mod collecting;
#[cfg(feature = "fs")]
mod copying;
#[cfg(feature = "fs")]
mod counted_files;
mod counted_pages;
mod counted_steps;
mod crypters;
mod early_frames;
mod edits;
mod faults;
#[cfg(feature = "fs")]
mod files;
mod forged_frames;
#[cfg(feature = "fs")]
mod forged_history;
mod held_appends;
mod history_index;
mod known_names;
mod known_plain;
#[cfg(feature = "fs")]
mod known_stacks;
mod late_renames;
mod long_history;
mod lookups;
mod move_rollback;
mod moves;
mod names;
mod objects;
mod parked_results;
mod pending_edits;
mod persistent;
#[cfg(feature = "fs")]
mod published;
mod reading;
mod recorded_keys;
mod registry;
#[cfg(feature = "fs")]
mod replayed_peer;
mod rotation;
#[cfg(feature = "fs")]
mod salvaged_objects;
mod sealed;
mod sealed_moves;
mod sessions;
mod signed_names;
#[cfg(unix)]
mod spooling;
mod store_features;
mod updates;
mod waiting;
mod whole_snapshots;

use state_core::head::SealingPolicy;
use state_core::testkit::clock::{ManualClock, SeededEntropy};
use state_core::{Address, Dependency, Entry, EntryKey, MemoryBackend, UpdateKind, UpdateResult};
use state_encrypt::{AgeKeys, GeneratedIdentity, Identities};
use state_manager::{Actor, Environment, Intent, Session, Stack, Stacks, Update, UpdateRequest};
use std::sync::Arc;

/// An environment with a clock that passes only when a test advances it or a task sleeps, a fixed actor, and random
/// bits that depend only on the seed.
fn environment(seed: u64) -> Environment {
    Environment {
        clock: Arc::new(ManualClock::default()),
        entropy: Arc::new(SeededEntropy::new(seed)),
        actor: Actor {
            who: "ana".into(),
            host: "ci".into(),
            pid: 42,
        },
        writer_version: "0".into(),
    }
}

/// The stacks of a store in memory, for a client without keys and pins.
fn stacks(backend: &MemoryBackend, seed: u64) -> Stacks {
    Stacks::new(Arc::new(backend.clone()), environment(seed))
}

/// A store in memory with the empty plaintext stack `shop/production`.
async fn new_stack() -> (MemoryBackend, Stack) {
    let backend = MemoryBackend::default();
    let stack = stacks(&backend, 1)
        .new_stack_with(&"shop/production".parse().unwrap(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    (backend, stack)
}

/// A key provider with this identity, which wraps new keys to it.
fn keys(seed: u64, identity: &GeneratedIdentity) -> Arc<AgeKeys> {
    let identities = Identities::parse("identity", identity.file()).unwrap();
    let recipients = identity.recipient().parse().unwrap();
    Arc::new(AgeKeys::new(
        identities,
        recipients,
        Arc::new(SeededEntropy::new(seed)),
    ))
}

fn address(name: &str) -> Address {
    name.parse().unwrap()
}

fn key(name: &str) -> EntryKey {
    EntryKey::live(address(name))
}

/// A resource that depends on the resources `on`.
fn entry(name: &str, on: &[&str]) -> Entry {
    let mut entry = Entry::leaf(address(name), "thing");
    entry.depends_on = on.iter().map(|name| Dependency::Entry(address(name))).collect();
    entry
}

async fn start(session: &Session) -> Update {
    session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await
        .unwrap()
}

/// Creates a resource: begins the step and ends it with success.
async fn create(update: &Update, entry: Entry) {
    let step = update.begin(Intent::create(entry.clone())).await.unwrap();
    assert_eq!(step.succeed(Some(entry)).await.unwrap(), vec![]);
}

/// Makes one revision that creates these resources.
async fn deploy(stack: &Stack, names: &[&str]) -> state_core::RevisionId {
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    for name in names {
        create(&update, entry(name, &[])).await;
    }
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    revision
}

/// The keys of all resources in the tip of the stack, in the order of the state.
async fn names(stack: &Stack) -> Vec<String> {
    stack
        .tip()
        .await
        .unwrap()
        .state
        .entries()
        .map(|entry| entry.key().to_string())
        .collect()
}

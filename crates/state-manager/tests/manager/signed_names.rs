//! Name pointers, the stored objects that lead from a name to a stack, have a tag if the stack is sealed. A client that
//! has the key therefore detects a pointer that was redirected, exchanged or forged, even if the client has never seen
//! the stack before.

use super::known_stacks::{Client, change_head};
use super::*;
use state_core::backend::{NamePointer, NameTarget};
use state_core::testkit::fault::{Fault, FaultPlan, FaultyBackend, Operation};
use state_core::{Backend, Enveloped, ErrorKind, Lineage, Nonce, Result, StackName};
use state_encrypt::{GeneratedIdentity, generate_identity};
use state_manager::{Expectations, KnownStacks, Rekey};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// The seed of the next client's key provider.
static CLIENTS: AtomicU64 = AtomicU64::new(100);

/// A store with the sealed stacks `shop` and `bank`, to which the same identity has the key.
struct Store {
    _folder: TempDir,
    root: PathBuf,
    identity: GeneratedIdentity,
    shop: Lineage,
    bank: Lineage,
}

impl Store {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let identity = generate_identity();
        let client = Client::of(&root, &identity);
        let mut lineages = Vec::new();
        for (name, resource) in [("shop", "a"), ("bank", "b")] {
            let stack = client.stacks().new_stack(&parsed(name)).await.unwrap();
            deploy(&stack, &[resource]).await;
            lineages.push(stack.lineage());
        }
        Self {
            _folder: folder,
            root,
            identity,
            shop: lineages[0],
            bank: lineages[1],
        }
    }

    /// The stacks for a new client, which has the key and no pins. Each client generates different keys.
    fn stacks(&self) -> Stacks {
        let seed = CLIENTS.fetch_add(1, Ordering::Relaxed);
        Client::new(&self.root, Some(keys(seed, &self.identity))).stacks()
    }

    /// The file of the pointer of a name.
    fn path(&self, name: &str) -> PathBuf {
        self.root.join("names/default").join(format!("{name}.json"))
    }

    /// The stored pointer of a name.
    fn pointer(&self, name: &str) -> NamePointer {
        let bytes = std::fs::read(self.path(name)).unwrap();
        NamePointer::decode("a pointer", &bytes).unwrap()
    }

    /// Overwrites the stored pointer of a name, as an attacker can.
    fn write(&self, pointer: &NamePointer) {
        std::fs::write(self.path(&pointer.name.short()), pointer.encode()).unwrap();
    }

    /// Requires that a new client can't list the stacks, and can neither open, create, rename nor remove a stack under
    /// this name. `what` describes the attack.
    async fn refuses(&self, name: &str, what: &str) {
        let (stacks, name) = (self.stacks(), parsed(name));
        let file = format!("names/default/{}.json", name.short());
        let listed = stacks.list().await.map(drop).expect_err(what);
        assert_eq!(listed.kind(), ErrorKind::Distrusted, "{what}: {listed}");
        for refused in [
            stacks.get(&name).await.map(drop),
            stacks.new_stack(&name).await.map(drop),
            stacks.rename(&name, &parsed("other")).await,
            stacks.remove(&name, true).await.map(drop),
        ] {
            let error = refused.expect_err(what);
            assert_eq!(error.kind(), ErrorKind::Distrusted, "{what}: {error}");
            let text = error.to_string();
            assert!(
                text.contains(&file) && text.contains("the store was altered"),
                "{text}"
            );
        }
    }

    /// The resources of the stack with this name, as a new client reads them; none if there is no such stack.
    async fn read(&self, name: &str) -> Option<Vec<String>> {
        let stack = self.stacks().get(&parsed(name)).await.unwrap()?;
        Some(names(&stack).await)
    }
}

fn parsed(name: &str) -> StackName {
    name.parse().unwrap()
}

/// The target that a rename to `name` leaves in the old pointer.
fn moved(lineage: Lineage, name: &str) -> NameTarget {
    NameTarget::MovedTo {
        lineage,
        name: parsed(name),
    }
}

#[tokio::test]
async fn redirected_name_is_refused_by_a_new_client() {
    let store = Store::new().await;
    let honest = store.pointer("shop");
    assert_eq!(honest.tags.len(), 1);
    for target in [
        NameTarget::Lineage(store.bank),
        NameTarget::Removed(store.shop),
        NameTarget::Removed(store.bank),
        moved(store.shop, "elsewhere"),
        moved(store.bank, "bank"),
    ] {
        for keeps_tags in [true, false] {
            let mut forged = NamePointer::new(parsed("shop"), target.clone(), Nonce::from_bytes([9; 16]));
            if keeps_tags {
                forged.tags = store.pointer("bank").tags;
                forged.tags.extend(honest.tags.clone());
            }
            store.write(&forged);
            store.refuses("shop", &format!("{target:?}, {keeps_tags}")).await;
        }
    }
    store.write(&honest);
    assert_eq!(store.read("shop").await.unwrap(), ["a"]);
}

#[tokio::test]
async fn exchanged_names_are_refused_by_a_new_client() {
    let store = Store::new().await;
    let (mut shop, mut bank) = (store.pointer("shop"), store.pointer("bank"));
    std::mem::swap(&mut shop.target, &mut bank.target);
    std::mem::swap(&mut shop.tags, &mut bank.tags);
    store.write(&shop);
    store.write(&bank);
    store.refuses("shop", "exchanged").await;
    store.refuses("bank", "exchanged").await;
}

#[tokio::test]
async fn pointer_without_its_tag_is_refused() {
    let store = Store::new().await;
    let mut pointer = store.pointer("shop");
    pointer.tags.clear();
    store.write(&pointer);
    store.refuses("shop", "no tag").await;
    let mut pointer = store.pointer("bank");
    pointer.nonce = Nonce::from_bytes([9; 16]);
    store.write(&pointer);
    store.refuses("bank", "the tag of another pointer").await;
}

/// The attacker points the name `shop` to the stack of the bank, and writes that name into the head of the bank.
#[tokio::test]
async fn name_forged_into_the_head_of_another_stack_is_refused() {
    let store = Store::new().await;
    store.write(&NamePointer::new(
        parsed("shop"),
        NameTarget::Lineage(store.bank),
        Nonce::from_bytes([9; 16]),
    ));
    change_head(&store.root, store.bank, |head| head.name = parsed("shop"));
    let found = store.stacks().get(&parsed("shop")).await;
    assert_eq!(found.map(drop).unwrap_err().kind(), ErrorKind::Sealed);
}

#[tokio::test]
async fn pointer_from_before_a_rekey_is_refused() {
    let store = Store::new().await;
    let before = store.pointer("shop");
    let stack = store.stacks().get(&parsed("shop")).await.unwrap().unwrap();
    stack.rekey("rekey", Rekey::default()).await.unwrap();
    assert_eq!(store.read("shop").await.unwrap(), ["a"]);
    store.write(&before);
    store.refuses("shop", "a tag under the old key").await;
}

#[tokio::test]
async fn names_given_up_before_a_rekey_stay_free() {
    let store = Store::new().await;
    let stacks = store.stacks();
    stacks.rename(&parsed("shop"), &parsed("store")).await.unwrap();
    let stack = stacks.get(&parsed("store")).await.unwrap().unwrap();
    stack.rekey("rekey", Rekey::default()).await.unwrap();
    assert_eq!(store.read("shop").await, None);
    assert_eq!(store.read("store").await.unwrap(), ["a"]);
    stacks.remove(&parsed("bank"), true).await.unwrap();
    assert_eq!(store.read("bank").await, None);
    for name in ["shop", "bank"] {
        let made = store.stacks().new_stack(&parsed(name)).await.unwrap();
        deploy(&made, &["c"]).await;
        assert_eq!(store.read(name).await.unwrap(), ["c"]);
    }
}

#[tokio::test]
async fn tombstone_of_another_name_is_refused() {
    let store = Store::new().await;
    store.stacks().remove(&parsed("bank"), true).await.unwrap();
    // The attacker writes the tombstone (the pointer that records a removal) of the name `bank` under the name `shop`.
    let bank = store.pointer("bank");
    let mut forged = NamePointer::new(parsed("shop"), bank.target.clone(), bank.nonce);
    forged.tags = bank.tags;
    store.write(&forged);
    store.refuses("shop", "another stack's removal").await;
}

#[tokio::test]
async fn client_without_the_key_changes_no_name() {
    let store = Store::new().await;
    let before = std::fs::read(store.path("shop")).unwrap();
    let stacks = Client::new(&store.root, None).stacks();
    for refused in [
        stacks.rename(&parsed("shop"), &parsed("other")).await,
        stacks.remove(&parsed("shop"), true).await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sealed);
        assert!(error.to_string().contains("no identity is available"), "{error}");
    }
    assert_eq!(std::fs::read(store.path("shop")).unwrap(), before);
    assert!(!store.path("other").exists());
}

/// The stacks in this memory for a client whose calls fail as the returned plan says.
fn faulty(memory: &MemoryBackend, seed: u64, identity: &GeneratedIdentity) -> (Stacks, FaultPlan) {
    let faulty = FaultyBackend::new(Arc::new(memory.clone()));
    let plan = faulty.plan();
    let stacks = Stacks::new(Arc::new(faulty), environment(seed));
    (stacks.with_keys(keys(seed, identity)), plan)
}

/// Whether a client finds the stack `shop`, and can read and lock it.
async fn is_readable(memory: &MemoryBackend, seed: u64, identity: &GeneratedIdentity) -> Result<bool> {
    let stacks = stacks(memory, seed).with_keys(keys(seed, identity));
    let Some(stack) = stacks.get(&parsed("shop")).await? else {
        return Ok(false);
    };
    stack.tip().await?;
    stack.lock("next").await?.close().await?;
    Ok(true)
}

/// A key change first swaps the pointer, which gets a tag under the new key, and then the head. The stack must open
/// after a crash at any of these calls, whether its head names the old key or the new one.
#[tokio::test]
async fn interrupted_change_of_keys_leaves_a_name_that_opens() {
    let identity = generate_identity();
    for operation in [Operation::SwapName, Operation::SwapHead, Operation::Create] {
        for fault in [Fault::BeforeEffect, Fault::AfterEffect] {
            for first in [true, false] {
                let memory = MemoryBackend::new();
                let (of_client, plan) = faulty(&memory, 1, &identity);
                let stack = of_client.new_stack(&parsed("shop")).await.unwrap();
                if !first {
                    deploy(&stack, &["a"]).await;
                }
                plan.fail(operation, 0, fault);
                let failed = match first {
                    true => stack.lock("first").await.map(drop),
                    false => stack.rekey("rekey", Rekey::default()).await.map(drop),
                };
                let context = format!("{operation:?}, {fault:?}, {first}");
                assert!(failed.is_err(), "{context}");
                drop((stack, of_client));
                tokio::task::yield_now().await;
                let readable = is_readable(&memory, 2, &identity).await;
                assert!(matches!(readable, Ok(true)), "{context}: {readable:?}");
            }
        }
    }
}

#[tokio::test]
async fn interrupted_rename_of_a_sealed_stack_is_finished() {
    let identity = generate_identity();
    for swap in 0..4 {
        let memory = MemoryBackend::new();
        let (of_client, plan) = faulty(&memory, 1, &identity);
        let stack = of_client.new_stack(&parsed("shop")).await.unwrap();
        deploy(&stack, &["a"]).await;
        let operation = [Operation::SwapHead, Operation::SwapName][swap % 2];
        plan.fail(operation, swap / 2, Fault::AfterEffect);
        of_client
            .rename(&parsed("shop"), &parsed("store"))
            .await
            .unwrap_err();
        drop((stack, of_client));
        let stacks = stacks(&memory, 2).with_keys(keys(2, &identity));
        for name in ["shop", "store"] {
            if let Some(stack) = stacks.get(&parsed(name)).await.unwrap() {
                stack.lock("next").await.unwrap().close().await.unwrap();
            }
        }
        let mut found = Vec::new();
        for name in ["shop", "store"] {
            found.extend(stacks.get(&parsed(name)).await.unwrap().map(|_| name));
        }
        assert_eq!(found.len(), 1, "swap {swap}: {found:?}");
    }
}

#[tokio::test]
async fn copy_without_the_key_keeps_the_signed_name() {
    let store = Store::new().await;
    let folder = tempfile::tempdir().unwrap();
    let there: &Path = &folder.path().join("copy");
    let source = Client::new(&store.root, None).stacks();
    let source = source.get(&parsed("shop")).await.unwrap().unwrap();
    Client::new(there, None)
        .stacks()
        .copy_from(&source)
        .await
        .unwrap();
    let copy = Client::of(there, &store.identity).stacks();
    let stack = copy.get(&parsed("shop")).await.unwrap().unwrap();
    assert_eq!(names(&stack).await, ["a"]);
}

/// The name pointer of a plain stack has no tag. Clients nevertheless accept a tombstone, a pointer that says that the
/// stack was removed, only if the head confirms it.
#[tokio::test]
async fn tombstone_of_a_living_plain_stack_is_refused() {
    let (backend, stack) = new_stack().await;
    let name = stack.name().clone();
    let before = backend.read_name(&name).await.unwrap().unwrap();
    assert!(before.tags.is_empty());
    let forged = NamePointer::new(
        name.clone(),
        NameTarget::Removed(stack.lineage()),
        Nonce::from_bytes([9; 16]),
    );
    backend
        .swap_name(&name, Some(before.nonce), &forged)
        .await
        .unwrap();
    let refused = stacks(&backend, 2).get(&name).await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Distrusted);
}

/// With `trust`, a user can accept a replaced stack, but not a forged pointer. The pins that reveal the forgery stay.
#[tokio::test]
async fn forged_pointer_is_not_accepted_by_trust() {
    let store = Store::new().await;
    let client = Client::of(&store.root, &store.identity);
    client.stack().await.unwrap().tip().await.unwrap();
    let (name, lineage) = (parsed("shop"), store.shop);
    let pinned = client.known_stacks.seen(lineage).await.unwrap();
    assert!(pinned.is_some());
    let mut forged = store.pointer("shop");
    forged.tags.clear();
    store.write(&forged);
    let refused = client.stacks().trust(&name, None).await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Distrusted);
    assert_eq!(client.known_stacks.seen(lineage).await.unwrap(), pinned);
    assert_eq!(client.known_stacks.named(&name).await.unwrap(), Some(lineage));
}

#[tokio::test]
async fn expected_key_of_one_stack_doesnt_hide_the_others() {
    let store = Store::new().await;
    let shop = store.stacks().get(&parsed("shop")).await.unwrap().unwrap();
    let key = shop.tip().await.unwrap().head.key_id.unwrap();
    let expecting = store
        .stacks()
        .with_expectations(Expectations::new(vec![key], None));
    assert_eq!(expecting.list().await.unwrap().len(), 2);
    assert!(expecting.get(&parsed("shop")).await.unwrap().is_some());
    let refused = expecting.get(&parsed("bank")).await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Distrusted);
}

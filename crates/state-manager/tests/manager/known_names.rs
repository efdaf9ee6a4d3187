//! Names that a client knows. A name pointer is the stored object that leads from a name to a stack. A client refuses a
//! name whose pointer no longer leads to the known stack. It accepts the change only if the signed head of that stack
//! records a removal or a rename.

use super::known_stacks::{Client, change_head, copy, make};
use super::*;
use state_core::backend::{NamePointer, NameTarget};
use state_core::head::PendingRename;
use state_core::testkit::fault::{Fault, FaultyBackend, Operation};
use state_core::{Enveloped, Error, ErrorKind, Lineage, Nonce, Result, StackName};
use state_encrypt::generate_identity;
use state_manager::{KnownStacks, MemoryKnownStacks};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Makes a client forget a name, as a user can.
pub(crate) async fn forget(client: &Client, name: &StackName) {
    let named = client.known_stacks.named(name).await.unwrap();
    assert!(client.known_stacks.replace_name(name, named, None).await);
}

/// A store with the sealed stack `shop`, and two clients that know the stack.
pub(crate) struct Shop {
    _folder: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) client: Client,
    pub(crate) other: Client,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let anna = generate_identity();
        make(&root, 1, keys(1, &anna)).await;
        let (client, other) = (Client::of(&root, &anna), Client::of(&root, &anna));
        client.write().await.unwrap();
        other.write().await.unwrap();
        Self {
            _folder: folder,
            root,
            client,
            other,
        }
    }

    /// The lineage that the client remembers for the name `shop`.
    pub(crate) async fn lineage(&self) -> Lineage {
        self.client.known_stacks.named(&shop()).await.unwrap().unwrap()
    }

    /// The path of the pointer of a name.
    pub(crate) fn pointer(&self, name: &str) -> PathBuf {
        self.root.join("names/default").join(format!("{name}.json"))
    }

    /// Requires that finding and creating a stack with the known name, and listing all names, are refused. `what`
    /// describes the attack.
    async fn refuses(&self, what: &str) {
        let stacks = self.client.stacks();
        let found = stacks.get(&shop()).await.map(|stack| stack.map(|_| ()));
        let created = stacks.new_stack(&shop()).await.map(|_| ());
        let listed = stacks.list().await.map(|_| ());
        for refused in [found.map(|_| ()), created, listed] {
            assert_eq!(kind(refused), Err(ErrorKind::Distrusted), "{what}");
        }
    }
}

pub(crate) fn shop() -> StackName {
    "shop".parse().unwrap()
}

pub(crate) fn kind<T>(result: Result<T>) -> Result<T, ErrorKind> {
    result.map_err(|error: Error| error.kind())
}

/// Writes an untagged pointer, as an attacker can.
pub(crate) fn write_pointer(path: &Path, name: &str, target: NameTarget) {
    let pointer = NamePointer::new(name.parse().unwrap(), target, Nonce::from_bytes([9; 16]));
    std::fs::write(path, pointer.encode()).unwrap();
}

#[tokio::test]
async fn deleted_name_of_a_known_stack_is_refused() {
    let shop = Shop::open().await;
    std::fs::remove_file(shop.pointer("shop")).unwrap();
    shop.refuses("the name was deleted").await;
}

/// A tombstone is a pointer that says that its stack was removed or renamed.
#[tokio::test]
async fn forged_tombstones_of_a_known_stack_are_refused() {
    let shop = Shop::open().await;
    let lineage = shop.lineage().await;
    let moved = NameTarget::MovedTo {
        lineage,
        name: "elsewhere".parse().unwrap(),
    };
    for target in [NameTarget::Removed(lineage), moved] {
        write_pointer(&shop.pointer("shop"), "shop", target);
        shop.refuses("a forged tombstone").await;
    }
}

#[tokio::test]
async fn forged_removal_in_the_head_is_refused() {
    let shop = Shop::open().await;
    change_head(&shop.root, shop.lineage().await, |head| head.removed = true);
    for deleted in [false, true] {
        if deleted {
            std::fs::remove_file(shop.pointer("shop")).unwrap();
        }
        let found = shop.client.stacks().get(&"shop".parse().unwrap()).await;
        assert_eq!(kind(found.map(|_| ())), Err(ErrorKind::Sealed));
        // A client that never saw the stack also detects the forgery, as long as the name leads to the stack.
        if !deleted {
            let anna = Client {
                known_stacks: Arc::default(),
                ..shop.other_client()
            };
            let found = anna.stacks().get(&"shop".parse().unwrap()).await;
            assert_eq!(kind(found.map(|_| ())), Err(ErrorKind::Sealed));
        }
    }
}

impl Shop {
    /// A copy of the other client, with the same keys and known stacks.
    fn other_client(&self) -> Client {
        Client {
            root: self.root.clone(),
            keys: self.other.keys.clone(),
            known_stacks: self.other.known_stacks.clone(),
        }
    }
}

#[tokio::test]
async fn name_in_a_deleted_store_is_refused_until_forgotten() {
    let shop = Shop::open().await;
    std::fs::remove_dir_all(&shop.root).unwrap();
    let stacks = shop.client.stacks();
    let created = stacks.new_stack(&"shop".parse().unwrap()).await;
    assert_eq!(kind(created.map(|_| ())), Err(ErrorKind::Distrusted));
    // The name is free again after the user has removed the stack from the known stacks.
    let lineage = shop.lineage().await;
    let name = "shop".parse().unwrap();
    forget(&shop.client, &name).await;
    shop.client.known_stacks.forget(lineage).await.unwrap();
    stacks.new_stack(&name).await.unwrap();
}

#[tokio::test]
async fn exchanged_names_of_two_stacks_are_refused() {
    let shop = Shop::open().await;
    let second: StackName = "second".parse().unwrap();
    let made = shop.client.stacks().new_stack(&second).await.unwrap();
    deploy(&made, &["b"]).await;
    let (one, two) = (shop.lineage().await, made.lineage());
    write_pointer(&shop.pointer("shop"), "shop", NameTarget::Lineage(two));
    write_pointer(&shop.pointer("second"), "second", NameTarget::Lineage(one));
    shop.refuses("exchanged names").await;
    let found = shop.client.stacks().get(&second).await;
    assert_eq!(kind(found.map(|_| ())), Err(ErrorKind::Distrusted));
}

#[tokio::test]
async fn removed_and_renamed_stacks_release_their_names() {
    let shop = Shop::open().await;
    let (name, renamed): (StackName, StackName) = ("shop".parse().unwrap(), "store".parse().unwrap());
    shop.other.stacks().rename(&name, &renamed).await.unwrap();
    let stacks = shop.client.stacks();
    assert!(stacks.get(&name).await.unwrap().is_none());
    let found = stacks.get(&renamed).await.unwrap().unwrap();
    assert_eq!(found.tip().await.unwrap().regression, None);
    // The other client knows both names. It can use the old name for a new stack.
    let again = shop.other.stacks().new_stack(&name).await.unwrap();
    deploy(&again, &["c"]).await;
    shop.other.stacks().remove(&renamed, true).await.unwrap();
    let stacks = shop.client.stacks();
    assert!(stacks.get(&renamed).await.unwrap().is_none());
    assert_eq!(kind(stacks.new_stack(&renamed).await.map(|_| ())), Ok(()));
}

#[tokio::test]
async fn deleted_new_name_of_a_renamed_stack_is_refused() {
    let shop = Shop::open().await;
    let (name, renamed): (StackName, StackName) = ("shop".parse().unwrap(), "store".parse().unwrap());
    shop.other.stacks().rename(&name, &renamed).await.unwrap();
    std::fs::remove_file(shop.pointer("store")).unwrap();
    shop.refuses("the new name was deleted").await;
    let stacks = shop.client.stacks();
    let found = stacks.get(&renamed).await.map(|_| ());
    let created = stacks.new_stack(&renamed).await.map(|_| ());
    for refused in [found, created] {
        assert_eq!(kind(refused), Err(ErrorKind::Distrusted));
    }
}

/// The client knows the stack under its former name only, so every creation must find out where it is now.
#[tokio::test]
async fn hidden_head_of_a_renamed_stack_frees_no_name() {
    type Attack = fn(&Shop, &Path, Lineage);
    let delete: Attack = |shop, _, known| {
        let stack = shop.root.join("stacks").join(known.to_string());
        std::fs::remove_file(stack.join("head.json")).unwrap();
    };
    let remove: Attack = |shop, _, known| change_head(&shop.root, known, |head| head.removed = true);
    let replay: Attack = |shop, before, known| {
        let head = PathBuf::from("stacks").join(known.to_string()).join("head.json");
        std::fs::copy(before.join(&head), shop.root.join(&head)).unwrap();
    };
    for attack in [delete, remove, replay] {
        let shop = Shop::open().await;
        let renamed: StackName = "store".parse().unwrap();
        let before = tempfile::tempdir().unwrap();
        copy(&shop.root, before.path());
        let known = shop.lineage().await;
        shop.other.stacks().rename(&self::shop(), &renamed).await.unwrap();
        std::fs::remove_file(shop.pointer("store")).unwrap();
        attack(&shop, before.path(), known);
        let stacks = shop.client.stacks();
        let found = stacks.get(&renamed).await.map(|_| ());
        let created = stacks.new_stack(&renamed).await.map(|_| ());
        for refused in [found, created] {
            let refused = kind(refused).unwrap_err();
            assert!(
                matches!(refused, ErrorKind::Distrusted | ErrorKind::Sealed),
                "{refused:?}"
            );
        }
    }
}

#[tokio::test]
async fn other_stack_cannot_take_the_name_of_a_hidden_one() {
    let shop = Shop::open().await;
    let renamed: StackName = "store".parse().unwrap();
    let other = shop
        .client
        .stacks()
        .new_stack(&"other".parse().unwrap())
        .await
        .unwrap();
    shop.other.stacks().rename(&self::shop(), &renamed).await.unwrap();
    std::fs::remove_file(shop.pointer("store")).unwrap();
    let taken = shop.client.stacks().rename(other.name(), &renamed).await;
    assert_eq!(kind(taken.map(drop)), Err(ErrorKind::Distrusted));
}

#[tokio::test]
async fn earlier_head_with_the_old_name_proves_no_rename_back() {
    let shop = Shop::open().await;
    let (name, renamed): (StackName, StackName) = ("shop".parse().unwrap(), "store".parse().unwrap());
    let before = tempfile::tempdir().unwrap();
    copy(&shop.root, before.path());
    shop.client.stacks().rename(&name, &renamed).await.unwrap();
    shop.client
        .stacks()
        .get(&renamed)
        .await
        .unwrap()
        .unwrap()
        .tip()
        .await
        .unwrap();
    // The attacker restores the head from before the rename, and deletes the new name.
    let lineage = shop.client.known_stacks.named(&renamed).await.unwrap().unwrap();
    let head = PathBuf::from("stacks")
        .join(lineage.to_string())
        .join("head.json");
    std::fs::copy(before.path().join(&head), shop.root.join(&head)).unwrap();
    std::fs::remove_file(shop.pointer("store")).unwrap();
    let found = shop.client.stacks().get(&renamed).await;
    assert_eq!(kind(found.map(|_| ())), Err(ErrorKind::Distrusted));
}

#[tokio::test]
async fn older_head_with_a_raised_epoch_releases_no_name() {
    let shop = Shop::open().await;
    let (name, renamed): (StackName, StackName) = ("shop".parse().unwrap(), "store".parse().unwrap());
    let before = tempfile::tempdir().unwrap();
    copy(&shop.root, before.path());
    shop.client.stacks().rename(&name, &renamed).await.unwrap();
    let stack = shop.client.stacks().get(&renamed).await.unwrap().unwrap();
    deploy(&stack, &["later"]).await;
    // The attacker restores the head from before the rename, and raises its epoch, which the tag doesn't cover.
    let lineage = stack.lineage();
    let head = PathBuf::from("stacks")
        .join(lineage.to_string())
        .join("head.json");
    let now = state_core::Head::decode("head", &std::fs::read(shop.root.join(&head)).unwrap()).unwrap();
    std::fs::copy(before.path().join(&head), shop.root.join(&head)).unwrap();
    change_head(&shop.root, lineage, |head| {
        head.epoch = state_core::Epoch(now.epoch.get() + 1);
        head.generation = now.generation;
    });
    std::fs::remove_file(shop.pointer("store")).unwrap();
    let stacks = shop.client.stacks();
    let found = stacks.get(&renamed).await.map(|_| ());
    let created = stacks.new_stack(&renamed).await.map(|_| ());
    for refused in [found, created, stacks.names().await.map(|_| ())] {
        assert_eq!(kind(refused), Err(ErrorKind::Distrusted));
    }
    assert_eq!(
        shop.client.known_stacks.named(&renamed).await.unwrap(),
        Some(lineage)
    );
}

/// Copies all stacks and names of the store `from` into the store `to`, as an attacker can.
fn plant(from: &Path, to: &Path) {
    copy(&from.join("stacks"), &to.join("stacks"));
    copy(&from.join("names"), &to.join("names"));
}

#[tokio::test]
async fn list_refuses_a_foreign_stack_under_a_known_name() {
    let shop = Shop::open().await;
    let foreign = tempfile::tempdir().unwrap();
    let attacker = Client::new(&foreign.path().join("store"), None);
    let (stacks, name) = (attacker.stacks(), self::shop());
    let made = stacks.new_stack_with(&name, SealingPolicy::Plaintext).await;
    let lineage = made.unwrap().lineage();
    plant(&attacker.root, &shop.root);
    let stacks = shop.client.stacks();
    assert_eq!(kind(stacks.list().await.map(|_| ())), Err(ErrorKind::Distrusted));
    shop.refuses("a foreign plain stack").await;
    assert_eq!(shop.client.known_stacks.seen(lineage).await.unwrap(), None);
}

#[tokio::test]
async fn listed_stack_cannot_take_over_a_known_name() {
    let shop = Shop::open().await;
    let (name, renamed): (StackName, StackName) = ("shop".parse().unwrap(), "store".parse().unwrap());
    // The attacker's stack is sealed, and first has a name that this client doesn't know.
    let foreign = tempfile::tempdir().unwrap();
    let attacker = Client::new(&foreign.path().join("store"), shop.client.keys.clone());
    let (stacks, tool) = (attacker.stacks(), "tool".parse().unwrap());
    let stack = stacks.new_stack(&tool).await.unwrap();
    deploy(&stack, &["evil"]).await;
    plant(&attacker.root, &shop.root);
    assert_eq!(shop.client.stacks().list().await.unwrap().len(), 2);
    // A colleague renames the known stack, and the attacker's stack takes its name.
    shop.other.stacks().rename(&name, &renamed).await.unwrap();
    attacker.stacks().rename(&tool, &name).await.unwrap();
    plant(&attacker.root, &shop.root);
    let listed = shop.client.stacks().list().await.map(|_| ());
    let found = shop.client.stacks().get(&name).await.map(|_| ());
    for refused in [listed, found] {
        assert_eq!(kind(refused), Err(ErrorKind::Distrusted));
    }
    shop.client.stacks().trust(&name, None).await.unwrap();
    assert!(shop.client.stacks().get(&name).await.unwrap().is_some());
}

/// The pointer of an unimportant name leads to a stack that claims to be renamed to that name, and to have another name
/// that the client knows.
#[tokio::test]
async fn lookup_of_one_name_replaces_no_memory_of_another() {
    let shop = Shop::open().await;
    let known = shop.lineage().await;
    let scratch: StackName = "scratch".parse().unwrap();
    let attacker = Client::new(&shop.root, None).stacks();
    let planted = attacker
        .new_stack_with(&scratch, SealingPolicy::Plaintext)
        .await
        .unwrap();
    let nonce = Nonce::from_bytes([9; 16]);
    for moving_to in [scratch.clone(), "elsewhere".parse().unwrap()] {
        change_head(&shop.root, planted.lineage(), |head| {
            head.name = self::shop();
            head.moving_to = Some(PendingRename {
                name: moving_to,
                nonce,
            });
        });
        write_pointer(
            &shop.pointer("scratch"),
            "scratch",
            NameTarget::Lineage(planted.lineage()),
        );
        if let Ok(Some(stack)) = shop.client.stacks().get(&scratch).await {
            drop(stack.tip().await);
        }
        assert_eq!(shop.lineage().await, known);
    }
    write_pointer(
        &shop.pointer("shop"),
        "shop",
        NameTarget::Lineage(planted.lineage()),
    );
    shop.refuses("the name was redirected").await;
}

/// A stack that this client created has no key before its first session, so its head can be forged.
#[tokio::test]
async fn forged_removal_of_an_unsealed_stack_frees_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::of(&folder.path().join("store"), &generate_identity());
    let stack = client.stacks().new_stack(&shop()).await.unwrap();
    change_head(&client.root, stack.lineage(), |head| head.removed = true);
    let eve = Client::of(&client.root, &generate_identity()).stacks();
    let planted = eve.new_stack(&"planted".parse().unwrap()).await.unwrap();
    change_head(&client.root, planted.lineage(), |head| head.name = shop());
    let pointer = client.root.join("names/default/shop.json");
    write_pointer(&pointer, "shop", NameTarget::Lineage(planted.lineage()));
    let found = client.stacks().get(&shop()).await.map(|stack| stack.map(|_| ()));
    assert_eq!(kind(found), Err(ErrorKind::Distrusted));
    let outputs = client.stacks().published_outputs(&shop()).await.map(drop);
    assert_eq!(kind(outputs), Err(ErrorKind::Distrusted));
}

#[tokio::test]
async fn repeated_rename_after_an_interruption_is_no_alarm() {
    let (from, to): (StackName, StackName) = ("shop".parse().unwrap(), "store".parse().unwrap());
    let faulty = FaultyBackend::new(Arc::new(MemoryBackend::default()));
    let plan = faulty.plan();
    let identity = generate_identity();
    let known: Arc<MemoryKnownStacks> = Arc::default();
    let stacks = Stacks::new(Arc::new(faulty), environment(3))
        .with_keys(keys(3, &identity))
        .with_known_stacks(Arc::clone(&known) as Arc<dyn KnownStacks>);
    deploy(&stacks.new_stack(&from).await.unwrap(), &["a"]).await;
    // The second swap of the head gives the stack its new name.
    plan.fail(Operation::SwapHead, 1, Fault::BeforeEffect);
    stacks.rename(&from, &to).await.unwrap_err();
    plan.heal();
    stacks.get(&to).await.unwrap().unwrap().tip().await.unwrap();
    assert!(
        known.named(&to).await.unwrap().is_some(),
        "the new name is remembered"
    );
    stacks.rename(&from, &to).await.unwrap();
    assert_eq!(known.named(&from).await.unwrap(), None);
    let found = stacks.get(&to).await.unwrap().unwrap();
    assert_eq!(found.name(), &to);
    assert!(stacks.get(&from).await.unwrap().is_none());
}

//! Known stacks: a client remembers each stack in a pin (its key, and the end of its journal). By its pins it detects a
//! store that was exchanged, forged or rolled back.

mod concurrent;
mod first_keys;
mod forks;
mod overtaken;
mod pins;
mod replaced_files;
mod unsigned_heads;
mod without_pins;

use super::*;
use state_core::head::{Keys, Succession};
use state_core::sealing::{KeyProvider, Tag};
use state_core::{Enveloped, ErrorKind, Head, Lineage, Result, RevisionId, Slot};
use state_encrypt::{GeneratedIdentity, generate_identity};
use state_manager::{KnownStacks, MemoryKnownStacks, Rekey, StackPin};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The seed of the next simulated process. Each process has a seed of its own, so that no two of them generate the same
/// ids.
static PROCESSES: AtomicU64 = AtomicU64::new(1000);

/// A client of a store in a folder: its keys and its pins.
pub(crate) struct Client {
    pub(crate) root: PathBuf,
    pub(crate) keys: Option<Arc<AgeKeys>>,
    pub(crate) known_stacks: Arc<MemoryKnownStacks>,
}

impl Client {
    pub(crate) fn new(root: &Path, keys: Option<Arc<AgeKeys>>) -> Self {
        Self {
            root: root.to_owned(),
            keys,
            known_stacks: Arc::default(),
        }
    }

    /// A client without pins, with this identity.
    pub(crate) fn of(root: &Path, identity: &GeneratedIdentity) -> Self {
        Self::new(root, Some(keys(7, identity)))
    }

    /// The stacks in a new process of this client, which has the pins of its earlier processes.
    pub(crate) fn stacks(&self) -> Stacks {
        let url = format!("file://{}", self.root.display());
        let stacks = Stacks::create(&url, environment(PROCESSES.fetch_add(1, Ordering::Relaxed))).unwrap();
        let stacks = stacks.with_known_stacks(self.known_stacks.clone());
        match &self.keys {
            Some(keys) => stacks.with_keys(keys.clone()),
            None => stacks,
        }
    }

    /// The stack `shop` in a new process of this client.
    pub(crate) async fn stack(&self) -> Result<Stack> {
        Ok(self.stacks().get(&"shop".parse().unwrap()).await?.unwrap())
    }

    /// Replaces the pin of a stack.
    pub(crate) async fn set_pin(&self, lineage: Lineage, pin: &StackPin) {
        self.known_stacks.forget(lineage).await.unwrap();
        assert!(self.known_stacks.replace(lineage, None, Some(pin)).await);
    }

    /// Reads the tip of the stack. Returns the regression that the view reports; none if there is none.
    pub(crate) async fn read(&self) -> Result<Option<String>> {
        Ok(self.stack().await?.tip().await?.regression)
    }

    /// Takes and releases the writer lock of the stack.
    pub(crate) async fn write(&self) -> Result<()> {
        self.stack().await?.lock("write").await?.close().await
    }

    /// Makes one revision that creates this resource.
    pub(crate) async fn deploy(&self, name: &str) -> RevisionId {
        deploy(&self.stack().await.unwrap(), &[name]).await
    }

    /// Requires that both reading and writing are refused. `what` describes the attack.
    async fn refuses(&self, what: &str) {
        for error in [self.read().await.unwrap_err(), self.write().await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Distrusted, "{what}: {error}");
        }
    }

    /// Requires that reading is refused.
    async fn refused_to_read(&self, what: &str) {
        let error = self.read().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Distrusted, "{what}: {error}");
    }

    /// Requires that reading succeeds and reports a regression, and that writing is refused.
    async fn reports(&self, what: &str) {
        assert!(self.read().await.unwrap().is_some(), "{what}");
        let error = self.write().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Distrusted, "{what}: {error}");
    }
}

/// Creates a sealed stack named `shop` with one revision. The same seed yields the same lineage.
pub(crate) async fn make(root: &Path, seed: u64, keys: Arc<AgeKeys>) {
    let url = format!("file://{}", root.display());
    let stacks = Stacks::create(&url, environment(seed)).unwrap();
    let stack = stacks
        .with_keys(keys)
        .new_stack(&"shop".parse().unwrap())
        .await
        .unwrap();
    deploy(&stack, &["a"]).await;
}

/// A folder with the store of [`make`], and the identity of its only recipient, Anna.
async fn made() -> (tempfile::TempDir, PathBuf, GeneratedIdentity) {
    let folder = tempfile::tempdir().unwrap();
    let (root, anna) = (folder.path().join("store"), generate_identity());
    make(&root, 1, keys(1, &anna)).await;
    (folder, root, anna)
}

/// Copies a folder with all its content.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for item in std::fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let target = to.join(item.file_name());
        if item.path().is_dir() {
            copy(&item.path(), &target);
        } else {
            std::fs::copy(item.path(), target).unwrap();
        }
    }
}

/// The head of the stack `shop`.
async fn head_of(client: &Client) -> Head {
    client.stack().await.unwrap().tip().await.unwrap().head
}

/// Replaces the store `of` by a copy of the store `other`.
pub(crate) fn put_in_place(of: &Path, other: &Path) {
    std::fs::remove_dir_all(of).unwrap();
    copy(other, of);
}

/// Changes a head like an attacker with write access to the store.
pub(crate) fn change_head(root: &Path, lineage: state_core::Lineage, change: impl FnOnce(&mut Head)) {
    let path = root.join("stacks").join(lineage.to_string()).join("head.json");
    let mut head = Head::decode("head", &std::fs::read(&path).unwrap()).unwrap();
    change(&mut head);
    std::fs::write(path, head.encode()).unwrap();
}

/// Keys of an attacker who wraps new keys to the public recipient of a victim.
fn strangers_keys(to: &GeneratedIdentity) -> Arc<AgeKeys> {
    let stranger = generate_identity();
    let identities = Identities::parse("stranger", stranger.file()).unwrap();
    let recipients = format!("{}\n{}", to.recipient(), stranger.recipient());
    let entropy = Arc::new(SeededEntropy::new(99));
    Arc::new(AgeKeys::new(identities, recipients.parse().unwrap(), entropy))
}

#[tokio::test]
async fn forged_stack_is_refused_after_first_contact() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let anna = generate_identity();
    let client = Client::of(&root, &anna);
    make(&root, 1, keys(1, &anna)).await;
    assert_eq!(client.read().await.unwrap(), None);
    client.deploy("b").await;

    // The forged stack has the same lineage (seed 1) or another one (seed 2). Its digests match, but its key is the
    // attacker's.
    for seed in [1, 2] {
        let forged = folder.path().join(format!("forged-{seed}"));
        make(&forged, seed, strangers_keys(&anna)).await;
        put_in_place(&root, &forged);
        client.refuses(&format!("forged with seed {seed}")).await;
        let newcomer = Client::of(&root, &anna);
        assert_eq!(
            newcomer.read().await.unwrap(),
            None,
            "the first contact must trust the stack"
        );
    }

    // The user may accept the stack explicitly.
    let name = "shop".parse().unwrap();
    client.stacks().trust(&name, None).await.unwrap();
    client.write().await.unwrap();
}

#[tokio::test]
async fn out_of_band_key_is_pinned_before_first_contact() {
    let (folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    let view = client.stack().await.unwrap().tip().await.unwrap();
    let lineage = view.head.lineage;
    let pin = StackPin::pinned(view.head.key_id.unwrap());
    client.set_pin(lineage, &pin).await;
    client.write().await.unwrap();

    let forged = folder.path().join("forged");
    make(&forged, 1, strangers_keys(&anna)).await;
    put_in_place(&root, &forged);
    let newcomer = Client::of(&root, &anna);
    newcomer.set_pin(lineage, &pin).await;
    newcomer.refuses("forged before first contact").await;
}

#[tokio::test]
async fn new_key_is_accepted_after_several_endorsed_rotations() {
    let (_folder, root, anna) = made().await;
    let bob = generate_identity();
    let (client, other) = (Client::of(&root, &anna), Client::of(&root, &bob));
    client.write().await.unwrap();
    let stack = client.stack().await.unwrap();
    let bob = [bob.recipient().to_owned()];
    stack.add_recipients("add", &bob).await.unwrap();
    for _ in 0..2 {
        let stack = other.stack().await.unwrap();
        stack.rekey("rekey", Rekey::default()).await.unwrap();
    }
    assert_eq!(client.read().await.unwrap(), None);
    client.deploy("b").await;
}

#[tokio::test]
async fn unendorsed_key_is_refused_with_any_forged_endorsement() {
    let folder = tempfile::tempdir().unwrap();
    let (root, honest) = (folder.path().join("store"), folder.path().join("honest"));
    let anna = generate_identity();
    make(&root, 1, keys(1, &anna)).await;
    let client = Client::of(&root, &anna);
    client.deploy("b").await;
    copy(&root, &honest);
    let head = client.stack().await.unwrap().tip().await.unwrap().head;
    let lineage = head.lineage;
    let provider = strangers_keys(&anna);
    let strange = provider.generate(lineage).unwrap();
    let wrapped = provider.wrap(strange.id(), None).unwrap();
    let file = format!("{:020}-{}.age", 9, strange.id());
    let invented = |endorsement| Succession {
        old: head.key_id.unwrap(),
        new: strange.id(),
        generation: 2,
        until: Slot(1),
        endorsement,
    };
    let random = invented(Tag::from_bytes([7; 32]));
    let own = invented(strange.endorse(strange.id(), 2));
    for succession in [vec![], vec![random], vec![own]] {
        put_in_place(&root, &honest);
        let keys = root.join("stacks").join(lineage.to_string()).join("keys");
        std::fs::write(keys.join(&file), &wrapped.files[0]).unwrap();
        change_head(&root, lineage, |head| {
            head.key_id = Some(strange.id());
            head.keys = head.keys.take().map(|keys| Keys {
                generation: 2,
                since: Slot(u64::MAX),
                files: vec![9],
                succession,
                ..keys
            });
            head.sign(&*strange);
        });
        client.refuses("a stranger's key").await;
    }
    put_in_place(&root, &honest);
    client.write().await.unwrap();

    // The client also refuses a new key that it can't open. It could open the previous key, so only an endorsed key may
    // replace that one.
    let eve = generate_identity();
    let provider = strangers_keys(&eve);
    let strange = provider.generate(lineage).unwrap();
    change_head(&root, lineage, |head| {
        head.key_id = Some(strange.id());
        head.sign(&*strange);
    });
    client
        .refused_to_read("a stranger's key for another recipient")
        .await;
}

#[tokio::test]
async fn removed_recipient_reads_only_after_dropping_the_pin() {
    let (_folder, root, anna) = made().await;
    let bob = generate_identity();
    let (client, removed) = (Client::of(&root, &anna), Client::of(&root, &bob));
    let stack = client.stack().await.unwrap();
    let of_bob = [bob.recipient().to_owned()];
    stack.add_recipients("add", &of_bob).await.unwrap();
    removed.write().await.unwrap();
    for _ in 0..2 {
        let without = Rekey {
            recipients: Some(vec![anna.recipient().to_owned()]),
            ..Rekey::default()
        };
        stack.rekey("remove", without).await.unwrap();
        // Bob has pinned a key that he could open. He can't open the new key, so he can't verify that a recipient wrote
        // the new content.
        removed.refuses("a removed recipient").await;
    }
    removed
        .stacks()
        .trust(&"shop".parse().unwrap(), None)
        .await
        .unwrap();
    assert_eq!(removed.read().await.unwrap(), None);
    assert_eq!(removed.write().await.unwrap_err().kind(), ErrorKind::Sealed);
}

#[tokio::test]
async fn downgrade_of_a_sealed_stack_to_plaintext_is_refused() {
    let (_folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.write().await.unwrap();
    let lineage = client.stack().await.unwrap().lineage();
    for policy in [SealingPolicy::Plaintext, SealingPolicy::Sensitive] {
        change_head(&root, lineage, |head| {
            head.key_id = None;
            head.keys = None;
            head.tag = None;
            head.policy = policy;
        });
        client.refuses("a downgrade").await;
        // The downgrade is also refused for a client that lost its identity meanwhile.
        let without = Client {
            root: root.clone(),
            keys: None,
            known_stacks: client.known_stacks.clone(),
        };
        without.refuses("a downgrade without identity").await;
    }
}

#[tokio::test]
async fn rolled_back_store_is_reported_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let anna = generate_identity();
    for sealed in [true, false] {
        let root = folder.path().join(format!("store-{sealed}"));
        let (client, policy) = if sealed {
            (Client::of(&root, &anna), SealingPolicy::Sensitive)
        } else {
            (Client::new(&root, None), SealingPolicy::Plaintext)
        };
        let name = "shop".parse().unwrap();
        client.stacks().new_stack_with(&name, policy).await.unwrap();
        client.deploy("a").await;
        let (earlier, latest) = (
            folder.path().join(format!("1-{sealed}")),
            folder.path().join(format!("2-{sealed}")),
        );
        copy(&root, &earlier);
        client.deploy("b").await;
        copy(&root, &latest);

        put_in_place(&root, &earlier);
        client.reports("rolled back").await;
        // A client without pins continues from the earlier state. Its history differs from the pinned one, also when
        // its serial reaches and passes the pinned serial.
        let stranger = Client {
            known_stacks: Arc::default(),
            ..Client::new(&root, client.keys.clone())
        };
        for step in ["c", "d", "e"] {
            stranger.deploy(step).await;
            client
                .reports(&format!("rolled back and changed with {step}"))
                .await;
        }
        put_in_place(&root, &latest);
        assert_eq!(client.read().await.unwrap(), None);
        client.write().await.unwrap();

        // The user may accept an intended restore.
        put_in_place(&root, &earlier);
        client.stacks().trust(&name, None).await.unwrap();
        client.write().await.unwrap();
    }
}

/// The paths of all files below a folder, relative to the folder and sorted.
fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn recreated_stack_is_refused_until_the_user_trusts_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let anna = generate_identity();
    let name = "shop".parse().unwrap();
    make(&root, 1, keys(1, &anna)).await;
    let (client, other) = (Client::of(&root, &anna), Client::of(&root, &anna));
    client.write().await.unwrap();
    other.stacks().remove(&name, true).await.unwrap();
    other.stacks().new_stack(&name).await.unwrap();
    other.deploy("x").await;
    assert_eq!(
        other.read().await.unwrap(),
        None,
        "the client that recreated the stack must trust it"
    );
    client.refuses("another stack").await;
    client.stacks().trust(&name, None).await.unwrap();
    client.deploy("y").await;

    // A rename isn't treated as a recreation.
    let to = "store".parse().unwrap();
    other.stacks().rename(&name, &to).await.unwrap();
    let renamed = client.stacks().get(&to).await.unwrap().unwrap();
    assert_eq!(renamed.tip().await.unwrap().regression, None);
}

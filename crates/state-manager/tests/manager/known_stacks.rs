//! What a client saw of a stack: nobody exchanges, forges or puts back a store behind its back.

use super::*;
use state_core::head::{Keys, Succession};
use state_core::sealing::{KeyProvider, Tag};
use state_core::{Enveloped, ErrorKind, Head, Result, RevisionId, Slot};
use state_encrypt::{GeneratedIdentity, generate_identity};
use state_manager::{KnownStacks, MemoryKnownStacks, Rekey, StackPin};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives each process its own random bits.
static PROCESSES: AtomicU64 = AtomicU64::new(1000);

/// A store in a folder, as one client sees it.
struct Client {
    root: PathBuf,
    keys: Option<Arc<AgeKeys>>,
    known_stacks: Arc<MemoryKnownStacks>,
}

impl Client {
    fn new(root: &Path, keys: Option<Arc<AgeKeys>>) -> Self {
        Self {
            root: root.to_owned(),
            keys,
            known_stacks: Arc::default(),
        }
    }

    fn of(root: &Path, identity: &GeneratedIdentity) -> Self {
        Self::new(root, Some(keys(7, identity)))
    }

    /// In a new process, which remembers what the ones before saw.
    fn stacks(&self) -> Stacks {
        let url = format!("file://{}", self.root.display());
        let stacks = Stacks::create(&url, environment(PROCESSES.fetch_add(1, Ordering::Relaxed))).unwrap();
        let stacks = stacks.with_known_stacks(self.known_stacks.clone());
        match &self.keys {
            Some(keys) => stacks.with_keys(keys.clone()),
            None => stacks,
        }
    }

    async fn stack(&self) -> Result<Stack> {
        Ok(self.stacks().get(&"shop".parse().unwrap()).await?.unwrap())
    }

    async fn read(&self) -> Result<Option<String>> {
        Ok(self.stack().await?.tip().await?.regression)
    }

    async fn write(&self) -> Result<()> {
        self.stack().await?.lock("write").await?.close().await
    }

    async fn deploy(&self, name: &str) -> RevisionId {
        deploy(&self.stack().await.unwrap(), &[name]).await
    }

    /// Neither reads nor writes.
    async fn refuses(&self, what: &str) {
        for error in [self.read().await.unwrap_err(), self.write().await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Distrusted, "{what}: {error}");
        }
    }

    async fn refused_to_read(&self, what: &str) {
        let error = self.read().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Distrusted, "{what}: {error}");
    }

    /// Shows it, says that it went back, and doesn't write.
    async fn reports(&self, what: &str) {
        assert!(self.read().await.unwrap().is_some(), "{what}");
        let error = self.write().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Distrusted, "{what}: {error}");
    }
}

/// A sealed stack with a revision; the same seed gives the same lineage.
async fn make(root: &Path, seed: u64, keys: Arc<AgeKeys>) {
    let url = format!("file://{}", root.display());
    let stacks = Stacks::create(&url, environment(seed)).unwrap();
    let stack = stacks
        .with_keys(keys)
        .new_stack(&"shop".parse().unwrap())
        .await
        .unwrap();
    deploy(&stack, &["a"]).await;
}

fn copy(from: &Path, to: &Path) {
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

/// Puts another store in the place of one.
fn put_in_place(of: &Path, other: &Path) {
    std::fs::remove_dir_all(of).unwrap();
    copy(other, of);
}

/// Changes a head as somebody does who can write to the store.
fn change_head(root: &Path, lineage: state_core::Lineage, change: impl FnOnce(&mut Head)) {
    let path = root.join("stacks").join(lineage.to_string()).join("head.json");
    let mut head = Head::decode("head", &std::fs::read(&path).unwrap()).unwrap();
    change(&mut head);
    std::fs::write(path, head.encode()).unwrap();
}

/// The keys of somebody who wraps what they make to somebody else, whose recipient is no secret.
fn strangers_keys(to: &GeneratedIdentity) -> Arc<AgeKeys> {
    let stranger = generate_identity();
    let identities = Identities::parse("stranger", stranger.file()).unwrap();
    let recipients = format!("{}\n{}", to.recipient(), stranger.recipient());
    let entropy = Arc::new(SeededEntropy::new(99));
    Arc::new(AgeKeys::new(identities, recipients.parse().unwrap(), entropy))
}

#[tokio::test]
async fn a_forged_stack_is_refused_after_first_contact() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let anna = generate_identity();
    let client = Client::of(&root, &anna);
    make(&root, 1, keys(1, &anna)).await;
    assert_eq!(client.read().await.unwrap(), None);
    client.deploy("b").await;

    // The same lineage or another one: all of it fits, under a key that was made by somebody else.
    for seed in [1, 2] {
        let forged = folder.path().join(format!("forged-{seed}"));
        make(&forged, seed, strangers_keys(&anna)).await;
        put_in_place(&root, &forged);
        client.refuses(&format!("forged with seed {seed}")).await;
        let newcomer = Client::of(&root, &anna);
        assert_eq!(newcomer.read().await.unwrap(), None, "first contact trusts");
    }

    // Unless it is accepted on purpose.
    let name = "shop".parse().unwrap();
    client.stacks().trust(&name).await.unwrap();
    client.write().await.unwrap();
}

#[tokio::test]
async fn a_key_that_was_told_on_another_way_is_pinned_before_first_contact() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let anna = generate_identity();
    make(&root, 1, keys(1, &anna)).await;
    let client = Client::of(&root, &anna);
    let view = client.stack().await.unwrap().tip().await.unwrap();
    let lineage = view.head.lineage;
    let told = StackPin::pinned(view.head.key_id.unwrap());
    client.known_stacks.remember(lineage, Some(&told)).await;
    client.write().await.unwrap();

    let forged = folder.path().join("forged");
    make(&forged, 1, strangers_keys(&anna)).await;
    put_in_place(&root, &forged);
    let newcomer = Client::of(&root, &anna);
    newcomer.known_stacks.remember(lineage, Some(&told)).await;
    newcomer.refuses("forged before first contact").await;
}

#[tokio::test]
async fn a_new_key_is_followed_only_if_each_one_before_vouched_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let (anna, bob) = (generate_identity(), generate_identity());
    make(&root, 1, keys(1, &anna)).await;
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
async fn a_key_of_a_stranger_is_not_followed_whatever_they_make_up_for_it() {
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

    // Nor is it shown to those who can't open it, as long as they open the one before.
    let eve = generate_identity();
    let provider = strangers_keys(&eve);
    let strange = provider.generate(lineage).unwrap();
    change_head(&root, lineage, |head| {
        head.key_id = Some(strange.id());
        head.sign(&*strange);
    });
    client.refused_to_read("a stranger's key for somebody else").await;
}

#[tokio::test]
async fn who_was_removed_goes_on_to_read_what_needs_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let (anna, bob) = (generate_identity(), generate_identity());
    make(&root, 1, keys(1, &anna)).await;
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
        assert_eq!(removed.read().await.unwrap(), None);
        assert_eq!(removed.write().await.unwrap_err().kind(), ErrorKind::Sealed);
    }
}

#[tokio::test]
async fn a_sealed_stack_that_says_it_is_plain_is_neither_read_nor_written() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let anna = generate_identity();
    make(&root, 1, keys(1, &anna)).await;
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
        // Not even by somebody who lost the identity meanwhile.
        let without = Client {
            root: root.clone(),
            keys: None,
            known_stacks: client.known_stacks.clone(),
        };
        without.refuses("a downgrade without identity").await;
    }
}

#[tokio::test]
async fn a_store_that_went_back_is_shown_with_a_report_and_not_written() {
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
        client.reports("put back").await;
        // Somebody goes on from there: as far as it was, and further, it is another past.
        let stranger = Client {
            known_stacks: Arc::default(),
            ..Client::new(&root, client.keys.clone())
        };
        for step in ["c", "d", "e"] {
            stranger.deploy(step).await;
            client.reports(&format!("put back and changed with {step}")).await;
        }
        put_in_place(&root, &latest);
        assert_eq!(client.read().await.unwrap(), None);
        client.write().await.unwrap();

        // A restore that was meant.
        put_in_place(&root, &earlier);
        client.stacks().trust(&name).await.unwrap();
        client.write().await.unwrap();
    }
}

#[tokio::test]
async fn no_single_file_of_an_earlier_or_foreign_store_passes_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let anna = generate_identity();
    let (root, foreign) = (folder.path().join("store"), folder.path().join("foreign"));
    make(&root, 1, keys(1, &anna)).await;
    make(&foreign, 2, strangers_keys(&anna)).await;
    let client = Client::of(&root, &anna);
    let stack = client.stack().await.unwrap();
    let first = client.deploy("b").await;
    let request = UpdateRequest::new(UpdateKind::Rollback);
    let earlier = folder.path().join("earlier");
    copy(&root, &earlier);
    // Now there is a snapshot too, and names and documents of several moments.
    let session = stack.lock("rollback").await.unwrap();
    session.rollback(request, &first).await.unwrap();
    session.close().await.unwrap();
    client.deploy("c").await;
    let honest = folder.path().join("honest");
    copy(&root, &honest);
    let shown = client.stack().await.unwrap().tip().await.unwrap().snapshot();

    let (ours, theirs) = (files_below(&honest), files_below(&foreign));
    let mut tried = 0;
    for file in &ours {
        let kind = |path: &Path| path.parent().and_then(Path::file_name).map(ToOwned::to_owned);
        let same_kind = |other: &&PathBuf| kind(other) == kind(file);
        let older = Some(earlier.join(file)).filter(|path| path.exists());
        let strange = theirs.iter().find(same_kind).map(|path| foreign.join(path));
        for other in older.into_iter().chain(strange) {
            let bytes = std::fs::read(&other).unwrap();
            if bytes == std::fs::read(honest.join(file)).unwrap() {
                continue;
            }
            put_in_place(&root, &honest);
            std::fs::write(root.join(file), bytes).unwrap();
            tried += 1;
            let seen = async {
                let stack = client.stack().await?;
                stack.history().await?;
                stack.verify(true).await?;
                stack.tip().await
            };
            // What is derived, or isn't looked at, may differ: then what is shown is what was there.
            match seen.await {
                Ok(view) if view.regression.is_none() => {
                    assert_eq!(
                        view.snapshot(),
                        shown,
                        "{} from {}",
                        file.display(),
                        other.display()
                    );
                }
                _ => {}
            }
        }
    }
    assert!(tried > 10, "{tried}");
}

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
async fn a_stack_that_another_removed_and_made_again_is_taken_for_true_only_on_purpose() {
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
    assert_eq!(other.read().await.unwrap(), None, "who did it knows");
    client.refuses("another stack").await;
    client.stacks().trust(&name).await.unwrap();
    client.deploy("y").await;

    // A rename is none of that.
    let to = "store".parse().unwrap();
    other.stacks().rename(&name, &to).await.unwrap();
    let renamed = client.stacks().get(&to).await.unwrap().unwrap();
    assert_eq!(renamed.tip().await.unwrap().regression, None);
}

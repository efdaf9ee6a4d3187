//! Published outputs: a stack's outputs, encrypted for recipients that have no access to the stack itself. Such a
//! recipient reads the outputs, and nothing else of the stack.

mod salvaged;

use super::*;
use state_core::mutation::StackOutputs;
use state_core::sealing::KeyProvider as _;
use state_core::{ErrorKind, Json, Serial};
use state_encrypt::{GeneratedIdentity, generate_identity};
use state_manager::{Authenticity, KnownStacks, MemoryKnownStacks, PublishedOutputs, Rekey};
use std::path::PathBuf;

/// The sensitive output, which must not be readable in a stored document.
const SECRET: &str = "correct-horse-battery";

/// Outputs of a stack: the secret, and a URL that is no secret.
fn outputs(url: &str) -> StackOutputs {
    let text = |text: &str| Json::parse(&format!("{text:?}")).unwrap();
    StackOutputs {
        values: [
            ("password".to_owned(), text(SECRET)),
            ("url".to_owned(), text(url)),
        ]
        .into(),
        sensitive: vec!["password".to_owned()],
    }
}

/// Makes one revision that sets the [`outputs`] with this URL.
async fn set_outputs(stack: &Stack, url: &str) -> state_core::RevisionId {
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    update.set_outputs(outputs(url)).await.unwrap();
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    revision
}

/// A store in a folder with the sealed stack `shop`. Anna is its recipient, and Carl is a recipient of its outputs.
struct Shop {
    folder: tempfile::TempDir,
    anna: GeneratedIdentity,
    carl: GeneratedIdentity,
    /// The pins of the client that reads the outputs.
    known_stacks: Arc<MemoryKnownStacks>,
}

impl Shop {
    async fn new() -> Self {
        let shop = Self {
            folder: tempfile::tempdir().unwrap(),
            anna: generate_identity(),
            carl: generate_identity(),
            known_stacks: Arc::default(),
        };
        let stack = shop.stacks(1, &shop.anna);
        let stack = stack.new_stack(&"shop".parse().unwrap()).await.unwrap();
        set_outputs(&stack, "db://first").await;
        let carl = [shop.carl.recipient().to_owned()];
        assert_eq!(
            stack
                .add_output_recipients("add", &carl)
                .await
                .unwrap()
                .of_outputs,
            carl
        );
        shop
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn stacks(&self, seed: u64, identity: &GeneratedIdentity) -> Stacks {
        let url = format!("file://{}", self.root().display());
        Stacks::create(&url, environment(seed))
            .unwrap()
            .with_keys(keys(seed, identity))
    }

    async fn stack(&self, seed: u64) -> Stack {
        let stacks = self.stacks(seed, &self.anna);
        stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap()
    }

    /// Reads the published outputs as the client with this identity.
    async fn read(&self, identity: &GeneratedIdentity) -> state_core::Result<Option<PublishedOutputs>> {
        let stacks = self
            .stacks(30, identity)
            .with_known_stacks(self.known_stacks.clone());
        stacks.published_outputs(&"shop".parse().unwrap()).await
    }

    /// The files with published outputs, oldest first.
    fn documents(&self) -> Vec<PathBuf> {
        let folder = std::fs::read_dir(self.root().join("outputs")).unwrap().next();
        let files = std::fs::read_dir(folder.unwrap().unwrap().path()).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }
}

#[tokio::test]
async fn output_recipient_reads_the_outputs_and_nothing_else() {
    let shop = Shop::new().await;
    let read = shop.read(&shop.carl).await.unwrap().unwrap();
    assert_eq!((read.serial, &read.outputs), (Serial(2), &outputs("db://first")));
    let latest = set_outputs(&shop.stack(3).await, "db://second").await;
    let read = shop.read(&shop.carl).await.unwrap().unwrap();
    assert_eq!(
        (read.serial, &read.outputs),
        (latest.serial(), &outputs("db://second"))
    );
    for document in shop.documents() {
        assert!(!std::fs::read_to_string(document).unwrap().contains(SECRET));
    }

    let of_carl = shop.stacks(4, &shop.carl).get(&"shop".parse().unwrap()).await;
    let of_carl = of_carl.unwrap().unwrap();
    let shown = of_carl.current().await.unwrap();
    assert_eq!(of_carl.reveal(shown).await.unwrap_err().kind(), ErrorKind::Sealed);
    assert_eq!(of_carl.lock("write").await.unwrap_err().kind(), ErrorKind::Sealed);
    // This client opened the outputs before, so another identity isn't sufficient any more.
    let stranger = generate_identity();
    assert_eq!(
        shop.read(&stranger).await.unwrap_err().kind(),
        ErrorKind::Distrusted
    );
    let newcomer = Shop {
        known_stacks: Arc::default(),
        ..shop
    };
    assert_eq!(
        newcomer.read(&stranger).await.unwrap_err().kind(),
        ErrorKind::Sealed
    );
}

#[tokio::test]
async fn removed_output_recipient_reads_no_new_outputs() {
    let shop = Shop::new().await;
    let dora = generate_identity();
    let stack = shop.stack(3).await;
    stack
        .add_output_recipients("add", &[dora.recipient().to_owned()])
        .await
        .unwrap();
    assert!(shop.read(&dora).await.is_ok());
    let rekey = Rekey {
        outputs: Some(vec![dora.recipient().to_owned()]),
        ..Rekey::default()
    };
    stack.rekey("remove", rekey).await.unwrap();
    assert_eq!(stack.recipients().await.unwrap().of_outputs, [dora.recipient()]);
    set_outputs(&stack, "db://second").await;
    assert_eq!(
        shop.read(&shop.carl).await.unwrap_err().kind(),
        ErrorKind::Distrusted
    );
    // Dora has pinned the old key. The old key endorses the new one, but a client that can open only outputs can't
    // verify the endorsement, so it refuses the new key.
    assert_eq!(shop.read(&dora).await.unwrap_err().kind(), ErrorKind::Distrusted);
    let newcomer = Shop {
        known_stacks: Arc::default(),
        ..shop
    };
    assert_eq!(
        newcomer.read(&newcomer.carl).await.unwrap_err().kind(),
        ErrorKind::Sealed
    );
    let read = newcomer.read(&dora).await.unwrap().unwrap();
    assert_eq!(read.outputs, outputs("db://second"));
}

#[tokio::test]
async fn next_writer_publishes_outputs_after_a_crash() {
    let shop = Shop::new().await;
    let latest = shop.documents().pop().unwrap();
    for document in shop.documents() {
        std::fs::remove_file(document).unwrap();
    }
    assert_eq!(shop.read(&shop.carl).await.unwrap(), None);
    shop.stack(3)
        .await
        .lock("look")
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    assert_eq!(shop.documents(), [latest]);
    let read = shop.read(&shop.carl).await.unwrap().unwrap();
    assert_eq!(read.outputs, outputs("db://first"));
}

#[tokio::test]
async fn altered_or_older_published_outputs_are_refused() {
    let shop = Shop::new().await;
    shop.read(&shop.carl).await.unwrap();
    let first = shop.documents().pop().unwrap();
    set_outputs(&shop.stack(3).await, "db://second").await;
    let second = shop.documents().pop().unwrap();
    let (older, honest) = (std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());

    let refused = async |bytes: &[u8]| {
        std::fs::write(&second, bytes).unwrap();
        let error = shop.read(&shop.carl).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Distrusted, "{error}");
    };
    refused(&older).await;
    refused(&honest[..honest.len() / 2]).await;
    for at in (0..honest.len()).step_by(7) {
        let mut flipped = honest.clone();
        flipped[at] ^= 1;
        refused(&flipped).await;
    }
    std::fs::write(&second, &honest).unwrap();
    assert!(shop.read(&shop.carl).await.is_ok());
    std::fs::remove_file(&second).unwrap();
    let error = shop.read(&shop.carl).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Distrusted, "{error}");
}

#[tokio::test]
async fn malformed_output_recipient_changes_nothing() {
    let shop = Shop::new().await;
    let stack = shop.stack(3).await;
    let before = (stack.list().await.unwrap(), shop.documents());
    for wrong in ["age1typo", "passphrase", ""] {
        let error = stack.add_output_recipients("add", &[wrong.to_owned()]).await;
        assert!(error.is_err(), "{wrong:?}");
    }
    assert_eq!(
        stack.recipients().await.unwrap().of_outputs,
        [shop.carl.recipient()]
    );
    assert_eq!((stack.list().await.unwrap(), shop.documents()), before);
    let plain = shop.stacks(5, &shop.anna);
    let plain = plain
        .new_stack_with(&"plain".parse().unwrap(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    let error = plain
        .add_output_recipients("add", &[shop.carl.recipient().to_owned()])
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Sealed);
}

/// Points a name to another stack, as anyone with write access to the store can.
fn point(shop: &Shop, name: &str, lineage: state_core::Lineage) {
    let pointer = state_core::backend::NamePointer::new(
        name.parse().unwrap(),
        state_core::backend::NameTarget::Lineage(lineage),
        state_core::Nonce::from_bytes([9; 16]),
    );
    let path = shop.root().join("names/default").join(format!("{name}.json"));
    std::fs::write(path, state_core::Enveloped::encode(&pointer)).unwrap();
}

#[tokio::test]
async fn outputs_of_another_stack_are_refused() {
    let shop = Shop::new().await;
    let other = shop.stacks(5, &shop.anna);
    let other = other.new_stack(&"other".parse().unwrap()).await.unwrap();
    set_outputs(&other, "db://other").await;
    let carl = [shop.carl.recipient().to_owned()];
    other.add_output_recipients("add", &carl).await.unwrap();
    // This client has no pin for the name, so it detects the attack by the name in the document of the other stack. The
    // client below has read the outputs before, so it detects the attack by its pin.
    point(&shop, "shop", other.lineage());
    assert_eq!(
        shop.read(&shop.carl).await.unwrap_err().kind(),
        ErrorKind::Distrusted
    );
    let shop = Shop::new().await;
    shop.read(&shop.carl).await.unwrap().unwrap();
    point(&shop, "shop", state_core::Lineage::from_bits([3; 16]));
    assert_eq!(
        shop.read(&shop.carl).await.unwrap_err().kind(),
        ErrorKind::Distrusted
    );
    std::fs::remove_file(shop.root().join("names/default/shop.json")).unwrap();
    assert_eq!(
        shop.read(&shop.carl).await.unwrap_err().kind(),
        ErrorKind::Distrusted
    );
}

#[tokio::test]
async fn renamed_stack_publishes_its_outputs_again() {
    let shop = Shop::new().await;
    let (from, to) = ("shop".parse().unwrap(), "store".parse().unwrap());
    shop.stacks(5, &shop.anna).rename(&from, &to).await.unwrap();
    let read = shop.stacks(6, &shop.carl).published_outputs(&to).await;
    assert_eq!(read.unwrap().unwrap().outputs, outputs("db://first"));
}

/// Replaces the files of the stack in the store, as anyone with write access can, by those of another store's stack.
fn replace_stack(shop: &Shop, forged: &std::path::Path) {
    for part in ["stacks", "keys", "names", "outputs"] {
        let (from, to) = (forged.join(part), shop.root().join(part));
        let _ = std::fs::remove_dir_all(&to).ok();
        if from.exists() {
            copy_folder(&from, &to);
        }
    }
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for child in std::fs::read_dir(from).unwrap() {
        let child = child.unwrap();
        let copy = to.join(child.file_name());
        match child.file_type().unwrap().is_dir() {
            true => copy_folder(&child.path(), &copy),
            false => drop(std::fs::copy(child.path(), copy).unwrap()),
        }
    }
}

#[tokio::test]
async fn output_reader_refuses_a_head_of_another_key() {
    let name: state_core::StackName = "shop".parse().unwrap();
    let mallory = generate_identity();
    for policy in [SealingPolicy::Plaintext, SealingPolicy::All] {
        let shop = Shop::new().await;
        shop.read(&shop.carl).await.unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("forged");
        // The same seed gives the same lineage, and the other one another data key. Mallory makes Carl a recipient of her data key.
        let stacks = Stacks::create(&format!("file://{}", root.display()), environment(1)).unwrap();
        let stacks = stacks.with_keys(keys(9, &mallory));
        let forged = stacks.new_stack_with(&name, policy).await.unwrap();
        set_outputs(&forged, "db://forged").await;
        if policy == SealingPolicy::All {
            let carl = [shop.carl.recipient().to_owned()];
            forged.add_recipients("add", &carl).await.unwrap();
        }
        assert_eq!(forged.lineage(), shop.stack(3).await.lineage());
        replace_stack(&shop, &root);
        let client = || {
            let stacks = shop.stacks(40, &shop.carl);
            stacks.with_known_stacks(shop.known_stacks.clone())
        };
        for _ in 0..2 {
            // A client that reads the head with the name refuses already there.
            let error = match client().get(&name).await {
                Ok(stack) => stack.unwrap().tip().await.map(drop).unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(error.kind(), ErrorKind::Distrusted, "{policy}: {error}");
            assert!(error.to_string().contains("its outputs"), "{error}");
        }
        let pin = shop.known_stacks.seen(forged.lineage()).await.unwrap().unwrap();
        assert!(pin.key.is_none() && pin.sealing.is_none(), "{policy}: {pin:?}");
    }
}

#[tokio::test]
async fn failed_publication_is_reported_and_made_good() {
    let shop = Shop::new().await;
    let (folder, aside) = (shop.root().join("outputs"), shop.root().join("aside"));
    let session = shop.stack(3).await.lock("deploy").await.unwrap();
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "not a folder").unwrap();
    let update = start(&session).await;
    update.set_outputs(outputs("db://second")).await.unwrap();
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    let failed = session.close().await.unwrap_err();
    let expected = format!(
        "the outputs document of revision {} of stack shop was not written",
        revision.serial()
    );
    assert!(failed.to_string().starts_with(&expected), "{failed}");
    // The revision is recorded, and the lock is free: the next session publishes its outputs.
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    let session = shop.stack(4).await.lock("deploy").await.unwrap();
    session.close().await.unwrap();
    let read = shop.read(&shop.carl).await.unwrap().unwrap();
    assert_eq!(
        (read.serial, &read.outputs),
        (revision.serial(), &outputs("db://second"))
    );
}

#[tokio::test]
async fn output_reader_reads_the_stack_once_it_is_a_recipient() {
    let shop = Shop::new().await;
    shop.read(&shop.carl).await.unwrap().unwrap();
    let carl = [shop.carl.recipient().to_owned()];
    shop.stack(3).await.add_recipients("add", &carl).await.unwrap();
    let stacks = shop
        .stacks(40, &shop.carl)
        .with_known_stacks(shop.known_stacks.clone());
    let stack = stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(stack.tip().await.unwrap().authenticity, Authenticity::Checked);
}

#[tokio::test]
async fn reader_of_the_state_accepts_no_outputs_of_a_foreign_key() {
    let shop = Shop::new().await;
    let known_stacks: Arc<MemoryKnownStacks> = Arc::default();
    let anna = shop.stacks(5, &shop.anna);
    let anna = anna.with_known_stacks(Arc::clone(&known_stacks) as Arc<dyn KnownStacks>);
    let name = "shop".parse().unwrap();
    let stack = anna.get(&name).await.unwrap().unwrap();
    stack.tip().await.unwrap();
    // Anna's recipient is in the head, and anyone can wrap a key of their own to it.
    let lineage = stack.lineage();
    let foreign = keys(9, &shop.carl).generate(lineage).unwrap();
    let recipients = [shop.anna.recipient().to_owned()];
    let serial = Serial(101);
    let evil = StackOutputs {
        sensitive: Vec::new(),
        ..outputs("db://evil")
    };
    let document = foreign
        .outputs_document(SealingPolicy::Sensitive, &name, serial, &evil, &recipients)
        .unwrap();
    let path = shop
        .root()
        .join(format!("outputs/{lineage}/{:020}.json", serial.get()));
    std::fs::write(&path, document).unwrap();
    let refused = anna.published_outputs(&name).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Distrusted, "{refused}");
    let pin = known_stacks.seen(lineage).await.unwrap().unwrap();
    assert_eq!(pin.outputs, None);
}

//! Forged histories: readers accept a revision only from a page that the head names by digest, or from a frame of the
//! live journal.

use super::*;
use state_core::history::HistoryPageRef;
use state_core::sealing::KeyProvider;
use state_core::{
    Digest, Enveloped, Error, ErrorKind, FactoryInfo, Head, Result, RevisionId, Serial, Slot, Snapshot,
    SnapshotRef, Timestamp,
};
use state_encrypt::{GeneratedIdentity, generate_identity};
use state_manager::{MemoryKnownStacks, Rekey};
use std::path::{Path, PathBuf};

/// A store of files with an attacker, who can write any file of the stack and was a recipient until the last rotation
/// of its key.
struct Attacked {
    _folder: tempfile::TempDir,
    url: String,
    /// Folder of the stack.
    place: PathBuf,
    /// The identity of the victim, the only recipient now.
    anna: GeneratedIdentity,
    /// The identity of the attacker.
    former: GeneratedIdentity,
    /// The victim's pins of the stack.
    known_stacks: Arc<MemoryKnownStacks>,
    /// The revisions, oldest first.
    made: Vec<RevisionId>,
}

impl Attacked {
    /// A stack that was plain, then sealed for two recipients, then rotated without one of them.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}", folder.path().join("store").display());
        let (anna, former) = (generate_identity(), generate_identity());
        let stacks = Stacks::create(&url, environment(1)).unwrap();
        let stacks = stacks.with_keys(keys(1, &anna));
        let name = "shop".parse().unwrap();
        let stack = stacks
            .new_stack_with(&name, SealingPolicy::Plaintext)
            .await
            .unwrap();
        let mut made = vec![deploy(&stack, &["a"]).await];
        made.push(rekey(&stack, &[&anna, &former]).await);
        made.push(deploy(&stack, &["b"]).await);
        made.push(rekey(&stack, &[&anna]).await);
        made.push(deploy(&stack, &["c"]).await);
        let place = folder
            .path()
            .join("store/stacks")
            .join(stack.lineage().to_string());
        let attacked = Self {
            _folder: folder,
            url,
            place,
            anna,
            former,
            known_stacks: Arc::default(),
            made,
        };
        // The victim remembers the stack as it is before the attack.
        attacked.stack().await.tip().await.unwrap();
        attacked
    }

    /// The stack in a new process of the victim.
    async fn stack(&self) -> Stack {
        self.found().await.unwrap().unwrap()
    }

    /// The result of looking up the stack in a new process of the victim.
    async fn found(&self) -> Result<Option<Stack>> {
        let stacks = Stacks::open(&self.url, environment(2)).unwrap();
        let stacks = stacks
            .with_keys(keys(2, &self.anna))
            .with_known_stacks(self.known_stacks.clone());
        stacks.get(&"shop".parse().unwrap()).await
    }

    /// The error that the victim gets when it looks up the stack by name. Panics if the lookup succeeds.
    async fn refusal(&self) -> Error {
        self.found().await.map(drop).unwrap_err()
    }

    fn head(&self) -> Head {
        Head::decode("head", &std::fs::read(self.place.join("head.json")).unwrap()).unwrap()
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        std::fs::write(self.place.join(path), bytes).unwrap();
    }

    /// Stores a snapshot with a resource of the attacker. Returns the id and the document of a detached revision with
    /// that content; the document isn't stored.
    fn forged_document(&self, serial: u64, slot: u64) -> (RevisionId, String) {
        let time = Timestamp::new("2026-01-01T00:00:00Z");
        let mut snapshot = Snapshot::new(FactoryInfo::default(), "shop", time);
        snapshot.entries = vec![Arc::new(entry("evil", &[]))];
        let bytes = state_core::codec::encode_stored(&snapshot);
        let reference = SnapshotRef {
            slot: Slot(slot),
            digest: Digest::of(&bytes),
            length: bytes.len() as u64,
        };
        let packed = zstd::stream::encode_all(&bytes[..], 1).unwrap();
        self.write(&reference.object().to_string(), &packed);
        let chain = Digest::of(b"forged");
        let revision = RevisionId::new(Serial(serial), &chain);
        let reference = serde_json::to_string(&reference).unwrap();
        let document = format!(
            r#"{{"revision":"{revision}","slot":{slot},"chain":"{chain}","made":{{"detached-revision":{{"serial":{serial},"snapshot":{reference},"entries":1}}}}}}"#
        );
        (revision, document)
    }

    /// A history page with the documents of the attacker. Returns a reference to the page, as a head names it, and the
    /// bytes of the page.
    fn page(documents: &str, first: u64, revisions: u64) -> (HistoryPageRef, Vec<u8>) {
        let nonce = state_core::Nonce::from_bytes([7; 16]);
        let bytes = enveloped(
            "history",
            &format!(r#"{{"nonce":"{nonce}","revisions":[{documents}]}}"#),
        );
        let reference = HistoryPageRef {
            first: Serial(first),
            revisions,
            digest: Digest::of(&bytes),
            length: bytes.len() as u64,
        };
        (reference, bytes)
    }

    /// Checks that the victim sees the honest history, and can neither read nor restore the forged revision.
    async fn assert_ignored(&self, forged: &RevisionId) {
        let stack = self.stack().await;
        assert_eq!(stack.list().await.unwrap(), self.made);
        assert_eq!(stack.get(forged).await.unwrap_err().kind(), ErrorKind::NotFound);
        let session = stack.lock("rollback").await.unwrap();
        let request = UpdateRequest::new(UpdateKind::Rollback);
        let refused = session.rollback(request, forged).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
        session.close().await.unwrap();
        assert!(!names(&stack).await.contains(&"evil".to_owned()));
    }
}

/// Rotates the data key, with new recipients and the policy to seal all values.
async fn rekey(stack: &Stack, recipients: &[&GeneratedIdentity]) -> RevisionId {
    let recipients = recipients.iter().map(|one| one.recipient().to_owned());
    let rekey = Rekey {
        recipients: Some(recipients.collect()),
        policy: Some(SealingPolicy::All),
        ..Rekey::default()
    };
    stack.rekey("rekey", rekey).await.unwrap().revision
}

/// A stored object of this kind with a correct digest. The digest needs no key, so an attacker can compute it.
fn enveloped(kind: &str, body: &str) -> Vec<u8> {
    let digest = Digest::of_parts(&[kind.as_bytes(), b"\n", body.as_bytes()]);
    let format = state_core::envelope::FORMAT;
    format!("{{\"digest\":\"{digest}\",\"format\":{format},\"kind\":\"{kind}\",\"body\":{body}}}\n")
        .into_bytes()
}

#[tokio::test]
async fn planted_document_with_an_earlier_slot_is_ignored() {
    let attacked = Attacked::new().await;
    let (revision, document) = attacked.forged_document(1, 0);
    let path = format!("updates/{:020}-{}.json", 1, revision.short());
    // Documents in the layout of format 1: one without a tag, as before the stack's first key, and one with a false tag
    // for each of the two keys.
    let keys = attacked.head();
    let replaced = keys.keys.unwrap().succession[0].old;
    let tag = "00".repeat(32);
    let untagged = document.strip_suffix('}').unwrap();
    let tagged = |id| format!(r#"{untagged},"key-id":"{id}","tag":"{tag}"}}"#);
    for body in [document.clone(), tagged(replaced), tagged(keys.key_id.unwrap())] {
        attacked.write(&path, &enveloped("update", &body));
        attacked.assert_ignored(&revision).await;
    }
}

#[tokio::test]
async fn planted_page_is_ignored_and_listed_by_verify() {
    let attacked = Attacked::new().await;
    for (serial, slot) in [(1, 0), (3, 2), (9, 40)] {
        let (revision, document) = attacked.forged_document(serial, slot);
        let (page, bytes) = Attacked::page(&document, serial, 1);
        attacked.write(&page.object().to_string(), &bytes);
        attacked.assert_ignored(&revision).await;
        let report = attacked.stack().await.verify(true).await.unwrap();
        assert!(
            report.unreferenced.contains(&page.object().to_string()),
            "{:?}",
            report.unreferenced
        );
    }
}

#[tokio::test]
async fn planted_page_is_ignored_without_the_old_keys() {
    let attacked = Attacked::new().await;
    let old = attacked.head().keys.unwrap().succession[0].old;
    for file in std::fs::read_dir(attacked.place.join("keys")).unwrap() {
        let path = file.unwrap().path();
        if path.to_str().unwrap().contains(&old.to_string()) {
            std::fs::remove_file(path).unwrap();
        }
    }
    let (revision, document) = attacked.forged_document(3, 2);
    let (page, bytes) = Attacked::page(&document, 3, 1);
    attacked.write(&page.object().to_string(), &bytes);
    attacked.assert_ignored(&revision).await;
}

#[tokio::test]
async fn exchanged_page_is_reported_and_hides_no_revision() {
    let attacked = Attacked::new().await;
    let honest = attacked.head().history.pages[0];
    let (revision, document) = attacked.forged_document(honest.first.get(), 0);
    let (_, bytes) = Attacked::page(&document, honest.first.get(), 1);
    attacked.write(&honest.object().to_string(), &bytes);

    let stack = attacked.stack().await;
    let mut revisions = stack.revisions().await.unwrap();
    let (mut listed, mut errors) = (Vec::new(), Vec::new());
    loop {
        match revisions.next().await {
            Ok(Some(revision)) => listed.insert(0, revision.id),
            Ok(None) => break,
            Err(error) => errors.push(error),
        }
    }
    assert_eq!(
        listed, attacked.made,
        "the journal must supply the revisions of the page"
    );
    let [error] = &errors[..] else {
        panic!("{errors:?}")
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error.to_string().contains(&honest.object().to_string()),
        "{error}"
    );
    assert_eq!(stack.verify(true).await.unwrap_err().kind(), ErrorKind::Corrupt);

    assert_eq!(stack.get(&attacked.made[0]).await.unwrap().entries.len(), 1);
    assert_eq!(
        stack.get(&revision).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let session = stack.lock("rollback").await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Rollback);
    let refused = session.rollback(request, &revision).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    session.close().await.unwrap();
}

#[tokio::test]
async fn forged_page_reference_in_the_head_is_refused() {
    let attacked = Attacked::new().await;
    let (_, document) = attacked.forged_document(1, 0);
    let (page, bytes) = Attacked::page(&document, 1, 1);
    attacked.write(&page.object().to_string(), &bytes);
    let mut head = attacked.head();
    head.history.pages.insert(0, page);
    attacked.write("head.json", &head.encode());
    let refused = attacked.refusal().await;
    assert_eq!(refused.kind(), ErrorKind::Sealed, "{refused}");
    assert!(refused.to_string().contains("shop"), "{refused}");
}

#[tokio::test]
async fn former_recipient_adds_no_revision_with_an_old_key() {
    let attacked = Attacked::new().await;
    let head = attacked.head();
    let replaced = head.keys.as_ref().unwrap().succession[0].old;
    let copies = key_files(&attacked.place, replaced);
    let old = keys(3, &attacked.former)
        .unwrap(head.lineage, replaced, &copies)
        .unwrap();
    let (revision, document) = attacked.forged_document(1, 0);
    let (page, bytes) = Attacked::page(&document, 1, 1);
    attacked.write(&page.object().to_string(), &bytes);
    attacked.assert_ignored(&revision).await;

    // The attacker adds the page to the head and signs the head with the old key. One forged head names the present
    // key, the other one names the old key.
    let mut head = attacked.head();
    head.history.pages = vec![page];
    for named in [head.key_id, Some(replaced)] {
        head.key_id = named;
        head.sign(&*old);
        attacked.write("head.json", &head.encode());
        let refused = attacked.refusal().await;
        assert!(
            matches!(refused.kind(), ErrorKind::Sealed | ErrorKind::Distrusted),
            "{refused}"
        );
    }
}

/// The contents of all stored files of a data key.
fn key_files(place: &Path, id: state_core::KeyId) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(place.join("keys")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let of_key = paths.filter(|path| path.to_str().unwrap().contains(&id.to_string()));
    of_key.map(|path| std::fs::read(path).unwrap()).collect()
}

#[tokio::test]
async fn sealing_sets_a_watermark_over_the_plain_journal() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().join("store").display());
    let stacks = Stacks::create(&url, environment(1)).unwrap();
    // This client has no key provider. With the default policy it can write to the stack without a key, as long as no
    // value is sensitive.
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    deploy(&stack, &["a"]).await;
    let anna = generate_identity();
    let stacks = Stacks::open(&url, environment(2))
        .unwrap()
        .with_keys(keys(1, &anna));
    let stack = stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap();
    let session = stack.lock("seal").await.unwrap();
    let head = stack.tip().await.unwrap().head;
    let since = head.keys.unwrap().since;
    let watermark = head.watermark.unwrap();
    assert_eq!(
        watermark.slot.next(),
        since,
        "the watermark must cover all frames before the key"
    );
    session.close().await.unwrap();
}

#[tokio::test]
async fn long_history_is_on_a_few_pages() {
    let backend = MemoryBackend::default();
    let anna = generate_identity();
    let stacks = stacks(&backend, 1).with_keys(keys(1, &anna));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let mut made = Vec::new();
    for round in 0..20 {
        made.push(deploy(&stack, &[&format!("e{round}")]).await);
        made.push(rekey(&stack, &[&anna]).await);
    }
    let pages = stack.tip().await.unwrap().head.history.pages;
    let revisions: Vec<u64> = pages.iter().map(|page| page.revisions).collect();
    assert_eq!(
        revisions.iter().sum::<u64>(),
        39,
        "all revisions but the last must be on pages"
    );
    assert!(
        revisions.windows(2).all(|pair| pair[0] >= 2 * pair[1]),
        "{revisions:?}"
    );
    assert_eq!(stack.list().await.unwrap(), made);
    for (round, revision) in made.iter().enumerate() {
        assert_eq!(stack.get(revision).await.unwrap().entries.len(), round / 2 + 1);
    }
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn collection_removes_a_deleted_revision_from_its_page() {
    let backend = MemoryBackend::default();
    let anna = generate_identity();
    let stacks = stacks(&backend, 1).with_keys(keys(1, &anna));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let first = deploy(&stack, &["a"]).await;
    let second = deploy(&stack, &["b"]).await;
    rekey(&stack, &[&anna]).await;
    let session = stack.lock("gc").await.unwrap();
    session.delete(&first).await.unwrap();
    let mut retention = state_manager::Retention::default();
    retention.grace = std::time::Duration::ZERO;
    let before = session.stack().tip().await.unwrap().head.history.pages;
    let report = session.collect(&retention).await.unwrap();
    assert_eq!(report.forgotten, std::slice::from_ref(&first));
    let after = session.stack().tip().await.unwrap().head.history.pages;
    assert_eq!((before[0].revisions, after[0].revisions), (2, 1));
    let pages = state_core::Backend::list(&backend, stack.lineage(), state_core::backend::ObjectKind::Update);
    let pages = pages.await.unwrap();
    assert_eq!(pages, [after[0].object()], "the replaced page must be deleted");
    // Later changes of the history must start from the collected history.
    session.close().await.unwrap();
    rekey(&stack, &[&anna]).await;
    let listed = stack.list().await.unwrap();
    assert!(!listed.contains(&first));
    assert!(listed.contains(&second));
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn list_of_revisions_ends_beside_a_damaged_page_and_head() {
    let attacked = Attacked::new().await;
    let view = attacked.stack().await.tip().await.unwrap();
    for page in std::fs::read_dir(attacked.place.join("updates")).unwrap() {
        std::fs::write(page.unwrap().path(), "damaged").unwrap();
    }
    std::fs::write(attacked.place.join("head.json"), "damaged").unwrap();
    let mut revisions = view.revisions();
    let mut damaged = 0;
    for _ in 0..100 {
        match revisions.next_readable().await {
            Ok(Some(_)) => {}
            Ok(None) => {
                assert!(damaged > 0, "the damage is reported");
                return;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                damaged += 1;
            }
        }
    }
    panic!("the list has no end");
}

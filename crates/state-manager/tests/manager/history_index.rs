//! A long history: the head names the latest pages of the history and one index, an object that names all older pages.

use super::*;
use state_core::backend::ObjectName;
use state_core::{ErrorKind, Head, RevisionId};
use state_encrypt::{GeneratedIdentity, generate_identity};
use state_manager::{Rekey, Retention, testkit};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A sealed stack in files with small pages, and its revisions, oldest first.
struct Long {
    _folder: tempfile::TempDir,
    root: PathBuf,
    identity: GeneratedIdentity,
    made: Vec<RevisionId>,
}

impl Long {
    async fn new(rounds: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let identity = generate_identity();
        let mut long = Self {
            _folder: folder,
            root,
            identity,
            made: Vec::new(),
        };
        let stacks = long.stacks(&long.root, 1);
        let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
        for round in 0..rounds {
            long.made.push(deploy(&stack, &[&format!("e{round}")]).await);
            long.made.push(rekey(&stack).await);
        }
        long
    }

    fn stacks(&self, root: &Path, seed: u64) -> Stacks {
        let stacks = Stacks::create(&format!("file://{}", root.display()), environment(seed)).unwrap();
        testkit::with_small_pages(stacks.with_keys(keys(seed, &self.identity)))
    }

    async fn stack(&self) -> Stack {
        let found = self.stacks(&self.root, 2).get(&"shop".parse().unwrap()).await;
        found.unwrap().unwrap()
    }

    fn path(&self, stack: &Stack, object: &ObjectName) -> PathBuf {
        let folder = self.root.join("stacks").join(stack.lineage().to_string());
        folder.join(object.to_string())
    }

    async fn head(&self, stack: &Stack) -> Head {
        stack.tip().await.unwrap().head
    }
}

/// Rotates the data key. The rotation moves the base past all earlier revisions, so their documents are stored on
/// pages.
async fn rekey(stack: &Stack) -> RevisionId {
    stack.rekey("rekey", Rekey::default()).await.unwrap().revision
}

#[tokio::test]
async fn head_stays_small_when_the_history_grows() {
    let mut sizes = Vec::new();
    for rounds in [8, 24] {
        let long = Long::new(rounds).await;
        let stack = long.stack().await;
        let history = long.head(&stack).await.history;
        let index = history.index.expect("too many pages for the head");
        assert!(history.pages.len() <= 4, "{history:?}");
        assert!(index.pages as usize + history.pages.len() >= rounds - 1);
        sizes.push(serde_json::to_vec(&history).unwrap().len());
        assert_eq!(stack.list().await.unwrap(), long.made);
        for (round, revision) in long.made.iter().enumerate() {
            assert_eq!(stack.get(revision).await.unwrap().entries.len(), round / 2 + 1);
        }
        let mut before = None;
        let mut paged = Vec::new();
        loop {
            let page = stack.history_page(before.as_ref(), 3).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.id.clone());
            paged.extend(page.into_iter().map(|revision| revision.id));
        }
        paged.reverse();
        assert_eq!(paged, long.made);
        assert!(stack.verify(true).await.unwrap().report.is_valid());
    }
    assert!(sizes[1] < sizes[0] + 200, "{sizes:?}");
}

#[tokio::test]
async fn forged_index_is_refused_but_revisions_stay_readable() {
    let long = Long::new(8).await;
    let stack = long.stack().await;
    let head = long.head(&stack).await;
    let path = long.path(&stack, &head.history.index.unwrap().object());
    let honest = std::fs::read_to_string(&path).unwrap();
    // The forged document contains its own correct digest, which differs from the digest that the signed head names.
    let (_, body) = honest.split_once("\"body\":").unwrap();
    let body = body.strip_suffix("}\n").unwrap();
    let digest = state_core::Digest::of(format!("history-index\n{body} ").as_bytes());
    let forged =
        format!("{{\"digest\":\"{digest}\",\"format\":2,\"kind\":\"history-index\",\"body\":{body} }}\n");
    for bytes in [Some(forged.as_bytes()), Some(&b"garbage"[..]), None] {
        match bytes {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let stack = long.stack().await;
        let refused = stack.list().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        assert!(refused.to_string().contains(".index"), "{refused}");
        assert_eq!(stack.verify(true).await.unwrap_err().kind(), ErrorKind::Corrupt);
        // A single revision is read from the journal, so it needs no index.
        assert_eq!(stack.get(&long.made[0]).await.unwrap().entries.len(), 1);
        // The head still names the damaged index, so that readers keep reporting the damage.
        assert_eq!(long.head(&stack).await.history.index, head.history.index);
    }
}

/// Readers ignore an index that the head doesn't name.
#[tokio::test]
async fn planted_index_is_ignored_and_listed_by_verify() {
    let long = Long::new(8).await;
    let stack = long.stack().await;
    let head = long.head(&stack).await;
    let index = head.history.index.unwrap();
    let named = long.path(&stack, &index.object());
    let planted = ObjectName::HistoryIndex {
        first: index.first,
        short: "0123456789abcdef".to_owned(),
    };
    std::fs::copy(named, long.path(&stack, &planted)).unwrap();
    assert_eq!(stack.list().await.unwrap(), long.made);
    let report = stack.verify(true).await.unwrap();
    assert!(report.unreferenced.contains(&planted.to_string()), "{report:?}");
}

#[tokio::test]
async fn collection_keeps_one_index_of_the_remaining_pages() {
    let long = Long::new(12).await;
    let stack = long.stack().await;
    let mut retention = Retention::default();
    (retention.keep_for, retention.keep_last, retention.grace) = (Duration::ZERO, 14, Duration::ZERO);
    for _ in 0..2 {
        let session = stack.lock("gc").await.unwrap();
        session.collect(&retention).await.unwrap();
        session.close().await.unwrap();
    }
    let stack = long.stack().await;
    let kept = &long.made[long.made.len() - 14..];
    assert_eq!(stack.list().await.unwrap(), kept);
    assert!(stack.verify(true).await.unwrap().report.is_valid());
    let index = long.head(&stack).await.history.index.unwrap().object();
    assert!(long.path(&stack, &index).exists());
    let made = deploy(&stack, &["more"]).await;
    rekey(&stack).await;
    assert!(stack.list().await.unwrap().contains(&made));
}

#[tokio::test]
async fn copy_contains_the_index_and_its_pages() {
    let long = Long::new(8).await;
    let source = long.stack().await;
    let folder = tempfile::tempdir().unwrap();
    let there = long.stacks(&folder.path().join("copy"), 3);
    there.copy_from(&source).await.unwrap();
    let copy = there.get(&"shop".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(copy.list().await.unwrap(), long.made);
    assert!(copy.verify(true).await.unwrap().report.is_valid());
}

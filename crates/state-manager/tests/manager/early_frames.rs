//! The state at a revision before the base: a store may answer with frames from an object that the head doesn't name.

use super::*;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{
    Acquire, Acquired, Capabilities, JournalView, LockStatus, NamePointer, ObjectKind, ObjectName, Tail,
};
use state_core::mutation::EditChange;
use state_core::{
    Backend, Base, Digest, Error, Frame, Head, Json, Lineage, Nonce, Properties, Result, RevisionId,
    SharedEntry, Slot, StackName, Timestamp,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How the store answers a request for frames before the base.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// The frames of the journal.
    Whole,
    /// Without the last one.
    Cut,
    /// As if the object were damaged.
    Damaged,
}

#[derive(Debug)]
struct KeptFrames {
    store: MemoryBackend,
    answer: Answer,
    /// How often frames, and the whole journal from an early slot on, were read.
    reads: [AtomicUsize; 2],
    /// The pages of the history that were read, in order.
    pages: Mutex<Vec<ObjectName>>,
    /// A forged base with its forged snapshot, while the store shows it to readers.
    forged: Mutex<Option<(Base, Bytes)>>,
}

impl KeptFrames {
    fn new(store: &MemoryBackend, answer: Answer) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            answer,
            reads: Default::default(),
            pages: Mutex::default(),
            forged: Mutex::default(),
        })
    }

    fn forged(&self) -> Option<(Base, Bytes)> {
        self.forged.lock().unwrap().clone()
    }

    fn counts(&self) -> [usize; 2] {
        self.reads.each_ref().map(|reads| reads.load(Ordering::Relaxed))
    }
}

#[async_trait]
impl Backend for KeptFrames {
    fn url(&self) -> String {
        self.store.url()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        self.store.names().await
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        self.store.read_name(name).await
    }

    async fn swap_name(&self, name: &StackName, before: Option<Nonce>, pointer: &NamePointer) -> Result<()> {
        self.store.swap_name(name, before, pointer).await
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        self.store.create_stack(head).await
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        let mut head = self.store.read_head(lineage).await?;
        if let Some((base, _)) = self.forged() {
            head.base = base;
        }
        Ok(head)
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        if name.kind() == ObjectKind::Update {
            self.pages.lock().unwrap().push(name.clone());
        }
        let forged = self.forged();
        let is_forged = |(base, _): &(Base, Bytes)| base.content.as_ref().unwrap().object() == *name;
        if let Some((_, bytes)) = forged.filter(is_forged) {
            return Ok(bytes);
        }
        self.store.read(lineage, name).await
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        self.store.list(lineage, kind).await
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        self.reads[1].fetch_add(usize::from(from.is_some()), Ordering::Relaxed);
        let mut view = self.store.read_journal(lineage, from).await?;
        if let Some((base, _)) = self.forged() {
            view.head.base = base;
        }
        Ok(view)
    }

    async fn read_frames(&self, head: &Head, from: Tail, until: Slot) -> Result<Vec<Frame>> {
        self.reads[0].fetch_add(1, Ordering::Relaxed);
        let mut frames = self.store.read_frames(head, from, until).await?;
        match self.answer {
            Answer::Whole => {}
            Answer::Cut => drop(frames.pop()),
            Answer::Damaged => return Err(Error::corrupt("journal", 0, "its frames are damaged")),
        }
        Ok(frames)
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        self.store.acquire(lineage, request).await
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        self.store.lock_status(lineage).await
    }
}

/// Makes a revision in which resource `name`, of 200 KB, exists, too.
pub(crate) async fn add(session: &Session, name: &str) -> RevisionId {
    let mut added = entry(name, &[]);
    let inputs = format!(r#"{{"text":"{}"}}"#, "x".repeat(200_000));
    added.inputs = Properties::new(Json::parse(&inputs).unwrap());
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Edit))
        .await
        .unwrap();
    update.edit(vec![EditChange::Append(added.into())]).await.unwrap();
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.state().current().cloned().unwrap()
}

/// A stack with twelve revisions, whose base moved past the first ones. Returns the store and the revisions.
async fn moved_base() -> (MemoryBackend, Vec<RevisionId>) {
    let store = MemoryBackend::default();
    let stack = stacks(&store, 1)
        .new_stack(&"shop/production".parse().unwrap())
        .await
        .unwrap();
    let session = stack.lock("deploy").await.unwrap();
    // Each revision adds 200 KB to the journal: checkpoints move the base.
    let mut made = Vec::new();
    for number in 0..12 {
        made.push(add(&session, &format!("r{number}")).await);
    }
    session.close().await.unwrap();
    let base = store.read_head(stack.lineage()).await.unwrap().base;
    assert!(base.start > Slot(3), "{base:?}");
    (store, made)
}

#[tokio::test]
async fn frames_that_do_not_end_at_the_revision_are_not_used() {
    let (store, made) = moved_base().await;
    for (answer, journals) in [(Answer::Whole, 0), (Answer::Cut, 1), (Answer::Damaged, 1)] {
        let kept = KeptFrames::new(&store, answer);
        let stacks = Stacks::new(Arc::clone(&kept) as Arc<dyn Backend>, environment(2));
        let stack = stacks.get(&"shop/production".parse().unwrap()).await.unwrap();
        let found = stack.unwrap().get(&made[1]).await.unwrap();
        assert_eq!(found.entries.len(), 2, "{answer:?}");
        assert_eq!(kept.counts(), [1, journals], "{answer:?}");
    }
}

/// A command shows what a rollback changes, and rolls back under the lock then.
#[tokio::test]
async fn preview_and_rollback_read_an_early_revision_once() {
    let (store, made) = moved_base().await;
    let kept = KeptFrames::new(&store, Answer::Whole);
    let stacks = Stacks::new(Arc::clone(&kept) as Arc<dyn Backend>, environment(2));
    let stack = stacks.get(&"shop/production".parse().unwrap()).await.unwrap();
    let stack = stack.unwrap();
    let view = stack.tip().await.unwrap();
    let preview = view.get(&made[1]).await.unwrap();
    let session = stack.lock("rollback").await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Rollback);
    session.rollback(request, &made[1]).await.unwrap();
    assert_eq!(
        session.state().snapshot("", Timestamp::new("")).entries,
        preview.entries
    );
    session.close().await.unwrap();
    assert_eq!(kept.counts(), [1, 0]);
    let pages = kept.pages.lock().unwrap().clone();
    assert_eq!(pages.len(), 1, "{pages:?}");

    // What isn't in use any more is read again, and a verification uses nothing that was read before.
    drop(view);
    let again = stack.tip().await.unwrap();
    again.get(&made[1]).await.unwrap();
    assert_eq!(kept.counts(), [2, 0]);
    let before = kept.pages.lock().unwrap().len();
    stack.verify(true).await.unwrap();
    assert!(kept.pages.lock().unwrap().len() > before);
}

/// A store shows a forged checkpoint to the preview, and the true head to the lock.
#[tokio::test]
async fn rollback_restores_no_state_from_a_checkpoint_of_another_head() {
    let (store, made) = moved_base().await;
    let stack = stacks(&store, 1).get(&"shop/production".parse().unwrap()).await;
    let stack = stack.unwrap().unwrap();
    // The rollback moves the base, and no frame follows.
    let session = stack.lock("rollback").await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Rollback);
    let restored = session.rollback(request, &made[1]).await.unwrap();
    session.close().await.unwrap();

    let mut base = store.read_head(stack.lineage()).await.unwrap().base;
    let content = base.content.as_mut().unwrap();
    let true_bytes = store.read(stack.lineage(), &content.object()).await.unwrap();
    let text = String::from_utf8(zstd::stream::decode_all(&true_bytes[..]).unwrap()).unwrap();
    let forged = text.replace("xxx", "yyy");
    assert_ne!(forged, text);
    content.digest = Digest::of(forged.as_bytes());
    let forged = zstd::stream::encode_all(forged.as_bytes(), 1).unwrap();

    let kept = KeptFrames::new(&store, Answer::Whole);
    let stacks = Stacks::new(Arc::clone(&kept) as Arc<dyn Backend>, environment(2));
    *kept.forged.lock().unwrap() = Some((base, forged.into()));
    let stack = stacks.get(&"shop/production".parse().unwrap()).await.unwrap();
    let stack = stack.unwrap();
    let view = stack.tip().await.unwrap();
    let preview = view.get(&restored).await.unwrap();
    let text_of = |entry: &SharedEntry| entry.inputs.as_ref().unwrap().json().as_str().to_owned();
    assert!(preview.entries.iter().any(|entry| text_of(entry).contains("yyy")));
    *kept.forged.lock().unwrap() = None;

    let session = stack.lock("rollback").await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Rollback);
    session.rollback(request, &restored).await.unwrap();
    let now = session.state().snapshot("", Timestamp::new(""));
    assert_eq!(now.entries.len(), preview.entries.len());
    assert!(now.entries.iter().all(|entry| !text_of(entry).contains("yyy")));
    session.close().await.unwrap();
    drop(view);
}

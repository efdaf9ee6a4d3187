//! The store: [`ObjectBackend`].

use crate::collection::pieces;
use crate::layout::{LAYOUT, Layout, MAX_DOCUMENT, MAX_OBJECT, Tree};
use crate::names;
use crate::objects::{Created, Found, Objects};
use crate::options::Options;
use crate::owner::Owner;
use crate::reader::read_journal;
use crate::stack::Stack;
use crate::takeover::{newest, take_over};
use crate::watch::Watch;
use crate::writer::ObjectWriter;
use async_trait::async_trait;
use bytes::Bytes;
use object_store::ObjectStore;
use state_core::backend::{
    Acquire, Acquired, Capabilities, JournalView, LockStatus, NamePointer, ObjectKind, ObjectName, Opening,
    Piece,
};
use state_core::{Backend, Enveloped, Error, Head, Lineage, Nonce, Result, Slot, StackName, Writer};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A store of stacks on an object store.
///
/// Needs a tokio runtime: a writer renews its lease in the background.
///
/// # Cancellation
/// What writes runs to its end in a task of its own, whether or not its future is still polled. A lock that nobody
/// waits for any more is given back.
#[derive(Clone)]
pub struct ObjectBackend {
    objects: Objects,
    tree: Tree,
    opening: Opening,
    /// Whether the store was made by this handle; empty until it was looked for.
    made: Arc<OnceCell<bool>>,
    watch: Watch,
}

impl ObjectBackend {
    /// A store of stacks under the prefix that the options name. Nothing is asked before it is first used: then it must
    /// be there, or is made.
    pub fn new(store: Arc<dyn ObjectStore>, options: Options, opening: Opening) -> Self {
        Self {
            tree: Tree::of(&options),
            objects: Objects::new(store, options),
            opening,
            made: Arc::default(),
            watch: Watch::default(),
        }
    }

    /// What it stands on.
    pub const fn object_store(&self) -> &Arc<dyn ObjectStore> {
        self.objects.store()
    }

    /// How it is used.
    pub fn options(&self) -> &Options {
        &self.objects.options
    }

    /// Finds the store or makes it, once.
    async fn find(&self) -> Result<bool> {
        self.made.get_or_try_init(|| self.find_or_make()).await.copied()
    }

    async fn find_or_make(&self) -> Result<bool> {
        let path = self.tree.format();
        if let Some(found) = self.objects.impatient().read(&path, MAX_DOCUMENT).await? {
            return self.check_layout(&found).map(|()| false);
        }
        if self.opening == Opening::Existing {
            return Err(Error::not_found(format!("state store {}", self.url())));
        }
        let layout = Layout { layout: LAYOUT };
        match self.objects.create(&path, &layout.encode().into()).await? {
            Created::Ours(_) => Ok(true),
            Created::Taken(found) => self.check_layout(&found).map(|()| false),
        }
    }

    fn check_layout(&self, found: &Found) -> Result<()> {
        let object = self.objects.shown(&self.tree.format());
        match Layout::decode(&object, &found.bytes)?.layout {
            LAYOUT => Ok(()),
            found => Err(Error::Format {
                object,
                found,
                supported: LAYOUT,
            }),
        }
    }

    async fn stack(&self, lineage: Lineage) -> Result<Stack> {
        self.find().await?;
        Ok(Stack::new(self.objects.clone(), &self.tree, lineage))
    }
}

impl fmt::Debug for ObjectBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectBackend")
            .field("url", &self.options().url)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for ObjectBackend {
    fn url(&self) -> String {
        self.options().url.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(true, true, false).with_collection()
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        self.find().await?;
        names::list(&self.objects, &self.tree).await
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        self.find().await?;
        names::read(&self.objects, &self.tree, name).await
    }

    async fn swap_name(
        &self,
        name: &StackName,
        expected: Option<Nonce>,
        pointer: &NamePointer,
    ) -> Result<()> {
        self.find().await?;
        names::swap(&self.objects, &self.tree, name, expected, pointer).await
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        self.stack(head.lineage).await?.create(head).await
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        Ok(self.stack(lineage).await?.head().await?.head)
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        let stack = self.stack(lineage).await?;
        let path = stack.branch.object(name);
        match self.objects.read(&path, MAX_OBJECT).await? {
            Some(found) => Ok(found.bytes),
            None => Err(Error::not_found(self.objects.shown(&path))),
        }
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        let stack = self.stack(lineage).await?;
        let listed = self.objects.list(&stack.branch.folder(kind), None).await?;
        let mut names: Vec<_> = listed
            .iter()
            .filter_map(|listed| ObjectName::from_file_name(kind, listed.file()))
            .collect();
        names.sort();
        Ok(names)
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        read_journal(&self.stack(lineage).await?, from).await
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        let stack = self.stack(lineage).await?;
        let (watch, request) = (self.watch.clone(), request.clone());
        let (send, receive) = tokio::sync::oneshot::channel();
        let step = stack.clone();
        drop(tokio::spawn(async move {
            if let Err(Ok(acquired)) = send.send(acquire(step, &watch, &request).await) {
                let acquired: Acquired = acquired;
                // Whoever wanted the lock has gone.
                drop(acquired.writer.release().await);
            }
        }));
        receive.await.unwrap_or_else(|_| Err(stack.lost()))
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        let stack = self.stack(lineage).await?;
        let head = stack.head().await?.head;
        let lease = stack.lease().await?.map(|(lease, _)| lease);
        Ok(LockStatus {
            epoch: newest(&head, lease.as_ref()),
            holder: lease
                .filter(|lease| !lease.released && lease.epoch >= head.epoch)
                .map(|lease| lease.holder),
            client_lock: head.client_lock,
        })
    }

    async fn pieces(&self, lineage: Lineage, before: Slot) -> Result<Vec<Piece>> {
        pieces(&self.stack(lineage).await?, before).await
    }

    async fn ready(&self) -> Result<bool> {
        self.find().await
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

async fn acquire(stack: Stack, watch: &Watch, request: &Acquire) -> Result<Acquired> {
    let mut taken = take_over(&stack, watch, request).await?;
    let head = taken.seen.head.clone();
    let (frames, tail) = (std::mem::take(&mut taken.frames), taken.tail);
    let writer = ObjectWriter::new(Owner::new(stack, taken), &frames);
    let writer: Arc<dyn Writer> = Arc::new(writer);
    Ok(Acquired {
        head,
        frames,
        tail,
        writer,
    })
}

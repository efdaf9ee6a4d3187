//! The store: [`FsBackend`].

use crate::collection::stored_items;
use crate::counts::{IoCounts, Meter};
use crate::dir::Dir;
use crate::examination::examine;
use crate::failure::unreachable;
use crate::files::{FileSystem, Native};
use crate::layout::{FORMAT, LAYOUT, Layout, MAX_DOCUMENT, MAX_OBJECT, NAMES, STACKS, lock_file};
use crate::lock::LockFile;
use crate::names;
use crate::owner::Owner;
use crate::reader::read_journal;
use crate::stack::Stack;
use crate::takeover::take_over;
use crate::worker::Worker;
use crate::writer::FsWriter;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{
    Acquire, Acquired, Capabilities, CheckableStore, CollectableStore, CopyTarget, Extensions, JournalView,
    LockStatus, NamePointer, ObjectKind, ObjectName, StoreCheck, StoredItem, Tail,
};
use state_core::{Backend, Enveloped, Error, Frame, Head, Lineage, Nonce, Result, Slot, StackName};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Threads for everything but writing to a stack that is held. They start when they are needed.
const THREADS: usize = 8;

/// How long to wait for the short locks, `head.lock` and `names.lock`.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A store of stacks in a folder.
///
/// # Cancellation
/// Each step runs to its end on a thread of the store's own, whether or not its future is still polled. No async
/// runtime is needed.
pub struct FsBackend {
    root: PathBuf,
    dir: Dir,
    meter: Arc<Meter>,
    patience: Duration,
    worker: Worker,
}

impl FsBackend {
    /// Opens a store that exists. Blocks for a few reads.
    ///
    /// # Errors
    /// [`Error::NotFound`] naming the path when there is none, [`Error::Format`] when it has another layout.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(&Native, root.as_ref())
    }

    /// Opens a store, which is made if there is none, with the folders above it. Blocks for a few syncs.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`Error::Denied`] or [`Error::NotApplied`] when it can't be made.
    pub fn create(root: impl AsRef<Path>) -> Result<Self> {
        Self::create_on(&Native, root.as_ref())
    }

    /// Whether there is a store, of whatever layout.
    ///
    /// # Errors
    /// [`Error::Denied`] or [`Error::Unavailable`] when that can't be seen.
    pub fn exists(root: impl AsRef<Path>) -> Result<bool> {
        Self::exists_on(&Native, root.as_ref())
    }

    /// Opens a store on a file system.
    pub(crate) fn open_on(files: &dyn FileSystem, root: &Path) -> Result<Self> {
        let store = Self::at(files, root)?;
        let object = store.dir.object(FORMAT);
        let Some((bytes, _)) = store.dir.read(FORMAT, MAX_DOCUMENT)? else {
            return Err(Error::not_found(format!("state store {}", store.root.display())));
        };
        let found = Layout::decode(&object, &bytes)?.layout;
        if found == LAYOUT {
            return Ok(store);
        }
        Err(Error::format(object, found, LAYOUT))
    }

    /// Creates a store on a file system, unless there is one.
    pub(crate) fn create_on(files: &dyn FileSystem, root: &Path) -> Result<Self> {
        Dir::make_root(files, root)?;
        if Self::exists_on(files, root)? {
            return Self::open_on(files, root);
        }
        let store = Self::at(files, root)?;
        store.dir.make_child(NAMES).map_err(Error::from)?;
        store.dir.make_child(STACKS).map_err(Error::from)?;
        let layout = Layout { layout: LAYOUT };
        store.dir.create(FORMAT, &layout.encode()).map_err(Error::from)?;
        Self::open_on(files, root)
    }

    fn exists_on(files: &dyn FileSystem, root: &Path) -> Result<bool> {
        match Self::at(files, root) {
            Ok(store) => Ok(store.dir.read(FORMAT, MAX_DOCUMENT)?.is_some()),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sets how long to wait for the short locks under which heads and names change; ten seconds otherwise.
    ///
    /// They are held for a few syncs, except by a process that was stopped.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What this handle and its writers wrote so far.
    pub fn io_counts(&self) -> IoCounts {
        self.meter.read()
    }

    #[cfg(test)]
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    fn at(files: &dyn FileSystem, root: &Path) -> Result<Self> {
        let meter = Arc::<Meter>::default();
        let root = std::path::absolute(root).map_err(|e| unreachable(&root.display().to_string(), e))?;
        Ok(Self {
            dir: Dir::root(files, &root, Arc::clone(&meter))?,
            root,
            meter,
            patience: PATIENCE,
            worker: Worker::new("state-store", THREADS),
        })
    }

    async fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Dir) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let dir = self.dir.clone();
        match self.worker.run(move || step(&dir)).await {
            Some(result) => result,
            None => Err(unreachable(
                self.dir.path(),
                io::Error::other("a thread of the store failed"),
            )),
        }
    }

    /// A step that begins with a look at one stack.
    async fn with_stack<T: Send + 'static>(
        &self,
        lineage: Lineage,
        step: impl FnOnce(Stack) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let patience = self.patience;
        self.step(move |root| step(Stack::open(root, lineage, patience)?))
            .await
    }
}

impl fmt::Debug for FsBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FsBackend")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for FsBackend {
    fn url(&self) -> String {
        format!("file://{}", self.root.display())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(true, true, true)
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        self.step(names::list).await
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        let name = name.clone();
        self.step(move |root| names::read(root, &name)).await
    }

    async fn swap_name(
        &self,
        name: &StackName,
        expected: Option<Nonce>,
        pointer: &NamePointer,
    ) -> Result<()> {
        let (name, pointer, patience) = (name.clone(), pointer.clone(), self.patience);
        self.step(move |root| Ok(names::swap(root, &name, expected, &pointer, patience)?))
            .await
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        let head = head.clone();
        self.step(move |root| Ok(Stack::create(root, &head)?)).await
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        self.with_stack(lineage, |stack| Ok(stack.head()?.head)).await
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        let name = name.clone();
        self.with_stack(lineage, move |stack| {
            let missing = || Error::not_found(format!("{}/{}", name.kind().path(lineage), name.file_name()));
            let folder = stack.objects_if_any(name.kind())?.ok_or_else(missing)?;
            match folder.read(&name.file_name(), MAX_OBJECT)? {
                Some((bytes, _)) => Ok(bytes),
                None => Err(Error::not_found(folder.object(&name.file_name()))),
            }
        })
        .await
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        self.with_stack(lineage, move |stack| {
            let Some(folder) = stack.objects_if_any(kind)? else {
                return Ok(Vec::new());
            };
            let files = folder.entries()?;
            let mut names: Vec<_> = files
                .iter()
                .filter_map(|file| ObjectName::from_file_name(kind, file))
                .collect();
            names.sort();
            Ok(names)
        })
        .await
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        self.with_stack(lineage, move |stack| read_journal(&stack, from))
            .await
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        let request = request.clone();
        self.with_stack(lineage, move |stack| {
            let mut taken = take_over(&stack, &request)?;
            let (head, frames) = (taken.seen.head.clone(), std::mem::take(&mut taken.frames));
            let tail = taken.opened.tail();
            let owner = Owner::new(stack, request.holder, taken);
            Ok(Acquired {
                head,
                frames,
                tail,
                writer: Arc::new(FsWriter::new(owner)),
            })
        })
        .await
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        self.with_stack(lineage, |stack| {
            let head = stack.head()?.head;
            Ok(LockStatus {
                epoch: head.epoch,
                holder: LockFile::holder(&stack.dir, &lock_file(head.generation))?,
                client_lock: head.client_lock,
            })
        })
        .await
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions::none()
            .with_check(self)
            .with_copies(self)
            .with_collection(self)
    }
}

#[async_trait]
impl CopyTarget for FsBackend {
    async fn adopt_object(&self, lineage: Lineage, name: &ObjectName, bytes: Bytes) -> Result<()> {
        let name = name.clone();
        self.step(move |root| Stack::adopt_object(root, lineage, &name, &bytes))
            .await
    }

    async fn adopt_stack(&self, head: &Head, before: Tail, frames: &[Frame]) -> Result<()> {
        let (head, frames, patience) = (head.clone(), frames.to_vec(), self.patience);
        self.step(move |root| Stack::adopt(root, &head, before, &frames, patience))
            .await
    }
}

#[async_trait]
impl CheckableStore for FsBackend {
    async fn examine(&self) -> Result<StoreCheck> {
        self.step(examine).await
    }
}

#[async_trait]
impl CollectableStore for FsBackend {
    async fn stored_items(&self, lineage: Lineage, before: Slot) -> Result<Vec<StoredItem>> {
        self.with_stack(lineage, move |stack| stored_items(&stack, before))
            .await
    }
}

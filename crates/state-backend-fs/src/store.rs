//! [`FsBackend`]: the implementation of [`Backend`] on a folder.

use crate::collection::stored_items;
use crate::counts::{IoCounts, Meter};
use crate::dir::Dir;
use crate::error::{WriteError, read_failed};
use crate::files::{FileSystem, Native, Sharing};
use crate::layout::{FORMAT, LAYOUT, Layout, MAX_DOCUMENT, MAX_OBJECT, NAMES, STACKS, lock_file};
use crate::leftovers;
use crate::lock::LockFile;
use crate::names;
use crate::owner::Owner;
use crate::reader::{read_head, read_journal};
use crate::reserve;
use crate::stack::Stack;
use crate::store_check::examine;
use crate::takeover::take_over;
use crate::worker::Worker;
use crate::writer::FsWriter;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{
    Acquire, Acquired, Capabilities, CheckableStore, CollectableStore, CopyTarget, CopyUpdate, Extensions,
    JournalView, LeftoverAction, Leftovers, LockStatus, NamePointer, ObjectKind, ObjectName, ReservingStore,
    StoreCheck, StoredItem, Tail,
};
use state_core::{Backend, Enveloped, Error, Frame, Head, Lineage, Nonce, Result, Slot, StackName};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of threads for all calls except those of writers. Threads start on demand.
const THREADS: usize = 8;

/// The right of a folder's group to write, in the mode of the folder.
const GROUP_WRITE: u32 = 0o020;

/// How long to wait for `head.lock` and `names.lock`.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A store of stacks in a folder.
///
/// # Cancellation
/// Each call runs to its end on a thread of the store, even if its future is dropped. No async runtime is needed.
pub struct FsBackend {
    root: PathBuf,
    dir: Dir,
    meter: Arc<Meter>,
    lock_timeout: Duration,
    worker: Worker,
}

impl FsBackend {
    /// Opens an existing store. Blocks for a few reads.
    ///
    /// # Errors
    /// [`Error::NotFound`] with the path if there is no store, [`Error::Format`] if it has another layout version.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(&Native, root.as_ref())
    }

    /// Opens a store, and creates it and the folders above it if they are missing. Blocks for a few syncs.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), and [`Error::Denied`] or [`Error::NotApplied`] if it can't be created.
    pub fn create(root: impl AsRef<Path>) -> Result<Self> {
        Self::create_shared(root.as_ref(), Sharing::Owner)
    }

    /// As [`create`](Self::create); members of the folder's group may use a new store too, whatever the umask is of the
    /// process that creates a file. An existing folder keeps its group.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create), and [`Error::Conflict`] if there is a store that only its owner may use.
    pub fn create_for_group(root: impl AsRef<Path>) -> Result<Self> {
        Self::create_shared(root.as_ref(), Sharing::Group)
    }

    fn create_shared(root: &Path, sharing: Sharing) -> Result<Self> {
        let store = Self::create_on(&Native, root, sharing)?;
        // Without the reserve the store works as well, so a disk that is too small for it is no error.
        drop(reserve::make_if_missing(&store.dir));
        Ok(store)
    }

    /// As [`create`](Self::create), for the users of another store: members of the folder's group may use the new store if
    /// they can write to the folders `names` and `stacks` of the other one. `other` may be `root` itself, a store that has lost
    /// its file `format`.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create).
    pub fn create_like(root: impl AsRef<Path>, other: impl AsRef<Path>) -> Result<Self> {
        let sharing = match Self::exists(root.as_ref())? {
            true => Sharing::Owner,
            false => Self::sharing_of(other.as_ref())?,
        };
        Self::create_shared(root.as_ref(), sharing)
    }

    /// Who may use the store in a folder, by the rights of its folders alone.
    fn sharing_of(root: &Path) -> Result<Sharing> {
        let store = match Self::at(&Native, root) {
            Err(Error::NotFound { .. }) => return Ok(Sharing::Owner),
            opened => opened?,
        };
        for name in [NAMES, STACKS] {
            let Some(folder) = store.dir.child_if_any(name)? else {
                return Ok(Sharing::Owner);
            };
            let permissions = folder.folder().permissions();
            let permissions = permissions.map_err(|e| read_failed(folder.path(), e))?;
            if permissions & GROUP_WRITE == 0 {
                return Ok(Sharing::Owner);
            }
        }
        Ok(Sharing::Group)
    }

    /// Returns whether the folder contains a store of any layout version.
    ///
    /// # Errors
    /// [`Error::Denied`] or [`Error::Unavailable`] if the folder can't be read.
    pub fn exists(root: impl AsRef<Path>) -> Result<bool> {
        Self::exists_on(&Native, root.as_ref())
    }

    /// Opens an existing store on the given file system.
    pub(crate) fn open_on(files: &dyn FileSystem, root: &Path) -> Result<Self> {
        let store = Self::at(files, root)?;
        let object = store.dir.object(FORMAT);
        let Some((bytes, _)) = store.dir.read(FORMAT, MAX_DOCUMENT)? else {
            return Err(Error::not_found(format!("state store {}", store.root.display())));
        };
        let Layout { layout, group } = Layout::decode(&object, &bytes)?;
        if layout != LAYOUT {
            return Err(Error::format(object, layout, LAYOUT));
        }
        let mut store = store;
        store
            .dir
            .share(if group { Sharing::Group } else { Sharing::Owner });
        Ok(store)
    }

    /// Creates a store on the given file system, or opens it if it exists.
    pub(crate) fn create_on(files: &dyn FileSystem, root: &Path, sharing: Sharing) -> Result<Self> {
        Dir::make_root(files, root, sharing)?;
        if Self::exists_on(files, root)? {
            let store = Self::open_on(files, root)?;
            if sharing == Sharing::Group && store.dir.sharing() != Sharing::Group {
                let reason = "it exists already, and only its owner may use it: create another store with \
                              `group-writable=true`, and copy the stacks to it with `statectl copy`";
                return Err(Error::conflict(store.url(), reason));
            }
            return Ok(store);
        }
        let mut store = Self::at(files, root)?;
        store.dir.share(sharing);
        if sharing == Sharing::Group {
            // The folder may have existed, with other rights.
            let restricted = store.dir.folder().restrict(sharing);
            restricted.map_err(|e| Error::from(WriteError::not_applied(store.dir.path(), e)))?;
        }
        store.dir.make_child(NAMES).map_err(Error::from)?;
        store.dir.make_child(STACKS).map_err(Error::from)?;
        let layout = Layout {
            layout: LAYOUT,
            group: sharing == Sharing::Group,
        };
        // Created last: this file makes the folder a store, and after a crash before it `create` starts over.
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

    /// Sets the time limit for the locks that a process holds while it changes a head or a name. Default: ten seconds.
    ///
    /// A running process holds these locks only for a few syncs; a suspended process holds them until it continues.
    #[must_use]
    pub fn with_lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout;
        self
    }

    /// Runs every call on the thread of its caller.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn without_threads(mut self) -> Self {
        self.worker = Worker::new("state-store", 0);
        self
    }

    /// Counts of the writes and syncs that this handle and its writers made so far.
    pub fn io_counts(&self) -> IoCounts {
        self.meter.read()
    }

    #[cfg(test)]
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    fn at(files: &dyn FileSystem, root: &Path) -> Result<Self> {
        let meter = Arc::<Meter>::default();
        let root = std::path::absolute(root).map_err(|e| read_failed(&root.display().to_string(), e))?;
        Ok(Self {
            dir: Dir::root(files, &root, Arc::clone(&meter))?,
            root,
            meter,
            lock_timeout: LOCK_TIMEOUT,
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
            None => Err(read_failed(
                self.dir.path(),
                io::Error::other("a thread of the store failed"),
            )),
        }
    }

    /// Runs a call that begins with opening the folder of one stack.
    async fn with_stack<T: Send + 'static>(
        &self,
        lineage: Lineage,
        step: impl FnOnce(Stack) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let lock_timeout = self.lock_timeout;
        self.step(move |root| step(Stack::open(root, lineage, lock_timeout)?))
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
        let (name, pointer, lock_timeout) = (name.clone(), pointer.clone(), self.lock_timeout);
        self.step(move |root| Ok(names::swap(root, &name, expected, &pointer, lock_timeout)?))
            .await
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        let head = head.clone();
        self.step(move |root| Ok(Stack::create(root, &head)?)).await
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        self.with_stack(lineage, |stack| read_head(&stack)).await
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
        let (request, threads) = (request.clone(), self.worker.most().min(1));
        self.with_stack(lineage, move |stack| {
            let mut takeover = take_over(&stack, &request)?;
            let (head, frames) = (takeover.seen.head.clone(), std::mem::take(&mut takeover.frames));
            let tail = takeover.segment.tail();
            let owner = Owner::new(stack, request.holder, takeover);
            Ok(Acquired {
                head,
                frames,
                tail,
                writer: Arc::new(FsWriter::new(owner, threads)),
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
            .with_reserve(self)
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
        let (head, frames, lock_timeout) = (head.clone(), frames.to_vec(), self.lock_timeout);
        self.step(move |root| Stack::adopt(root, &head, before, &frames, lock_timeout))
            .await
    }

    async fn update_stack(&self, update: &CopyUpdate) -> Result<()> {
        let update = update.clone();
        self.with_stack(update.head.lineage, move |stack| stack.update_copy(&update))
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

    async fn leftovers(
        &self,
        lineage: Lineage,
        min_age: Duration,
        action: LeftoverAction,
    ) -> Result<Leftovers> {
        self.step(move |root| leftovers::find(root, lineage, min_age, action))
            .await
    }
}

#[async_trait]
impl ReservingStore for FsBackend {
    async fn free_reserve(&self) -> Result<()> {
        self.step(reserve::free).await
    }

    async fn restore_reserve(&self) -> Result<bool> {
        self.step(reserve::make).await
    }
}

//! A file system in memory that separates the content that a process sees from the content that survives a crash.

use super::crash::CrashPoint;
use super::disk::{Disk, FileNode, FolderNode, Node, NodeId, ROOT};
use crate::FsBackend;
use crate::files::{
    Access, FileHandle, FileKind, FileSystem, Folder, Lock, Sharing, Status, StoredFile, SyncScope,
};
use rustix::io::Errno;
use state_core::Result;
use std::collections::BTreeMap;
use std::fs::TryLockError;
use std::io;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A machine with a disk, whose crashes can be enumerated. Clones are the same machine.
///
/// A process sees every change at once. A change is durable after a sync of its file or folder: until then, a crash
/// may lose it. The machine records the moment before every operation that changes something, a sync included; from
/// each moment, [`CrashPoint::images`] derives the disks that a crash may leave there.
///
/// ```
/// use state_backend_fs::testkit::SimulatedFs;
/// use state_core::Backend;
///
/// let machine = SimulatedFs::new();
/// machine.record();
/// machine.create("/store")?;
/// machine.mark(1); // acknowledged: from here on the store exists
/// for point in machine.crash_points() {
///     for image in point.images(512, 0) {
///         let shown = image.to_string();
///         let store = image.mount().open("/store");
///         assert!(store.is_ok() || point.mark == 0, "before {}, {shown}", point.operation);
///     }
/// }
/// # Ok::<(), state_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimulatedFs {
    machine: Arc<Mutex<Machine>>,
}

#[derive(Debug)]
struct Machine {
    disk: Disk,
    /// Locked files, with the handles that hold the lock.
    locks: BTreeMap<NodeId, (Lock, Vec<u64>)>,
    handles: u64,
    recording: Option<Vec<CrashPoint>>,
    mark: u64,
    ignores_syncs: bool,
}

impl Default for SimulatedFs {
    fn default() -> Self {
        Self::new()
    }
}

impl SimulatedFs {
    /// Creates a machine with an empty disk.
    pub fn new() -> Self {
        Self::on(Disk::new())
    }

    pub(super) fn on(disk: Disk) -> Self {
        Self {
            machine: Arc::new(Mutex::new(Machine {
                disk,
                locks: BTreeMap::new(),
                handles: 0,
                recording: None,
                mark: 0,
                ignores_syncs: false,
            })),
        }
    }

    /// Opens a store on this machine. Its calls run on the threads of their callers: one thread gives one order of operations.
    ///
    /// # Errors
    /// As [`FsBackend::open`].
    pub fn open(&self, root: impl AsRef<Path>) -> Result<FsBackend> {
        FsBackend::open_on(self, root.as_ref()).map(FsBackend::without_threads)
    }

    /// Opens a store on this machine; creates the store if there is none.
    ///
    /// # Errors
    /// As [`FsBackend::create`].
    pub fn create(&self, root: impl AsRef<Path>) -> Result<FsBackend> {
        FsBackend::create_on(self, root.as_ref(), Sharing::Owner).map(FsBackend::without_threads)
    }

    /// Returns another machine with a copy of this disk. Locks and open files aren't copied.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self::on(self.lock().disk.clone())
    }

    /// Makes everything durable, as an orderly shutdown does.
    pub fn sync_all(&self) {
        self.lock().disk.sync_all();
    }

    /// Makes every later sync report success without effect, to show that a test detects a missing sync.
    pub fn ignore_syncs(&self) {
        self.lock().ignores_syncs = true;
    }

    /// Starts to record crash points, and forgets those that were recorded before.
    pub fn record(&self) {
        self.lock().recording = Some(Vec::new());
    }

    /// Sets the progress of the test's script, which all later crash points contain.
    pub fn mark(&self, mark: u64) {
        self.lock().mark = mark;
    }

    /// Ends the recording and returns the crash points in order. The last one is the current moment.
    pub fn crash_points(&self) -> Vec<CrashPoint> {
        let mut machine = self.lock();
        machine.record(|| "nothing".to_owned());
        machine.recording.take().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an operation that changes the disk.
    fn change<T>(
        &self,
        operation: impl FnOnce() -> String,
        run: impl FnOnce(&mut Disk) -> Result<T, Errno>,
    ) -> io::Result<T> {
        let mut machine = self.lock();
        machine.record(operation);
        Ok(run(&mut machine.disk)?)
    }

    fn sync(&self, node: NodeId, operation: impl FnOnce() -> String) -> io::Result<()> {
        let mut machine = self.lock();
        machine.record(operation);
        if machine.ignores_syncs {
            return Ok(());
        }
        Ok(machine.disk.sync(node)?)
    }

    fn find(&self, path: &Path) -> Result<NodeId, Errno> {
        let machine = self.lock();
        path.components()
            .try_fold(ROOT, |node, component| match component {
                Component::RootDir | Component::CurDir => Ok(node),
                Component::Normal(name) => machine.disk.child(node, name.to_str().ok_or(Errno::NOENT)?),
                Component::Prefix(_) | Component::ParentDir => Err(Errno::INVAL),
            })
    }

    fn open_node(&self, node: NodeId, path: &str) -> Result<Arc<dyn Folder>, Errno> {
        self.lock().disk.folder(node)?;
        Ok(Arc::new(SimulatedFolder {
            machine: self.clone(),
            node,
            path: path.to_owned(),
        }))
    }

    fn status(&self, node: NodeId) -> Result<Status, Errno> {
        let (kind, length) = match self.lock().disk.node(node)? {
            Node::File(file) => (FileKind::Regular, file.current.len() as u64),
            Node::Folder(_) => (FileKind::Folder, 0),
        };
        Ok(Status {
            kind,
            length,
            modified: Duration::ZERO,
            id: (0, node),
        })
    }
}

impl Machine {
    fn record(&mut self, operation: impl FnOnce() -> String) {
        let (disk, mark) = (&self.disk, self.mark);
        if let Some(points) = &mut self.recording {
            points.push(CrashPoint {
                disk: disk.clone(),
                operation: operation(),
                number: points.len(),
                mark,
            });
        }
    }
}

impl FileSystem for SimulatedFs {
    fn open_folder(&self, path: &Path) -> io::Result<Arc<dyn Folder>> {
        let shown = path.display().to_string();
        Ok(self.open_node(self.find(path)?, &shown)?)
    }

    fn exists(&self, path: &Path) -> bool {
        self.find(path).is_ok()
    }

    fn make_folder(&self, path: &Path, _: Sharing) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::EXIST.into());
        };
        let name = name.to_str().ok_or(Errno::INVAL)?;
        self.open_folder(parent)?.make_folder(name)
    }
}

#[derive(Debug)]
struct SimulatedFolder {
    machine: SimulatedFs,
    node: NodeId,
    path: String,
}

impl SimulatedFolder {
    fn shown(&self, call: &str, name: &str) -> String {
        format!("{call} {}/{name}", self.path)
    }

    fn child(&self, name: &str) -> Result<NodeId, Errno> {
        self.machine.lock().disk.child(self.node, name)
    }

    fn create(&self, name: &str) -> io::Result<NodeId> {
        let node = Node::File(FileNode::default());
        self.machine.change(
            || self.shown("create", name),
            |disk| disk.add(self.node, name, node),
        )
    }
}

impl Folder for SimulatedFolder {
    fn open_folder(&self, name: &str) -> io::Result<Arc<dyn Folder>> {
        let path = format!("{}/{name}", self.path);
        Ok(self.machine.open_node(self.child(name)?, &path)?)
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        let node = Node::Folder(FolderNode::default());
        let make = |disk: &mut Disk| disk.add(self.node, name, node).map(drop);
        self.machine.change(|| self.shown("mkdir", name), make)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileHandle> {
        let node = match (self.child(name), access) {
            (Ok(_), Access::CreateNew) => return Err(Errno::EXIST.into()),
            (Ok(node), _) => node,
            (Err(Errno::NOENT), Access::Create | Access::CreateNew) => self.create(name)?,
            (Err(errno), _) => return Err(errno.into()),
        };
        let mut machine = self.machine.lock();
        machine.disk.file(node)?;
        machine.handles += 1;
        Ok(Box::new(SimulatedFile {
            machine: self.machine.clone(),
            node,
            handle: machine.handles,
            path: format!("{}/{name}", self.path),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let run = |disk: &mut Disk| disk.rename(self.node, from, to, true);
        self.machine.change(|| self.shown("rename", to), run)
    }

    fn rename_if_absent(&self, from: &str, to: &str) -> io::Result<()> {
        let run = |disk: &mut Disk| disk.rename(self.node, from, to, false);
        self.machine.change(|| self.shown("rename", to), run)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let run = |disk: &mut Disk| disk.link(self.node, from, to);
        self.machine.change(|| self.shown("link", to), run)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let run = |disk: &mut Disk| disk.unlink(self.node, name);
        self.machine.change(|| self.shown("unlink", name), run)
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        let run = |disk: &mut Disk| disk.remove_folder(self.node, name);
        self.machine.change(|| self.shown("rmdir", name), run)
    }

    fn entries(&self) -> io::Result<Vec<String>> {
        let machine = self.machine.lock();
        Ok(machine.disk.folder(self.node)?.current.keys().cloned().collect())
    }

    fn status(&self, name: &str) -> io::Result<Status> {
        Ok(self.machine.status(self.child(name)?)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.machine.sync(self.node, || format!("sync {}", self.path))
    }

    fn restrict(&self, _: Sharing) -> io::Result<()> {
        Ok(())
    }

    fn permissions(&self) -> io::Result<u32> {
        Ok(0o700)
    }

    fn type_of_file_system(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }
}

#[derive(Debug)]
struct SimulatedFile {
    machine: SimulatedFs,
    node: NodeId,
    /// Distinguishes the holders of a lock.
    handle: u64,
    path: String,
}

impl StoredFile for SimulatedFile {
    fn status(&self) -> io::Result<Status> {
        Ok(self.machine.status(self.node)?)
    }

    fn read(&self, limit: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let machine = self.machine.lock();
        let content = &machine.disk.file(self.node)?.current;
        let length = usize::try_from(limit).unwrap_or(usize::MAX).min(content.len());
        bytes.extend_from_slice(&content[..length]);
        Ok(())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let machine = self.machine.lock();
        let content = &machine.disk.file(self.node)?.current;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let length = bytes.len().min(content.len() - start);
        bytes[..length].copy_from_slice(&content[start..start + length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let write = |disk: &mut Disk| disk.write(self.node, bytes, offset);
        self.machine.change(|| format!("write {}", self.path), write)?;
        Ok(bytes.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let cut = |disk: &mut Disk| disk.set_length(self.node, length);
        self.machine.change(|| format!("truncate {}", self.path), cut)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.set_length(length)
    }

    fn restrict(&self, _: Sharing) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _: SyncScope) -> io::Result<()> {
        self.machine.sync(self.node, || format!("sync {}", self.path))
    }

    fn try_lock(&self, lock: Lock) -> Result<(), TryLockError> {
        let mut machine = self.machine.lock();
        let (kind, holders) = machine.locks.entry(self.node).or_insert((lock, Vec::new()));
        let others = holders.iter().any(|holder| *holder != self.handle);
        if others && (lock == Lock::Exclusive || *kind == Lock::Exclusive) {
            return Err(TryLockError::WouldBlock);
        }
        *kind = lock;
        if !holders.contains(&self.handle) {
            holders.push(self.handle);
        }
        Ok(())
    }

    fn unlock(&self) -> io::Result<()> {
        let mut machine = self.machine.lock();
        if let Some((_, holders)) = machine.locks.get_mut(&self.node) {
            holders.retain(|holder| *holder != self.handle);
            if holders.is_empty() {
                machine.locks.remove(&self.node);
            }
        }
        Ok(())
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        // Unlocking can't fail in the simulation.
        self.unlock().ok();
    }
}

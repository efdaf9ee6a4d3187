//! The adapter of [`Attacker`] for files: edits files right before the file-system calls of the store.

use super::simulated::SimulatedFs;
use crate::FsBackend;
use crate::files::{
    Access, FileHandle, FileKind, FileSystem, Folder, Lock, Native, Sharing, Status, StoredFile, SyncScope,
};
use bytes::Bytes;
use rustix::io::Errno;
use state_core::Result;
use state_core::testkit::hostile::{Attacker, Edit, Intervention, Verb};
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A file system under a store that an [`Attacker`] edits between any two calls.
///
/// Objects are files by their path from the store's root, such as `stacks/<lineage>/head.json`. Every call that
/// reads, writes, names, lists or syncs a file or a folder of the store is a request; taking and freeing locks isn't.
/// Edits are made in place: a file that is open stays the same file.
#[derive(Clone, Debug)]
pub struct HostileFs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    files: Arc<dyn FileSystem>,
    root: PathBuf,
    attacker: Attacker,
    /// The paths of open files, which change when a file is renamed.
    open: Mutex<Vec<Weak<Mutex<String>>>>,
}

impl HostileFs {
    /// The disk of the machine, with an attacker under the store at `root`, an absolute path.
    pub fn native(root: impl Into<PathBuf>, attacker: Attacker) -> Self {
        Self::over(Arc::new(Native), root.into(), attacker)
    }

    /// A simulated disk, with an attacker under the store at `root`, an absolute path.
    pub fn simulated(machine: &SimulatedFs, root: impl Into<PathBuf>, attacker: Attacker) -> Self {
        Self::over(Arc::new(machine.clone()), root.into(), attacker)
    }

    fn over(files: Arc<dyn FileSystem>, root: PathBuf, attacker: Attacker) -> Self {
        let shared = Shared {
            files,
            root,
            attacker,
            open: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Opens the store.
    ///
    /// # Errors
    /// As [`FsBackend::open`].
    pub fn open(&self) -> Result<FsBackend> {
        FsBackend::open_on(self, &self.shared.root)
    }

    /// Opens the store; creates the store if there is none.
    ///
    /// # Errors
    /// As [`FsBackend::create`].
    pub fn create(&self) -> Result<FsBackend> {
        FsBackend::create_on(self, &self.shared.root, Sharing::Owner)
    }

    /// Records the present version of every file of the store, so that the attacker can restore it.
    ///
    /// # Errors
    /// Any error of the wrapped file system.
    pub fn record_all(&self) -> io::Result<()> {
        let root = self.shared.files.open_folder(&self.shared.root)?;
        self.shared.record_folder(root.as_ref(), "")
    }
}

impl FileSystem for HostileFs {
    fn open_folder(&self, path: &Path) -> io::Result<Arc<dyn Folder>> {
        let folder = self.shared.files.open_folder(path)?;
        if path != self.shared.root {
            return Ok(folder);
        }
        Ok(Arc::new(HostileFolder {
            shared: Arc::clone(&self.shared),
            folder,
            path: String::new(),
        }))
    }

    fn exists(&self, path: &Path) -> bool {
        self.shared.files.exists(path)
    }

    fn make_folder(&self, path: &Path, sharing: Sharing) -> io::Result<()> {
        self.shared.files.make_folder(path, sharing)
    }
}

impl Shared {
    /// Lets the attacker edit files before a request is executed.
    fn request(&self, verb: Verb, object: &str) -> io::Result<()> {
        for intervention in self.attacker.begin(verb, object) {
            self.intervene(&intervention)?;
        }
        Ok(())
    }

    fn intervene(&self, intervention: &Intervention) -> io::Result<()> {
        let content = |object: &str| {
            let (folder, name) = self.locate(object).ok()?;
            read(folder.as_ref(), &name)
        };
        for edit in self.attacker.edits(intervention, content) {
            self.perform(&edit)?;
        }
        Ok(())
    }

    fn perform(&self, edit: &Edit) -> io::Result<()> {
        let Some(content) = &edit.content else {
            return match self
                .locate(&edit.object)
                .and_then(|(folder, name)| folder.unlink(&name))
            {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => other,
            };
        };
        let (folder, name) = self.locate(&edit.object)?;
        let file = folder.open(&name, Access::Create)?;
        file.set_length(0)?;
        file.write_all_at(content, 0)
    }

    /// Returns the folder of an object on the file system below, and the name of its file.
    fn locate(&self, object: &str) -> io::Result<(Arc<dyn Folder>, String)> {
        let (folders, name) = object.rsplit_once('/').unwrap_or(("", object));
        let mut folder = self.files.open_folder(&self.root)?;
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            folder = folder.open_folder(part)?;
        }
        Ok((folder, name.to_owned()))
    }

    fn record(&self, folder: &dyn Folder, name: &str, object: &str) {
        // A temporary file becomes an object only when it gets its final name.
        if !name.starts_with(".tmp-") {
            self.attacker.record(object, read(folder, name));
        }
    }

    fn record_folder(&self, folder: &dyn Folder, path: &str) -> io::Result<()> {
        for name in folder.entries()? {
            let object = join(path, &name);
            if folder.status(&name)?.kind == FileKind::Folder {
                self.record_folder(folder.open_folder(&name)?.as_ref(), &object)?;
            } else {
                self.record(folder, &name, &object);
            }
        }
        Ok(())
    }

    fn open_paths(&self) -> MutexGuard<'_, Vec<Weak<Mutex<String>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moved(&self, from: &str, to: &str) {
        let mut open = self.open_paths();
        open.retain(|path| path.strong_count() > 0);
        for path in open.iter().filter_map(Weak::upgrade) {
            let mut path = lock(&path);
            if *path == from {
                to.clone_into(&mut path);
            }
        }
    }
}

/// Returns the content of a file; `None` if it doesn't exist.
fn read(folder: &dyn Folder, name: &str) -> Option<Bytes> {
    let mut bytes = Vec::new();
    let file = folder.open(name, Access::Read).ok()?;
    file.read(u64::MAX, &mut bytes).ok()?;
    Some(bytes.into())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}/{name}")
    }
}

fn lock(path: &Mutex<String>) -> MutexGuard<'_, String> {
    path.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct HostileFolder {
    shared: Arc<Shared>,
    folder: Arc<dyn Folder>,
    path: String,
}

impl HostileFolder {
    fn request(&self, verb: Verb, name: &str) -> io::Result<()> {
        self.shared.request(verb, &join(&self.path, name))
    }

    fn record(&self, name: &str) {
        self.shared
            .record(self.folder.as_ref(), name, &join(&self.path, name));
    }

    fn moved(&self, from: &str, to: &str) {
        self.shared.moved(&join(&self.path, from), &join(&self.path, to));
        self.record(to);
    }
}

impl Folder for HostileFolder {
    fn open_folder(&self, name: &str) -> io::Result<Arc<dyn Folder>> {
        Ok(Arc::new(Self {
            shared: Arc::clone(&self.shared),
            folder: self.folder.open_folder(name)?,
            path: join(&self.path, name),
        }))
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.request(Verb::Write, name)?;
        self.folder.make_folder(name)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileHandle> {
        let verb = match access {
            Access::Read => Verb::Read,
            Access::Write | Access::Create | Access::CreateNew => Verb::Write,
        };
        self.request(verb, name)?;
        let path = Arc::new(Mutex::new(join(&self.path, name)));
        self.shared.open_paths().push(Arc::downgrade(&path));
        Ok(Box::new(HostileFile {
            shared: Arc::clone(&self.shared),
            file: self.folder.open(name, access)?,
            path,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.request(Verb::Write, to)?;
        self.folder.rename(from, to)?;
        self.moved(from, to);
        Ok(())
    }

    fn rename_if_absent(&self, from: &str, to: &str) -> io::Result<()> {
        self.request(Verb::Write, to)?;
        self.folder.rename_if_absent(from, to)?;
        self.moved(from, to);
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.request(Verb::Write, to)?;
        self.folder.link(from, to)?;
        self.record(to);
        Ok(())
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.request(Verb::Delete, name)?;
        self.folder.unlink(name)?;
        self.record(name);
        Ok(())
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.request(Verb::Delete, name)?;
        self.folder.remove_folder(name)
    }

    fn entries(&self) -> io::Result<Vec<String>> {
        self.shared.request(Verb::List, &self.path)?;
        self.folder.entries()
    }

    fn status(&self, name: &str) -> io::Result<Status> {
        self.request(Verb::Read, name)?;
        self.folder.status(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.request(Verb::Sync, &self.path)?;
        self.folder.sync()
    }

    fn restrict(&self, sharing: Sharing) -> io::Result<()> {
        self.folder.restrict(sharing)
    }

    fn permissions(&self) -> io::Result<u32> {
        self.folder.permissions()
    }

    fn type_of_file_system(&self) -> io::Result<Option<u32>> {
        self.folder.type_of_file_system()
    }
}

#[derive(Debug)]
struct HostileFile {
    shared: Arc<Shared>,
    file: FileHandle,
    path: Arc<Mutex<String>>,
}

impl HostileFile {
    fn request(&self, verb: Verb) -> io::Result<String> {
        let path = lock(&self.path).clone();
        self.shared.request(verb, &path)?;
        Ok(path)
    }

    /// Records the content of the file after a write. If the attacker deleted the file while it is open, no path leads to
    /// what the client wrote: then the written bytes alone are recorded.
    fn record_written(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let located = self.shared.locate(path).ok();
        let is_deleted = located.is_some_and(|(folder, name)| read(folder.as_ref(), &name).is_none());
        if is_deleted && !path.contains("/.tmp-") {
            self.shared
                .attacker
                .record(path, Some(Bytes::copy_from_slice(bytes)));
            return Ok(());
        }
        self.record(path)
    }

    fn record(&self, path: &str) -> io::Result<()> {
        let (folder, name) = match self.shared.locate(path) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => return Ok(()),
            located => located?,
        };
        self.shared.record(folder.as_ref(), &name, path);
        Ok(())
    }
}

impl StoredFile for HostileFile {
    fn status(&self) -> io::Result<Status> {
        self.file.status()
    }

    fn read(&self, limit: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.request(Verb::Read)?;
        self.file.read(limit, bytes)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.request(Verb::Read)?;
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let path = self.request(Verb::Write)?;
        let written = self.file.write_at(bytes, offset)?;
        self.record_written(&path, &bytes[..written])?;
        Ok(written)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let path = self.request(Verb::Write)?;
        self.file.set_length(length)?;
        self.record(&path)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn restrict(&self, sharing: Sharing) -> io::Result<()> {
        self.file.restrict(sharing)
    }

    fn sync(&self, scope: SyncScope) -> io::Result<()> {
        self.request(Verb::Sync)?;
        self.file.sync(scope)
    }

    fn try_lock(&self, lock: Lock) -> std::result::Result<(), TryLockError> {
        self.file.try_lock(lock)
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

#[cfg(test)]
mod tests {
    use super::super::SimulatedFs;
    use super::HostileFs;
    use crate::tests::fixture::{append, head, nonce, request};
    use state_core::Backend;
    use state_core::testkit::hostile::{Action, Attacker, Intervention};

    #[tokio::test]
    async fn recorded_versions_can_be_restored_between_two_calls() {
        let (machine, attacker) = (SimulatedFs::new(), Attacker::default());
        let hostile = HostileFs::simulated(&machine, "/store", attacker.clone());
        let store = hostile.create().unwrap();
        store.create_stack(&head()).await.unwrap();
        let owner = store.acquire(head().lineage, &request("me", None)).await.unwrap();
        append(&owner, owner.tail, "a\n").await;
        owner.writer.swap_head(nonce(5), &|_| Ok(())).await.unwrap();

        let folder = format!("stacks/{}", head().lineage);
        let segment = format!("{folder}/journal/00000000000000000000-1.log");
        let lengths: Vec<usize> = attacker
            .versions(&segment)
            .iter()
            .flatten()
            .map(|bytes| bytes.len())
            .collect();
        assert!(
            lengths.len() == 2 && lengths[0] < lengths[1],
            "a fence, then a frame: {lengths:?}"
        );
        let file = format!("{folder}/head.json");
        let heads = attacker.versions(&file);
        assert_eq!(heads.len(), 3, "one version each of creation, takeover and swap");

        // The first request opens the file, the second one reads it.
        attacker.plan([Intervention::new(1, file.clone(), Action::BringBack(2))]);
        let read = store.read_head(head().lineage).await.unwrap();
        assert_eq!(read.epoch, head().epoch);
        assert_eq!(attacker.edits_made(), 1);
        assert_eq!(attacker.requests()[1].object, file);
        assert_eq!(
            attacker.versions(&file),
            heads,
            "edits of the attacker aren't recorded as versions"
        );
    }
}

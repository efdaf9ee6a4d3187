//! Puts a complete stack in the place of another one, in a store in files. The other one is moved aside, and nothing is
//! overwritten.
//!
//! ```text
//!  1 .tmp-building-<id>/  the new stack, while it is written
//!  2 .tmp-building-<id>/  ──rename──► .tmp-salvage-<id>/: it is complete
//!  3 stacks/<lineage>     ──rename──► damaged/<time>/stacks/<lineage>
//!  4 outputs/<lineage>    likewise, if the new stack has outputs of its own
//!  5 .tmp-salvage-<id>/stacks/<lineage>  ──rename──► stacks/<lineage>
//! ```
//! A crash between 3 and 5 leaves no stack under its path: the next salvage or restore finds the complete one and
//! continues.

use crate::environment::Environment;
use crate::salvage::damaged_store::ASIDE;
use crate::salvage::store_files::StoreFiles;
use state_backend_fs::FsBackend;
use state_core::backend::Holder;
use state_core::{Clock, Error, Lineage, Nonce, Result};
use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The beginning of the name of a folder in which a stack is being written. Readers ignore such names.
const BUILDING: &str = ".tmp-building-";

/// The beginning of the name of a folder with a complete stack.
pub(super) const COMPLETE: &str = ".tmp-salvage-";

/// The lock under which the head of a stack is replaced.
pub(super) const HEAD_LOCK: &str = "head.lock";

/// How often a lock is tried that a reader may hold for a moment, and the pause in between.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A change of a store in files by one process.
#[derive(Debug)]
pub(super) struct Exchange {
    store: StoreFiles,
    /// Name of the folder for what is moved aside.
    pub(super) folder: String,
    pub(super) has_moved: bool,
    /// The stacks whose earlier exchange was interrupted, and was finished when this one began.
    pub(super) finished: Vec<Lineage>,
    _lock: File,
}

/// A store in the folder in which a stack is being written.
pub(super) struct Building {
    id: String,
    root: PathBuf,
}

impl Exchange {
    /// Excludes other salvages and restores of the store, and finishes one that was interrupted.
    ///
    /// # Errors
    /// `Locked` while another process salvages or restores the store.
    pub(super) fn begin(store: &StoreFiles, environment: &Environment) -> Result<Self> {
        let mut exchange = Self {
            _lock: lock_store(store)?,
            folder: folder_name(environment),
            store: store.clone(),
            has_moved: false,
            finished: Vec::new(),
        };
        exchange.finish_interrupted()?;
        Ok(exchange)
    }

    /// Path of the folder for what is moved aside, below the store.
    pub(super) fn aside(&self) -> String {
        format!("{ASIDE}/{}", self.folder)
    }

    /// Moves a file or a folder aside. Returns its new path below the store.
    pub(super) fn move_aside(&mut self, path: &str) -> Result<String> {
        self.has_moved = true;
        self.store.move_aside(path, &self.folder)
    }

    /// Begins to write a stack beside the one whose place it takes.
    pub(super) fn build(&self, environment: &Environment) -> Result<(Building, FsBackend)> {
        let id = Nonce::random(&*environment.entropy).to_string();
        let root = self.store.path(&format!("{BUILDING}{id}"));
        let backend = FsBackend::create_like(&root, self.store.root())?;
        Ok((Building { id, root }, backend))
    }

    /// Puts the stack that was written in its place, and moves the one that is there aside.
    pub(super) fn put_in_place(&mut self, building: &Building, lineage: Lineage) -> Result<()> {
        let complete = format!("{COMPLETE}{}", building.id);
        self.store
            .rename(&format!("{BUILDING}{}", building.id), &complete)?;
        let path = format!("stacks/{lineage}");
        if self.exists(&path) {
            self.move_aside(&path)?;
        }
        self.finish(&complete, lineage)?;
        // The exchange is complete. The next one deletes the empty folder, if it stays.
        drop(remove(&self.store.path(&complete)));
        Ok(())
    }

    /// The part of an exchange after the former stack was moved aside.
    fn finish(&mut self, complete: &str, lineage: Lineage) -> Result<()> {
        let outputs = format!("outputs/{lineage}");
        let own_outputs = format!("{complete}/{outputs}");
        if self.exists(&own_outputs) {
            if self.exists(&outputs) {
                self.move_aside(&outputs)?;
            }
            self.store.rename(&own_outputs, &outputs)?;
        }
        // Last: until the stack is under its path, the next exchange continues this one.
        let path = format!("stacks/{lineage}");
        self.store.rename(&format!("{complete}/{path}"), &path)
    }

    /// Continues exchanges that were interrupted, and deletes stacks that were written and didn't take their place: they were
    /// made from what is still there.
    fn finish_interrupted(&mut self) -> Result<()> {
        for name in self.store.temporary_folders()? {
            let is_complete = name.starts_with(COMPLETE);
            if !is_complete && !name.starts_with(BUILDING) {
                continue;
            }
            let root = self.store.path(&name);
            let staged = StoreFiles::new(&root)?;
            for lineage in staged.stacks()?.into_iter().filter(|_| is_complete) {
                let path = format!("stacks/{lineage}");
                if !self.exists(&path) {
                    // Even if it was damaged meanwhile: then it is salvaged in its place.
                    self.finish(&name, lineage)?;
                    self.finished.push(lineage);
                }
            }
            remove(&root)?;
        }
        Ok(())
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.store.path(path)).is_ok()
    }
}

impl Building {
    /// The folder of the store with the stack.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Creates a folder, by its path below the store.
    pub(super) fn make_folder(&self, relative: &str) -> Result<()> {
        StoreFiles::new(&self.root)?.make_folder(relative)
    }
}

/// The name of a new folder for what is kept aside: the time, and a random part.
pub(super) fn folder_name(environment: &Environment) -> String {
    let id = Nonce::random(&*environment.entropy).to_string();
    let time = environment.clock.now();
    let time: String = time
        .as_str()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let (time, id) = (time.get(..14).unwrap_or(&time), id.get(..8).unwrap_or(&id));
    format!("{time}-{id}")
}

/// Excludes another salvage or restore of the same store.
fn lock_store(store: &StoreFiles) -> Result<File> {
    let folder = store.path(ASIDE);
    // A link would lead what is moved aside out of the store.
    if fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
        let reason =
            "it isn't a folder: move it away, so that damaged files can be kept in a folder with this name";
        return Err(Error::conflict(folder.display().to_string(), reason));
    }
    let path = folder.join("salvage.lock");
    // A link could lead to a file outside of the store, and opening a pipe could block.
    if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
        let reason = "it isn't a regular file: move it away";
        return Err(Error::conflict(path.display().to_string(), reason));
    }
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(false);
    let opened = fs::create_dir_all(&folder).and_then(|()| options.open(&path));
    let file = opened.map_err(|error| Error::not_applied(path.display().to_string(), error))?;
    lock(&path, file)
}

/// Takes all lock files of a stack: the head, which says which of them counts, may be damaged. Without `head.lock`, no writer can
/// take the stack over, so that file is created if it is missing.
///
/// # Errors
/// `Locked`, with the holder as the lock file names it, while a process holds one of them.
pub(super) async fn lock_stack(store: &StoreFiles, lineage: Lineage, clock: &dyn Clock) -> Result<Vec<File>> {
    let folder = format!("stacks/{lineage}");
    let mut names = store.entries(&folder)?;
    names.retain(|file| file.starts_with("lock."));
    if store.path(&folder).is_dir() {
        names.push(HEAD_LOCK.to_owned());
    }
    let mut locks = Vec::new();
    for name in names {
        let path = store.path(&format!("{folder}/{name}"));
        // No process can hold what isn't a file.
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            continue;
        }
        let opened = open_lock(&path, &store.path(&folder));
        let file = opened.map_err(|error| Error::unavailable(path.display().to_string(), error))?;
        locks.push(lock_soon(&path, file, clock).await?);
    }
    Ok(locks)
}

/// Opens a lock file, and creates it if it is missing, with the rights of its folder.
fn open_lock(path: &Path, folder: &Path) -> io::Result<File> {
    match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let mode = fs::metadata(folder)?.permissions().mode() & 0o660;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Takes a lock that a reader may hold for a moment.
async fn lock_soon(path: &Path, file: File, clock: &dyn Clock) -> Result<File> {
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => clock.sleep(LOCK_PAUSE).await,
            Err(TryLockError::Error(_)) => break,
        }
    }
    lock(path, file)
}

fn lock(path: &Path, file: File) -> Result<File> {
    let object = path.display().to_string();
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let holder: Option<Holder> = fs::read(path)
                .ok()
                .and_then(|bytes| serde_json::from_slice(&bytes).ok());
            Err(Error::locked(object, holder.unwrap_or_default()))
        }
        Err(TryLockError::Error(error)) => Err(Error::unavailable(object, error)),
    }
}

fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).map_err(|error| Error::not_applied(folder.display().to_string(), error))
}

//! The files of a store in a folder, read and moved without the backend, which refuses a damaged store.
//!
//! `docs/format.md` specifies the paths. Nothing is overwritten or deleted here: a damaged file is moved to the folder
//! `damaged`, with its path below the store.

use crate::compute::compute;
use crate::salvage::damage::Damage;
use crate::salvage::damaged_store::{ASIDE, DamagedStore, SharedStore};
use crate::salvage::exchange::{COMPLETE, HEAD_LOCK};
use async_trait::async_trait;
use bytes::Bytes;
use state_backend_fs::{FsBackend, read_failed};
use state_core::backend::ObjectKind;
use state_core::{Backend, Error, Lineage, Result, StackName};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest file that is read, in bytes: the limit of the file backend for a segment.
const MAX_FILE: u64 = 8 << 30;

/// The system's number of an input or output error, on all systems that Rust supports.
const EIO: i32 = 5;

/// The folder of a store.
#[derive(Clone, Debug)]
pub(super) struct StoreFiles {
    root: PathBuf,
}

impl StoreFiles {
    pub(super) fn new(root: &Path) -> Result<Self> {
        let root = std::path::absolute(root).map_err(|error| failed(root, error))?;
        match root.is_dir() {
            true => Ok(Self { root }),
            false => Err(Error::not_found(format!("folder {}", root.display()))),
        }
    }

    /// The folder of a store that may be missing. A missing folder reads as a store without stacks.
    pub(super) fn new_or_missing(root: &Path) -> Result<Self> {
        let root = std::path::absolute(root).map_err(|error| failed(root, error))?;
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Reads a file; none if it is missing.
    ///
    /// # Errors
    /// `Corrupt` if the file itself can't be read, or is too large; `Unavailable` and `Denied` if this process can't read it.
    pub(super) fn read(&self, relative: &str) -> Result<Option<Bytes>> {
        if self.passes_link(relative) {
            return Ok(None);
        }
        let path = self.path(relative);
        let length = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => found.len(),
            // The backend follows no link in a store either.
            Ok(_) => return Ok(None),
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(&path, error)),
        };
        if length > MAX_FILE {
            return Err(Error::corrupt(
                path.display().to_string(),
                MAX_FILE,
                "it is too large",
            ));
        }
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, error)),
        }
    }

    /// The names of the entries of a folder, sorted, without those of files in creation; none if the folder is missing.
    pub(super) fn entries(&self, relative: &str) -> Result<Vec<String>> {
        let mut names = self.names(relative)?;
        names.retain(|name| !name.starts_with(".tmp-"));
        Ok(names)
    }

    /// Whether a folder on the way to this path is a symbolic link. The backend follows no link in a store, and a salvage must
    /// not move files of another folder.
    fn passes_link(&self, relative: &str) -> bool {
        let folders = Path::new(relative).ancestors().skip(1);
        let mut folders = folders.filter(|folder| !folder.as_os_str().is_empty());
        folders.any(|folder| self.root.join(folder).is_symlink())
    }

    fn names(&self, relative: &str) -> Result<Vec<String>> {
        let path = self.path(relative);
        if self.passes_link(relative) || (path.is_symlink() && !relative.is_empty()) {
            return Ok(Vec::new());
        }
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            // A file in the place of a folder: the backend ignores it, too.
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(failed(&path, error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| failed(&path, error))?.file_name();
            names.extend(name.into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    /// The names of folders in creation at the root of the store.
    pub(super) fn temporary_folders(&self) -> Result<Vec<String>> {
        let mut names = self.names("")?;
        names.retain(|name| name.starts_with(".tmp-") && self.path(name).is_dir());
        Ok(names)
    }

    /// The stacks that have a folder.
    pub(super) fn stacks(&self) -> Result<Vec<Lineage>> {
        let names = self.entries("stacks")?;
        let lineages = names.iter().filter_map(|name| name.parse().ok());
        Ok(lineages
            .filter(|lineage| self.is_folder(&format!("stacks/{lineage}")))
            .collect())
    }

    /// Whether a path is that of a folder, not of a link to one.
    fn is_folder(&self, relative: &str) -> bool {
        fs::symlink_metadata(self.path(relative)).is_ok_and(|found| found.is_dir())
    }

    /// Damage: what exists under one of these paths, and isn't a folder.
    fn misplaced(&self, folders: impl IntoIterator<Item = String>) -> Vec<Damage> {
        let exists = |path: &String| fs::symlink_metadata(self.path(path)).is_ok();
        let odd = folders
            .into_iter()
            .filter(|path| exists(path) && !self.is_folder(path));
        odd.map(|path| Damage::new(path, "it isn't a folder")).collect()
    }

    /// Moves a file or a folder to the folder of set-aside files with this name. Returns its new path below the store.
    pub(super) fn move_aside(&self, relative: &str, folder: &str) -> Result<String> {
        let kept = format!("{ASIDE}/{folder}/{relative}");
        self.rename(relative, &kept)?;
        Ok(kept)
    }

    /// Creates a folder and those above it, and makes them durable.
    pub(super) fn make_folder(&self, relative: &str) -> Result<()> {
        let folder = self.path(relative);
        let made = fs::create_dir_all(&folder).and_then(|()| sync_up_to(&folder, &self.root));
        made.map_err(|error| Error::not_applied(folder.display().to_string(), error))
    }

    /// Renames a file or a folder, and makes the change durable. Refuses a target that exists.
    pub(super) fn rename(&self, from_path: &str, to_path: &str) -> Result<()> {
        let (from, to) = (self.path(from_path), self.path(to_path));
        if self.passes_link(from_path) || self.passes_link(to_path) {
            let reason = "a folder on the way to it is a symbolic link: move the link away";
            return Err(Error::conflict(from.display().to_string(), reason));
        }
        if fs::symlink_metadata(&to).is_ok() {
            return Err(Error::conflict(to.display().to_string(), "it exists already"));
        }
        let written = || {
            let folder = to.parent().unwrap_or(&self.root);
            fs::create_dir_all(folder)?;
            fs::rename(&from, &to)?;
            // The new name is synced before the old one: a crash between the two keeps the file under both names or one.
            sync_up_to(folder, &self.root)?;
            sync_up_to(from.parent().unwrap_or(&self.root), &self.root)
        };
        written().map_err(|error| Error::indeterminate(from.display().to_string(), error))
    }
}

#[async_trait]
impl DamagedStore for StoreFiles {
    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        let (store, path) = (self.clone(), path.to_owned());
        compute(move || Self::read(&store, &path)).await?
    }

    async fn read_all(&self, paths: &[String]) -> Result<Vec<Option<Bytes>>> {
        let (store, paths) = (self.clone(), paths.to_vec());
        compute(move || paths.iter().map(|path| Self::read(&store, path)).collect()).await?
    }

    async fn stacks(&self) -> Result<Vec<Lineage>> {
        let store = self.clone();
        compute(move || Self::stacks(&store)).await?
    }

    async fn misplaced_folders(&self) -> Result<Vec<Damage>> {
        let store = self.clone();
        compute(move || {
            // Nothing is moved here: a link may lead to the only copy of the stacks.
            if let Some(odd) = store.misplaced(["stacks".to_owned(), "names".to_owned()]).first() {
                let reason =
                    "it isn't a folder: move it away, and put the folder with this name in its place";
                return Err(Error::corrupt(
                    store.path(&odd.object).display().to_string(),
                    0,
                    reason,
                ));
            }
            let stacks = Self::entries(&store, "stacks")?.into_iter();
            let stacks = stacks.filter(|name| name.parse::<Lineage>().is_ok());
            let projects = Self::entries(&store, "names")?.into_iter();
            // Other tools leave files such as `desktop.ini`.
            let projects = projects
                .filter(|name| !name.contains('.') && format!("{name}/x").parse::<StackName>().is_ok());
            let stacks = stacks.map(|name| format!("stacks/{name}"));
            Ok(store.misplaced(stacks.chain(projects.map(|name| format!("names/{name}")))))
        })
        .await?
    }

    async fn entries(&self, folder: &str) -> Result<Vec<String>> {
        let (store, folder) = (self.clone(), folder.to_owned());
        compute(move || Self::entries(&store, &folder)).await?
    }

    fn below(&self, folder: &str) -> SharedStore {
        let root = self.path(folder);
        Arc::new(Self { root })
    }

    async fn unfinished(&self) -> Result<Vec<(String, Lineage)>> {
        let store = self.clone();
        compute(move || {
            let mut found = Vec::new();
            let mut folders = store.temporary_folders()?;
            folders.retain(|name| name.starts_with(COMPLETE));
            for folder in folders {
                let staged = Self::new(&store.path(&folder))?.stacks()?;
                let missing = staged
                    .into_iter()
                    .filter(|lineage| !store.path(&format!("stacks/{lineage}")).exists());
                found.extend(missing.map(|lineage| (folder.clone(), lineage)));
            }
            Ok(found)
        })
        .await?
    }

    /// The system releases file locks, so the content of a lock file doesn't matter. What isn't a file can't be locked.
    async fn part_damage(&self, lineage: Lineage) -> Result<Vec<Damage>> {
        let store = self.clone();
        compute(move || {
            let folder = format!("stacks/{lineage}");
            let mut locks = Self::entries(&store, &folder)?;
            locks.retain(|name| name.starts_with("lock.") || name == HEAD_LOCK);
            let paths = locks.iter().map(|name| format!("{folder}/{name}"));
            let is_file =
                |path: &str| fs::symlink_metadata(store.path(path)).is_ok_and(|found| found.is_file());
            let odd = paths.into_iter().find(|path| !is_file(path));
            let odd = odd.map(|path| Damage::new(path, "it isn't a regular file"));
            let folders = ObjectKind::ALL.map(|kind| kind.path(lineage));
            let folders = folders.into_iter().filter(|path| path.starts_with(&folder));
            let misplaced = store.misplaced(folders.chain([format!("{folder}/journal")]));
            Ok(odd.into_iter().chain(misplaced).collect())
        })
        .await?
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(FsBackend::open(&self.root)?))
    }
}

/// Syncs a folder and those above it up to the root of the store: any of them may be new.
fn sync_up_to(folder: &Path, root: &Path) -> io::Result<()> {
    for folder in folder.ancestors().take_while(|folder| folder.starts_with(root)) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Whether a path leads to nothing: a file may stand in the place of a folder on the way to it.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn failed(path: &Path, error: io::Error) -> Error {
    // A broken sector of a disk: nothing but this file is concerned.
    if error.raw_os_error() == Some(EIO) {
        let reason = format!(
            "it can't be read ({error}): move it away if this doesn't change, and run `statectl salvage`"
        );
        return Error::corrupt(path.display().to_string(), 0, reason);
    }
    read_failed(&path.display().to_string(), error)
}

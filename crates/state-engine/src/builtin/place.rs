//! Access to a file or directory by its name in its open parent directory ([`Place`]). Symbolic links in the path of
//! the parent directory are followed; a symbolic link as the last component never is.

use super::blocking::Cancellation;
use super::members::{members, properties, text};
use crate::approval::{CommandCall, ResourceCommand};
use crate::provider::Failure;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use state_core::digest::Digest;
use state_core::{Json, Properties};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Resolves a path to an absolute path without `.`, `..` and doubled separators, without accessing the file system. The
/// error is the reason why the path is invalid.
pub(super) fn absolute(folder: &Path, path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err("it is empty".to_owned());
    }
    if path.contains('\0') {
        return Err("it contains a zero byte".to_owned());
    }
    let mut parts = PathBuf::from("/");
    for component in folder.join(path).components() {
        match component {
            Component::ParentDir => {
                parts.pop();
            }
            Component::Normal(part) => parts.push(part),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    if parts.parent().is_none() {
        return Err("it is the root of the filesystem".to_owned());
    }
    let text = parts.into_os_string().into_string();
    text.map_err(|_| "the working directory isn't UTF-8".to_owned())
}

/// Makes the paths in the named inputs absolute, so that recorded inputs don't depend on the working directory of a
/// later run. Invalid paths stay unchanged.
pub(super) fn with_absolute(folder: &Path, inputs: &Properties, names: &[&str]) -> Properties {
    let mut all = members(inputs);
    for name in names {
        if let Some(Ok(path)) = text(inputs, name).map(|path| absolute(folder, &path)) {
            all.insert((*name).to_owned(), Json::from_string(&path));
        }
    }
    properties(&all)
}

/// Returns the path of the object with this id. The id must be the normalized absolute path: if one path had several
/// ids, the same file could be recorded twice.
pub(super) fn of_id(folder: &Path, id: Option<&str>) -> Result<String, Failure> {
    let id = id.unwrap_or_default();
    let path = absolute(folder, id);
    let path = path.map_err(|reason| Failure::not_done(format!("the id is not a valid path: {reason}")))?;
    match path == id {
        true => Ok(path),
        false => Err(Failure::not_done(format!(
            "an id is a normalized absolute path: use {path} instead of {id}"
        ))),
    }
}

/// The files that a call reads, writes or deletes, for their approval. A read or delete of a recorded object uses its id;
/// every other call uses the inputs `path` and `source`.
///
/// A read without an id determines whether a create with an unknown outcome made exactly the object that the inputs
/// describe. Its result shows whether the file at `path` has the recorded content, or the content of the file that the
/// input `source` names. So both files need an approval; otherwise a manipulated state could compare any file of the
/// user with a guess.
pub(super) fn recorded_files(
    folder: &Path,
    id: Option<&str>,
    inputs: &Properties,
    call: CommandCall,
) -> Vec<ResourceCommand> {
    let id = id.filter(|_| matches!(call, CommandCall::Read | CommandCall::Delete));
    let copies = id.is_none() && call != CommandCall::Delete;
    let source = text(inputs, "source").filter(|_| copies);
    let path = id.map(str::to_owned).or_else(|| text(inputs, "path"));
    // The call itself refuses a malformed path, so such a path needs no approval.
    let absolute = |path: String| absolute(folder, &path).ok();
    let path = path.and_then(absolute).map(ResourceCommand::file);
    let source = source.and_then(absolute).map(ResourceCommand::source);
    path.into_iter().chain(source).collect()
}

/// The name of a file or directory, which may not exist, in its open parent directory.
#[derive(Debug)]
pub(super) struct Place {
    folder: OwnedFd,
    /// The absolute path, which is also the object's id.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) cancellation: Cancellation,
}

impl Place {
    /// Opens the parent directory of an absolute path. `None` if the parent directory doesn't exist. After a
    /// cancellation, changes through the result fail.
    pub(super) fn find(path: &str, cancellation: &Cancellation) -> Result<Option<Self>, Failure> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let above = if above.is_empty() { "/" } else { above };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(above, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(Self {
                folder,
                path: path.to_owned(),
                name: name.to_owned(),
                cancellation: cancellation.clone(),
            })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(os_error(above, errno)),
        }
    }

    /// Opens the parent directory of an absolute path. Fails if the directory doesn't exist.
    pub(super) fn open(path: &str, cancellation: &Cancellation) -> Result<Self, Failure> {
        Self::find(path, cancellation)?.ok_or_else(|| {
            let above = path.rsplit_once('/').map_or("/", |(above, _)| above);
            Failure::not_done(format!(
                "{path}: directory {above} doesn't exist: declare it as a `directory` resource and depend on it"
            ))
        })
    }

    /// Returns the open directory for one change. Fails after a cancellation.
    pub(super) fn to_change(&self) -> Result<BorrowedFd<'_>, Failure> {
        self.cancellation.check()?;
        Ok(self.folder.as_fd())
    }

    /// Removes the file or directory with this name. Does nothing if it is missing, and fails if its type isn't
    /// `desired`. `refusal` converts a system error into the failure to return.
    pub(super) fn remove(
        &self,
        desired: FileType,
        refusal: impl FnOnce(Errno) -> Failure,
    ) -> Result<(), Failure> {
        let Some(stat) = self.inspect()? else {
            return Ok(());
        };
        self.check_type(desired, &stat)?;
        let flags = match desired {
            FileType::Directory => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        match rustix::fs::unlinkat(self.to_change()?, &*self.name, flags) {
            Ok(()) | Err(Errno::NOENT) => self.sync().map_err(Failure::unknown),
            Err(errno) => Err(refusal(errno)),
        }
    }

    /// Removes a temporary file, even after a cancellation. Best effort.
    pub(super) fn unlink_staged(&self, name: &str) {
        rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()).ok();
    }

    /// Returns the status of the file or directory with this name. `None` if it doesn't exist.
    pub(super) fn inspect(&self) -> Result<Option<Stat>, Failure> {
        match rustix::fs::statat(&self.folder, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(os_error(&self.path, errno)),
        }
    }

    /// Fails if the status isn't that of the expected file type.
    pub(super) fn check_type(&self, desired: FileType, stat: &Stat) -> Result<(), Failure> {
        let found = FileType::from_raw_mode(stat.st_mode);
        match found == desired {
            true => Ok(()),
            false => Err(Failure::not_done(format!(
                "{}: expected {}, found {}: it isn't followed or changed; move it away",
                self.path,
                type_name(desired),
                type_name(found)
            ))),
        }
    }

    /// Opens the file or directory with this name. `None` if it doesn't exist. Fails if it has another type than
    /// expected. Never blocks.
    pub(super) fn open_it(&self, desired: FileType) -> Result<Option<(OwnedFd, Stat)>, Failure> {
        let Some(stat) = self.inspect()? else {
            return Ok(None);
        };
        self.check_type(desired, &stat)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.folder, &*self.name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(os_error(&self.path, errno)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|errno| os_error(&self.path, errno))?;
        self.check_type(desired, &stat)?;
        Ok(Some((fd, stat)))
    }

    /// The failure of a create at a path that is in use.
    pub(super) fn already_exists(&self) -> Failure {
        Failure::not_done(format!(
            "{0} already exists: to manage it, set `import: {0}` in `options`",
            self.path
        ))
    }

    /// Syncs the directory, which makes created, renamed and removed names durable.
    pub(super) fn sync(&self) -> Result<(), String> {
        let synced = rustix::fs::fsync(&self.folder);
        synced.map_err(|errno| format!("{}: its directory can't be synced: {errno}", self.path))
    }

    /// Prefix of the names of temporary files for this final name.
    pub(super) fn prefix_of_staged(&self) -> String {
        format!(".statectl-{}-", Digest::of(self.name.as_bytes()).short())
    }

    /// Removes temporary files that a crashed process left for this final name. Does nothing after a cancellation.
    /// Failures are ignored, because nothing else reads these files.
    pub(super) fn remove_stale_staged(&self) {
        let prefix = self.prefix_of_staged();
        let Ok(entries) = rustix::fs::Dir::read_from(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let is_staged = entry.file_name().to_bytes().starts_with(prefix.as_bytes());
            if let Ok(folder) = self.to_change()
                && is_staged
            {
                rustix::fs::unlinkat(folder, entry.file_name(), AtFlags::empty()).ok();
            }
        }
    }
}

/// A system error of a call that changed nothing.
pub(super) fn os_error(path: &str, errno: Errno) -> Failure {
    Failure::not_done(format!("{path}: {errno}"))
}

/// Converts the error of a system call that creates, renames or removes a name. After `EIO` its effect is unknown;
/// after any other error nothing was changed.
pub(super) fn change_error(path: &str, errno: Errno) -> Failure {
    match errno {
        Errno::IO => Failure::unknown(format!("{path}: {errno}")),
        _ => os_error(path, errno),
    }
}

fn type_name(found: FileType) -> &'static str {
    match found {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        _ => "a special file",
    }
}

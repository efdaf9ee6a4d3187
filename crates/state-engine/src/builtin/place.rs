//! Where a file or a folder is: a name in a folder that is held open. The last part of a path is never followed if it is
//! a symbolic link; those before it are.

use super::blocking::Cancellation;
use super::members::{members, properties, text};
use crate::provider::Failure;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use state_core::digest::Digest;
use state_core::{Json, Properties};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// The absolute path that a path means, without `.`, `..` and doubled separators. Nothing is looked up.
pub(super) fn absolute(folder: &Path, path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err("it is empty".to_owned());
    }
    if path.contains('\0') {
        return Err("there is a zero byte in it".to_owned());
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

/// The inputs with absolute paths: what is on record means the same wherever the next run is started.
pub(super) fn with_absolute(folder: &Path, inputs: &Properties, names: &[&str]) -> Properties {
    let mut all = members(inputs);
    for name in names {
        if let Some(Ok(path)) = text(inputs, name).map(|path| absolute(folder, &path)) {
            all.insert((*name).to_owned(), Json::from_string(&path));
        }
    }
    properties(&all)
}

/// The path that an object's id is. One path has one id, or the record would not know its file again.
pub(super) fn of_id(folder: &Path, id: Option<&str>) -> Result<String, Failure> {
    let id = id.unwrap_or_default();
    let path = absolute(folder, id);
    let path = path.map_err(|reason| Failure::not_done(format!("the id is no path: {reason}")))?;
    match path == id {
        true => Ok(path),
        false => Err(Failure::not_done(format!(
            "the id of {id} is its absolute path: {path}"
        ))),
    }
}

/// A name in an open folder.
#[derive(Debug)]
pub(super) struct Place {
    folder: OwnedFd,
    /// The absolute path, for messages and as the object's id.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) cancellation: Cancellation,
}

impl Place {
    /// The place of an absolute path; none if the folder that it would be in isn't there. Nothing is changed there any
    /// more once the caller has left.
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

    /// The same where the folder has to be there.
    pub(super) fn open(path: &str, cancellation: &Cancellation) -> Result<Self, Failure> {
        Self::find(path, cancellation)?.ok_or_else(|| {
            let above = path.rsplit_once('/').map_or("/", |(above, _)| above);
            Failure::not_done(format!(
                "{path}: there is no folder {above}: declare it as a `directory`, and depend on it"
            ))
        })
    }

    /// The folder, for one change in it; an error once nobody waits for that.
    pub(super) fn to_change(&self) -> Result<BorrowedFd<'_>, Failure> {
        self.cancellation.check()?;
        Ok(self.folder.as_fd())
    }

    /// Removes what has the name, if it is of the type that is wanted; that nothing has it is fine. The system's refusal is
    /// told as it is said here.
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

    /// Takes back what nobody has seen yet, whoever waits. Best effort.
    pub(super) fn unlink_staged(&self, name: &str) {
        rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()).ok();
    }

    /// What has the name; none if nothing has.
    pub(super) fn inspect(&self) -> Result<Option<Stat>, Failure> {
        match rustix::fs::statat(&self.folder, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(os_error(&self.path, errno)),
        }
    }

    /// Refuses whatever isn't of the type that is wanted.
    pub(super) fn check_type(&self, desired: FileType, stat: &Stat) -> Result<(), Failure> {
        let found = FileType::from_raw_mode(stat.st_mode);
        match found == desired {
            true => Ok(()),
            false => Err(Failure::not_done(format!(
                "{}: {} is there, not {}: it isn't followed and isn't touched; move it away",
                self.path,
                type_name(found),
                type_name(desired)
            ))),
        }
    }

    /// Opens what has the name, if it is of the type that is wanted; none if nothing has the name. Never waits.
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

    /// Why nothing can be made here.
    pub(super) fn already_exists(&self) -> Failure {
        Failure::not_done(format!(
            "{0}: something is there already: to take it over, say `import: {0}` under `options`",
            self.path
        ))
    }

    /// Makes the names in the folder durable.
    pub(super) fn sync(&self) -> Result<(), String> {
        let synced = rustix::fs::fsync(&self.folder);
        synced.map_err(|errno| format!("{}: its folder can't be synced: {errno}", self.path))
    }

    /// What files begin with that are on their way to this name.
    pub(super) fn prefix_of_staged(&self) -> String {
        format!(".statectl-{}-", Digest::of(self.name.as_bytes()).short())
    }

    /// Removes what a process that died left on its way to this name. Best effort: nobody takes it for anything.
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

/// The system refused, and nothing changed.
pub(super) fn os_error(path: &str, errno: Errno) -> Failure {
    Failure::not_done(format!("{path}: {errno}"))
}

/// A change of a name that failed: an I/O error doesn't say whether it took effect.
pub(super) fn change_error(path: &str, errno: Errno) -> Failure {
    match errno {
        Errno::IO => Failure::unknown(format!("{path}: {errno}")),
        _ => os_error(path, errno),
    }
}

fn type_name(found: FileType) -> &'static str {
    match found {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        _ => "something that is neither a file nor a folder",
    }
}

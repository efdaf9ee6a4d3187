//! The provider of directories: creates a directory only at an unused path, and removes a directory only if it is
//! empty.

use super::blocking::{Cancellation, blocking};

use super::desired::{DesiredPath, foreign_object, invalid_path, mode_of, outputs_of, raw_mode};
use super::members::{checked_inputs, properties, text};
use super::place::{Place, absolute, change_error, of_id, os_error, recorded_files, with_absolute};
use crate::approval::{CommandCall, ResourceCommand};
use crate::kind::InputType::{Mode, Text};
use crate::kind::{InputProperty, KindDescription, OutputProperty};
use crate::provider::{
    CheckRequest, CheckedInputs, CreateRequest, DeleteRequest, Diff, DiffRequest, Failure, Object, Provider,
    ReadRequest, ReadResult, UpdateRequest,
};
use async_trait::async_trait;
use rustix::fs::{Dir, FileType, Stat};
use rustix::io::Errno;
use state_core::Properties;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Maximum number of directory entries that a message lists.
const NAMED: usize = 5;

pub(super) const KIND: KindDescription = KindDescription::new(
    "directory",
    "A directory with its permissions. It is deleted only when it is empty.",
    &[
        InputProperty::or("mode", Mode, "\"0755\"", "permissions, independent of the umask"),
        InputProperty::required("path", Text, "path; a change replaces the directory"),
    ],
    &[
        OutputProperty::new("mode", "permissions as four octal digits"),
        OutputProperty::new("path", "the absolute path, which is also the id"),
    ],
);

/// The provider of the kind `directory`.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) folder: PathBuf,
}

/// Reads path and permissions from the inputs.
fn desired(folder: &Path, inputs: &Properties) -> DesiredPath {
    DesiredPath::of(folder, inputs, 0o755)
}

#[async_trait]
impl Provider for Directories {
    fn describe(&self, _kind: &str) -> Option<KindDescription> {
        Some(KIND)
    }

    fn commands(
        &self,
        _kind: &str,
        id: Option<&str>,
        inputs: &Properties,
        call: CommandCall,
    ) -> Vec<ResourceCommand> {
        recorded_files(&self.folder, id, inputs, call)
    }

    async fn check(&self, request: CheckRequest) -> Result<CheckedInputs, Failure> {
        let inputs = checked_inputs(&KIND, &request, |inputs, problems| {
            let path = text(inputs, "path").map(|path| absolute(&self.folder, &path));
            if let Some(Err(reason)) = path {
                problems.push(invalid_path("path", &reason));
            }
        });
        let inputs = with_absolute(&self.folder, &inputs?, &["path"]);
        let id = text(&inputs, "path");
        Ok(CheckedInputs::new(inputs).with_id(id))
    }

    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        Ok(desired(&self.folder, &request.inputs).diff(&request))
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        let desired = desired(&self.folder, &request.inputs);
        blocking(move |cancellation| create(&desired, cancellation)).await
    }

    async fn read(&self, request: ReadRequest) -> Result<ReadResult, Failure> {
        let desired = desired(&self.folder, &request.inputs);
        let folder = self.folder.clone();
        blocking(move |cancellation| match &request.id {
            Some(id) => inspect(&of_id(&folder, Some(id))?, &desired, &request, cancellation),
            None => find_created(&desired, &request, cancellation),
        })
        .await
    }

    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        let desired = desired(&self.folder, &request.inputs);
        blocking(move |cancellation| update(&desired, cancellation)).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure> {
        let path = of_id(&self.folder, request.id.as_deref())?;
        blocking(move |cancellation| delete(&path, cancellation)).await
    }
}

fn create(desired: &DesiredPath, cancellation: &Cancellation) -> Result<Object, Failure> {
    let place = Place::open(desired.path()?, cancellation)?;
    match rustix::fs::mkdirat(place.to_change()?, &*place.name, rustix::fs::Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(place.already_exists()),
        Err(errno) => return Err(change_error(&place.path, errno)),
    }
    // The directory exists now, so every later failure is partial.
    finish(&place, desired.mode)
}

fn update(desired: &DesiredPath, cancellation: &Cancellation) -> Result<Object, Failure> {
    let place = Place::open(desired.path()?, cancellation)?;
    match place.inspect()? {
        Some(stat) => place.check_type(FileType::Directory, &stat)?,
        None => return create(desired, cancellation),
    }
    finish(&place, desired.mode)
}

/// Sets the permissions of a directory, independent of the umask, and syncs the directory and its parent.
fn finish(place: &Place, desired: u64) -> Result<Object, Failure> {
    let finished = || -> Result<(), String> {
        let reason = |errno: Errno| format!("{}: {errno}", place.path);
        let refusal = |failure: Failure| failure.to_string();
        let opened = place.open_it(FileType::Directory).map_err(refusal)?;
        let (fd, _) = opened.ok_or_else(|| format!("{}: it was removed in the meantime", place.path))?;
        place.cancellation.check().map_err(refusal)?;
        rustix::fs::fchmod(&fd, raw_mode(desired)).map_err(reason)?;
        rustix::fs::fsync(&fd).map_err(reason)?;
        place.sync()
    };
    match finished() {
        Ok(()) => Ok(object(place, desired)),
        Err(reason) => {
            let stat = place.inspect().ok().flatten();
            let is_there = stat.map_or(desired, |stat| mode_of(&stat));
            Err(Failure::partial(object(place, is_there), reason))
        }
    }
}

fn delete(path: &str, cancellation: &Cancellation) -> Result<(), Failure> {
    let Some(place) = Place::find(path, cancellation)? else {
        return Ok(());
    };
    place.remove(FileType::Directory, |errno| match errno {
        Errno::NOTEMPTY | Errno::EXIST => Failure::not_done(format!(
            "{path}: not deleted because it isn't empty: it contains {}",
            inside(&place)
        )),
        errno => change_error(path, errno),
    })
}

/// Lists the first entries of a directory for a message, and the number of the remaining entries.
fn inside(place: &Place) -> String {
    let mut names = names(place).unwrap_or_default();
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let listed = names.join(", ");
    match more {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

fn names(place: &Place) -> Result<Vec<String>, Failure> {
    let Some((fd, _)) = place.open_it(FileType::Directory)? else {
        return Ok(Vec::new());
    };
    let failed = |errno| os_error(&place.path, errno);
    let entries = Dir::read_from(fd.as_fd()).map_err(failed)?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Returns the place and status of a path. `None` if the path doesn't exist.
fn stat_path(path: &str, cancellation: &Cancellation) -> Result<Option<(Place, Stat)>, Failure> {
    let Some(place) = Place::find(path, cancellation)? else {
        return Ok(None);
    };
    let stat = place.inspect()?;
    Ok(stat.map(|stat| (place, stat)))
}

fn inspect(
    path: &str,
    desired: &DesiredPath,
    request: &ReadRequest,
    cancellation: &Cancellation,
) -> Result<ReadResult, Failure> {
    let Some((place, stat)) = stat_path(path, cancellation)? else {
        return Ok(ReadResult::Missing);
    };
    place.check_type(FileType::Directory, &stat)?;
    let mode = mode_of(&stat);
    let mut object = object(&place, mode);
    object.inputs = Some(properties(&desired.inputs_of(&place, mode, &request.inputs)));
    Ok(ReadResult::Object(object))
}

/// Determines whether a create with an unknown outcome made its directory. Dependents of a resource are created only
/// after the result of its create is recorded, so they put nothing into the directory yet: an empty directory counts as
/// created.
fn find_created(
    desired: &DesiredPath,
    request: &ReadRequest,
    cancellation: &Cancellation,
) -> Result<ReadResult, Failure> {
    let path = desired.path()?;
    let Some((place, stat)) = stat_path(path, cancellation)? else {
        return Ok(ReadResult::Missing);
    };
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if !is_folder || request.others.contains(path) {
        return Ok(foreign_object(path, request));
    }
    match names(&place)?.is_empty() {
        true => inspect(path, desired, request, cancellation),
        // Either the create made the directory and another process put files into it, or another process made it.
        false => Ok(ReadResult::Indeterminate),
    }
}

fn object(place: &Place, mode: u64) -> Object {
    Object::new(place.path.clone(), properties(&outputs_of(place, mode)))
}

#[cfg(test)]
mod tests {
    use super::{create, delete, desired, update};
    use crate::builtin::blocking::Cancellation;
    use crate::builtin::tests::json;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn cancelled_directory_work_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let private = desired(folder.path(), &json(r#"{"mode":"0700","path":"a"}"#));
        let cancelled = Cancellation::default();
        cancelled.cancel();
        assert!(create(&private, &cancelled).is_err());
        let path = folder.path().join("a");
        assert!(!path.exists());
        create(&private, &Cancellation::default()).unwrap();
        let other = desired(folder.path(), &json(r#"{"mode":"0755","path":"a"}"#));
        assert!(update(&other, &cancelled).is_err() && delete(path.to_str().unwrap(), &cancelled).is_err());
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o700
        );
    }
}

//! Folders: made where nothing is, removed when nothing is in them.

use super::blocking::{Cancellation, blocking};

use super::members::{judged, properties, text};
use super::place::{Place, absolute, of_id, refused, unmoved, with_absolute};
use super::wanted::{Wanted, mode_of, no_path, outputs_of, raw_mode, somebody_elses};
use crate::kind::InputType::{Mode, Text};
use crate::kind::{InputProperty, KindDescription, OutputProperty};
use crate::provider::{
    CheckRequest, Checked, CreateRequest, DeleteRequest, Diff, DiffRequest, Failure, Found, Object, Provider,
    ReadRequest, UpdateRequest,
};
use async_trait::async_trait;
use rustix::fs::{Dir, FileType, Stat};
use rustix::io::Errno;
use state_core::Properties;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// So many names of what is in a folder are told.
const NAMED: usize = 5;

pub(super) const KIND: KindDescription = KindDescription::new(
    "directory",
    "A folder with its rights. It is deleted only when nothing is in it.",
    &[
        InputProperty::or("mode", Mode, "\"0755\"", "its rights, whatever the umask"),
        InputProperty::required("path", Text, "where it is; another path is another folder"),
    ],
    &[
        OutputProperty::new("mode", "its rights, four octal digits"),
        OutputProperty::new("path", "the absolute path; its id as well"),
    ],
);

/// Makes folders.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) folder: PathBuf,
}

/// What a program wants of a folder.
fn wanted(folder: &Path, inputs: &Properties) -> Wanted {
    Wanted::of(folder, inputs, 0o755)
}

#[async_trait]
impl Provider for Directories {
    fn describe(&self, _kind: &str) -> Option<KindDescription> {
        Some(KIND)
    }

    async fn check(&self, request: CheckRequest) -> Result<Checked, Failure> {
        let inputs = judged(&KIND, &request, |inputs, problems| {
            let path = text(inputs, "path").map(|path| absolute(&self.folder, &path));
            if let Some(Err(reason)) = path {
                problems.push(no_path("path", &reason));
            }
        });
        let inputs = with_absolute(&self.folder, &inputs?, &["path"]);
        let id = text(&inputs, "path");
        Ok(Checked::new(inputs).with_id(id))
    }

    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        Ok(wanted(&self.folder, &request.inputs).diff(&request))
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        let wanted = wanted(&self.folder, &request.inputs);
        blocking(move |cancellation| create(&wanted, cancellation)).await
    }

    async fn read(&self, request: ReadRequest) -> Result<Found, Failure> {
        let wanted = wanted(&self.folder, &request.inputs);
        let folder = self.folder.clone();
        blocking(move |cancellation| match &request.id {
            Some(id) => look(&of_id(&folder, Some(id))?, &wanted, &request, cancellation),
            None => made(&wanted, &request, cancellation),
        })
        .await
    }

    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        let wanted = wanted(&self.folder, &request.inputs);
        blocking(move |cancellation| update(&wanted, cancellation)).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure> {
        let path = of_id(&self.folder, request.id.as_deref())?;
        blocking(move |cancellation| delete(&path, cancellation)).await
    }
}

fn create(wanted: &Wanted, cancellation: &Cancellation) -> Result<Object, Failure> {
    let place = Place::open(wanted.path()?, cancellation)?;
    match rustix::fs::mkdirat(place.to_change()?, &*place.name, rustix::fs::Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(place.taken()),
        Err(errno) => return Err(unmoved(&place.path, errno)),
    }
    // From here on it is there, whatever happens.
    finish(&place, wanted.mode)
}

fn update(wanted: &Wanted, cancellation: &Cancellation) -> Result<Object, Failure> {
    let place = Place::open(wanted.path()?, cancellation)?;
    match place.look()? {
        Some(stat) => place.must_be(FileType::Directory, &stat)?,
        None => return create(wanted, cancellation),
    }
    finish(&place, wanted.mode)
}

/// Gives a folder its rights, whatever the umask says, and makes it durable.
fn finish(place: &Place, wanted: u64) -> Result<Object, Failure> {
    let finished = || -> Result<(), String> {
        let reason = |errno: Errno| format!("{}: {errno}", place.path);
        let refusal = |failure: Failure| failure.to_string();
        let opened = place.open_it(FileType::Directory).map_err(refusal)?;
        let (fd, _) = opened.ok_or_else(|| format!("{}: it went meanwhile", place.path))?;
        place.cancellation.check().map_err(refusal)?;
        rustix::fs::fchmod(&fd, raw_mode(wanted)).map_err(reason)?;
        rustix::fs::fsync(&fd).map_err(reason)?;
        place.sync()
    };
    match finished() {
        Ok(()) => Ok(object(place, wanted)),
        Err(reason) => {
            let stat = place.look().ok().flatten();
            let is_there = stat.map_or(wanted, |stat| mode_of(&stat));
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
            "{path}: it isn't empty, so it stays: {} in it",
            inside(&place)
        )),
        errno => unmoved(path, errno),
    })
}

/// Some of the names of what is in a folder, for a person.
fn inside(place: &Place) -> String {
    let mut names = names(place).unwrap_or_default();
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let listed = names.join(", ");
    match (more, names.len()) {
        (0, 1) => format!("{listed} is"),
        (0, _) => format!("{listed} are"),
        (more, _) => format!("{listed} and {more} more are"),
    }
}

fn names(place: &Place) -> Result<Vec<String>, Failure> {
    let Some((fd, _)) = place.open_it(FileType::Directory)? else {
        return Ok(Vec::new());
    };
    let failed = |errno| refused(&place.path, errno);
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

/// What has a path now; none if nothing has.
fn there(path: &str, cancellation: &Cancellation) -> Result<Option<(Place, Stat)>, Failure> {
    let Some(place) = Place::find(path, cancellation)? else {
        return Ok(None);
    };
    let stat = place.look()?;
    Ok(stat.map(|stat| (place, stat)))
}

fn look(
    path: &str,
    wanted: &Wanted,
    request: &ReadRequest,
    cancellation: &Cancellation,
) -> Result<Found, Failure> {
    let Some((place, stat)) = there(path, cancellation)? else {
        return Ok(Found::Gone);
    };
    place.must_be(FileType::Directory, &stat)?;
    let mode = mode_of(&stat);
    let mut object = object(&place, mode);
    object.inputs = Some(properties(&wanted.inputs_of(&place, mode, &request.inputs)));
    Ok(Found::Object(object))
}

/// Whether the create of which nobody saw the end made its folder. Nobody who needs it has begun, so it would be empty.
fn made(wanted: &Wanted, request: &ReadRequest, cancellation: &Cancellation) -> Result<Found, Failure> {
    let path = wanted.path()?;
    let Some((place, stat)) = there(path, cancellation)? else {
        return Ok(Found::Gone);
    };
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if !is_folder || request.others.contains(path) {
        return Ok(somebody_elses(path, request));
    }
    match names(&place)?.is_empty() {
        true => look(path, wanted, request, cancellation),
        // It may be ours with something of somebody else's in it, or not ours at all.
        false => Ok(Found::CannotTell),
    }
}

fn object(place: &Place, mode: u64) -> Object {
    Object::new(place.path.clone(), properties(&outputs_of(place, mode)))
}

#[cfg(test)]
mod tests {
    use super::{create, delete, update, wanted};
    use crate::builtin::blocking::Cancellation;
    use crate::builtin::tests::json;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn work_that_was_left_neither_makes_nor_changes_nor_removes_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let private = wanted(folder.path(), &json(r#"{"mode":"0700","path":"a"}"#));
        let left = Cancellation::default();
        left.cancel();
        assert!(create(&private, &left).is_err());
        let path = folder.path().join("a");
        assert!(!path.exists());
        create(&private, &Cancellation::default()).unwrap();
        let other = wanted(folder.path(), &json(r#"{"mode":"0755","path":"a"}"#));
        assert!(update(&other, &left).is_err() && delete(path.to_str().unwrap(), &left).is_err());
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o700
        );
    }
}

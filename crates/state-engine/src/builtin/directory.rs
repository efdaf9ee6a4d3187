//! Folders: made where nothing is, removed when nothing is in them.

use super::blocking::{Cancellation, blocking};
use super::members::{Members, members, properties, text, value};
use super::mode;
use super::place::{Place, absolute, of_id, refused, unmoved, with_absolute};
use super::schema::{InputProperty, InputType, KindDescription, OutputProperty, judged};
use crate::provider::{
    CheckRequest, Checked, CreateRequest, DeleteRequest, Diff, DiffRequest, Failure, Found, Object, Provider,
    ReadRequest, UpdateRequest,
};
use async_trait::async_trait;
use rustix::fs::{AtFlags, Dir, FileType, Mode};
use rustix::io::Errno;
use state_core::{Json, LogLevel, Properties};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// So many names of what is in a folder are told.
const NAMED: usize = 5;

pub(super) const KIND: KindDescription = KindDescription {
    kind: "directory",
    description: "A folder with its rights. It is deleted only when nothing is in it.",
    inputs: &[
        InputProperty::or(
            "mode",
            InputType::Mode,
            "\"0755\"",
            "its rights, whatever the umask",
        ),
        InputProperty::required(
            "path",
            InputType::Text,
            "where it is; another path is another folder",
        ),
    ],
    outputs: &[
        OutputProperty {
            name: "mode",
            sensitive: false,
            description: "its rights, four octal digits",
        },
        OutputProperty {
            name: "path",
            sensitive: false,
            description: "the absolute path; its id as well",
        },
    ],
};

/// Makes folders.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) folder: PathBuf,
}

/// What a program wants of a folder.
struct Wanted {
    path: Result<String, String>,
    mode: u64,
}

impl Wanted {
    fn of(folder: &Path, inputs: &Properties) -> Self {
        let path = text(inputs, "path").ok_or_else(|| "there is none".to_owned());
        Self {
            path: path.and_then(|path| absolute(folder, &path)),
            mode: text(inputs, "mode")
                .and_then(|mode| mode::parse(&mode))
                .unwrap_or(0o755),
        }
    }

    fn path(&self) -> Result<&str, Failure> {
        let path = self.path.as_deref();
        path.map_err(|reason| Failure::not_done(format!("`path` is no path: {reason}")))
    }
}

#[async_trait]
impl Provider for Directories {
    async fn check(&self, request: CheckRequest) -> Result<Checked, Failure> {
        let inputs = judged(&KIND, &request, |inputs, problems| {
            let path = text(inputs, "path").map(|path| absolute(&self.folder, &path));
            if let Some(Err(reason)) = path {
                problems.push(format!("`path` is no path: {reason}"));
            }
        });
        Ok(Checked::new(with_absolute(&self.folder, &inputs?, &["path"])))
    }

    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        let wanted = Wanted::of(&self.folder, &request.inputs);
        let recorded = value(&request.old_outputs, "mode");
        let mut diff = Diff::default();
        if request.unknown.contains("path") || wanted.path.as_ref().ok() != request.id.as_ref() {
            diff.replace.insert("path".to_owned());
        }
        if request.unknown.contains("mode") || recorded != Some(Json::from_string(&mode::text(wanted.mode))) {
            diff.changed.insert("mode".to_owned());
        }
        // Two folders can't have one path.
        diff.delete_before_replace = diff.replace.is_empty();
        diff.changed.extend(diff.replace.iter().cloned());
        Ok(diff)
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        let wanted = Wanted::of(&self.folder, &request.inputs);
        blocking(move |cancellation| create(&wanted, cancellation)).await
    }

    async fn read(&self, request: ReadRequest) -> Result<Found, Failure> {
        let wanted = Wanted::of(&self.folder, &request.inputs);
        let folder = self.folder.clone();
        blocking(move |cancellation| match &request.id {
            Some(id) => look(&of_id(&folder, Some(id))?, &wanted, &request, cancellation),
            None => made(&wanted, &request, cancellation),
        })
        .await
    }

    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        let wanted = Wanted::of(&self.folder, &request.inputs);
        blocking(move |cancellation| update(&wanted, cancellation)).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure> {
        let path = of_id(&self.folder, request.id.as_deref())?;
        blocking(move |cancellation| delete(&path, cancellation)).await
    }
}

fn create(wanted: &Wanted, cancellation: &Cancellation) -> Result<Object, Failure> {
    let place = Place::open(wanted.path()?, cancellation)?;
    match rustix::fs::mkdirat(place.to_change()?, &*place.name, Mode::RWXU) {
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
        let opened = place
            .open_it(FileType::Directory)
            .map_err(|failure| failure.to_string())?;
        let (fd, _) = opened.ok_or_else(|| format!("{}: it went meanwhile", place.path))?;
        place
            .cancellation()
            .check()
            .map_err(|failure| failure.to_string())?;
        rustix::fs::fchmod(&fd, mode::raw(wanted)).map_err(reason)?;
        rustix::fs::fsync(&fd).map_err(reason)?;
        place.sync()
    };
    match finished() {
        Ok(()) => Ok(object(place, wanted)),
        Err(reason) => {
            let stat = place.look().ok().flatten();
            let is_there = stat.map_or(wanted, |stat| mode::of(&stat));
            Err(Failure::partial(object(place, is_there), reason))
        }
    }
}

fn delete(path: &str, cancellation: &Cancellation) -> Result<(), Failure> {
    let Some(place) = Place::find(path, cancellation)? else {
        return Ok(());
    };
    let Some(stat) = place.look()? else {
        return Ok(());
    };
    place.must_be(FileType::Directory, &stat)?;
    match rustix::fs::unlinkat(place.to_change()?, &*place.name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => place.sync().map_err(Failure::unknown),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Failure::not_done(format!(
            "{path}: it isn't empty, so it stays: {} in it",
            inside(&place)
        ))),
        Err(errno) => Err(unmoved(path, errno)),
    }
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

fn look(
    path: &str,
    wanted: &Wanted,
    request: &ReadRequest,
    cancellation: &Cancellation,
) -> Result<Found, Failure> {
    let place = Place::find(path, cancellation)?;
    let Some((place, stat)) = place.and_then(|place| place.look().transpose().map(|stat| (place, stat)))
    else {
        return Ok(Found::Gone);
    };
    let stat = stat?;
    place.must_be(FileType::Directory, &stat)?;
    let there = mode::of(&stat);
    let mut object = object(&place, there);
    let mut inputs = members(&request.inputs);
    if let Some(input) = inputs
        .get_mut("path")
        .filter(|_| wanted.path.as_ref().ok() != Some(&place.path))
    {
        *input = Json::from_string(&place.path);
    }
    if let Some(input) = inputs.get_mut("mode").filter(|_| wanted.mode != there) {
        *input = Json::from_string(&mode::text(there));
    }
    object.inputs = Some(properties(&inputs));
    Ok(Found::Object(object))
}

/// Whether the create of which nobody saw the end made its folder. Nobody who needs it has begun, so it would be empty.
fn made(wanted: &Wanted, request: &ReadRequest, cancellation: &Cancellation) -> Result<Found, Failure> {
    let path = wanted.path()?;
    let place = Place::find(path, cancellation)?;
    let Some((place, stat)) = place.and_then(|place| place.look().transpose().map(|stat| (place, stat)))
    else {
        return Ok(Found::Gone);
    };
    let is_folder = FileType::from_raw_mode(stat?.st_mode) == FileType::Directory;
    if !is_folder || request.others.contains(path) {
        let what = format!("{path}: what is there isn't what was to be made, so it is somebody else's");
        request.context.log.say(LogLevel::Warning, what);
        return Ok(Found::Gone);
    }
    match names(&place)?.is_empty() {
        true => look(path, wanted, request, cancellation),
        // It may be ours with something of somebody else's in it, or not ours at all.
        false => Ok(Found::CannotTell),
    }
}

fn object(place: &Place, mode: u64) -> Object {
    let outputs = Members::from([
        ("mode".to_owned(), Json::from_string(&mode::text(mode))),
        ("path".to_owned(), Json::from_string(&place.path)),
    ]);
    Object::new(place.path.clone(), properties(&outputs))
}

#[cfg(test)]
mod tests {
    use super::{Wanted, create, delete, update};
    use crate::builtin::blocking::Cancellation;
    use crate::builtin::tests::json;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn work_that_was_left_neither_makes_nor_changes_nor_removes_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Wanted::of(folder.path(), &json(r#"{"mode":"0700","path":"a"}"#));
        let left = Cancellation::default();
        left.cancel();
        assert!(create(&wanted, &left).is_err());
        let path = folder.path().join("a");
        assert!(!path.exists());
        create(&wanted, &Cancellation::default()).unwrap();
        let other = Wanted::of(folder.path(), &json(r#"{"mode":"0755","path":"a"}"#));
        assert!(update(&other, &left).is_err() && delete(path.to_str().unwrap(), &left).is_err());
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o700
        );
    }
}

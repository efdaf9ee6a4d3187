//! The provider of files: writes files atomically and detects drift.
//!
//! A file gets its final name only after it is complete and synced. So a crash during a create or update leaves
//! nothing, the old content or the new content under that name; the next read or change removes the temporary
//! file.

mod desired;

#[cfg(test)]
mod tests;

use super::blocking::{Cancellation, blocking};

use super::desired::{foreign_object, mode_of, outputs_of};
use super::members::{checked_inputs, properties, text};
use super::place::{Place, change_error, of_id, os_error, recorded_files, with_absolute};
use super::staged::copy;
use crate::approval::{CommandCall, ResourceCommand};
use crate::kind::InputType::{Mode, Text};
use crate::kind::{InputProperty, KindDescription, OutputProperty};
use crate::provider::{
    CheckRequest, CheckedInputs, CreateRequest, DeleteRequest, Diff, DiffRequest, Failure, Object, Provider,
    ReadRequest, ReadResult, UpdateRequest,
};
use async_trait::async_trait;
use desired::DesiredFile;
use rustix::fs::FileType;
use state_core::digest::Digest;
use state_core::{Entropy, Json, MutationId, Properties};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum size of UTF-8 content that a read returns as the input `content`.
const MAX_TEXT: usize = 1 << 20;

pub(super) const KIND: KindDescription = KindDescription::new(
    "file",
    "A file with its content and its permissions.",
    &[
        InputProperty::optional(
            "content",
            Text,
            "content of the file; set either this or `source`",
        ),
        InputProperty::or("mode", Mode, "\"0644\"", "permissions, independent of the umask"),
        InputProperty::required("path", Text, "path; a change replaces the file"),
        InputProperty::optional("source", Text, "path of a file to copy"),
    ],
    &[
        OutputProperty::secret(
            "digest",
            "BLAKE3 digest of the content; secret, because it reveals facts about the content",
        ),
        OutputProperty::new("mode", "permissions as four octal digits"),
        OutputProperty::new("path", "the absolute path, which is also the id"),
        OutputProperty::new("size", "size in bytes"),
    ],
);

/// The provider of the kind `file`.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) folder: PathBuf,
    pub(super) entropy: Arc<dyn Entropy>,
}

#[async_trait]
impl Provider for Files {
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
            problems.extend(DesiredFile::problems(&self.folder, inputs, &request.unknown));
        });
        let inputs = with_absolute(&self.folder, &inputs?, &["path", "source"]);
        let id = text(&inputs, "path");
        Ok(CheckedInputs::new(inputs).with_id(id))
    }

    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        let folder = self.folder.clone();
        blocking(move |cancellation| {
            let desired = DesiredFile::of(&folder, &request.inputs);
            Ok(diff(&desired, &request, cancellation))
        })
        .await
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        let desired = DesiredFile::of(&self.folder, &request.inputs);
        let token = request.mutation.to_string();
        blocking(move |cancellation| create(&desired, &token, cancellation)).await
    }

    async fn read(&self, request: ReadRequest) -> Result<ReadResult, Failure> {
        let desired = DesiredFile::of(&self.folder, &request.inputs);
        let folder = self.folder.clone();
        blocking(move |cancellation| match &request.id {
            Some(id) => inspect(&of_id(&folder, Some(id))?, &desired, &request, cancellation),
            None => find_created(&desired, &request, cancellation),
        })
        .await
    }

    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        let desired = DesiredFile::of(&self.folder, &request.inputs);
        let token = MutationId::random(&*self.entropy).to_string();
        blocking(move |cancellation| update(&desired, &token, cancellation)).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure> {
        let path = of_id(&self.folder, request.id.as_deref())?;
        blocking(move |cancellation| delete(&path, cancellation)).await
    }
}

/// Compares the desired file with the recorded file. Content is compared by digest, so a switch between `content` and
/// `source` with the same content is no change.
fn diff(desired: &DesiredFile, request: &DiffRequest, cancellation: &Cancellation) -> Diff {
    let DiffRequest {
        old_outputs, unknown, ..
    } = request;
    let mut diff = desired.at.diff(request);
    let from_unknown = ["content", "source"]
        .into_iter()
        .find(|name| unknown.contains(*name));
    let is_as_recorded = || {
        // A source that can't be read counts as changed: an earlier step of the same run may create it.
        let digest = desired.digest(cancellation).ok();
        digest.is_some_and(|digest| text(old_outputs, "digest") == Some(digest.to_string()))
    };
    let changes_content = from_unknown.is_some() || !is_as_recorded();
    if changes_content {
        let from = from_unknown.unwrap_or(desired.from());
        diff.changed.insert(from.to_owned());
    }
    let outputs = [
        ("mode", diff.changed.contains("mode")),
        ("digest", changes_content),
        ("size", changes_content),
    ];
    let outputs = outputs.into_iter().filter(|(_, changes)| *changes);
    diff.changed_outputs = Some(outputs.map(|(name, _)| name.to_owned()).collect());
    diff
}

fn create(desired: &DesiredFile, token: &str, cancellation: &Cancellation) -> Result<Object, Failure> {
    let place = Place::open(desired.at.path()?, cancellation)?;
    if place.inspect()?.is_some() {
        return Err(place.already_exists());
    }
    place.remove_stale_staged();
    let staged = desired.stage(&place, token)?;
    let object = object(&place, staged.size, desired.at.mode, staged.digest);
    if !staged.create()? {
        return Err(place.already_exists());
    }
    synced(&place, object)
}

fn update(desired: &DesiredFile, token: &str, cancellation: &Cancellation) -> Result<Object, Failure> {
    let place = Place::open(desired.at.path()?, cancellation)?;
    if let Some(stat) = place.inspect()? {
        place.check_type(FileType::RegularFile, &stat)?;
    }
    place.remove_stale_staged();
    let staged = desired.stage(&place, token)?;
    let object = object(&place, staged.size, desired.at.mode, staged.digest);
    staged.replace()?;
    synced(&place, object)
}

/// Syncs the directory after the rename. The file exists by then, so a failed sync is a partial failure.
fn synced(place: &Place, object: Object) -> Result<Object, Failure> {
    match place.sync() {
        Ok(()) => Ok(object),
        Err(reason) => Err(Failure::partial(object, reason)),
    }
}

fn delete(path: &str, cancellation: &Cancellation) -> Result<(), Failure> {
    let Some(place) = Place::find(path, cancellation)? else {
        return Ok(());
    };
    place.remove_stale_staged();
    place.remove(FileType::RegularFile, |errno| change_error(path, errno))
}

/// Content and status of the current file.
struct FileContent {
    size: u64,
    digest: Digest,
    mode: u64,
    /// The content, if it is UTF-8 and not too large.
    text: Option<String>,
}

impl FileContent {
    fn at(place: &Place) -> Result<Option<Self>, Failure> {
        let Some((fd, stat)) = place.open_it(FileType::RegularFile)? else {
            return Ok(None);
        };
        let mut beginning = ContentPrefix::default();
        let read = copy(&mut File::from(fd), &mut beginning, &place.cancellation);
        let (size, digest) = read.map_err(|error| match rustix::io::Errno::from_io_error(&error) {
            Some(errno) => os_error(&place.path, errno),
            None => Failure::not_done(format!("{}: {error}", place.path)),
        })?;
        let is_whole = beginning.bytes.len() as u64 == size;
        Ok(Some(Self {
            size,
            digest,
            mode: mode_of(&stat),
            text: String::from_utf8(beginning.bytes).ok().filter(|_| is_whole),
        }))
    }
}

/// Keeps the first [`MAX_TEXT`] bytes of a stream and drops the rest.
#[derive(Default)]
struct ContentPrefix {
    bytes: Vec<u8>,
}

impl Write for ContentPrefix {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = MAX_TEXT.saturating_sub(self.bytes.len());
        self.bytes.extend(piece.iter().take(room));
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the file at `path`, the recorded id, and derives the inputs that describe it.
fn inspect(
    path: &str,
    desired: &DesiredFile,
    request: &ReadRequest,
    cancellation: &Cancellation,
) -> Result<ReadResult, Failure> {
    let Some(place) = Place::find(path, cancellation)? else {
        return Ok(ReadResult::Missing);
    };
    if !request.context.preview {
        place.remove_stale_staged();
    }
    let Some(there) = FileContent::at(&place)? else {
        return Ok(ReadResult::Missing);
    };
    let mut object = object(&place, there.size, there.mode, there.digest);
    object.inputs = Some(inputs_of(&place, desired, &there, &request.inputs));
    Ok(ReadResult::Object(object))
}

/// Determines whether a create with an unknown outcome made its file. A create renames only complete files and
/// never replaces an existing file, so a file with other content was made by another process. If the desired content
/// comes from a `source`, a difference is indeterminate, because the source may have changed since.
fn find_created(
    desired: &DesiredFile,
    request: &ReadRequest,
    cancellation: &Cancellation,
) -> Result<ReadResult, Failure> {
    let path = desired.at.path()?;
    let Some(place) = Place::find(path, cancellation)? else {
        return Ok(ReadResult::Missing);
    };
    let Some(stat) = place.inspect()? else {
        return inspect(path, desired, request, cancellation);
    };
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let there = if is_file { FileContent::at(&place)? } else { None };
    let digest = || desired.digest(cancellation).ok();
    let is_wanted = there.is_some_and(|there| digest() == Some(there.digest));
    if is_wanted && !request.others.contains(path) {
        return inspect(path, desired, request, cancellation);
    }
    if is_file && desired.from() == "source" && !request.others.contains(path) {
        return Ok(ReadResult::Indeterminate);
    }
    if !request.context.preview {
        place.remove_stale_staged();
    }
    Ok(foreign_object(path, request))
}

/// The inputs that would create the current file. If its content is too large or not UTF-8, the input `content` stays
/// as recorded; the output `digest` still reveals the difference.
fn inputs_of(place: &Place, desired: &DesiredFile, there: &FileContent, asked: &Properties) -> Properties {
    let mut now = desired.at.inputs_of(place, there.mode, asked);
    if let (Some(text), Some(input)) = (&there.text, now.get_mut("content")) {
        *input = Json::from_string(text);
    }
    properties(&now)
}

fn object(place: &Place, size: u64, mode: u64, digest: Digest) -> Object {
    let size = Json::from_canonical(&size.to_string());
    let mut outputs = outputs_of(place, mode);
    outputs.insert("digest".to_owned(), Json::from_string(&digest.to_string()));
    outputs.insert("size".to_owned(), size);
    let mut object = Object::new(place.path.clone(), properties(&outputs));
    object.sensitive_outputs = vec!["digest".to_owned()];
    object
}

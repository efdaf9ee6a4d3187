//! Files: made whole, changed whole, watched for drift.
//!
//! A file gets its name only when it is whole and synced. So whatever kills a create or an update, at its name is
//! nothing, the old content or the new one; what was on its way goes at the next look or the next change.

mod wanted;

#[cfg(test)]
mod tests;

use super::blocking::{Cancellation, blocking};

use super::members::{judged, properties, text};
use super::place::{Place, of_id, refused, unmoved, with_absolute};
use super::staged::copy;
use super::wanted::{mode_of, outputs_of, somebody_elses};
use crate::kind::InputType::{Mode, Text};
use crate::kind::{InputProperty, KindDescription, OutputProperty};
use crate::provider::{
    CheckRequest, Checked, CreateRequest, DeleteRequest, Diff, DiffRequest, Failure, Found, Object, Provider,
    ReadRequest, UpdateRequest,
};
use async_trait::async_trait;
use rustix::fs::FileType;
use state_core::digest::Digest;
use state_core::{Entropy, Json, MutationId, Properties};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use wanted::WantedFile;

/// A file that was changed is told of with its content if that is text of at most so many bytes.
const MOST_TOLD: usize = 1 << 20;

pub(super) const KIND: KindDescription = KindDescription::new(
    "file",
    "A file with its content and its rights.",
    &[
        InputProperty::optional("content", Text, "what is in it; either this or `source`"),
        InputProperty::or("mode", Mode, "\"0644\"", "its rights, whatever the umask"),
        InputProperty::required("path", Text, "where it is; another path is another file"),
        InputProperty::optional("source", Text, "the path of a file to copy"),
    ],
    &[
        OutputProperty::secret(
            "digest",
            "BLAKE3 of its content; secret, because it says something of the content",
        ),
        OutputProperty::new("mode", "its rights, four octal digits"),
        OutputProperty::new("path", "the absolute path; its id as well"),
        OutputProperty::new("size", "its length in bytes"),
    ],
);

/// Makes files.
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

    async fn check(&self, request: CheckRequest) -> Result<Checked, Failure> {
        let inputs = judged(&KIND, &request, |inputs, problems| {
            problems.extend(WantedFile::problems(&self.folder, inputs, &request.unknown));
        });
        let inputs = with_absolute(&self.folder, &inputs?, &["path", "source"]);
        let id = text(&inputs, "path");
        Ok(Checked::new(inputs).with_id(id))
    }

    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        let folder = self.folder.clone();
        blocking(move |cancellation| {
            let wanted = WantedFile::of(&folder, &request.inputs);
            Ok(diff(&wanted, &request, cancellation))
        })
        .await
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        let wanted = WantedFile::of(&self.folder, &request.inputs);
        let token = request.mutation.to_string();
        blocking(move |cancellation| create(&wanted, &token, cancellation)).await
    }

    async fn read(&self, request: ReadRequest) -> Result<Found, Failure> {
        let wanted = WantedFile::of(&self.folder, &request.inputs);
        let folder = self.folder.clone();
        blocking(move |cancellation| match &request.id {
            Some(id) => look(&of_id(&folder, Some(id))?, &wanted, &request, cancellation),
            None => made(&wanted, &request, cancellation),
        })
        .await
    }

    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        let wanted = WantedFile::of(&self.folder, &request.inputs);
        let token = MutationId::random(&*self.entropy).to_string();
        blocking(move |cancellation| update(&wanted, &token, cancellation)).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure> {
        let path = of_id(&self.folder, request.id.as_deref())?;
        blocking(move |cancellation| delete(&path, cancellation)).await
    }
}

/// What differs. Content is compared by its digest, so it doesn't matter where it came from.
fn diff(wanted: &WantedFile, request: &DiffRequest, cancellation: &Cancellation) -> Diff {
    let DiffRequest {
        old_outputs, unknown, ..
    } = request;
    let mut diff = wanted.at.diff(request);
    let from_unknown = ["content", "source"]
        .into_iter()
        .find(|name| unknown.contains(*name));
    let is_as_recorded = || {
        // A source that isn't there yet may be made before its turn comes.
        let digest = wanted.digest(cancellation).ok();
        digest.is_some_and(|digest| text(old_outputs, "digest") == Some(digest.to_string()))
    };
    let changes_content = from_unknown.is_some() || !is_as_recorded();
    if changes_content {
        let from = from_unknown.unwrap_or(wanted.from());
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

fn create(wanted: &WantedFile, token: &str, cancellation: &Cancellation) -> Result<Object, Failure> {
    let place = Place::open(wanted.at.path()?, cancellation)?;
    if place.look()?.is_some() {
        return Err(place.taken());
    }
    place.sweep();
    let staged = wanted.stage(&place, token)?;
    let object = object(&place, staged.size, wanted.at.mode, staged.digest);
    if !staged.create()? {
        return Err(place.taken());
    }
    synced(&place, object)
}

fn update(wanted: &WantedFile, token: &str, cancellation: &Cancellation) -> Result<Object, Failure> {
    let place = Place::open(wanted.at.path()?, cancellation)?;
    if let Some(stat) = place.look()? {
        place.must_be(FileType::RegularFile, &stat)?;
    }
    place.sweep();
    let staged = wanted.stage(&place, token)?;
    let object = object(&place, staged.size, wanted.at.mode, staged.digest);
    staged.replace()?;
    synced(&place, object)
}

/// Once the file has its name it is there, whatever happens.
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
    place.sweep();
    place.remove(FileType::RegularFile, |errno| unmoved(path, errno))
}

/// What is there now.
struct There {
    size: u64,
    digest: Digest,
    mode: u64,
    /// Its text, if there isn't too much of it.
    text: Option<String>,
}

impl There {
    fn at(place: &Place) -> Result<Option<Self>, Failure> {
        let Some((fd, stat)) = place.open_it(FileType::RegularFile)? else {
            return Ok(None);
        };
        let mut beginning = Beginning::default();
        let read = copy(&mut File::from(fd), &mut beginning, &place.cancellation);
        let (size, digest) = read.map_err(|error| match rustix::io::Errno::from_io_error(&error) {
            Some(errno) => refused(&place.path, errno),
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

/// Keeps what is told of, and drops the rest.
#[derive(Default)]
struct Beginning {
    bytes: Vec<u8>,
}

impl Write for Beginning {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = MOST_TOLD.saturating_sub(self.bytes.len());
        self.bytes.extend(piece.iter().take(room));
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file with an id.
fn look(
    path: &str,
    wanted: &WantedFile,
    request: &ReadRequest,
    cancellation: &Cancellation,
) -> Result<Found, Failure> {
    let Some(place) = Place::find(path, cancellation)? else {
        return Ok(Found::Gone);
    };
    if !request.context.preview {
        place.sweep();
    }
    let Some(there) = There::at(&place)? else {
        return Ok(Found::Gone);
    };
    let mut object = object(&place, there.size, there.mode, there.digest);
    object.inputs = Some(inputs_of(&place, wanted, &there, &request.inputs));
    Ok(Found::Object(object))
}

/// Whether the create of which nobody saw the end made its file. It gives a name to whole files only, and to no file
/// where something is already: so what has other content is a stranger's. Of a copy whose source changed since, nobody
/// can tell.
fn made(wanted: &WantedFile, request: &ReadRequest, cancellation: &Cancellation) -> Result<Found, Failure> {
    let path = wanted.at.path()?;
    let Some(place) = Place::find(path, cancellation)? else {
        return Ok(Found::Gone);
    };
    let Some(stat) = place.look()? else {
        return look(path, wanted, request, cancellation);
    };
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let there = if is_file { There::at(&place)? } else { None };
    let digest = || wanted.digest(cancellation).ok();
    let is_wanted = there.is_some_and(|there| digest() == Some(there.digest));
    if is_wanted && !request.others.contains(path) {
        return look(path, wanted, request, cancellation);
    }
    if is_file && wanted.from() == "source" && !request.others.contains(path) {
        return Ok(Found::CannotTell);
    }
    if !request.context.preview {
        place.sweep();
    }
    Ok(somebody_elses(path, request))
}

/// The inputs that would make the file as it is. Content that can't be told stays as it was asked for: its digest shows
/// that it isn't that any more.
fn inputs_of(place: &Place, wanted: &WantedFile, there: &There, asked: &Properties) -> Properties {
    let mut now = wanted.at.inputs_of(place, there.mode, asked);
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

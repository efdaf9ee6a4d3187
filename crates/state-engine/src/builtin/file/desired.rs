//! The file that the inputs of a resource describe: path, permissions and content.

use super::os_error;
use crate::builtin::blocking::Cancellation;
use crate::builtin::desired::{DesiredPath, invalid_path};
use crate::builtin::members::text;
use crate::builtin::place::{Place, absolute};
use crate::builtin::staged::{Staged, copy};
use crate::kind::InputType;
use crate::provider::Failure;
use state_core::Properties;
use state_core::digest::Digest;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

/// The desired path, permissions and content of a file.
pub(super) struct DesiredFile {
    pub(super) at: DesiredPath,
    content: Content,
}

enum Content {
    Text(String),
    /// The absolute path of the file to copy.
    CopyOf(String),
}

impl DesiredFile {
    /// Reads the inputs. An import or a read may omit inputs: without `content` and `source`, the content is empty.
    pub(super) fn of(folder: &Path, inputs: &Properties) -> Self {
        let source = text(inputs, "source").and_then(|source| absolute(folder, &source).ok());
        Self {
            at: DesiredPath::of(folder, inputs, 0o644),
            content: match source {
                Some(source) => Content::CopyOf(source),
                None => Content::Text(text(inputs, "content").unwrap_or_default()),
            },
        }
    }

    /// Problems of the inputs other than wrong types.
    pub(super) fn problems(folder: &Path, inputs: &Properties, unknown: &BTreeSet<String>) -> Vec<String> {
        let mut problems = Vec::new();
        for name in ["path", "source"] {
            let Some(path) = text(inputs, name) else { continue };
            match absolute(folder, &path) {
                Err(reason) => problems.push(invalid_path(name, &reason)),
                Ok(_) if path.ends_with('/') => {
                    problems.push(format!(
                        "`{name}` ends with a slash, so it is the path of a directory"
                    ));
                }
                Ok(_) => {}
            }
        }
        let is_given = |name: &&str| inputs.get(name).is_some() || unknown.contains(*name);
        match ["content", "source"].iter().filter(|name| is_given(name)).count() {
            0 => problems.push(format!(
                "`content` is missing; set it to a {}, or set `source`",
                InputType::Text
            )),
            1 => {}
            _ => problems.push("`content` and `source` can't both be set".to_owned()),
        }
        problems
    }

    /// Name of the input that defines the content.
    pub(super) const fn from(&self) -> &'static str {
        match self.content {
            Content::Text(_) => "content",
            Content::CopyOf(_) => "source",
        }
    }

    /// Digest of the desired content. Fails if the file to copy can't be read.
    pub(super) fn digest(&self, cancellation: &Cancellation) -> Result<Digest, Failure> {
        match &self.content {
            Content::Text(text) => Ok(Digest::of(text.as_bytes())),
            Content::CopyOf(source) => {
                let copied = copy(&mut open(source)?, &mut io::sink(), cancellation);
                let (_, digest) = copied.map_err(|error| unread(source, &error))?;
                Ok(digest)
            }
        }
    }

    /// Writes the file under a temporary name.
    pub(super) fn stage<'a>(&self, place: &'a Place, token: &str) -> Result<Staged<'a>, Failure> {
        match &self.content {
            Content::Text(text) => Staged::write(place, token, &mut text.as_bytes(), self.at.mode),
            Content::CopyOf(source) => Staged::write(place, token, &mut open(source)?, self.at.mode),
        }
    }
}

/// Opens the file to copy. Only regular files are accepted: opening a pipe may block, and reading a device may never
/// end.
fn open(source: &str) -> Result<File, Failure> {
    let metadata = std::fs::metadata(source).map_err(|error| unread(source, &error))?;
    if !metadata.is_file() {
        return Err(os_error(source, rustix::io::Errno::INVAL));
    }
    File::open(source).map_err(|error| unread(source, &error))
}

fn unread(source: &str, error: &io::Error) -> Failure {
    Failure::not_done(format!("can't read `source` {source}: {error}"))
}

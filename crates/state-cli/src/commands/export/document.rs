//! The exported document, which is written piece by piece: the text of a large state doesn't fit into memory twice.

use crate::error::CliError;
use crate::formats::{self, Format};
use crate::settings::MASKED;
use state_core::Snapshot;
use state_core::json::{self, Limits};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A document to export.
pub(super) struct Document {
    /// The snapshot as it is shown: masked, or with all values decrypted.
    pub(super) snapshot: Snapshot,
    /// Name of the stack, for errors.
    pub(super) stack: String,
    pub(super) format: Format,
    pub(super) is_masked: bool,
}

impl Document {
    /// Returns the whole document.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, CliError> {
        let mut bytes = Vec::new();
        self.write("memory", &mut bytes)?;
        Ok(bytes)
    }

    /// Prints the document on stdout. A reader may close stdout early.
    pub(super) fn print(&self) -> Result<(), CliError> {
        self.write("stdout", io::stdout().lock()).map(drop)
    }

    /// Writes a file that only its owner can read, and returns its length. Without `replace`, an existing file is an error.
    /// The file appears only when it is complete: after an error, there is no file, or the old one.
    pub(super) fn write_file(&self, file: &Path, replace: bool) -> Result<usize, CliError> {
        let name = file.display().to_string();
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::AlreadyExists => CliError::refused(name.clone(), "the file already exists")
                .with_hint("overwrite it with `--force`, or name another file"),
            _ => unwritable(&name, &source),
        };
        if !replace && file.symlink_metadata().is_ok() {
            return Err(failed(ErrorKind::AlreadyExists.into()));
        }
        let mut beside = file.as_os_str().to_owned();
        beside.push(format!(".{}.tmp", std::process::id()));
        let beside = PathBuf::from(beside);
        // A process with the same id may have crashed here.
        drop(std::fs::remove_file(&beside));
        let mut target = create_private(&beside).map_err(failed)?;
        let written = self.write(&name, &mut target).and_then(|length| {
            let stored = target.sync_all().and_then(|()| publish(&beside, file, replace));
            stored.map(|()| length).map_err(failed)
        });
        if written.is_err() {
            // The error of the write counts more than a temporary file that can't be removed.
            drop(std::fs::remove_file(&beside));
        }
        written
    }

    /// Writes the document to a target, whose name is `name` in errors. Returns its length.
    fn write(&self, name: &str, target: impl Write) -> Result<usize, CliError> {
        let mut writer = PieceWriter {
            target,
            must_mark: self.is_masked,
            length: 0,
            result: Ok(()),
        };
        let mut whole = Vec::new();
        let is_unloadable = self.is_masked && self.format.name() != formats::NATIVE;
        formats::all()
            .export_to(&self.snapshot, self.format, &mut |piece| match is_unloadable {
                true => whole.extend_from_slice(piece),
                false => writer.add(piece),
            })
            .map_err(|error| failed(&self.stack, error))?;
        if is_unloadable {
            writer.add(&unloadable(whole));
        }
        match writer.finish() {
            Ok(length) => Ok(length),
            Err(source) => Err(unwritable(name, &source)),
        }
    }
}

/// Replaces the version of a document by a text, so that the system of its format refuses to load the document. It would
/// take placeholders for values, and change real resources accordingly.
fn unloadable(document: Vec<u8>) -> Vec<u8> {
    let limits = Limits {
        max_bytes: usize::MAX,
        max_string_bytes: usize::MAX,
        ..Limits::default()
    };
    let version = json::Document::parse(&document, &limits).ok().and_then(|parsed| {
        let root = parsed.root();
        let version = ["version", "format-version"]
            .iter()
            .find_map(|name| root.get(name));
        version.map(|version| version.range())
    });
    match version {
        Some(range) => {
            let mut replaced = document[..range.start].to_vec();
            replaced.extend_from_slice(b"\"masked\"");
            replaced.extend_from_slice(&document[range.end..]);
            replaced
        }
        // A document without a version gets one.
        None => match document.split_first() {
            Some((b'{', rest)) => [b"{\n  \"version\": \"masked\",", rest].concat(),
            _ => document,
        },
    }
}

fn unwritable(name: &str, source: &io::Error) -> CliError {
    CliError::io(name, source).with_hint("name a file in a writable folder")
}

fn failed(stack: &str, error: state_formats::Error) -> CliError {
    match error {
        state_formats::Error::Core(core) => core.into(),
        other => CliError::failed(format!("stack {stack}"), &other.to_string())
            .with_hint("use the native format: `statectl export --format native`"),
    }
}

/// Creates a file that only its owner can read.
fn create_private(file: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
}

/// Gives a complete file its name. Without `replace`, fails if a file with that name exists.
fn publish(complete: &Path, file: &Path, replace: bool) -> io::Result<()> {
    if !replace {
        // Unlike a rename, a link never replaces a file that was created in the meantime.
        match std::fs::hard_link(complete, file) {
            Ok(()) => return std::fs::remove_file(complete),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
            // Not every file system has links.
            Err(_) => {}
        }
    }
    std::fs::rename(complete, file)
}

/// Writes pieces until a write fails, and keeps the error.
struct PieceWriter<W> {
    target: W,
    /// Whether the mark of a masked export isn't written yet.
    must_mark: bool,
    length: usize,
    result: io::Result<()>,
}

impl<W: Write> PieceWriter<W> {
    fn add(&mut self, piece: &[u8]) {
        let Some((first, rest)) = piece.split_first() else {
            return;
        };
        if !std::mem::take(&mut self.must_mark) || *first != b'{' {
            return self.write(piece);
        }
        // `import` recognizes a masked export by this member, so that it never stores placeholders as values.
        self.write(format!("{{\n  \"{MASKED}\": true,").as_bytes());
        self.write(rest);
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.result.is_ok() {
            self.length += bytes.len();
            self.result = self.target.write_all(bytes);
        }
    }

    /// Returns the number of bytes that were written.
    fn finish(mut self) -> io::Result<usize> {
        match self.result.and_then(|()| self.target.flush()) {
            // A reader such as `head` may stop reading early.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(self.length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PieceWriter, publish, unloadable};
    use std::io::ErrorKind;

    #[test]
    fn mark_is_written_once_after_the_first_brace() {
        let mut bytes = Vec::new();
        let mut writer = PieceWriter {
            target: &mut bytes,
            must_mark: true,
            length: 0,
            result: Ok(()),
        };
        for piece in ["", "{", "\"a\": 1", "}"] {
            writer.add(piece.as_bytes());
        }
        let length = writer.finish().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with("{\n  \"") && text.ends_with("\": true,\"a\": 1}"),
            "{text}"
        );
        assert_eq!(length, text.len());
    }

    #[test]
    fn masked_document_has_no_version_that_a_tool_accepts() {
        for (document, expected) in [
            (
                r#"{"version": 4, "x": {"version": 3}}"#,
                r#"{"version": "masked", "x": {"version": 3}}"#,
            ),
            (
                r#"{"a": 1, "format-version": 1}"#,
                r#"{"a": 1, "format-version": "masked"}"#,
            ),
            (r#"{"a": 1}"#, "{\n  \"version\": \"masked\",\"a\": 1}"),
        ] {
            let text = String::from_utf8(unloadable(document.as_bytes().to_vec())).unwrap();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn complete_file_replaces_another_only_on_request() {
        let folder = std::env::temp_dir().join(format!("statectl-export-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (complete, file) = (folder.join("complete"), folder.join("file"));
        std::fs::write(&complete, "new").unwrap();
        std::fs::write(&file, "old").unwrap();
        let refused = publish(&complete, &file, false).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&file).unwrap(), b"old");
        publish(&complete, &file, true).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

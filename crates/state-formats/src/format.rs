//! The trait [`StateFormat`], which each format implements, and the types in its methods.

use crate::edits::{EditReview, StateEdit};
use crate::error::{Error, Result};
use crate::fields::{self, TopLevel};
use crate::state_file::StateFile;
use state_core::json::{Document, JsonError, View};
use state_core::mask::OpaquePointers;
use state_core::{Clock, Entry, EntryType, Snapshot, codec};
use std::fmt;

/// A state format, which detects, reads and writes the files of one system.
///
/// A format is one type that implements this trait, and one line in [`Formats::standard`](crate::Formats::standard).
/// [`Formats::with`](crate::Formats::with) adds a format of another crate.
pub trait StateFormat: fmt::Debug + Send + Sync {
    /// Name of the format on command lines and in JSON, and its key in `extensions` and `foreign_serials`.
    fn name(&self) -> &'static str;

    /// Other names that command lines accept.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Describes the documents that this build reads, writes and refuses. The table in the guide for teams is generated
    /// from these descriptions.
    fn description(&self) -> Description;

    /// Decides from the content of a file whether the file is in this format.
    fn detect(&self, content: &Content<'_>) -> Detection;

    /// Reads an uncompressed state.
    ///
    /// For a foreign state, the caller that stores the snapshot assigns its lineage, serial, stack name and uids. The
    /// caller must also verify the snapshot, unless [`checks_integrity`](Self::checks_integrity) returns true.
    ///
    /// # Errors
    /// [`Error::Core`] for a malformed document, with line, column and path; another variant for a document that is
    /// recognised and not supported.
    fn read(&self, file: StateFile, options: &ReadOptions<'_>) -> Result<Imported>;

    /// Whether [`read`](Self::read) refuses states that violate integrity rules.
    fn checks_integrity(&self) -> bool {
        false
    }

    /// Writes a snapshot, and passes the bytes to `out` in one or several pieces; equal snapshots give equal bytes. After an
    /// error, no piece was passed.
    ///
    /// # Errors
    /// [`Error::NotExportable`], with the reason, when this format can't represent the snapshot.
    fn write(&self, snapshot: &Snapshot, out: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// Whether a snapshot was imported from a state of this format.
    fn came_from(&self, snapshot: &Snapshot) -> bool {
        snapshot.extensions.contains_key(self.name())
    }

    /// The reason why a state of this format can't be exported in another foreign format; None if it can.
    fn export_restriction(&self) -> Option<&'static str> {
        None
    }

    /// JSON pointers, relative to `extensions[name]`, to the parts that may contain secrets although no sensitive path
    /// marks them. A program that seals snapshots must seal these parts; a program that masks snapshots must omit them.
    /// None means that any part may contain secrets.
    fn opaque(&self) -> Option<OpaquePointers<'static>> {
        None
    }

    /// Lineage and serial of the foreign state that a snapshot was imported from. None for a snapshot that wasn't
    /// imported from this format.
    ///
    /// # Errors
    /// When the snapshot's extension can't be read.
    fn identity(&self, snapshot: &Snapshot) -> Result<Option<Identity>>;

    /// Whether two snapshots of this format hold the same state, apart from serial and lineage.
    ///
    /// # Errors
    /// When an extension can't be read.
    fn same_content(&self, one: &Snapshot, other: &Snapshot) -> Result<bool> {
        Ok(one.entries == other.entries && one.outputs == other.outputs)
    }

    /// Checks an edit of a state that was imported from this format: whether the format can hold the result, and what the
    /// system of the format will do at its next run because of the edit.
    fn review(&self, _edit: &StateEdit<'_>) -> EditReview {
        EditReview::default()
    }

    /// Whether the system of this format creates and deletes the object of an entry.
    fn is_managed(&self, entry: &Entry) -> bool {
        entry.entry_type == EntryType::Leaf && !entry.external
    }

    /// Whether a state of this format can protect a resource from deletion. If not, an import keeps the protection that the
    /// stack recorded.
    fn expresses_protection(&self) -> bool {
        true
    }

    /// Decrypts a file that is encrypted as a whole with a passphrase. None if the file isn't encrypted with a method
    /// of this format.
    ///
    /// # Errors
    /// [`Error::Encrypted`] when the key isn't derived from a passphrase; [`Error::Core`] for a malformed envelope, a
    /// wrong passphrase, and a build without the feature.
    fn decrypt(&self, _bytes: &[u8], _passphrase: &str) -> Result<Option<Decrypted>> {
        Ok(None)
    }

    /// The environment variables that hold the passphrase of encrypted values. None if this build can't decrypt such
    /// values.
    fn secrets_passphrase(&self) -> Option<PassphraseSource> {
        None
    }

    /// Number of values in a snapshot that are still encrypted by the system of this format.
    fn encrypted_secrets(&self, _snapshot: &Snapshot) -> usize {
        0
    }

    /// Decrypts the values that the system of this format encrypted one by one. The decrypted values become plain
    /// values at sensitive paths. A value that isn't changed afterwards is exported in its original encrypted form.
    ///
    /// # Errors
    /// [`Error::Secrets`] when a value can't be decrypted. The snapshot is unchanged after an error.
    fn open_secrets(&self, _snapshot: &mut Snapshot, _passphrase: &str) -> Result<OpenedSecrets> {
        Err(Error::Secrets {
            reason: format!(
                "this build can't decrypt secrets of {}",
                self.description().system
            ),
            needs_passphrase: false,
        })
    }
}

/// The documents of a format that this build supports and refuses, as phrases for the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name of the system that writes this format.
    pub system: &'static str,
    /// Documents that this build reads.
    pub reads: &'static str,
    /// Documents that this build writes.
    pub writes: &'static str,
    /// Documents that this build recognises and refuses with a specific error.
    pub refuses: &'static str,
}

/// The content of an uncompressed file, parsed once for the detection by all formats.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    bytes: &'a [u8],
    document: Result<Document<'a>, JsonError>,
    top_level: Option<TopLevel<'a>>,
}

impl<'a> Content<'a> {
    /// The content of a file that was parsed as JSON, with the error if it isn't JSON.
    pub(crate) fn of(file: &'a StateFile, error: Option<JsonError>) -> Self {
        let document = match (file.text(), error) {
            (_, Some(error)) => Err(error),
            (Some(text), None) => Ok(text.document()),
            (None, None) => fields::scan(file.bytes()),
        };
        Self {
            bytes: file.bytes(),
            top_level: document
                .as_ref()
                .ok()
                .map(|document| TopLevel::of(document.root())),
            document,
        }
    }

    /// The bytes of the whole file.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The parsed JSON document.
    ///
    /// # Errors
    /// The syntax error, if the bytes aren't JSON.
    pub fn document(&self) -> Result<Document<'a>, &JsonError> {
        self.document.as_ref().copied()
    }

    /// The members of the top level; none if the bytes aren't JSON.
    pub(crate) const fn top_level(&self) -> Option<&TopLevel<'a>> {
        self.top_level.as_ref()
    }

    /// The top level of the JSON document; none if the bytes aren't JSON.
    pub fn root(&self) -> Option<View<'a>> {
        self.document.as_ref().ok().map(Document::root)
    }
}

/// The result of [`StateFormat::detect`].
#[derive(Debug)]
pub enum Detection {
    /// The file isn't in this format.
    No,
    /// The file is in this format.
    Match {
        /// How specific the matching fields are to this format.
        confidence: Confidence,
        /// Names the version and the writer of the document. The text is bounded in length and contains no values.
        description: String,
    },
    /// The file is in this format or resembles it, but this build can't read the file.
    Refused {
        /// How specific the matching fields are to this format.
        confidence: Confidence,
        /// Describes the file and how to proceed.
        error: Error,
    },
}

impl Detection {
    /// A match if `description` is given, else [`Detection::No`].
    pub fn of(confidence: Confidence, description: Option<String>) -> Self {
        description.map_or(Self::No, |description| Self::Match {
            confidence,
            description,
        })
    }

    /// The confidence of the match or refusal; None if the file isn't in the format.
    pub(crate) fn confidence(&self) -> Option<Confidence> {
        match self {
            Self::No => None,
            Self::Match { confidence, .. } | Self::Refused { confidence, .. } => Some(*confidence),
        }
    }
}

/// How specific the matching fields are to a format. The format with the highest confidence is chosen; among equal
/// confidences, the first format in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Other formats have these fields too.
    Possible,
    /// Other formats rarely have these fields.
    Likely,
    /// No other format has these fields.
    Certain,
}

/// Options for reading a state.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions<'a> {
    /// Clock that supplies the time of the import.
    pub clock: &'a dyn Clock,
    /// Whether to accept a state that violates integrity rules, for example with duplicate keys or dependency cycles.
    /// The caller must [repair](state_core::repair) the snapshot afterwards.
    pub broken: bool,
}

impl<'a> ReadOptions<'a> {
    /// Options that refuse a state with violations.
    pub fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, broken: false }
    }

    /// Decodes a snapshot in the native encoding; `object` names the snapshot in errors.
    pub(crate) fn decode(&self, object: &str, bytes: &[u8]) -> Result<Snapshot> {
        let decoded = match self.broken {
            true => codec::decode_broken(object, bytes),
            false => codec::decode(object, bytes),
        };
        Ok(decoded?)
    }
}

/// The result of reading a foreign state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The imported state. The caller assigns stack name, lineage, serial and uids; an entry that the stack already has
    /// keeps its uid.
    pub snapshot: Snapshot,
    /// Lineage and serial in the foreign system; None for a native snapshot.
    pub foreign: Option<ForeignMeta>,
    /// Remarks about the state for the user. They contain names, never values.
    pub notes: Vec<String>,
}

/// Identification of an imported state in its foreign system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignMeta {
    /// The [name](StateFormat::name) of the format.
    pub system: &'static str,
    /// Lineage of the state, an opaque text that may be empty. For a system without lineages, another stable name:
    /// project and stack of Pulumi, factory and deployment of unobin.
    pub lineage: String,
    /// Serial of the state; 0 for a system without serials.
    pub serial: u64,
}

/// Identification of the foreign state that a snapshot was imported from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Lineage of the state, as in [`ForeignMeta::lineage`].
    pub lineage: String,
    /// Serial of the state; None for a system without serials.
    pub serial: Option<u64>,
}

/// A file that [`StateFormat::decrypt`] decrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct Decrypted {
    /// Decrypted content of the file.
    pub bytes: Vec<u8>,
    /// Name of the program that encrypted the file.
    pub encrypted_by: &'static str,
}

/// Omits the decrypted bytes.
impl fmt::Debug for Decrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decrypted")
            .field("encrypted_by", &self.encrypted_by)
            .finish_non_exhaustive()
    }
}

/// Environment variables in which a system looks for the passphrase of its secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassphraseSource {
    /// Name of the environment variable that holds the passphrase.
    pub variable: &'static str,
    /// Name of the environment variable that holds the path of a file with the passphrase.
    pub file_variable: &'static str,
}

/// Counts of the secrets that [`StateFormat::open_secrets`] decrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenedSecrets {
    /// Number of secrets that were encrypted and are decrypted now.
    pub decrypted: usize,
    /// Number of secrets that were marked as secret but stored as plain text.
    pub plain: usize,
}

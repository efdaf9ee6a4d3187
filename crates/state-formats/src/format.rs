//! The contract of a format: everything that importing and exporting programs need to know about one.

use crate::error::{Error, Result};
use crate::fields;
use state_core::json::{Document, JsonError, View};
use state_core::mask::OpaquePointers;
use state_core::{Clock, Snapshot, codec};
use std::fmt;

/// A format of states: how it is recognised, read and written.
///
/// A format is one type that implements this trait, and one line in [`Formats::standard`](crate::Formats::standard);
/// a format from outside this crate joins through [`Formats::with`](crate::Formats::with).
pub trait StateFormat: fmt::Debug + Send + Sync {
    /// The name on command lines and in JSON, and the key of this format's part of `extensions` and
    /// `foreign_serials`.
    fn name(&self) -> &'static str;

    /// Other names that command lines accept.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// What this build reads, writes and refuses. The table in the guide for teams is made of it.
    fn description(&self) -> Description;

    /// Whether a file is in this format, judged by its content.
    fn detect(&self, content: &Content<'_>) -> Detection;

    /// Reads a state that isn't compressed.
    ///
    /// The snapshot has no lineage, serial, stack name and uids of ours: the caller that stores the snapshot assigns
    /// them. Unless [`checks_integrity`](Self::checks_integrity) says so, the caller verifies the snapshot as well.
    ///
    /// # Errors
    /// [`Error::Core`] for a malformed document, with line, column and path, and the other variants for what is
    /// recognised and refused.
    fn read(&self, bytes: Vec<u8>, options: &ReadOptions<'_>) -> Result<Imported>;

    /// Whether [`read`](Self::read) refuses states that break rules of integrity.
    fn checks_integrity(&self) -> bool {
        false
    }

    /// Writes a snapshot: the same snapshot, the same bytes.
    ///
    /// # Errors
    /// [`Error::NotExportable`] when this format can't express the snapshot, with the reason.
    fn write(&self, snapshot: &Snapshot) -> Result<Vec<u8>>;

    /// Whether a snapshot came from a state of this format.
    fn came_from(&self, snapshot: &Snapshot) -> bool {
        snapshot.extensions.contains_key(self.name())
    }

    /// Why a state of this format can't be exported in a foreign format that it didn't come from, if so.
    fn confined(&self) -> Option<&'static str> {
        None
    }

    /// Which parts of this format's extensions, below `extensions[name]`, may hold secrets that nothing marks as
    /// sensitive. A program that seals snapshots seals these parts, one that masks snapshots leaves them out. None: any
    /// part may hold secrets.
    fn opaque(&self) -> Option<OpaquePointers<'static>> {
        None
    }

    /// How the system of this format identifies the state that a snapshot came from. None for a snapshot that came
    /// from elsewhere.
    ///
    /// # Errors
    /// When the snapshot's extension can't be read.
    fn identity(&self, snapshot: &Snapshot) -> Result<Option<Identity>>;

    /// Whether two snapshots of this format hold the same state, but for serial and lineage.
    ///
    /// # Errors
    /// When an extension can't be read.
    fn same_content(&self, one: &Snapshot, other: &Snapshot) -> Result<bool> {
        Ok(one.entries == other.entries && one.outputs == other.outputs)
    }

    /// Decrypts a file that is encrypted as a whole with a passphrase. None if the file isn't encrypted in a way that
    /// this format knows.
    ///
    /// # Errors
    /// [`Error::Encrypted`] when the key doesn't come from a passphrase; [`Error::Core`] for a broken envelope, a
    /// wrong passphrase, and a build without the feature.
    fn decrypt(&self, _bytes: &[u8], _passphrase: &str) -> Result<Option<Decrypted>> {
        Ok(None)
    }

    /// Where the passphrase of single encrypted values is found. None if this build can't open such values.
    fn secrets_passphrase(&self) -> Option<PassphraseSource> {
        None
    }

    /// How many values of a snapshot the system of this format encrypted itself.
    fn encrypted_secrets(&self, _snapshot: &Snapshot) -> usize {
        0
    }

    /// Opens the values that the system of this format encrypted one by one. From then on they are plain values whose
    /// paths are sensitive; those that don't change are exported as they came in.
    ///
    /// # Errors
    /// [`Error::Secrets`]; the snapshot isn't changed then.
    fn open_secrets(&self, _snapshot: &mut Snapshot, _passphrase: &str) -> Result<OpenedSecrets> {
        Err(Error::Secrets {
            reason: format!("this build opens none of {}", self.description().system),
            needs_passphrase: false,
        })
    }
}

/// What a build does with a format, in sentences for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name of the system that writes this format.
    pub system: &'static str,
    /// What is read.
    pub reads: &'static str,
    /// What is written.
    pub writes: &'static str,
    /// What is recognised and refused by name.
    pub refuses: &'static str,
}

/// The content of a file that isn't compressed, scanned once for all formats that look at it.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    bytes: &'a [u8],
    document: Result<Document<'a>, JsonError>,
}

impl<'a> Content<'a> {
    /// Scans the bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            document: fields::scan(bytes),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The JSON document.
    ///
    /// # Errors
    /// For bytes that aren't JSON.
    pub fn document(&self) -> Result<Document<'a>, &JsonError> {
        self.document.as_ref().copied()
    }

    /// The top level of the JSON document; none if the bytes aren't JSON.
    pub fn root(&self) -> Option<View<'a>> {
        self.document.as_ref().ok().map(Document::root)
    }
}

/// What a format finds in a file.
#[derive(Debug)]
pub enum Detection {
    /// The file isn't in this format.
    No,
    /// The file is in this format.
    Match {
        /// How much the marks prove that were found.
        confidence: Confidence,
        /// What the document says of itself: its version and its writer. Bounded, and without values.
        description: String,
    },
    /// The file is in this format, or often mistaken for it, and can't be read.
    Refused {
        /// How much the marks prove that were found.
        confidence: Confidence,
        /// What the file is, and what to do about it.
        error: Error,
    },
}

impl Detection {
    /// A match if there is a description.
    pub fn of(confidence: Confidence, description: Option<String>) -> Self {
        description.map_or(Self::No, |description| Self::Match {
            confidence,
            description,
        })
    }

    /// How sure the format is; none if the file isn't in it.
    pub(crate) fn confidence(&self) -> Option<Confidence> {
        match self {
            Self::No => None,
            Self::Match { confidence, .. } | Self::Refused { confidence, .. } => Some(*confidence),
        }
    }
}

/// How much it proves that a file has the marks of a format. The most confident format wins, of equals the first in
/// the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Other formats have these marks as well.
    Possible,
    /// Seldom found in other formats.
    Likely,
    /// Found in no other format.
    Certain,
}

/// How a state is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions<'a> {
    /// Where the time of the import comes from.
    pub clock: &'a dyn Clock,
    /// Whether states are read that break rules of integrity, because they are [repaired](state_core::repair) next:
    /// entries may share a key, or depend on each other in a circle.
    pub broken: bool,
}

impl<'a> ReadOptions<'a> {
    /// Options for a sound state.
    pub fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, broken: false }
    }

    /// Decodes a snapshot in our own words; `object` names it in errors.
    pub(crate) fn decode(&self, object: &str, bytes: &[u8]) -> Result<Snapshot> {
        let decoded = match self.broken {
            true => codec::decode_broken(object, bytes),
            false => codec::decode(object, bytes),
        };
        Ok(decoded?)
    }
}

/// A state that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The state in our terms. The caller assigns stack name, lineage, serial and uids: an entry that the stack has
    /// already keeps its uid.
    pub snapshot: Snapshot,
    /// How the foreign system identifies this state; none for our own snapshots.
    pub foreign: Option<ForeignMeta>,
    /// What a person should know about this state. Names, never values.
    pub notes: Vec<String>,
}

/// How a foreign system identifies a state that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignMeta {
    /// The [name](StateFormat::name) of the format.
    pub system: &'static str,
    /// Its lineage, opaque; may be empty. Systems without lineages use other names that stay the same: Pulumi project
    /// and stack, unobin factory and deployment.
    pub lineage: String,
    /// Its serial; 0 where the system counts none.
    pub serial: u64,
}

/// How a system identifies the state that a snapshot came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// As [`ForeignMeta::lineage`].
    pub lineage: String,
    /// Its serial; none where the system counts none.
    pub serial: Option<u64>,
}

/// A file that was decrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct Decrypted {
    /// The plain bytes.
    pub bytes: Vec<u8>,
    /// The program that encrypted them.
    pub encrypted_by: &'static str,
}

/// Without the bytes.
impl fmt::Debug for Decrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decrypted")
            .field("encrypted_by", &self.encrypted_by)
            .finish_non_exhaustive()
    }
}

/// Where a system looks for the passphrase of its secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassphraseSource {
    /// The environment variable with the passphrase.
    pub variable: &'static str,
    /// The environment variable with the path of a file that holds the passphrase.
    pub file_variable: &'static str,
}

/// How many secrets were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenedSecrets {
    /// Secrets that were encrypted.
    pub decrypted: usize,
    /// Secrets that were marked, and not encrypted.
    pub plain: usize,
}

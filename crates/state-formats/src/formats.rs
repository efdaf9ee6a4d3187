//! The table of formats, and what is asked of all of them.

use crate::compression::{Packing, unpack};
use crate::error::{Error, Result};
use crate::fields::shown;
use crate::format::{Confidence, Content, Decrypted, Detection, Imported, ReadOptions, StateFormat};
use crate::native::Native;
use crate::pulumi::Pulumi;
use crate::terraform::Terraform;
use crate::unobin::Unobin;
use crate::verdict::{self, ImportVerdict};
use state_core::Snapshot;
use state_core::json::Kind;
use state_core::mask::OpaquePointers;
use std::borrow::Cow;
use std::sync::Arc;

/// The formats that a program knows.
#[derive(Clone, Debug)]
pub struct Formats {
    /// Never empty: the first one is our own, which holds every snapshot.
    table: Vec<Arc<dyn StateFormat>>,
}

/// What a file was found to be.
#[derive(Clone, Debug)]
pub struct Detected<'f> {
    /// Its format.
    pub format: &'f dyn StateFormat,
    /// What the document says of itself: its version and its writer. Bounded, and without values.
    pub description: String,
}

impl Default for Formats {
    fn default() -> Self {
        Self::standard()
    }
}

impl Formats {
    /// The formats of this crate.
    pub fn standard() -> Self {
        Self {
            table: vec![
                Arc::new(Native),
                Arc::new(Terraform),
                Arc::new(Pulumi),
                Arc::new(Unobin),
            ],
        }
    }

    /// Adds a format.
    #[must_use]
    pub fn with(mut self, format: impl StateFormat + 'static) -> Self {
        self.table.push(Arc::new(format));
        self
    }

    /// All formats, our own first.
    pub fn iter(&self) -> impl Iterator<Item = &dyn StateFormat> {
        self.table.iter().map(|format| &**format)
    }

    /// The names of all formats, our own last, in the words of help texts.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.iter().map(StateFormat::name).collect();
        names.rotate_left(1);
        names
    }

    /// All formats as a table in Markdown: as the guide for teams shows it.
    pub fn table(&self) -> String {
        let mut table =
            String::from("| `--format` | reads | writes | refuses by name |\n|---|---|---|---|\n");
        for format in self.iter() {
            let about = format.description();
            table.push_str(&format!(
                "| `{}` | {} | {} | {} |\n",
                format.name(),
                about.reads,
                about.writes,
                about.refuses
            ));
        }
        table
    }

    /// The format of a name or alias.
    ///
    /// # Errors
    /// [`Error::Core`] that lists the names.
    pub fn named(&self, name: &str) -> Result<&dyn StateFormat> {
        let is_called = |format: &&dyn StateFormat| format.name() == name || format.aliases().contains(&name);
        self.iter().find(is_called).ok_or_else(|| {
            let names: Vec<_> = self.iter().map(StateFormat::name).collect();

            let reason = format!("the formats are: {}", names.join(", "));
            state_core::Error::invalid(format!("format `{}`", shown(name)), reason).into()
        })
    }

    /// Finds the format of a file by its content, which is unpacked once if it is compressed.
    ///
    /// # Errors
    /// [`Error::NoState`] for 0 bytes; [`Error::NotAState`], [`Error::Version`] and [`Error::Encrypted`] for what is
    /// recognised and refused; [`Error::Core`] for bytes that are neither JSON nor in a format of another kind;
    /// [`Error::Unrecognised`] for JSON of no known format.
    pub fn detect(&self, bytes: &[u8]) -> Result<Detected<'_>> {
        let bytes = match Packing::of(bytes) {
            // Once: a stream may well unpack to itself.
            Some(_) => Cow::Owned(unpack(bytes.to_vec())?),
            None => Cow::Borrowed(bytes),
        };
        if bytes.is_empty() {
            return Err(Error::NoState);
        }
        let content = Content::new(&bytes);
        let mut best: Option<(Confidence, &dyn StateFormat, Detection)> = None;
        for format in self.iter() {
            let detection = format.detect(&content);
            if let Some(confidence) = detection.confidence()
                && best.as_ref().is_none_or(|(so_far, ..)| confidence > *so_far)
            {
                best = Some((confidence, format, detection));
            }
        }
        match best {
            Some((_, format, Detection::Match { description, .. })) => Ok(Detected { format, description }),
            Some((_, _, Detection::Refused { error, .. })) => Err(error),
            _ => Err(unrecognised(&content)),
        }
    }

    /// Reads a state in a format; a compressed one is unpacked once.
    ///
    /// # Errors
    /// As [`StateFormat::read`]; [`Error::Core`] when the file can't be unpacked.
    pub fn import(
        &self,
        bytes: impl Into<Vec<u8>>,
        format: &dyn StateFormat,
        options: &ReadOptions<'_>,
    ) -> Result<Imported> {
        format.read(unpack(bytes.into())?, options)
    }

    /// Writes a snapshot in a format: the same snapshot, the same bytes.
    ///
    /// # Errors
    /// [`Error::NotExportable`] when the snapshot came from a system whose states mean nothing in this format, and as
    /// [`StateFormat::write`].
    pub fn export(&self, snapshot: &Snapshot, format: &dyn StateFormat) -> Result<Vec<u8>> {
        if format.name() != Native.name() && !format.came_from(snapshot) {
            let mut origins = self.iter().filter(|origin| origin.came_from(snapshot));
            if let Some(reason) = origins.find_map(StateFormat::confined) {
                return Err(Error::not_exportable(format.name(), "the snapshot", reason));
            }
        }
        format.write(snapshot)
    }

    /// The format that a snapshot came in; our own if it came in none.
    pub fn origin(&self, snapshot: &Snapshot) -> &dyn StateFormat {
        let mut formats = self.iter();
        formats
            .find(|format| format.came_from(snapshot))
            .unwrap_or(&Native)
    }

    /// Decrypts a file that is encrypted as a whole with a passphrase; none if no format knows its envelope.
    ///
    /// # Errors
    /// As [`StateFormat::decrypt`].
    pub fn decrypt(&self, bytes: &[u8], passphrase: &str) -> Result<Option<Decrypted>> {
        for format in self.iter() {
            if let Some(decrypted) = format.decrypt(bytes, passphrase)? {
                return Ok(Some(decrypted));
            }
        }
        Ok(None)
    }

    /// How many values of a snapshot are secrets that their own system encrypted.
    pub fn encrypted_secrets(&self, snapshot: &Snapshot) -> usize {
        self.iter().map(|format| format.encrypted_secrets(snapshot)).sum()
    }

    /// The formats with the parts of their extensions that may hold secrets which nothing marks as sensitive. Of a
    /// format that isn't listed any part may.
    pub fn opaque(&self) -> impl Iterator<Item = (&'static str, OpaquePointers<'static>)> {
        self.iter()
            .filter_map(|format| Some((format.name(), format.opaque()?)))
    }

    /// Whether a state may replace the one that a stack has.
    ///
    /// An empty stack, without entries and outputs, takes any state. Otherwise the lineages must agree, and the
    /// serial must be higher, or equal with equal content. A state without lineage may follow another one without,
    /// but doesn't replace a known lineage (Terraform lets it). Systems without lineage and serial have other names:
    /// these must agree, and the stack must be as it was imported. An import that is forced doesn't ask.
    ///
    /// # Errors
    /// [`Error`] when a snapshot's extension can't be read, or its content not be compared.
    pub fn check_import(&self, existing: Option<&Snapshot>, new: &Imported) -> Result<ImportVerdict> {
        let is_empty = |old: &Snapshot| old.entries.is_empty() && old.outputs.is_empty();
        let Some(existing) = existing.filter(|old| !is_empty(old)) else {
            return Ok(ImportVerdict::Accepted);
        };
        let format = match &new.foreign {
            Some(meta) => self.named(meta.system)?,
            None => &Native,
        };
        let refusal = verdict::refusal(format, existing, new)?;
        Ok(refusal.map_or(ImportVerdict::Accepted, ImportVerdict::Refused))
    }
}

/// Why no format knows a file.
fn unrecognised(content: &Content<'_>) -> Error {
    let root = match content.document() {
        Ok(document) => document.root(),
        Err(error) => return Error::malformed(error.clone()),
    };
    let reason = if root.kind() == Kind::Object {
        "there is neither `version` nor `format-version` at the top level".to_owned()
    } else {
        format!("the top level is of kind {}, not object", root.kind())
    };
    Error::Unrecognised { reason }
}

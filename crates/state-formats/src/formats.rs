//! The table of formats, with detection, import and export.

use crate::compression::decompress;
use crate::error::{Error, Result};
use crate::fields::printable;
use crate::format::{Confidence, Content, Decrypted, Detection, Imported, ReadOptions, StateFormat};
use crate::lookalike;
use crate::native::Native;
use crate::pulumi::Pulumi;
use crate::state_file::StateFile;
use crate::terraform::Terraform;
use crate::unobin::Unobin;
use crate::verdict::{self, ImportVerdict};
use state_core::Snapshot;
use state_core::json::Kind;
use state_core::mask::OpaquePointers;
use state_core::sensitive::ADDED_MARKS;
use std::sync::Arc;

/// The formats that a program supports.
#[derive(Clone, Debug)]
pub struct Formats {
    /// Never empty: the first format is [`Native`], which can represent every snapshot.
    table: Vec<Arc<dyn StateFormat>>,
}

/// The result of a successful format detection.
#[derive(Clone, Debug)]
pub struct Detected<'f> {
    /// The format of the file.
    pub format: &'f dyn StateFormat,
    /// Names the version and the writer of the document. The text is bounded in length and contains no values.
    pub description: String,
}

impl Default for Formats {
    fn default() -> Self {
        Self::standard()
    }
}

impl Formats {
    /// A table with all formats of this crate.
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

    /// Adds a format at the end of the table.
    #[must_use]
    pub fn with(mut self, format: impl StateFormat + 'static) -> Self {
        self.table.push(Arc::new(format));
        self
    }

    /// Iterates over all formats; the native one is first.
    pub fn iter(&self) -> impl Iterator<Item = &dyn StateFormat> {
        self.table.iter().map(|format| &**format)
    }

    /// The names of all formats for help texts; the native one is last.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.iter().map(StateFormat::name).collect();
        names.rotate_left(1);
        names
    }

    /// Renders all formats as a Markdown table, for the guide for teams.
    pub fn table(&self) -> String {
        let mut table = String::from(
            "| `--format` | reads | writes | refuses with a specific error |\n|---|---|---|---|\n",
        );
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

    /// Returns the format with this name or alias.
    ///
    /// # Errors
    /// [`Error::Core`] that lists the known names.
    pub fn named(&self, name: &str) -> Result<&dyn StateFormat> {
        let is_called = |format: &&dyn StateFormat| format.name() == name || format.aliases().contains(&name);
        self.iter().find(is_called).ok_or_else(|| {
            let names: Vec<_> = self.iter().map(StateFormat::name).collect();

            let reason = format!("unknown; the formats are {}", names.join(", "));
            state_core::Error::invalid(format!("format `{}`", printable(name)), reason).into()
        })
    }

    /// Detects the format of a file from its content. A compressed file is decompressed once.
    ///
    /// # Errors
    /// [`Error::NoState`] for an empty file; [`Error::NotAState`], [`Error::Version`] and [`Error::Encrypted`] for a
    /// recognised document that can't be read; [`Error::Core`] for bytes that are neither JSON nor in a binary format;
    /// [`Error::Unrecognised`] for JSON in no known format.
    pub fn detect(&self, bytes: &[u8]) -> Result<Detected<'_>> {
        self.parse_and_detect(bytes.to_vec())
            .map(|(detected, _)| detected)
    }

    /// Detects the format of a file from its content, and reads the state. The text is parsed only once. A compressed file
    /// is decompressed once.
    ///
    /// # Errors
    /// Those of [`Formats::detect`] and [`Formats::import`].
    pub fn import_detected(
        &self,
        bytes: impl Into<Vec<u8>>,
        options: &ReadOptions<'_>,
    ) -> Result<(Detected<'_>, Imported)> {
        let (detected, source) = self.parse_and_detect(bytes.into())?;
        let imported = detected.format.read(source, options)?;
        Ok((detected, imported))
    }

    fn parse_and_detect(&self, bytes: Vec<u8>) -> Result<(Detected<'_>, StateFile)> {
        // Decompress only once: a crafted stream may decompress to itself.
        let bytes = decompress(bytes)?;
        if bytes.is_empty() {
            return Err(Error::NoState);
        }
        let (source, error) = StateFile::parsed(bytes);
        let detected = self.detect_content(&Content::of(&source, error))?;
        Ok((detected, source))
    }

    fn detect_content(&self, content: &Content<'_>) -> Result<Detected<'_>> {
        let mut best: Option<(Confidence, &dyn StateFormat, Detection)> = None;
        for format in self.iter() {
            let detection = format.detect(content);
            if let Some(confidence) = detection.confidence()
                && best.as_ref().is_none_or(|(so_far, ..)| confidence > *so_far)
            {
                best = Some((confidence, format, detection));
            }
        }
        match best {
            Some((_, format, Detection::Match { description, .. })) => Ok(Detected { format, description }),
            Some((_, _, Detection::Refused { error, .. })) => Err(error),
            _ => Err(unrecognised(content)),
        }
    }

    /// Reads a state in the given format. A compressed file is decompressed once.
    ///
    /// # Errors
    /// Those of [`StateFormat::read`]; [`Error::Core`] when the file can't be decompressed.
    pub fn import(
        &self,
        bytes: impl Into<Vec<u8>>,
        format: &dyn StateFormat,
        options: &ReadOptions<'_>,
    ) -> Result<Imported> {
        format.read(decompress(bytes.into())?.into(), options)
    }

    /// Writes a snapshot in the given format; equal snapshots give equal bytes.
    ///
    /// # Errors
    /// Those of [`Formats::export_to`].
    pub fn export(&self, snapshot: &Snapshot, format: &dyn StateFormat) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.export_to(snapshot, format, &mut |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Writes a snapshot in the given format like [`Formats::export`], and passes the bytes to `out` piece by piece, so that
    /// a large state is never in memory as a whole text. After an error, no piece was passed.
    ///
    /// # Errors
    /// [`Error::NotExportable`] when the snapshot was imported from a system whose states have no meaning in this
    /// format; those of [`StateFormat::write`].
    pub fn export_to(
        &self,
        snapshot: &Snapshot,
        format: &dyn StateFormat,
        out: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        if format.name() != Native.name() && !format.came_from(snapshot) {
            let mut origins = self.iter().filter(|origin| origin.came_from(snapshot));
            if let Some(reason) = origins.find_map(StateFormat::export_restriction) {
                return Err(Error::not_exportable(format.name(), "the snapshot", reason));
            }
        }
        format.write(snapshot, out)
    }

    /// The format that a snapshot was imported from; [`Native`] if it wasn't imported.
    pub fn origin(&self, snapshot: &Snapshot) -> &dyn StateFormat {
        let mut formats = self.iter();
        formats
            .find(|format| format.came_from(snapshot))
            .unwrap_or(&Native)
    }

    /// Decrypts a file that is encrypted as a whole with a passphrase; None if no format recognises the envelope.
    ///
    /// # Errors
    /// Those of [`StateFormat::decrypt`].
    pub fn decrypt(&self, bytes: &[u8], passphrase: &str) -> Result<Option<Decrypted>> {
        for format in self.iter() {
            if let Some(decrypted) = format.decrypt(bytes, passphrase)? {
                return Ok(Some(decrypted));
            }
        }
        Ok(None)
    }

    /// Number of values in a snapshot that are still encrypted by a foreign system.
    pub fn encrypted_secrets(&self, snapshot: &Snapshot) -> usize {
        self.iter().map(|format| format.encrypted_secrets(snapshot)).sum()
    }

    /// The [opaque parts](StateFormat::opaque) of the extensions, by format name. In the extensions of a format that
    /// isn't returned, any part may contain secrets. The last item is the record of the marks that an import added.
    pub fn opaque(&self) -> impl Iterator<Item = (&'static str, OpaquePointers<'static>)> {
        let formats = self.iter();
        let of_formats = formats.filter_map(|format| Some((format.name(), format.opaque()?)));
        of_formats.chain([(ADDED_MARKS, OpaquePointers::default())])
    }

    /// Decides whether an imported state may replace the state of a stack.
    ///
    /// An empty stack, without entries and outputs, accepts any state. Otherwise the lineages must be equal, and the
    /// serial must be higher, or equal with equal content. A state without a lineage may replace another state without
    /// one, but not a state with a known lineage (Terraform allows the latter). For a system without lineages and
    /// serials, the names that replace the lineage (project and stack of Pulumi, factory and deployment of unobin) must
    /// be equal, and the stack must be unchanged since its last import. A forced import skips this check.
    ///
    /// # Errors
    /// [`Error`] when the extension of a snapshot can't be read, or the contents can't be compared.
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

/// The error for a file that no format recognises.
fn unrecognised(content: &Content<'_>) -> Error {
    let lookalike = match content.top_level() {
        Some(root) => lookalike::of_json(root),
        None => lookalike::of_bytes(content.bytes()),
    };
    if let Some(what) = lookalike {
        let what = what.to_owned();
        return Error::NotAState { what };
    }
    let root = match content.document() {
        Ok(document) => document.root(),
        Err(error) => return Error::malformed(error.clone()),
    };
    let reason = if root.kind() == Kind::Object {
        "it has neither `version` nor `format-version` at the top level".to_owned()
    } else {
        format!("its top level is of kind {}, not object", root.kind())
    };
    Error::Unrecognised { reason }
}

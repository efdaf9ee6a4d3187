//! Reads the file to import: detects its format, unpacks, decrypts and decodes it.

use super::Args;
use crate::context::Context;
use crate::error::CliError;
use crate::formats::{self, Format, REPAIR, failed};
use crate::input;
use crate::marks::count;
use crate::settings::MASKED;
use state_core::{Clock, verify};
use state_formats::{Compression, Imported, ReadOptions, decompress};
use state_manager::compute;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Value of the flag `--format`.
#[derive(Clone, Copy, Debug)]
pub(super) enum FormatArg {
    /// Detect the format from the content.
    Auto,
    /// Use the format with this name.
    Named(Format),
}

impl FromStr for FormatArg {
    type Err = state_formats::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            other => formats::named(other).map(Self::Named),
        }
    }
}

/// A decoded file with its format.
pub(super) struct Source {
    pub(super) format: Format,
    /// Description of the detected content; none if `--format` named a format.
    pub(super) found: Option<String>,
    pub(super) imported: Imported,
}

/// Hint for a state that `--repair` can't repair.
const BEYOND_REPAIR: &str = "`--repair` can't fix this: restore a backup, or correct the file by hand";

/// Reads and decodes a file or stdin, and decrypts it if a passphrase is given.
///
/// Decoding is a computation of [`compute`], so that the memory that it frees is reused when the snapshot is marked,
/// verified and stored.
pub(super) async fn read(context: &Context, args: Args) -> Result<Source, CliError> {
    let clock = Arc::clone(&context.environment.clock);
    compute(move || understand(&*clock, &args)).await?
}

fn understand(clock: &dyn Clock, args: &Args) -> Result<Source, CliError> {
    let Unwrapped { name, bytes, notes } = unwrapped(args)?;
    let formats = formats::all();
    let options = ReadOptions {
        broken: args.repair,
        ..ReadOptions::new(clock)
    };
    let read = match args.format {
        FormatArg::Named(format) => {
            let imported = formats.import(bytes, format, &options);
            imported.map(|imported| (format, None, imported))
        }
        FormatArg::Auto => formats
            .import_detected(bytes, &options)
            .map(|(detected, imported)| (detected.format, Some(detected.description), imported)),
    };
    let (format, found, mut imported) = read.map_err(|error| match failed(&name, error) {
        // Don't recommend `--repair` to a user who passed it.
        error if args.repair && error.hint.as_deref() == Some(REPAIR) => error.with_hint(BEYOND_REPAIR),
        error => error,
    })?;
    // Formats that verify integrity themselves are skipped: a second pass over a large state costs memory.
    if !args.repair && !format.checks_integrity() {
        let checked = verify::check(&*name, &imported.snapshot);
        checked.map_err(|error| CliError::from(error).with_hint(REPAIR))?;
    }
    if args.secrets.open_secrets {
        args.secrets.open(&name, &mut imported)?;
    }
    imported.notes.extend(notes);
    imported.notes.extend(about_pending(&imported));
    if imported.snapshot.invalidated.is_some() {
        imported.notes.push(
            "the file was exported from an unreliable state: compare it with the real resources".to_owned(),
        );
    }
    Ok(Source {
        format,
        found,
        imported,
    })
}

/// The bytes of a state after decompression and decryption.
struct Unwrapped {
    name: String,
    bytes: Vec<u8>,
    notes: Vec<String>,
}

fn unwrapped(args: &Args) -> Result<Unwrapped, CliError> {
    let file = &*args.file;
    let name = if file == Path::new("-") {
        "stdin".to_owned()
    } else {
        file.display().to_string()
    };
    let packed = input::read(file).map_err(|source| {
        CliError::io(name.clone(), &source).with_hint("name a readable file, or `-` for stdin")
    })?;
    let mut notes = Vec::new();
    if let Some(packing) = Compression::of(&packed) {
        notes.push(format!(
            "the file was compressed with {packing}; `statectl export` writes it uncompressed"
        ));
    }
    let mut bytes = decompress(packed).map_err(|error| failed(&name, error))?;
    if let Some(decrypted) = args.passphrase.decrypt(&name, &bytes)? {
        bytes = decrypted.bytes;
        notes.push(format!(
            "the file was encrypted with {}; the stack's policy decides which values are encrypted here, and `statectl \
             export` writes an unencrypted file",
            decrypted.encrypted_by
        ));
    }
    refuse_masked(&name, &bytes)?;
    Ok(Unwrapped { name, bytes, notes })
}

/// A note about the file's pending operations: whether they are imported.
fn about_pending(imported: &Imported) -> Option<String> {
    let pending = imported.snapshot.pending_operations.len();
    if pending == 0 {
        return None;
    }
    if imported.foreign.is_some() {
        let what = count(pending, "pending operation", "pending operations");
        return Some(format!("imported {what}: list with `statectl pending list`"));
    }
    let what = count(
        pending,
        "pending operation of the file was",
        "pending operations of the file were",
    );
    Some(format!("{what} not imported: resolve them in the original stack"))
}

/// Refuses a masked export: importing it would replace secrets by placeholders. The mark is at the beginning of the file.
fn refuse_masked(name: &str, bytes: &[u8]) -> Result<(), CliError> {
    let beginning = &bytes[..bytes.len().min(4096)];
    if !String::from_utf8_lossy(beginning).contains(&format!("\"{MASKED}\"")) {
        return Ok(());
    }
    Err(
        CliError::refused(name, "cannot import a masked export: its secrets are missing")
            .with_hint("export the state again with `statectl export --show-secrets`"),
    )
}

//! The document that is imported.

use super::Args;
use crate::context::Context;
use crate::error::CliError;
use crate::formats::{self, Format, REPAIR, failed};
use crate::marks::count;
use crate::settings::MASKED;
use state_core::{Clock, verify};
use state_formats::{Compression, Imported, ReadOptions, decompress};
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Which format is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// Whichever the content has.
    Auto,
    /// This one.
    Named(Format),
}

impl FromStr for Wanted {
    type Err = state_formats::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            other => formats::named(other).map(Self::Named),
        }
    }
}

/// A document that was understood.
pub(super) struct Source {
    pub(super) format: Format,
    /// What the content was found to be; none if the format was named.
    pub(super) found: Option<String>,
    pub(super) imported: Imported,
}

/// What is left where a repair doesn't help.
const BEYOND_REPAIR: &str =
    "nothing was written; no repair mends this: restore a backup, or mend the file by hand";

/// Reads and understands a file, or stdin. An encrypted one is opened with the passphrase, if there is one.
///
/// On a thread of its own, which the runtime takes again to judge and store the snapshot: allocators keep what a thread
/// frees for that thread, and a large state needs it there.
pub(super) async fn read(context: &Context, args: Args) -> Result<Source, CliError> {
    let clock = Arc::clone(&context.environment.clock);
    let reading = tokio::task::spawn_blocking(move || understand(&*clock, &args));
    match reading.await {
        Ok(read) => read,
        // Nobody cancels it.
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

fn understand(clock: &dyn Clock, args: &Args) -> Result<Source, CliError> {
    let Unwrapped { name, bytes, notes } = unwrapped(args)?;
    let formats = formats::all();
    let (format, found) = match args.format {
        Wanted::Named(format) => (format, None),
        Wanted::Auto => {
            let detected = formats.detect(&bytes).map_err(|error| failed(&name, error))?;
            (detected.format, Some(detected.description))
        }
    };
    let options = ReadOptions {
        broken: args.repair,
        ..ReadOptions::new(clock)
    };
    let imported = formats.import(bytes, format, &options);
    let mut imported = imported.map_err(|error| match failed(&name, error) {
        // That is what was asked for.
        describe if args.repair && describe.hint.as_deref() == Some(REPAIR) => {
            describe.with_hint(BEYOND_REPAIR)
        }
        describe => describe,
    })?;
    // Another look at a large state costs memory.
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
            "the file says that its stack wasn't reliable when it was written: compare it with the world"
                .to_owned(),
        );
    }
    Ok(Source {
        format,
        found,
        imported,
    })
}

/// The bytes of a state, without what they were packed and encrypted in.
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
    let packed = bytes(file).map_err(|source| {
        CliError::io(name.clone(), &source).with_hint("name a file that can be read, or `-` for stdin")
    })?;
    let mut notes = Vec::new();
    if let Some(packing) = Compression::of(&packed) {
        notes.push(format!(
            "the file was packed with {packing}; `statectl export` prints it unpacked"
        ));
    }
    let mut bytes = decompress(packed).map_err(|error| failed(&name, error))?;
    if let Some(decrypted) = args.passphrase.decrypt(&name, &bytes)? {
        bytes = decrypted.bytes;
        notes.push(format!(
            "{} encrypted the file; here its values are stored by the policy of the stack, and an export isn't encrypted",
            decrypted.encrypted_by
        ));
    }
    refuse_masked(&name, &bytes)?;
    Ok(Unwrapped { name, bytes, notes })
}

/// What becomes of the pending operations of a file.
fn about_pending(imported: &Imported) -> Option<String> {
    let pending = imported.snapshot.pending_operations.len();
    if pending == 0 {
        return None;
    }
    if imported.foreign.is_some() {
        let what = count(pending, "operation of the file is", "operations of the file are");
        return Some(format!("{what} pending here as well: `statectl pending list`"));
    }
    let what = count(
        pending,
        "pending operation of the file isn't",
        "pending operations of the file aren't",
    );
    Some(format!("{what} taken over: resolve them where they were begun"))
}

/// A masked export says so at its beginning: taken back, it would put placeholders in the place of secrets.
fn refuse_masked(name: &str, bytes: &[u8]) -> Result<(), CliError> {
    let beginning = &bytes[..bytes.len().min(4096)];
    if !String::from_utf8_lossy(beginning).contains(&format!("\"{MASKED}\"")) {
        return Ok(());
    }
    Err(
        CliError::refused(name, "it is a masked export: its secrets are missing")
            .with_hint("export it with `--show-secrets`, then import that"),
    )
}

fn bytes(file: &Path) -> std::io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return std::fs::read(file);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

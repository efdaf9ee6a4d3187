//! The document that is imported.

use super::{Args, secrets};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::mask::MASKED;
use state_core::{ErrorKind, verify};
use state_formats::{Format, Imported, Packing, detect, import_broken, import_owned, unpack};
use std::io::Read;
use std::path::Path;

/// A document that was understood.
pub(super) struct Source {
    pub(super) format: Format,
    pub(super) imported: Imported,
}

/// Reads and understands a file, or stdin. What breaks integrity is refused before anything is made, unless it is to be
/// repaired.
pub(super) fn read(context: &Context, args: &Args) -> Result<Source, CliError> {
    let file = &*args.file;
    let name = if file == Path::new("-") {
        "stdin".to_owned()
    } else {
        file.display().to_string()
    };
    let bytes = bytes(file).map_err(|source| {
        CliError::io(name.clone(), &source).with_hint("name a file that can be read, or `-` for stdin")
    })?;
    let packing = Packing::of(&bytes);
    let bytes = unpack(bytes).map_err(|error| failed(&name, error))?;
    refuse_masked(&name, &bytes)?;
    let format = match args.format {
        Some(format) => format,
        None => detect(&bytes).map_err(|error| failed(&name, error))?,
    };
    let clock = &*context.environment.clock;
    let imported = if args.repair {
        import_broken(&bytes, format, clock)
    } else {
        import_owned(bytes, format, clock)
    };
    let mut imported = imported.map_err(|error| failed(&name, error))?;
    if !args.repair {
        verify::check(&*name, &imported.snapshot).map_err(broken)?;
    }
    if args.secrets.open_secrets {
        secrets::open(&name, &args.secrets, &mut imported)?;
    }
    if let Some(packing) = packing {
        let note = format!("the file was packed with {packing}; `statectl export` prints it unpacked");
        imported.notes.push(note);
    }
    let pending = imported.snapshot.pending_operations.len();
    if pending > 0 && imported.foreign.is_some() {
        let what = count(pending, "operation of the file is", "operations of the file are");
        imported
            .notes
            .push(format!("{what} pending here as well: `statectl pending list`"));
    } else if pending > 0 {
        let what = count(
            pending,
            "pending operation of the file isn't",
            "pending operations of the file aren't",
        );
        imported
            .notes
            .push(format!("{what} taken over: resolve them where they were begun"));
    }
    if imported.snapshot.invalidated.is_some() {
        imported.notes.push(
            "the file says that its stack wasn't reliable when it was written: compare it with the world"
                .to_owned(),
        );
    }
    Ok(Source { format, imported })
}

/// That a state is understood and breaks rules.
fn broken(error: state_core::Error) -> CliError {
    CliError::from(error).with_hint(
        "nothing was written; `statectl import --repair FILE` shows what it would mend, and asks before it does",
    )
}

/// A masked export says so at its beginning: taken back, it would put placeholders in the place of secrets.
fn refuse_masked(name: &str, bytes: &[u8]) -> Result<(), CliError> {
    let beginning = &bytes[..bytes.len().min(4096)];
    if !String::from_utf8_lossy(beginning).contains(&format!("\"{MASKED}\"")) {
        return Ok(());
    }
    Err(CliError::new(
        ExitCode::Refused,
        name,
        "it is a masked export: its secrets are missing",
    )
    .with_hint("export it with `--show-secrets`, then import that"))
}

fn bytes(file: &Path) -> std::io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return std::fs::read(file);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An error of the formats, told about a file.
pub(super) fn failed(object: &str, error: state_formats::Error) -> CliError {
    let hint = match &error {
        state_formats::Error::Unrecognised { .. } => Some(
            "name the format: `--format terraform`, `--format pulumi`, `--format unobin` or `--format native`",
        ),
        other if other.kind() == ErrorKind::Invalid => {
            Some("nothing was written; mend the file and import it again")
        }
        _ => None,
    };
    let mut told = match error {
        state_formats::Error::Core(core) => CliError::from(core),
        other => {
            let code = other.kind().into();
            CliError::new(code, object, &other.to_string())
        }
    };
    if told.code == ExitCode::Unsupported {
        told.code = ExitCode::Failed;
    }
    if !told.message.contains(object) {
        told.message = format!("{object}: {}", told.message);
    }
    told.object = object.to_owned();
    match hint {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}

//! The document that is imported.

use super::{Args, REPAIR, secrets};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::settings::MASKED;
use state_core::{Clock, ErrorKind, verify};
use state_formats::{Format, Imported, Packing, describe, detect, import_broken, import_owned, unpack};
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Which format is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            other => other.parse().map(Self::Named),
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
pub(super) async fn read(context: &Context, args: &Args) -> Result<Source, CliError> {
    let clock = Arc::clone(&context.environment.clock);
    let asked = args.clone();
    let reading = tokio::task::spawn_blocking(move || understand(&*clock, &asked));
    match reading.await {
        Ok(read) => read,
        // Nobody cancels it.
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

fn understand(clock: &dyn Clock, args: &Args) -> Result<Source, CliError> {
    let Unwrapped { name, bytes, notes } = unwrapped(args)?;
    let (wanted, repair) = (args.format, args.repair);
    let format = match wanted {
        Wanted::Named(format) => format,
        Wanted::Auto => detect(&bytes).map_err(|error| failed(&name, error))?,
    };
    let found = (wanted == Wanted::Auto).then(|| describe(&bytes, format));
    let imported = if repair {
        import_broken(&bytes, format, clock)
    } else {
        import_owned(bytes, format, clock)
    };
    let mut imported = imported.map_err(|error| match failed(&name, error) {
        // That is what was asked for.
        told if repair && told.hint.as_deref() == Some(REPAIR) => told.with_hint(BEYOND_REPAIR),
        told => told,
    })?;
    // Terraform's reader refuses by itself what would break a rule; another look at a large state costs memory.
    if !repair && format != Format::Terraform {
        let checked = verify::check(&*name, &imported.snapshot);
        checked.map_err(|error| CliError::from(error).with_hint(REPAIR))?;
    }
    if args.secrets.open_secrets {
        secrets::open(&name, &args.secrets, &mut imported)?;
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
    if let Some(packing) = Packing::of(&packed) {
        notes.push(format!(
            "the file was packed with {packing}; `statectl export` prints it unpacked"
        ));
    }
    let mut bytes = unpack(packed).map_err(|error| failed(&name, error))?;
    if let Some(opened) = args.opening.open(&name, &bytes)? {
        bytes = opened;
        notes.push(
            "OpenTofu encrypted the file; here its values are stored by the policy of the stack, and an export \
             isn't encrypted"
                .to_owned(),
        );
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
        state_formats::Error::NotAState { .. } => {
            Some("nothing was written; import the state itself, or leave `--format` out")
        }
        state_formats::Error::Secrets {
            needs_passphrase: false,
            ..
        } => Some("nothing was written; leave `--open-secrets` out: the secrets stay encrypted as they are"),
        state_formats::Error::Encrypted {
            needs_passphrase: false,
            ..
        } => Some("nothing was written; decrypt it with its own tool first: `tofu state pull`"),
        state_formats::Error::Encrypted { .. } => {
            Some("give the passphrase in STATECTL_IMPORT_PASSPHRASE or with `--passphrase-file FILE`")
        }
        other if other.kind() == ErrorKind::Sealed => {
            Some("nothing was written; check the passphrase, or decrypt the file first")
        }
        other if other.kind() == ErrorKind::Integrity => Some(REPAIR),
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

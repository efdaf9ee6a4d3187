//! The formats that the commands know, and errors of formats in the words of the command line.

use crate::error::CliError;
use crate::exit::ExitCode;
use state_core::ErrorKind;
use state_formats::{Error, Formats, PassphraseSource, StateFormat};
use std::sync::OnceLock;

/// A format that a flag names.
pub(crate) type Format = &'static dyn StateFormat;

/// Set once, before the arguments are parsed: help texts and values of flags depend on it.
static FORMATS: OnceLock<Formats> = OnceLock::new();

/// All formats.
pub(crate) fn all() -> &'static Formats {
    FORMATS.get_or_init(Formats::standard)
}

/// Sets the formats of this process. The first call wins.
pub(crate) fn set(formats: Formats) {
    FORMATS.get_or_init(|| formats);
}

/// The format of a name.
///
/// # Errors
/// For an unknown name; the error lists the names.
pub(crate) fn named(name: &str) -> Result<Format, Error> {
    all().named(name)
}

/// The names in a sentence: `` `a`, `b` or `c` ``, each with this text before it.
pub(crate) fn listed(before: &str) -> String {
    let names: Vec<_> = all()
        .names()
        .iter()
        .map(|name| format!("`{before}{name}`"))
        .collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// The formats whose secrets a passphrase opens, and where their systems look for it.
pub(crate) fn with_secrets() -> Vec<(Format, PassphraseSource)> {
    let formats = all().iter();
    formats
        .filter_map(|format| Some((format, format.secrets_passphrase()?)))
        .collect()
}

/// What is told about each of these formats, in a sentence.
pub(crate) fn either(of: impl Fn(Format, PassphraseSource) -> &'static str) -> String {
    let told: Vec<_> = with_secrets()
        .into_iter()
        .map(|(format, source)| of(format, source))
        .collect();
    told.join(" or ")
}

/// What to do about a document that is well formed and breaks rules.
pub(crate) const REPAIR: &str =
    "nothing was written; `statectl import --repair` shows how it would be mended, and asks";

/// An error of a format, about a file.
pub(crate) fn failed(object: &str, error: Error) -> CliError {
    let hint = match &error {
        Error::Unrecognised { .. } => Some(format!("name the format: {}", listed("--format "))),
        other => hint(other).map(str::to_owned),
    };
    let mut told = match error {
        Error::Core(core) => CliError::from(core),
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

fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::NotAState { .. } => {
            Some("nothing was written; import the state itself, or leave `--format` out")
        }
        Error::Secrets {
            needs_passphrase: false,
            ..
        } => Some("nothing was written; leave `--open-secrets` out: the secrets stay encrypted as they are"),
        Error::Encrypted {
            needs_passphrase: false,
            ..
        } => Some("nothing was written; decrypt it with its own tool first: `tofu state pull`"),
        Error::Encrypted { .. } => {
            Some("give the passphrase in STATECTL_IMPORT_PASSPHRASE or with `--passphrase-file FILE`")
        }
        other => match other.kind() {
            ErrorKind::Sealed => Some("nothing was written; check the passphrase, or decrypt the file first"),
            ErrorKind::Integrity => Some(REPAIR),
            ErrorKind::Invalid => Some("nothing was written; mend the file and import it again"),
            _ => None,
        },
    }
}

//! The state formats that commands support, and the conversion of format errors to command line errors.

use crate::error::CliError;
use crate::exit::ExitCode;
use state_core::ErrorKind;
use state_formats::{Error, Formats, PassphraseSource, StateFormat};
use std::sync::OnceLock;

/// A state format, as named by a flag.
pub(crate) type Format = &'static dyn StateFormat;

/// The name of the native format.
pub(crate) const NATIVE: &str = "native";

/// Set once before the arguments are parsed, because help texts and flag values depend on the formats.
static FORMATS: OnceLock<Formats> = OnceLock::new();

/// All formats of this process.
pub(crate) fn all() -> &'static Formats {
    FORMATS.get_or_init(Formats::standard)
}

/// Sets the formats of this process. The first call wins.
pub(crate) fn set(formats: Formats) {
    FORMATS.get_or_init(|| formats);
}

/// The format with this name.
///
/// # Errors
/// If there is no such format. The error lists all names.
pub(crate) fn named(name: &str) -> Result<Format, Error> {
    all().named(name)
}

/// The names of all formats for a sentence: `` `a`, `b` or `c` ``, each with the text `before` in front.
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

/// The formats whose secrets are encrypted with a passphrase, and where their systems look for it.
pub(crate) fn with_secrets() -> Vec<(Format, PassphraseSource)> {
    let formats = all().iter();
    formats
        .filter_map(|format| Some((format, format.secrets_passphrase()?)))
        .collect()
}

/// A property of each format with secrets, joined for a sentence: `a or b`.
pub(crate) fn either(of: impl Fn(Format, PassphraseSource) -> &'static str) -> String {
    let parts: Vec<_> = with_secrets()
        .into_iter()
        .map(|(format, source)| of(format, source))
        .collect();
    parts.join(" or ")
}

/// Hint for a well-formed document that violates integrity rules.
pub(crate) const REPAIR: &str =
    "nothing was written; to repair the state during the import, run `statectl import --repair FILE`";

/// Converts an error of a format about a file.
pub(crate) fn failed(object: &str, error: Error) -> CliError {
    let hint = match &error {
        Error::Unrecognised { .. } => Some(format!("pass the format: {}", listed("--format "))),
        other => hint(other).map(str::to_owned),
    };
    let mut converted = match error {
        Error::Core(core) => CliError::from(core),
        other => {
            let code = other.kind().into();
            CliError::new(code, object, &other.to_string())
        }
    };
    // The exit code for unsupported stores would mislead here: only the file is unsupported.
    if converted.code == ExitCode::Unsupported {
        converted.code = ExitCode::Failed;
    }
    if !converted.message.contains(object) {
        converted.message = format!("{object}: {}", converted.message);
    }
    converted.object = object.to_owned();
    match hint {
        Some(hint) => converted.with_hint(hint),
        None => converted,
    }
}

fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::NotAState { .. } => {
            Some("nothing was written; name a state file, or run the command without `--format`")
        }
        Error::Secrets {
            needs_passphrase: false,
            ..
        } => Some(
            "nothing was written; run the command without `--open-secrets` to keep the secrets encrypted",
        ),
        Error::Encrypted {
            needs_passphrase: false,
            ..
        } => Some(
            "nothing was written; decrypt the file first with the tool that wrote it, for example `tofu state pull`",
        ),
        Error::Encrypted { .. } => {
            Some("pass the passphrase in STATECTL_IMPORT_PASSPHRASE or with `--passphrase-file FILE`")
        }
        other => match other.kind() {
            ErrorKind::Sealed => Some("nothing was written; check the passphrase, or decrypt the file first"),
            ErrorKind::Integrity => Some(REPAIR),
            ErrorKind::Invalid => Some("nothing was written; correct the file and import it again"),
            _ => None,
        },
    }
}

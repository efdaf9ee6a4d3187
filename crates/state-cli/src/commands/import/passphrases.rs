//! Passphrases: of a file that is encrypted as a whole, and of single values that another system encrypted.

use crate::error::CliError;
use crate::formats::{self, failed};
use crate::marks::count;
use state_formats::{Decrypted, Imported, PassphraseSource};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The environment variable with the passphrase of an encrypted file.
const VARIABLE: &str = "STATECTL_IMPORT_PASSPHRASE";

/// Where the passphrase of an encrypted file is. Never on the command line, which everybody can read.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct FilePassphrase {
    /// A file with the passphrase of an encrypted state (OpenTofu's key provider `pbkdf2`); a newline at its end doesn't
    /// count. Default: the environment variable STATECTL_IMPORT_PASSPHRASE.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

impl FilePassphrase {
    /// Decrypts a file; none if it isn't encrypted, or there is no passphrase.
    ///
    /// # Errors
    /// For a passphrase that can't be read or doesn't open it.
    pub(super) fn decrypt(&self, name: &str, bytes: &[u8]) -> Result<Option<Decrypted>, CliError> {
        match self.find()? {
            Some(passphrase) => formats::all()
                .decrypt(bytes, &passphrase)
                .map_err(|error| failed(name, error)),
            None => Ok(None),
        }
    }

    fn find(&self) -> Result<Option<Zeroizing<String>>, CliError> {
        let Some(file) = &self.passphrase_file else {
            let text = std::env::var(VARIABLE).ok().map(Zeroizing::new);
            return Ok(text.filter(|text| !text.is_empty()));
        };
        let passphrase = read(file).map_err(|error| error.with_hint("name a text file that can be read"))?;
        if passphrase.is_empty() {
            let object = file.display().to_string();
            return Err(CliError::undecipherable(object, "it holds no passphrase"));
        }
        Ok(Some(passphrase))
    }
}

/// What happens to values that another system encrypted.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Secrets {
    #[arg(long, help = format!(
        "Open the secrets that {} encrypted with a passphrase: the stack's own policy seals them from then on. They go \
         out as they came in, until they change. The passphrase is in {}, or in a file",
        formats::either(|format, _| format.description().system),
        formats::either(|_, source| source.variable)
    ))]
    pub(super) open_secrets: bool,
    #[arg(long, value_name = "FILE", requires = "open_secrets", help = format!(
        "With `--open-secrets`: the file that holds the passphrase. Default: {}",
        formats::either(|_, source| source.file_variable)
    ))]
    secrets_passphrase_file: Option<PathBuf>,
}

impl Secrets {
    /// Opens the secrets of a state that was just read.
    pub(super) fn open(&self, name: &str, imported: &mut Imported) -> Result<(), CliError> {
        let system = imported.foreign.as_ref().map(|foreign| foreign.system);
        let found = formats::with_secrets()
            .into_iter()
            .find(|(format, _)| Some(format.name()) == system);
        let Some((format, source)) = found else {
            let systems = formats::either(|format, _| format.description().system);
            let message = format!("only secrets of a {systems} state can be opened");
            let error = CliError::usage(name, &message);
            return Err(error.with_hint("leave `--open-secrets` out"));
        };
        let passphrase = self.find(source)?;
        let opened = format
            .open_secrets(&mut imported.snapshot, &passphrase)
            .map_err(|error| failed(name, error))?;
        let secrets = count(opened.decrypted + opened.plain, "secret was", "secrets were");
        imported.notes.push(format!(
            "{secrets} opened; the policy of the stack says whether they are sealed again"
        ));
        Ok(())
    }

    /// As the system itself looks for the passphrase: the value, else the file.
    fn find(&self, source: PassphraseSource) -> Result<Zeroizing<String>, CliError> {
        let PassphraseSource {
            variable,
            file_variable,
        } = source;
        if let Some(file) = &self.secrets_passphrase_file {
            return read(file);
        }
        if let Some(passphrase) = std::env::var_os(variable) {
            return passphrase.into_string().map(Zeroizing::new).map_err(|_| {
                CliError::usage(variable, "it isn't UTF-8").with_hint("give the passphrase in a file")
            });
        }
        match std::env::var_os(file_variable) {
            Some(file) => read(Path::new(&file)),
            None => {
                let hint = format!(
                    "set {variable} or {file_variable}, or name a file with `--secrets-passphrase-file`"
                );
                let object = "the passphrase of the secrets";
                Err(CliError::undecipherable(object, "there is none").with_hint(hint))
            }
        }
    }
}

/// A passphrase in a file. A last newline isn't part of it.
fn read(file: &Path) -> Result<Zeroizing<String>, CliError> {
    let text = std::fs::read_to_string(file).map(Zeroizing::new);
    let text = text.map_err(|source| CliError::io(file.display().to_string(), &source))?;
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

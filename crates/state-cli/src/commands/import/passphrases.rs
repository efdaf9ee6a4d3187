//! Passphrases for `import`: of a file that is encrypted as a whole, and of single values that another system encrypted.

use crate::error::CliError;
use crate::formats::{self, failed};
use crate::input;
use crate::marks::count;
use state_formats::{Decrypted, Imported, PassphraseSource};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The environment variable with the passphrase of an encrypted file.
const VARIABLE: &str = "STATECTL_IMPORT_PASSPHRASE";

/// Source of the passphrase of an encrypted file. There is no flag for the passphrase itself, because other users of the
/// machine can read command lines.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct FilePassphrase {
    /// File with the passphrase of an encrypted state
    ///
    /// Supports OpenTofu's key provider `pbkdf2`. A newline at the end of the file is ignored. The default is the passphrase
    /// in STATECTL_IMPORT_PASSPHRASE.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

impl FilePassphrase {
    /// Decrypts a file. Returns none if the file isn't encrypted, or if no passphrase is given.
    ///
    /// # Errors
    /// If the passphrase can't be read, or doesn't decrypt the file.
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
        let passphrase = read(file).map_err(|error| error.with_hint("name a readable text file"))?;
        if passphrase.is_empty() {
            let object = file.display().to_string();
            return Err(CliError::undecipherable(object, "the passphrase file is empty"));
        }
        Ok(Some(passphrase))
    }
}

/// Flags for values that another system encrypted.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Secrets {
    #[arg(long, help = format!(
        "Decrypt the secrets that {} encrypted with a passphrase; the stack's policy then decides whether they are \
         encrypted. An export contains unchanged secrets in their original encrypted form. The passphrase is read from \
         {}, or from a file",
        formats::either(|format, _| format.description().system),
        formats::either(|_, source| source.variable)
    ))]
    pub(super) open_secrets: bool,
    #[arg(long, value_name = "FILE", requires = "open_secrets", help = format!(
        "With `--open-secrets`: the file with the passphrase [default: {}]",
        formats::either(|_, source| source.file_variable)
    ))]
    secrets_passphrase_file: Option<PathBuf>,
}

impl Secrets {
    /// Decrypts the secrets of the imported state.
    pub(super) fn open(&self, name: &str, imported: &mut Imported) -> Result<(), CliError> {
        let system = imported.foreign.as_ref().map(|foreign| foreign.system);
        let found = formats::with_secrets()
            .into_iter()
            .find(|(format, _)| Some(format.name()) == system);
        let Some((format, source)) = found else {
            let systems = formats::either(|format, _| format.description().system);
            let message = format!("cannot decrypt secrets: `--open-secrets` supports only {systems} states");
            let error = CliError::usage(name, &message);
            return Err(error.with_hint("run the command without `--open-secrets`"));
        };
        if formats::all().encrypted_secrets(&imported.snapshot) == 0 {
            let note =
                "`--open-secrets` has no effect: the resources of the file contain no encrypted secrets";
            imported.notes.push(note.to_owned());
            return Ok(());
        }
        let passphrase = self.find(source)?;
        let opened = format
            .open_secrets(&mut imported.snapshot, &passphrase)
            .map_err(|error| failed(name, error))?;
        let secrets = count(opened.decrypted, "secret was", "secrets were");
        imported.notes.push(format!(
            "{secrets} decrypted; the stack's policy decides whether they are encrypted again"
        ));
        Ok(())
    }

    /// Finds the passphrase as the other system does: first in its variable, then in its file.
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
                CliError::usage(variable, "the passphrase isn't UTF-8")
                    .with_hint("put the passphrase in a file: `--secrets-passphrase-file FILE`")
            });
        }
        match std::env::var_os(file_variable) {
            Some(file) => read(Path::new(&file)),
            None => {
                let hint = format!(
                    "set {variable} or {file_variable}, or name a file with `--secrets-passphrase-file`"
                );
                let object = "passphrase of the secrets";
                Err(CliError::undecipherable(object, "not found").with_hint(hint))
            }
        }
    }
}

/// Reads a passphrase from a file. A newline at the end isn't part of the passphrase.
fn read(file: &Path) -> Result<Zeroizing<String>, CliError> {
    let text = input::read_text(file).map(Zeroizing::new);
    let text = text.map_err(|source| CliError::io(file.display().to_string(), &source))?;
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

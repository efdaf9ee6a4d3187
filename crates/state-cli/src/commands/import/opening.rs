//! The passphrase of an encrypted file, and what it opens.

use super::document::failed;
use crate::error::CliError;
use crate::exit::ExitCode;
use state_formats::open_encrypted;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// The environment variable with the passphrase.
const VARIABLE: &str = "STATECTL_IMPORT_PASSPHRASE";

/// Where the passphrase of an encrypted file is. Never on the command line, which everybody can read.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Opening {
    /// A file with the passphrase of an encrypted state (OpenTofu's key provider `pbkdf2`); a newline at its end doesn't
    /// count. Default: the environment variable STATECTL_IMPORT_PASSPHRASE.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

impl Opening {
    /// What is inside of an encrypted state; none if it isn't one, or there is no passphrase.
    ///
    /// # Errors
    /// For a passphrase that can't be read or doesn't open it.
    pub(super) fn open(&self, name: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, CliError> {
        match self.passphrase()? {
            Some(passphrase) => open_encrypted(bytes, &passphrase).map_err(|error| failed(name, error)),
            None => Ok(None),
        }
    }

    fn passphrase(&self) -> Result<Option<Zeroizing<String>>, CliError> {
        let Some(file) = &self.passphrase_file else {
            let text = std::env::var(VARIABLE).ok().map(Zeroizing::new);
            return Ok(text.filter(|text| !text.is_empty()));
        };
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file)
            .map(Zeroizing::new)
            .map_err(|source| {
                CliError::io(name.clone(), &source).with_hint("name a text file that can be read")
            })?;
        let passphrase = text.trim_end_matches(['\n', '\r']);
        if passphrase.is_empty() {
            return Err(CliError::new(
                ExitCode::Undecipherable,
                name,
                "it holds no passphrase",
            ));
        }
        Ok(Some(Zeroizing::new(passphrase.to_owned())))
    }
}

//! Secrets that Pulumi encrypted with a passphrase.

use super::Secrets;
use super::document::failed;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use state_formats::{Imported, PULUMI, open_secrets};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Pulumi's own variables.
const PASSPHRASE: &str = "PULUMI_CONFIG_PASSPHRASE";
const PASSPHRASE_FILE: &str = "PULUMI_CONFIG_PASSPHRASE_FILE";

/// Opens the secrets of a state that was just read.
pub(super) fn open(name: &str, args: &Secrets, imported: &mut Imported) -> Result<(), CliError> {
    if imported
        .foreign
        .as_ref()
        .is_none_or(|foreign| foreign.system != PULUMI)
    {
        let message = "only secrets of a Pulumi state can be opened";
        return Err(CliError::new(ExitCode::Usage, name, message).with_hint("leave `--open-secrets` out"));
    }
    let passphrase = passphrase(args)?;
    let opened = open_secrets(&mut imported.snapshot, &passphrase).map_err(|error| failed(name, error))?;
    let secrets = count(opened.decrypted + opened.plain, "secret was", "secrets were");
    imported.notes.push(format!(
        "{secrets} opened; the policy of the stack says whether they are sealed again"
    ));
    Ok(())
}

/// As Pulumi looks for it: the value, else the file. A last newline in the file isn't part of it.
fn passphrase(args: &Secrets) -> Result<Zeroizing<String>, CliError> {
    if let Some(file) = &args.secrets_passphrase_file {
        return read(file);
    }
    if let Some(passphrase) = std::env::var_os(PASSPHRASE) {
        return passphrase.into_string().map(Zeroizing::new).map_err(|_| {
            CliError::new(ExitCode::Usage, PASSPHRASE, "it isn't UTF-8")
                .with_hint("give the passphrase in a file")
        });
    }
    match std::env::var_os(PASSPHRASE_FILE) {
        Some(file) => read(&PathBuf::from(file)),
        None => Err(CliError::new(
            ExitCode::Undecipherable,
            "the passphrase of the secrets",
            "there is none",
        )
        .with_hint(format!(
            "set {PASSPHRASE} or {PASSPHRASE_FILE}, or name a file with `--secrets-passphrase-file`"
        ))),
    }
}

fn read(file: &Path) -> Result<Zeroizing<String>, CliError> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map(Zeroizing::new);
    let text = text.map_err(|source| CliError::io(name, &source))?;
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

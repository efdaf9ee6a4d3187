//! The environment of the command: the address of the private server, and none of the user's secrets.

use crate::error::CliError;
use state_core::StackName;
use std::ffi::OsString;
use std::net::SocketAddr;
use tokio::process::Command;
use zeroize::Zeroizing;

/// Variable with the selected workspace.
const WORKSPACE: &str = "TF_WORKSPACE";

/// Start of the variables that configure Terraform's http backend.
const PREFIX: &str = "TF_HTTP_";

/// Start of the variables of the http backend that the command may keep.
const RETRIES: &str = "TF_HTTP_RETRY_";

/// Variables with passphrases, which the command doesn't need.
const SECRETS: [&str; 2] = ["STATECTL_PASSPHRASE", "STATECTL_IMPORT_PASSPHRASE"];

/// The variables of the command.
pub(super) struct Variables {
    url: String,
    user: &'static str,
    password: Zeroizing<String>,
}

impl Variables {
    /// The variables for a private server and a stack.
    pub(super) fn new(address: SocketAddr, stack: &StackName, user: &'static str, password: String) -> Self {
        Self {
            url: format!("http://{address}/v1/state/{stack}"),
            user,
            password: Zeroizing::new(password),
        }
    }

    /// Sets the variables, and removes those that would configure another backend.
    pub(super) fn set(&self, command: &mut Command) {
        for name in foreign(std::env::vars_os().map(|(name, _)| name)) {
            command.env_remove(name);
        }
        for name in SECRETS {
            command.env_remove(name);
        }
        command.envs([
            ("TF_HTTP_ADDRESS", &*self.url),
            ("TF_HTTP_LOCK_ADDRESS", &self.url),
            ("TF_HTTP_UNLOCK_ADDRESS", &self.url),
            ("TF_HTTP_LOCK_METHOD", "LOCK"),
            ("TF_HTTP_UNLOCK_METHOD", "UNLOCK"),
            ("TF_HTTP_UPDATE_METHOD", "POST"),
            ("TF_HTTP_USERNAME", self.user),
            ("TF_HTTP_PASSWORD", &self.password),
        ]);
    }
}

/// The variables of an http backend, except those for retries.
fn foreign(names: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_foreign = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) && !name.starts_with(RETRIES)
    };
    names.filter(is_foreign).collect()
}

/// Refuses a selected workspace: Terraform's http backend would fail with an error that doesn't name the reason.
pub(super) fn refuse_workspace() -> Result<(), CliError> {
    match std::env::var_os(WORKSPACE) {
        Some(name) if !name.is_empty() && name != "default" => {
            let name = name.to_string_lossy().into_owned();
            let message = "Terraform's http backend has no workspaces";
            Err(CliError::usage(WORKSPACE, message).with_hint(format!(
                "use a stack for the workspace: `env -u TF_WORKSPACE statectl run --stack {} -- COMMAND`",
                crate::settings::quoted(&name)
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::foreign;

    #[test]
    fn only_retry_settings_of_the_backend_are_kept() {
        let names = [
            "TF_HTTP_ADDRESS",
            "TF_HTTP_RETRY_MAX",
            "TF_VAR_a",
            "TF_HTTP_CLIENT_CA",
        ];
        let removed = foreign(names.into_iter().map(Into::into));
        assert_eq!(removed, ["TF_HTTP_ADDRESS", "TF_HTTP_CLIENT_CA"]);
    }
}

//! The store that the settings name, or that was found: what a project's settings may decide.
//!
//! A project's `statectl.toml` is data of its author. It may name a store of the user; it may not name a server that would
//! receive the user's credentials, a key file that can name a server, or a folder of another owner.

use super::{Opener, is_store, not_opened};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::ownership;
use crate::settings::file::redirects_of;
use crate::settings::{Origin, quoted, shown, url_of};
use state_manager::BackendRegistry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The environment variables by which the user names the value of a parameter that decides which server receives the
/// requests.
fn variables_of(field: &str) -> &'static [&'static str] {
    match field {
        "endpoint" => &[
            "AWS_ENDPOINT_URL_S3",
            "AWS_ENDPOINT_URL",
            "AZURE_STORAGE_ENDPOINT",
        ],
        "service-account" => &[
            "GOOGLE_SERVICE_ACCOUNT",
            "GOOGLE_SERVICE_ACCOUNT_PATH",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ],
        "emulator" => &["AZURE_STORAGE_USE_EMULATOR"],
        _ => &[],
    }
}

impl Opener {
    /// The URL of the store that the settings name. A project's settings are data of their author: they may name a store
    /// of the user, and no server that would receive the user's credentials.
    ///
    /// # Errors
    /// [`ExitCode::Unapproved`] for a project's settings that aren't trusted, or name something that isn't.
    pub(crate) fn named(&self) -> Result<Option<String>, CliError> {
        let sources = &self.settings.sources;
        let is_explicit = matches!(sources.backend.origin, Origin::Flag | Origin::Environment);
        if let Some(refused) = sources.refused.as_deref().filter(|_| !is_explicit) {
            return Err(refused.clone());
        }
        let url = self.settings.backend.as_deref().map(url_of).transpose()?;
        if let (
            Some(url),
            Origin::File {
                path,
                is_project: true,
                ..
            },
        ) = (&url, &sources.backend.origin)
        {
            self.require_own_server(path, url)?;
            require_own_location(url)?;
        }
        Ok(url)
    }

    /// Refuses a server, or a key file that can name one, that only a project's settings name.
    fn require_own_server(&self, settings: &str, url: &str) -> Result<(), CliError> {
        let is_flag = |field| {
            self.settings
                .backend_config
                .iter()
                .any(|config| config.key == field)
        };
        for (field, value) in redirects_of(url) {
            // The emulator receives no credentials of the environment, but a key of the command line would be for it.
            let is_harmless = field == "emulator" && (value == "false" || !is_flag("access-key"));
            let mut variables = variables_of(field)
                .iter()
                .filter_map(|name| std::env::var(name).ok());
            let is_own = is_flag(field) || variables.any(|own| own == value);
            let named = (field, value);
            if !is_harmless && !is_own && !self.settings.sources.own_redirects.contains(&named) {
                return Err(foreign_server(settings, url, &named));
            }
        }
        Ok(())
    }

    /// Whether completion may open the store: it must not send requests to a place that a project's settings name.
    pub(crate) fn may_complete(&self) -> bool {
        let is_project = matches!(
            self.settings.sources.backend.origin,
            Origin::File { is_project: true, .. }
        );
        let is_local = |url: &String| url.starts_with("file://");
        !is_project
            || self
                .settings
                .backend
                .as_deref()
                .and_then(|url| url_of(url).ok())
                .as_ref()
                .is_some_and(is_local)
    }
}

/// The error for a parameter that decides which server receives the requests, and that only a project's settings name.
fn foreign_server(settings: &str, url: &str, (field, value): &(&str, String)) -> CliError {
    let (named, reason) = match *field {
        "service-account" => (
            format!("service account {value}"),
            "a file that can send requests to any server",
        ),
        "emulator" => ("emulator".to_owned(), "which would receive your credentials"),
        // An endpoint with a user and a password is refused later without repeating it.
        _ if value.contains('@') => ((*field).to_owned(), "which would receive your credentials"),
        _ => (format!("{field} {value}"), "which would receive your credentials"),
    };
    let object = format!("store {}", shown(url));
    let message = format!("{settings} names the {named}, {reason}");
    let error = CliError::new(ExitCode::Unapproved, object, &message);
    error.with_hint(format!(
        "if you trust it, name it yourself: run `statectl login {}`, or pass `--backend URL`",
        quoted(&shown(url))
    ))
}

/// How many levels of folders below a store are listed: `stacks`, the folder of a stack, and what that contains.
const LEVELS: usize = 3;

/// The folders of a stack whose files are checked too. They decide which state is current, and they have few files. The
/// files of the other folders can be thousands.
const CHECKED: [&str; 2] = ["journal", "keys"];

/// Refuses a store that was found unless only the user can write it: the folder, all files and folders down to those of
/// each stack and the names of each project, and the files of [`CHECKED`].
pub(crate) fn require_own_store(folder: &Path) -> Result<(), CliError> {
    let mut parts = vec![folder.to_owned()];
    let mut level = 0..1;
    for _ in 0..LEVELS {
        for at in level.clone() {
            parts.extend(children(&parts[at])?);
        }
        level = level.end..parts.len();
    }
    for at in level {
        if CHECKED.iter().any(|name| parts[at].ends_with(name)) {
            parts.extend(children(&parts[at])?);
        }
    }
    ownership::require_own_store(folder, &parts)
}

/// The files and folders in a folder; none in a file, and none if this user can't list the folder, and so can't read a
/// store in it either.
fn children(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let failed = |source: std::io::Error| CliError::io(folder.display().to_string(), &source);
    let entries = match std::fs::read_dir(folder) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(Vec::new());
        }
        entries => entries.map_err(failed)?,
    };
    entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

/// Like [`require_own_store`], for the URL of a store. A store that doesn't exist yet has no owner.
fn require_own_location(url: &str) -> Result<(), CliError> {
    if !url.starts_with("file://") {
        return Ok(());
    }
    let configured = BackendRegistry::default().configured(url).map_err(not_opened)?;
    match configured
        .get("path")
        .map(Path::new)
        .filter(|path| is_store(path))
    {
        Some(folder) => require_own_store(folder),
        None => Ok(()),
    }
}

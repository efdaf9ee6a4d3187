//! The store that the settings name, or that was found: what a project's settings may decide.
//!
//! A project's `statectl.toml` is data of its author. It may name a store of the user; it may not name an endpoint that
//! would receive the user's credentials, or a folder of another owner.

use super::{Opener, is_store, not_opened};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::ownership;
use crate::settings::file::endpoint_of;
use crate::settings::{Origin, quoted, shown, url_of};
use state_manager::BackendRegistry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Environment variables that name the endpoint of an object store.
const ENDPOINT_VARIABLES: [&str; 3] = [
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AZURE_STORAGE_ENDPOINT",
];

impl Opener {
    /// The URL of the store that the settings name. A project's settings are data of their author: they may name a store
    /// of the user, and no endpoint that would receive the user's credentials.
    ///
    /// # Errors
    /// [`ExitCode::Unapproved`] for a project's settings that aren't trusted, or name something that isn't.
    pub(crate) fn named(&self) -> Result<Option<String>, CliError> {
        let sources = &self.settings.sources;
        let is_explicit = matches!(sources.backend.origin, Origin::Flag | Origin::Environment);
        if let Some(refused) = sources.refused.as_deref().filter(|_| !is_explicit) {
            return Err(refused.clone());
        }
        let url = self.settings.backend.as_deref().map(url_of);
        if let (
            Some(url),
            Origin::File {
                path,
                is_project: true,
                ..
            },
        ) = (&url, &sources.backend.origin)
        {
            self.require_own_endpoint(path, url)?;
            require_own_location(url)?;
        }
        Ok(url)
    }

    /// Refuses an endpoint that only a project's settings name.
    fn require_own_endpoint(&self, settings: &str, url: &str) -> Result<(), CliError> {
        let mut flags = self.settings.backend_config.iter();
        if flags.any(|config| config.key == "endpoint") {
            return Ok(());
        }
        let Some(endpoint) = endpoint_of(url) else {
            return Ok(());
        };
        let mut variables = ENDPOINT_VARIABLES
            .iter()
            .filter_map(|name| std::env::var(name).ok());
        if self.settings.sources.own_endpoints.contains(&endpoint) || variables.any(|own| own == endpoint) {
            return Ok(());
        }
        // An endpoint with a user and a password is refused later without repeating it.
        let named = match endpoint.contains('@') {
            true => String::new(),
            false => format!(" {endpoint}"),
        };
        let object = format!("store {}", shown(url));
        let message = format!("{settings} names the endpoint{named}, which would receive your credentials");
        let error = CliError::new(ExitCode::Unapproved, object, &message);
        Err(error.with_hint(format!(
            "if you trust the endpoint, name it yourself: run `statectl login {}`, or pass `--backend URL`",
            quoted(&shown(url))
        )))
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
                .map(url_of)
                .as_ref()
                .is_some_and(is_local)
    }
}

/// Refuses a store that was found unless only the user can write it: the folder, its files and folders, and each stack
/// and project in it.
pub(crate) fn require_own_store(folder: &Path) -> Result<(), CliError> {
    let mut parts = vec![folder.to_owned()];
    for part in children(folder)? {
        if part.is_dir() {
            parts.extend(children(&part)?);
        }
        parts.push(part);
    }
    let parts: Vec<_> = parts.iter().map(PathBuf::as_path).collect();
    ownership::require_own_store(folder, &parts)
}

/// The files and folders in a folder; none if this user can't list the folder, and so can't read a store in it either.
fn children(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let failed = |source: std::io::Error| CliError::io(folder.display().to_string(), &source);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
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

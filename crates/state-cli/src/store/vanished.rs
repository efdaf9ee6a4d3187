//! Stores that this client knows and that are missing: a store that was deleted must not read as one that never existed,
//! because everything that it records would be created again.

use super::{FOLDER, Opener, StoreLocation, url_of_folder};
use crate::error::CliError;
use crate::settings::file::here;
use crate::settings::{quoted, shown};
use state_core::StackName;
use state_manager::{FileKnownStacks, KnownStacks};
use std::path::Path;
use std::sync::Arc;

/// A store that is missing, with the stacks that this client knows in it.
pub(crate) struct VanishedStore {
    pub(crate) url: String,
    pub(crate) known_stacks: Arc<FileKnownStacks>,
    /// The stacks that this client knows in the store; at least one.
    pub(crate) stacks: Vec<StackName>,
}

impl Opener {
    /// Refuses to treat a missing store as new if this client knows stacks in it.
    ///
    /// # Errors
    /// [`ExitCode::Undecipherable`](crate::exit::ExitCode::Undecipherable) with the names of the stacks.
    pub(crate) async fn require_unknown(&self, url: &str) -> Result<(), CliError> {
        match self.known_at(url).await? {
            Some(vanished) => Err(vanished.into_error()),
            None => Ok(()),
        }
    }

    /// For the default location: refuses it if a nearer store, in this folder or a parent folder, is missing and this
    /// client knows stacks in it.
    ///
    /// # Errors
    /// Like [`require_unknown`](Self::require_unknown).
    pub(crate) async fn require_nearest(&self, place: &StoreLocation) -> Result<(), CliError> {
        match self.nearer(place).await? {
            Some(vanished) => Err(vanished.into_error()),
            None => Ok(()),
        }
    }

    /// The missing store that this client knows at a location, or for the default location in a parent folder.
    pub(crate) async fn vanished(&self, place: &StoreLocation) -> Result<Option<VanishedStore>, CliError> {
        match self.nearer(place).await? {
            None if place.found != Some(true) => self.known_at(&place.url).await,
            vanished => Ok(vanished),
        }
    }

    /// For the default location: the known store that is missing in the nearest folder below the one that was found.
    async fn nearer(&self, place: &StoreLocation) -> Result<Option<VanishedStore>, CliError> {
        if place.found.is_none() {
            return Ok(None);
        }
        let here = here()?;
        let missing = here
            .ancestors()
            .take_while(|folder| !super::is_store(&folder.join(FOLDER)));
        for folder in missing {
            if let Some(vanished) = self.known_in(&folder.join(FOLDER)).await? {
                return Ok(Some(vanished));
            }
        }
        Ok(None)
    }

    async fn known_in(&self, folder: &Path) -> Result<Option<VanishedStore>, CliError> {
        match folder.to_str() {
            Some(_) => self.known_at(&url_of_folder(folder)?).await,
            // The URL of a store is text, so no store was ever named here.
            None => Ok(None),
        }
    }

    async fn known_at(&self, url: &str) -> Result<Option<VanishedStore>, CliError> {
        let Some(known_stacks) = self.known_stacks(url, url) else {
            return Ok(None);
        };
        let stacks = known_stacks.names().await?;
        Ok((!stacks.is_empty()).then(|| VanishedStore {
            url: url.to_owned(),
            known_stacks,
            stacks,
        }))
    }
}

impl VanishedStore {
    /// Whether the store is a folder that still contains stacks.
    fn has_stacks(&self) -> bool {
        let folder = self.url.strip_prefix("file://").map(Path::new);
        folder.is_some_and(|folder| folder.join("stacks").is_dir())
    }

    fn into_error(self) -> CliError {
        let listed: Vec<_> = self.stacks.iter().map(StackName::short).collect();
        let message = format!(
            "the store is missing, but this client knows stacks in it: {}; it was deleted, or it vanished (a disk that isn't \
             mounted, another path, an attacker)",
            listed.join(", ")
        );
        let url = shown(&self.url);
        if self.has_stacks() {
            let message = format!(
                "the store's file `format` is missing, and this client knows stacks in the store: {}",
                listed.join(", ")
            );
            return CliError::undecipherable(format!("store {url}"), &message)
                .with_hint("run `statectl salvage`, or restore the file from a backup of the store");
        }
        let forget = listed.iter().map(|name| {
            format!(
                "`statectl trust --accept --stack {} --backend {}`",
                quoted(name),
                quoted(&url)
            )
        });
        let forget: Vec<_> = forget.collect();
        CliError::undecipherable(format!("store {url}"), &message).with_hint(format!(
            "if you deleted it on purpose, run {}; otherwise bring it back first, because everything in it would be created \
             again",
            forget.join(" and ")
        ))
    }
}

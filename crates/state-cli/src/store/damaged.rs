//! Reads a store that the backend refuses because files in it are damaged: what is intact, and which damage there is.

use super::{Opener, StoreLocation, is_store};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::output::line_to_stderr;
use state_core::backend::Opening;
use state_core::{Error, Lineage, RevisionId, Snapshot, StackName};
use state_manager::{RevisionSpec, Salvage, StackFolder, StackSurvey, UnresolvedRevision, View};
use std::path::{Path, PathBuf};

/// The largest number of revisions that a hint lists.
const MOST_LISTED: usize = 6;

impl Opener {
    /// The store of the settings as files or objects; none if the store can't be read in this way.
    pub(crate) fn files(&self) -> Result<Option<Salvage>, CliError> {
        self.files_at(&self.damaged_location()?.url)
    }

    /// The store at a URL as files or objects; none if its folder doesn't exist, or if its backend gives no access to single
    /// objects.
    pub(crate) fn files_at(&self, url: &str) -> Result<Option<Salvage>, CliError> {
        if self.folder_of(url).is_some() {
            return self.folder_at(url);
        }
        let stacks = match self.reach(url, Opening::Existing) {
            Err(Error::NotFound { .. }) => return Ok(None),
            reached => reached?,
        };
        match Salvage::of_backend(stacks.backend(), self.environment.clone()) {
            Err(Error::Unsupported { .. }) => Ok(None),
            opened => Ok(Some(self.with_memory(opened?, &stacks.url(), url))),
        }
    }

    /// The store at a URL as files; none if the store isn't in a local folder that exists.
    fn folder_at(&self, url: &str) -> Result<Option<Salvage>, CliError> {
        let Some(folder) = self.folder_of(url) else {
            return Ok(None);
        };
        match Salvage::of_folder(&folder, self.environment.clone()) {
            Err(Error::NotFound { .. }) => Ok(None),
            opened => Ok(Some(self.with_memory(opened?, &url_of(&folder), url))),
        }
    }

    /// The store of the settings as files, in a folder that may be missing; none if it isn't in a local folder.
    pub(crate) async fn files_or_missing(&self) -> Result<Option<Salvage>, CliError> {
        let place = self.damaged_location()?;
        if place.found == Some(true) {
            self.require_nearest(&place).await?;
        }
        let Some(folder) = self.folder_of(&place.url) else {
            return Ok(None);
        };
        let files = Salvage::of_folder_or_missing(&folder, self.environment.clone())?;
        Ok(Some(self.with_memory(files, &url_of(&folder), &place.url)))
    }

    /// A backup in a folder. What this client remembers of the store doesn't apply to it.
    pub(crate) fn backup(&self, folder: &Path) -> Result<Salvage, CliError> {
        let backup = Salvage::of_folder(folder, self.environment.clone())?;
        Ok(match self.keys.get() {
            Some(keys) => backup.with_keys(keys),
            None => backup,
        })
    }

    fn with_memory(&self, mut files: Salvage, store: &str, url: &str) -> Salvage {
        if let Some(keys) = self.keys.get() {
            files = files.with_keys(keys);
        }
        match self.known_stacks(store, url) {
            Some(known) => files.with_known_stacks(known),
            None => files,
        }
    }

    /// The folder of a store at a URL; none if the store isn't in a local folder.
    pub(crate) fn folder_of(&self, url: &str) -> Option<PathBuf> {
        let path = self
            .configured(url, "path")
            .filter(|_| url.starts_with("file://"))?;
        Some(PathBuf::from(path))
    }

    /// The location of the store, which may have lost its file `format`.
    fn damaged_location(&self) -> Result<StoreLocation, CliError> {
        let place = self.location()?;
        if place.found != Some(false) || is_store(Path::new(super::FOLDER)) {
            return Ok(place);
        }
        Ok(StoreLocation { found: None, ..place })
    }

    /// Reads the latest state, or the state at a revision. If damage keeps the backend from it, reads the state from what is
    /// intact: the latest state only if the journal proves that nothing follows it.
    ///
    /// # Errors
    /// [`ExitCode::Integrity`], with the revisions that can be read, if the state needs what is damaged.
    pub(crate) async fn read_at(
        &self,
        at: Option<&RevisionSpec>,
    ) -> Result<(View, Option<(RevisionId, Snapshot)>), CliError> {
        match self.read_intact_at(at).await {
            Err(error) if error.code == ExitCode::Integrity && !self.expects() => {
                self.read_damaged_at(at, error).await
            }
            Err(error) if error.code == ExitCode::NotFound && !self.expects() => match at {
                Some(at) => {
                    let (view, id, snapshot) = self.set_aside(None, at, error).await?;
                    Ok((view, Some((id, snapshot))))
                }
                None => Err(error),
            },
            read => read,
        }
    }

    /// A revision of a stack that was read, and its content. If the stack's own objects don't prove it, reads it from what is
    /// intact.
    ///
    /// # Errors
    /// [`ExitCode::Integrity`], with the revision and those that can be read, if the revision needs what is damaged.
    pub(crate) async fn revision(
        &self,
        view: &View,
        wanted: &RevisionSpec,
    ) -> Result<(RevisionId, Snapshot), CliError> {
        let refused = match revision_in(view, wanted).await {
            Err(error) if error.code == ExitCode::Integrity || is_before_rebuilt(view, wanted).await => error,
            Err(error) if error.code == ExitCode::NotFound && !self.expects() => {
                let found = self.set_aside(Some(view.head.lineage), wanted, error).await;
                return found.map(|(_, id, snapshot)| (id, snapshot));
            }
            read => return read,
        };
        // A rebuilt history begins where the damage ends. What is before it wasn't collected, as its error says.
        let reason = match refused.code {
            ExitCode::Integrity => refused.message.clone(),
            _ => "it needs what is damaged, or it was deleted".to_owned(),
        };
        let object = format!("revision {wanted}");
        let refused = CliError::new(
            ExitCode::Integrity,
            object,
            &format!("it can't be read: {reason}"),
        );
        let files = match self.expects() {
            true => None,
            false => self.files()?,
        };
        let Some(files) = files else {
            return Err(refused);
        };
        let read = match files.view_at(view.head.lineage, wanted).await {
            Ok(found) => revision_in(&found, wanted).await,
            Err(error) => Err(error.into()),
        };
        match read {
            Ok(found) => {
                warn_of(&reason);
                Ok(found)
            }
            Err(_) => Err(self.with_survivors_of(&files, view.head.lineage, refused).await),
        }
    }

    /// The error of a read that damage refused, with a hint that lists the revisions that survive. Other errors stay as they are.
    pub(crate) async fn advised(&self, error: CliError) -> CliError {
        if error.code != ExitCode::Integrity {
            return error;
        }
        let Ok(Some(files)) = self.files() else {
            return error;
        };
        match self.damaged_stack(&files).await {
            Ok(Some(stack)) => self.with_survivors_of(&files, stack.lineage, error).await,
            _ => error,
        }
    }

    async fn read_intact_at(
        &self,
        at: Option<&RevisionSpec>,
    ) -> Result<(View, Option<(RevisionId, Snapshot)>), CliError> {
        let view = self.open_view().await?;
        let Some(at) = at else { return Ok((view, None)) };
        let id = view.resolve(at).await??;
        let snapshot = view.get(&id).await?;
        Ok((view, Some((id, snapshot))))
    }

    /// Whether the user expects a certain stack. Expectations are checked when a stack is opened as a whole.
    fn expects(&self) -> bool {
        !self.settings.expectations().is_default()
    }

    async fn read_damaged_at(
        &self,
        at: Option<&RevisionSpec>,
        refused: CliError,
    ) -> Result<(View, Option<(RevisionId, Snapshot)>), CliError> {
        let Some(files) = self.files()? else {
            return Err(refused);
        };
        let Ok(Some(stack)) = self.damaged_stack(&files).await else {
            return Err(refused);
        };
        let read = match at {
            Some(at) => files.view_at(stack.lineage, at).await,
            None => files.current(stack.lineage).await,
        };
        let Ok(view) = read else {
            return Err(self.with_survivors_of(&files, stack.lineage, refused).await);
        };
        warn_of(&refused.message);
        let snapshot = match (at, view.state.current().cloned()) {
            (Some(_), Some(id)) => Some((id.clone(), view.get(&id).await?)),
            _ => None,
        };
        Ok((view, snapshot))
    }

    /// A revision that isn't in the history of its stack, from the files that a salvage or a restore moved aside.
    ///
    /// # Errors
    /// `refused` if no such file has the revision.
    async fn set_aside(
        &self,
        lineage: Option<Lineage>,
        wanted: &RevisionSpec,
        refused: CliError,
    ) -> Result<(View, RevisionId, Snapshot), CliError> {
        let Some(files) = self.files()? else {
            return Err(refused);
        };
        let lineage = match lineage {
            Some(lineage) => lineage,
            None => match self.damaged_stack(&files).await {
                Ok(Some(stack)) => stack.lineage,
                _ => return Err(refused),
            },
        };
        let view = match files.view_set_aside(lineage, wanted).await {
            Err(Error::NotFound { .. }) => return Err(refused),
            Err(error) => {
                let message = format!(
                    "{}; in the folder `damaged`, it can't be read: {error}",
                    refused.message
                );
                return Err(CliError { message, ..refused });
            }
            Ok(view) => view,
        };
        let (id, snapshot) = revision_in(&view, wanted).await?;
        line_to_stderr(&format!(
            "warning: revision {id} isn't in the history of the stack: it was read from the folder `damaged`, to which a salvage \
             or a restore moved it"
        ));
        Ok((view, id, snapshot))
    }

    /// The folder of the stack that the user named, or of the only one; none if it isn't known which one it is.
    pub(crate) async fn damaged_stack(&self, files: &Salvage) -> Result<Option<StackFolder>, CliError> {
        let stacks = files.stacks().await?;
        Ok(match (&self.settings.stack, &*stacks) {
            (Some(name), stacks) => stacks.iter().find(|stack| has_name(stack, name)).cloned(),
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
        })
    }

    /// Refuses to create a stack whose name an orphaned stack of this store has or may have: the new stack would take its
    /// place, and everything that the orphan records would be created again.
    ///
    /// # Errors
    /// [`ExitCode::Conflict`] with the orphans and their last known names.
    pub(crate) async fn refuse_beside_orphan(&self, url: &str, name: &StackName) -> Result<(), CliError> {
        let Some(files) = self.files_at(url)? else {
            return Ok(());
        };
        let orphans = files.stacks().await?.into_iter().filter(|stack| stack.orphaned);
        let orphans: Vec<_> = orphans
            .filter(|orphan| orphan.name.is_none() || has_name(orphan, name))
            .collect();
        let Some(first) = orphans.first() else {
            return Ok(());
        };
        let described = orphans.iter().map(|orphan| match &orphan.name {
            Some(name) => format!("{} (last known name: {})", orphan.lineage, name.short()),
            None => format!("{} (name unknown)", orphan.lineage),
        });
        let described: Vec<_> = described.collect();
        let message = format!(
            "it would be a second one: no name leads to {} of the store: {}",
            count(orphans.len(), "existing stack", "existing stacks"),
            described.join(", ")
        );
        let attach = format!(
            "let its name lead to it again with `statectl salvage --attach {}`",
            first.lineage
        );
        let hint = match first.name {
            Some(_) => format!("{attach}, or choose another name with `--stack NAME`"),
            None => format!(
                "{attach} and `--name NAME`; `statectl salvage` moves it aside if nothing is left of it"
            ),
        };
        Err(CliError::conflict(format!("stack {}", name.short()), &message).with_hint(hint))
    }

    /// The error with a hint that lists the revisions that survive.
    async fn with_survivors_of(&self, files: &Salvage, lineage: Lineage, error: CliError) -> CliError {
        let Ok(survey) = files.survey().await else {
            return error;
        };
        let mut stacks = survey.stacks.iter();
        match stacks.find(|survey| survey.lineage == lineage) {
            Some(survey) => error.with_hint(advice(survey)),
            None => error,
        }
    }
}

/// The URL of a folder, as the memory of this client names the store in it.
fn url_of(folder: &Path) -> String {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    format!("file://{}", folder.display())
}

async fn revision_in(view: &View, wanted: &RevisionSpec) -> Result<(RevisionId, Snapshot), CliError> {
    let id = view.resolve(wanted).await??;
    let snapshot = view.get(&id).await?;
    Ok((id, snapshot))
}

/// Whether a specification refers to a revision before the history that could be rebuilt.
async fn is_before_rebuilt(view: &View, wanted: &RevisionSpec) -> bool {
    let collected = async {
        matches!(
            view.resolve(wanted).await,
            Ok(Err(UnresolvedRevision::Collected { .. }))
        )
    };
    view.is_rebuilt() && collected.await
}

fn warn_of(refusal: &str) {
    let warning = "the stack is damaged, and this state was read from what is intact: run `statectl verify --deep`, then \
                   `statectl salvage`";
    line_to_stderr(&format!("warning: {refusal}: {warning}"));
}

fn has_name(stack: &StackFolder, name: &StackName) -> bool {
    stack
        .name
        .as_ref()
        .is_some_and(|other| other.folded() == name.folded())
}

/// The next command for a damaged stack, and the revisions that can be read until then.
fn advice(survey: &StackSurvey) -> String {
    let salvage = "list the damage with `statectl verify --deep`, then run `statectl salvage`, or restore the files from a backup";
    let lost = match survey.lost.len() {
        0 => String::new(),
        _ => format!("; {} can't be read", listed(&survey.lost)),
    };
    match survey.surviving.last() {
        Some(newest) => format!(
            "{salvage}; until then {} can be read, for example with `statectl export --at {newest}`{lost}",
            listed(&survey.surviving)
        ),
        None => format!("{salvage}{lost}"),
    }
}

/// Revisions for a message: the last ones by id, and how many there are.
pub(crate) fn listed(revisions: &[RevisionId]) -> String {
    let last = revisions.iter().rev().take(MOST_LISTED).rev();
    let last: Vec<_> = last.map(ToString::to_string).collect();
    let more = revisions.len() - last.len();
    let what = if revisions.len() == 1 {
        "revision"
    } else {
        "revisions"
    };
    match more {
        0 => format!("{what} {}", last.join(", ")),
        more => format!(
            "{what} {} and {}",
            last.join(", "),
            count(more, "earlier one", "earlier ones")
        ),
    }
}

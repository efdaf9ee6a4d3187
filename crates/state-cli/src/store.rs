//! Opening a store and its stacks, as the settings say.

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::identities::Keys;
use crate::output::{Output, line_to_stderr};
use crate::settings::file::{here, state_folder};
use crate::settings::{Settings, quoted, shown, url_of};
use state_core::backend::Opening;
use state_core::{Error, ErrorKind, StackName};
use state_manager::{
    BackendRegistry, Environment, FileKnownStacks, Session, Stack, Stacks, StoreIdentity, StoreRequest,
    file_url,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder that a store has by default.
pub(crate) const FOLDER: &str = ".state";

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) url: String,
    /// Whether there is a store already, as far as the default folder tells; none when the user named the place.
    pub(crate) found: Option<bool>,
}

/// What opens stores: the settings, the environment, and the keys.
pub(crate) struct Opener {
    pub(crate) settings: Arc<Settings>,
    pub(crate) environment: Environment,
    pub(crate) keys: Keys,
    pub(crate) output: Output,
}

impl Opener {
    /// The store that the user named; else the nearest one upward; else the place for one here.
    pub(crate) fn place(&self) -> Result<Place, CliError> {
        if let Some(backend) = &self.settings.backend {
            return Ok(Place {
                url: url_of(backend),
                found: None,
            });
        }
        let here = here()?;
        let nearest = here.ancestors().find(|folder| is_store(&folder.join(FOLDER)));
        let url = match nearest.filter(|folder| **folder != *here) {
            Some(folder) => url_of_folder(&folder.join(FOLDER))?,
            None => format!("file://{FOLDER}"),
        };
        Ok(Place {
            url,
            found: Some(nearest.is_some()),
        })
    }

    /// Opens or makes the store at a URL, configured as the command line says, and asks it whether it is there.
    pub(crate) async fn connect(&self, url: &str, opening: Opening) -> state_core::Result<Stacks> {
        let stacks = self.reach(url, opening)?;
        stacks.ready().await?;
        Ok(stacks)
    }

    /// Opens the store at a URL, or makes it where there is none; and whether it was made.
    pub(crate) async fn connect_or_make(&self, url: &str) -> Result<(Stacks, bool), CliError> {
        let (stacks, is_new) = match self.connect(url, Opening::Existing).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (self.connect(url, Opening::Create).await, true)
            }
            other => (other, false),
        };
        Ok((stacks.map_err(not_opened)?, is_new))
    }

    /// As [`connect`](Self::connect), but one that is far away isn't asked anything yet.
    pub(crate) fn reach(&self, url: &str, opening: Opening) -> state_core::Result<Stacks> {
        let registry = BackendRegistry::default();
        let mut store = StoreRequest::new(url);
        for config in &self.settings.backend_config {
            store = store.with_config(&config.key, &config.value);
        }
        let environment = self.environment.clone();
        let stacks = match opening {
            Opening::Existing => Stacks::open_with(&registry, &store, environment)?,
            Opening::Create => Stacks::create_with(&registry, &store, environment)?,
        };
        let stacks = self.with_keys(stacks);
        Ok(match self.known_stacks(&stacks.url(), url) {
            Some(known) => stacks.with_known_stacks(known),
            None => stacks,
        })
    }

    /// What is known of the stacks of a store; none without a home folder. `asked` is the URL of the store as the user
    /// wrote it, with its parameters.
    pub(crate) fn known_stacks(&self, url: &str, asked: &str) -> Option<Arc<FileKnownStacks>> {
        let configured = |field: &str| self.configured(asked, field);
        let store = StoreIdentity::of(&shown(url), configured, |name| std::env::var(name).ok());
        let folder = state_folder()?.join("statectl/seen");
        let entropy = Arc::clone(&self.environment.entropy);
        let output = self.output;
        let warn = move |reason: &str| output.announce(|page| page.line(format_args!("warning: {reason}")));
        Some(Arc::new(FileKnownStacks::of_store(
            &folder, &store, entropy, warn,
        )))
    }

    /// A value of the store's configuration, as the command line or the URL gives it.
    fn configured(&self, asked: &str, field: &str) -> Option<String> {
        let mut flags = self.settings.backend_config.iter().rev();
        if let Some(flag) = flags.find(|config| config.key == field) {
            return Some(flag.value.clone());
        }
        let (_, parameters) = asked.split_once('?')?;
        let mut pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == field)?;
        Some(value.to_owned())
    }

    /// The store, for who has identities at hand.
    pub(crate) fn with_keys(&self, stacks: Stacks) -> Stacks {
        match self.keys.get() {
            Some(keys) => stacks.with_keys(keys),
            None => stacks,
        }
    }

    /// Opens the store.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] when there is none.
    pub(crate) async fn open(&self) -> Result<Stacks, CliError> {
        let place = self.place()?;
        let missing = |message: &str| {
            CliError::not_found(format!("store {}", shown(&place.url)), message)
                .with_hint("make one with `statectl init`, or name another with `--backend URL`")
        };
        if place.found == Some(false) {
            return Err(missing("there is none here nor in a parent folder"));
        }
        match self.connect(&place.url, Opening::Existing).await {
            Ok(stacks) => {
                self.tell(&format!("store {}", shown(&place.url)));
                Ok(self.as_holder(stacks))
            }
            Err(error) if is_of_the_store(&error) => Err(missing("there is none")),
            Err(error) => Err(not_opened(error)),
        }
    }

    /// The store, for who holds a client lock.
    pub(crate) fn as_holder(&self, stacks: Stacks) -> Stacks {
        match &self.settings.lock_id {
            Some(id) => stacks.with_client_lock(id),
            None => stacks,
        }
    }

    /// Opens the store and the stack that the user named, or the only one.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] when there is none, [`ExitCode::Usage`] when it isn't clear which.
    pub(crate) async fn open_stack(&self) -> Result<Stack, CliError> {
        let stacks = self.open().await?;
        self.chosen(&stacks).await
    }

    /// The stack of this store that the user named, or the only one.
    ///
    /// # Errors
    /// As [`open_stack`](Self::open_stack).
    pub(crate) async fn chosen(&self, stacks: &Stacks) -> Result<Stack, CliError> {
        if let Some(name) = self.choose(stacks).await? {
            return self.find(stacks, &name).await;
        }
        Err(
            CliError::not_found(format!("store {}", stacks.url()), "it has no stack yet")
                .with_hint("give it one with `statectl import FILE` or `statectl stack new NAME`"),
        )
    }

    /// The name of the stack that the user named, or of the only one; none when there is none.
    ///
    /// # Errors
    /// [`ExitCode::Usage`] when there are several.
    pub(crate) async fn choose(&self, stacks: &Stacks) -> Result<Option<StackName>, CliError> {
        if let Some(name) = &self.settings.stack {
            return Ok(Some(name.clone()));
        }
        let mut names = stacks.names().await?;
        names.sort();
        match &*names {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            several => {
                let listed: Vec<_> = several.iter().map(StackName::short).collect();
                let message = format!("it has {} stacks: {}", several.len(), listed.join(", "));
                Err(
                    CliError::usage(format!("store {}", stacks.url()), &message).with_hint(format!(
                        "say which with `--stack`, for example `--stack {}`",
                        listed[0]
                    )),
                )
            }
        }
    }

    /// The stack with this name.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] with the name that may have been meant.
    pub(crate) async fn find(&self, stacks: &Stacks, name: &StackName) -> Result<Stack, CliError> {
        if let Some(stack) = stacks.get(name).await? {
            self.tell(&format!("stack {name}"));
            return Ok(stack);
        }
        Err(no_stack(stacks, name).await)
    }

    /// Takes the writer lock; waits for its holder as long as `--lock-timeout` says, and tells on stderr
    /// for whom.
    ///
    /// # Errors
    /// `Locked` names the holder.
    pub(crate) async fn lock(&self, stack: &Stack, operation: &str) -> state_core::Result<Session> {
        let (refused, limit) = match (stack.lock(operation).await, self.settings.lock_timeout) {
            (Err(refused), Some(limit)) if refused.kind() == ErrorKind::Locked => (refused, limit),
            (other, _) => return other,
        };
        self.output
            .announce(|page| page.line(format_args!("waiting up to {limit:?}: {refused}")));
        stack.lock_within(operation, limit).await
    }

    /// Works under the writer lock, and gives it back whatever happens; see [`held`].
    pub(crate) async fn locked<T>(
        &self,
        stack: &Stack,
        operation: &str,
        work: impl AsyncFnOnce(&Session) -> Result<T, CliError>,
    ) -> Result<(T, Vec<String>), CliError> {
        held(self.lock(stack, operation).await?, work).await
    }

    /// With `--verbose`: what is used.
    pub(crate) fn tell(&self, what: &str) {
        if self.settings.verbose > 0 {
            line_to_stderr(&format!("using {what}"));
        }
    }
}

/// A store that can't be opened. What doesn't fit its schema is for the command line to mend.
pub(crate) fn not_opened(error: Error) -> CliError {
    if error.kind() != ErrorKind::Invalid {
        return error.into();
    }
    CliError {
        code: ExitCode::Usage,
        ..CliError::from(error).with_hint("see what can be configured with `statectl backends`")
    }
}

/// A store that isn't where a command names it.
pub(crate) fn not_there(error: Error, url: &str) -> CliError {
    if !is_of_the_store(&error) {
        return not_opened(error);
    }
    let object = format!("store {}", shown(url));
    CliError::not_found(object, "there is none").with_hint("make one with `statectl init`, or name another")
}

/// Whether the store is what isn't there. Where its bucket isn't either, making a store doesn't help.
fn is_of_the_store(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && !matches!(error, Error::NoContainer { .. })
}

fn is_store(folder: &Path) -> bool {
    folder.join("format").is_file()
}

fn url_of_folder(folder: &Path) -> Result<String, CliError> {
    let path = folder.to_str().ok_or_else(|| {
        CliError::failed(folder.to_string_lossy(), "its path isn't UTF-8")
            .with_hint("name another store with `--backend`")
    })?;
    Ok(file_url(path))
}

/// The store, for who changes the world: a result that the store can't take any more is kept in a file among the user's
/// own. Without a home folder it isn't.
pub(crate) fn with_spool(stacks: Stacks) -> Stacks {
    match spool_folder() {
        Some(folder) => stacks.with_spool(folder),
        None => stacks,
    }
}

/// Where results wait that a store couldn't take; none without a home folder.
pub(crate) fn spool_folder() -> Option<PathBuf> {
    Some(state_folder()?.join("statectl/spool"))
}

/// That there is no such stack.
pub(crate) async fn no_stack(stacks: &Stacks, name: &StackName) -> CliError {
    let names = stacks.names().await.unwrap_or_default();
    let names: Vec<_> = names.iter().map(StackName::short).collect();
    let otherwise = format!(
        "see what there is with `statectl stack ls`, or make it with `statectl stack new {}`",
        quoted(&name.short())
    );
    let listing = "`statectl stack ls` lists all of them";
    let object = format!("stack {}", name.short());
    CliError::not_found(object, "there is no such stack").with_nearest(
        &name.short(),
        names.iter().map(String::as_str),
        listing,
        otherwise,
    )
}

/// Works under the writer lock, and gives it back whatever happens. What kept it from being given back cleanly is a
/// warning: what was acknowledged before stays.
pub(crate) async fn held<T>(
    session: Session,
    work: impl AsyncFnOnce(&Session) -> Result<T, CliError>,
) -> Result<(T, Vec<String>), CliError> {
    let done = work(&session).await;
    let warnings = closed(session).await;
    Ok((done?, warnings.into_iter().collect()))
}

/// Gives the writer lock back; a warning if that didn't go well.
pub(crate) async fn closed(session: Session) -> Option<String> {
    let error = session.close().await.err()?;
    let is_fenced = error.kind() == ErrorKind::Fenced;
    let message = CliError::from(error).message;
    Some(match is_fenced {
        true => format!("another took the lock before it was given back: {message}"),
        false => format!("what was done is stored, but the lock wasn't given back cleanly: {message}"),
    })
}

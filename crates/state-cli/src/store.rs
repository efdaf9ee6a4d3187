//! Opens the store and the stack that the settings name.

pub(crate) mod beside_damage;
mod completion_memory;
mod damaged;
mod named;
mod vanished;

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::identities::Keys;
use crate::output::{Output, line_to_stderr};
use crate::settings::file::here;
use crate::settings::{Settings, quoted, shown};
use crate::standings::Standings;
use crate::trusted::state_folder;
use state_core::backend::Opening;
use state_core::{Error, ErrorKind, StackName};
use state_manager::{
    BackendRegistry, Environment, FileKnownStacks, Lookup, OpeningObserver, Session, Stack, Stacks,
    StoreIdentity, StoreRequest, View, file_url,
};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use completion_memory::CompletionMemory;
pub(crate) use damaged::listed;
pub(crate) use named::require_own_store;

/// The folder of the default store.
pub(crate) const FOLDER: &str = ".state";

/// The location of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreLocation {
    pub(crate) url: String,
    /// For the default location: whether a store exists there. None if the user named the location.
    pub(crate) found: Option<bool>,
}

/// Opens stores with the settings, the environment and the identities of a command.
pub(crate) struct Opener {
    pub(crate) settings: Arc<Settings>,
    pub(crate) environment: Environment,
    pub(crate) keys: Keys,
    pub(crate) output: Output,
    /// Receives the standing of each stack that is opened.
    pub(crate) standings: Arc<Standings>,
    /// Whether the shell asks for completions: then nothing is remembered.
    pub(crate) is_completion: bool,
}

impl Opener {
    /// The location of the store: as named by the user, else the nearest `.state` in this or a parent folder, else `.state`
    /// in this folder.
    pub(crate) fn location(&self) -> Result<StoreLocation, CliError> {
        if let Some(url) = self.named()? {
            return Ok(StoreLocation { url, found: None });
        }
        let here = here()?;
        let nearest = here.ancestors().find(|folder| is_store(&folder.join(FOLDER)));
        if let Some(folder) = nearest {
            require_own_store(&folder.join(FOLDER))?;
        }
        let url = match nearest.filter(|folder| **folder != *here) {
            Some(folder) => url_of_folder(&folder.join(FOLDER))?,
            None => format!("file://{FOLDER}"),
        };
        Ok(StoreLocation {
            url,
            found: Some(nearest.is_some()),
        })
    }

    /// Opens or creates the store at a URL, and checks that the store exists and is reachable.
    pub(crate) async fn connect(&self, url: &str, opening: Opening) -> state_core::Result<Stacks> {
        let stacks = self.reach(url, opening)?;
        stacks.ready().await?;
        Ok(stacks)
    }

    /// Opens the store at a location, or creates it if it doesn't exist. Returns whether it was created.
    pub(crate) async fn connect_or_make(&self, place: &StoreLocation) -> Result<(Stacks, bool), CliError> {
        self.require_nearest(place).await?;
        let url = &place.url;
        let (stacks, is_new) = match self.connect(url, Opening::Existing).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.require_unknown(url).await?;
                let object = format!("store {}", shown(url));
                self.settings.expectations().refuse_new_store(&object)?;
                (self.connect(url, Opening::Create).await, true)
            }
            // Creating an existing store changes nothing, and refuses one that only its owner may use.
            Ok(_) if self.configured(url, "group-writable").as_deref() == Some("true") => {
                (self.connect(url, Opening::Create).await, false)
            }
            other => (other, false),
        };
        Ok((stacks.map_err(not_opened)?, is_new))
    }

    /// Like [`connect`](Self::connect), but sends no request to a remote store yet.
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
        let stacks = self
            .with_keys(stacks)
            .with_expectations(self.settings.expectations())
            .with_observer(Arc::clone(&self.standings) as Arc<dyn OpeningObserver>);
        let stacks = match self.settings.lock_timeout {
            Some(limit) => stacks.with_lock_timeout(limit),
            None => stacks,
        };
        Ok(match self.known_stacks(&stacks.url(), url) {
            Some(known) if self.is_completion => stacks.with_known_stacks(Arc::new(CompletionMemory(known))),
            Some(known) => stacks.with_known_stacks(known),
            None => stacks,
        })
    }

    /// The identity under which this client remembers a store. `asked` is the URL as the user wrote it, with its parameters.
    pub(crate) fn identity(&self, url: &str, asked: &str) -> StoreIdentity {
        let configured = |field: &str| self.configured(asked, field);
        match configured("path").filter(|_| asked.starts_with("file://")) {
            Some(path) => StoreIdentity::of_folder(Path::new(&path)),
            None => StoreIdentity::of(&shown(url), configured, |name| std::env::var(name).ok()),
        }
    }

    /// What this client remembers of the stacks of a store; none without a home folder. `asked` is the URL as the user wrote
    /// it, with its parameters.
    pub(crate) fn known_stacks(&self, url: &str, asked: &str) -> Option<Arc<FileKnownStacks>> {
        let store = self.identity(url, asked);
        let folder = state_folder()?.join("statectl/seen");
        let entropy = Arc::clone(&self.environment.entropy);
        let output = self.output;
        let warn = move |reason: &str| output.announce(|page| page.line(format_args!("warning: {reason}")));
        let known = FileKnownStacks::of_store(&folder, &store, entropy, warn);
        // With `--json` nothing is printed, so that the change is reported by a later command.
        let own = self.keys.own_recipients();
        let report = move |change: &str| {
            let marked = mark_own(change, &own);
            output.announce(|page| page.line(format_args!("notice: {marked}")));
            !output.json
        };
        Some(Arc::new(known.with_report(report)))
    }

    /// A value of the store's configuration, from the command line or the URL.
    fn configured(&self, asked: &str, field: &str) -> Option<String> {
        let mut flags = self.settings.backend_config.iter().rev();
        if let Some(flag) = flags.find(|config| config.key == field) {
            return Some(flag.value.clone());
        }
        BackendRegistry::default().configured(asked).ok()?.remove(field)
    }

    /// The store with the user's identities, which decrypt its stacks.
    pub(crate) fn with_keys(&self, stacks: Stacks) -> Stacks {
        match self.keys.get() {
            Some(keys) => stacks.with_keys(keys),
            None => stacks,
        }
    }

    /// Opens the store of the settings.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] if the store doesn't exist.
    pub(crate) async fn open(&self) -> Result<Stacks, CliError> {
        let (stacks, ()) = self.open_and(async |_| ()).await?;
        Ok(stacks)
    }

    /// Opens the store of the settings, and does this work while it checks that the store exists. The result of the work
    /// counts only if the store does.
    async fn open_and<T>(&self, work: impl AsyncFnOnce(&Stacks) -> T) -> Result<(Stacks, T), CliError> {
        let place = self.location()?;
        let missing = |message: &str| {
            CliError::not_found(format!("store {}", shown(&place.url)), message)
                .with_hint("create a store with `statectl init`, or name one with `--backend URL`")
        };
        self.require_nearest(&place).await?;
        if place.found == Some(false) {
            return Err(missing("not found in this folder or a parent folder"));
        }
        let opened = async {
            let stacks = self.with_client_lock(self.reach(&place.url, Opening::Existing)?);
            let done = {
                let mut ready = pin!(stacks.ready());
                let mut work = pin!(work(&stacks));
                // A store that can't be reached is reported at once: the work would only repeat the attempts.
                tokio::select! {
                    biased;
                    checked = &mut ready => {
                        checked?;
                        work.await
                    }
                    done = &mut work => {
                        ready.await?;
                        done
                    }
                }
            };
            Ok((stacks, done))
        };
        match opened.await {
            Ok(opened) => {
                self.log_use(&format!("store {}", shown(&place.url)));
                Ok(opened)
            }
            Err(error) if is_missing_store(&error) => {
                self.require_unknown(&place.url).await?;
                Err(missing("not found"))
            }
            Err(error) => Err(not_opened(error)),
        }
    }

    /// The store with the client lock that `--lock-id` names.
    pub(crate) fn with_client_lock(&self, stacks: Stacks) -> Stacks {
        match &self.settings.lock_id {
            Some(id) => stacks.with_client_lock(id),
            None => stacks,
        }
    }

    /// Opens the store, and finds the stack that the user named, or the only stack, to lock it.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] if there is no stack, [`ExitCode::Usage`] if there are several and none is named.
    pub(crate) async fn open_stack(&self) -> Result<Stack, CliError> {
        let name = self.settings.stack.as_ref();
        let (stacks, found) = self
            .open_and(async |stacks| stacks.find_to_lock(name).await)
            .await?;
        let stack = self.found(&stacks, found?).await?;
        self.log_use(&format!("stack {}", stack.name()));
        Ok(stack)
    }

    /// Opens the store, and reads the stack that the user named, or the only stack.
    ///
    /// # Errors
    /// As [`open_stack`](Self::open_stack); those of reading the stack.
    pub(crate) async fn open_view(&self) -> Result<View, CliError> {
        let name = self.settings.stack.as_ref();
        self.viewed(self.open_and(async |stacks| stacks.view(name).await).await?)
            .await
    }

    /// As [`open_view`](Self::open_view), for a command that locks the stack next and restores an earlier revision.
    ///
    /// # Errors
    /// As [`open_view`](Self::open_view).
    pub(crate) async fn open_view_to_restore(&self) -> Result<View, CliError> {
        let name = self.settings.stack.as_ref();
        self.viewed(
            self.open_and(async |stacks| stacks.view_to_restore(name).await)
                .await?,
        )
        .await
    }

    async fn viewed(
        &self,
        (stacks, found): (Stacks, state_core::Result<Lookup<View>>),
    ) -> Result<View, CliError> {
        let view = self.found(&stacks, found?).await?;
        self.log_use(&format!("stack {}", view.name));
        Ok(view)
    }

    /// The result of a lookup of the stack that the user named, or of the only stack.
    async fn found<T>(&self, stacks: &Stacks, found: Lookup<T>) -> Result<T, CliError> {
        match (found, &self.settings.stack) {
            (Lookup::Found(found), _) => Ok(found),
            (Lookup::None, Some(name)) => Err(no_stack(stacks, name).await),
            (Lookup::None, None) => Err(without_stacks(stacks)),
            (Lookup::Several(names), _) => Err(several(stacks, &names)),
        }
    }

    /// The stack of this store that the user named, or the only stack.
    ///
    /// # Errors
    /// Like [`open_stack`](Self::open_stack).
    pub(crate) async fn chosen(&self, stacks: &Stacks) -> Result<Stack, CliError> {
        if let Some(name) = self.choose(stacks).await? {
            return self.find(stacks, &name).await;
        }
        Err(without_stacks(stacks))
    }

    /// The name of the stack that the user named, or of the only stack; none if there is no stack.
    ///
    /// # Errors
    /// [`ExitCode::Usage`] if there are several stacks and none is named.
    pub(crate) async fn choose(&self, stacks: &Stacks) -> Result<Option<StackName>, CliError> {
        if let Some(name) = &self.settings.stack {
            return Ok(Some(name.clone()));
        }
        let mut names = stacks.names().await?;
        names.sort();
        match &*names {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            names => Err(several(stacks, names)),
        }
    }

    /// The stack with this name.
    ///
    /// # Errors
    /// [`ExitCode::NotFound`] if there is no such stack, with a suggestion of a similar name.
    pub(crate) async fn find(&self, stacks: &Stacks, name: &StackName) -> Result<Stack, CliError> {
        if let Some(stack) = stacks.get(name).await? {
            self.log_use(&format!("stack {name}"));
            return Ok(stack);
        }
        Err(no_stack(stacks, name).await)
    }

    /// Takes the writer lock. If it is held, prints the holder on stderr and waits as long as `--lock-timeout` allows.
    ///
    /// # Errors
    /// `Locked` with the lock holder, if the lock is still held.
    pub(crate) async fn lock(&self, stack: &Stack, operation: &str) -> state_core::Result<Session> {
        let (refused, limit) = match (stack.lock(operation).await, self.settings.lock_timeout) {
            (Err(refused), Some(limit)) if refused.kind() == ErrorKind::Locked => (refused, limit),
            (other, _) => return other,
        };
        self.output
            .announce(|page| page.line(format_args!("waiting up to {limit:?} for the lock: {refused}")));
        stack.lock_within(operation, limit).await
    }

    /// Runs `work` under the writer lock and releases the lock; see [`run_and_close`].
    pub(crate) async fn locked<T>(
        &self,
        stack: &Stack,
        operation: &str,
        work: impl AsyncFnOnce(&Session) -> Result<T, CliError>,
    ) -> Result<(T, Vec<String>), CliError> {
        run_and_close(self.lock(stack, operation).await?, work).await
    }

    /// Prints the store or stack in use, with `--verbose`.
    pub(crate) fn log_use(&self, what: &str) {
        if self.settings.verbose > 0 {
            line_to_stderr(&format!("using {what}"));
        }
    }
}

/// The error for a store without stacks.
fn without_stacks(stacks: &Stacks) -> CliError {
    CliError::not_found(format!("store {}", stacks.url()), "the store has no stacks")
        .with_hint("create one with `statectl stack new NAME` or `statectl import FILE`")
}

/// The error for a store with several stacks, of which the user named none.
pub(crate) fn several(stacks: &Stacks, names: &[StackName]) -> CliError {
    let listed: Vec<_> = names.iter().map(StackName::short).collect();
    let message = format!("the store has {} stacks: {}", listed.len(), listed.join(", "));
    let example = listed.first().map(String::as_str).unwrap_or_default();
    CliError::usage(format!("store {}", stacks.url()), &message).with_hint(format!(
        "name one with `--stack`, for example `--stack {example}`"
    ))
}

/// Marks the user's own recipients in a text as `you`.
fn mark_own(text: &str, own: &[String]) -> String {
    own.iter().fold(text.to_owned(), |text, recipient| {
        // A recipient with a name is in parentheses.
        let named = format!("({recipient})");
        match text.contains(&named) {
            true => text.replace(&named, &format!("({recipient}, you)")),
            false => text.replace(recipient, &format!("{recipient} (you)")),
        }
    })
}

/// The error for a store that can't be opened. An invalid configuration becomes a usage error.
pub(crate) fn not_opened(error: Error) -> CliError {
    if error.kind() != ErrorKind::Invalid {
        return error.into();
    }
    CliError {
        code: ExitCode::Usage,
        ..CliError::from(error).with_hint("list configuration keys with `statectl backends`")
    }
}

/// The error for a store that doesn't exist at its URL.
pub(crate) fn missing_store(error: Error, url: &str) -> CliError {
    if !is_missing_store(&error) {
        return not_opened(error);
    }
    let object = format!("store {}", shown(url));
    CliError::not_found(object, "not found").with_hint(format!(
        "create the store with `statectl init --backend {}`, or name another one",
        quoted(&shown(url))
    ))
}

/// Whether the error means that the store itself doesn't exist. False for a missing bucket, which `init` can't create.
fn is_missing_store(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && !matches!(error, Error::NoContainer { .. })
}

fn is_store(folder: &Path) -> bool {
    folder.join("format").is_file()
}

fn url_of_folder(folder: &Path) -> Result<String, CliError> {
    let path = folder.to_str().ok_or_else(|| {
        CliError::failed(folder.to_string_lossy(), "the path isn't UTF-8")
            .with_hint("name another store with `--backend URL`")
    })?;
    Ok(file_url(path))
}

/// The store for commands that change real resources: if the store becomes unreachable, results of providers are saved in
/// a file of the user, because they would otherwise be lost. Without a home folder there is no such file.
pub(crate) fn with_spool(stacks: Stacks) -> Stacks {
    match spool_folder() {
        Some(folder) => stacks.with_spool(folder),
        None => stacks,
    }
}

/// The folder for results that a store didn't accept; none without a home folder.
pub(crate) fn spool_folder() -> Option<PathBuf> {
    Some(state_folder()?.join("statectl/spool"))
}

/// The folder for the locks of commands that change resources; none without a home folder.
pub(crate) fn locks_folder() -> Option<PathBuf> {
    Some(state_folder()?.join("statectl/running"))
}

/// The error for a missing stack, with a suggestion of a similar name.
pub(crate) async fn no_stack(stacks: &Stacks, name: &StackName) -> CliError {
    let names = stacks.pointer_names().await.unwrap_or_default();
    let names: Vec<_> = names.iter().map(StackName::short).collect();
    let listing = "list stacks with `statectl stack ls`";
    let otherwise = match stacks.expectations().is_default() {
        true => format!(
            "{listing}, or create it with `statectl stack new {}`",
            quoted(&name.short())
        ),
        // No command creates a stack while an existing one is expected.
        false => format!("{listing}, and check the store and the expected key or revision"),
    };
    let object = format!("stack {}", name.short());
    CliError::not_found(object, "not found").with_nearest(
        &name.short(),
        names.iter().map(String::as_str),
        listing,
        otherwise,
    )
}

/// Runs `work` with a session and closes the session, also if `work` fails. A failure to close is returned as a warning,
/// because `work` reports what the store acknowledged. The warning claims nothing about the rest: the log of an update, for
/// example, is stored at the close.
pub(crate) async fn run_and_close<T>(
    session: Session,
    work: impl AsyncFnOnce(&Session) -> Result<T, CliError>,
) -> Result<(T, Vec<String>), CliError> {
    let done = work(&session).await;
    let closed = close(session).await;
    let done = done?;
    Ok((done, closed?.into_iter().collect()))
}

/// Closes a session and releases its writer lock. Returns a warning if that fails.
///
/// # Errors
/// [`ExitCode::Undecipherable`] if another process changed the stack meanwhile: a warning would be overlooked.
pub(crate) async fn close(session: Session) -> Result<Option<String>, CliError> {
    let Err(error) = session.close().await else {
        return Ok(None);
    };
    let kind = error.kind();
    let error = CliError::from(error);
    let message = &error.message;
    match kind {
        ErrorKind::Distrusted | ErrorKind::Sealed => Err(CliError {
            message: format!("the stack can't be trusted any more, which its close found: {message}"),
            ..error
        }),
        ErrorKind::Fenced => Ok(Some(format!(
            "another client took over the lock before it was released: {message}"
        ))),
        _ => Ok(Some(format!(
            "the close of the stack failed, so work in its background may be missing: {message}; check the lock with \
             `statectl lock status`"
        ))),
    }
}

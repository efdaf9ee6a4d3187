//! The user's identities, which decrypt the data keys of stacks, and their recipients, for which new data keys are encrypted.

use crate::durable;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::formats;
use crate::input;
use crate::misplaced::contains_identity;
use crate::output::line_to_stderr;
use crate::render::time::friendly_duration;
use crate::settings::file::user_folder;
use crate::settings::{Settings, quoted};
use clap::ValueEnum;
use state_core::Entropy;
use state_core::head::SealingPolicy;
use state_encrypt::{AgeKeys, Identities, Passphrase, PluginRules, Prompter, Recipients, generate_identity};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use zeroize::Zeroizing;

/// The user's own identity file, relative to the user's configuration folder.
const USER_FILE: &str = "statectl/identity.txt";

/// Permission bits of an identity file that must not be set.
const OPEN_TO_OTHERS: u32 = 0o077;

/// The environment variable with a passphrase that decrypts stacks.
const PASSPHRASE: &str = "STATECTL_PASSPHRASE";

/// The environment variable with the names of age plugins that recipients of a stack may start, separated by commas.
const PLUGINS: &str = "STATECTL_AGE_PLUGINS";

/// The environment variable with the time limit of each call of an age plugin.
const PLUGIN_TIMEOUT: &str = "STATECTL_AGE_PLUGIN_TIMEOUT";

/// Flags for the encryption of a new stack.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NewStack {
    /// Which values of a new stack to encrypt
    #[arg(long, env = "STATECTL_POLICY", value_enum, default_value_t = Sealing::Sensitive, value_name = "POLICY")]
    pub(crate) policy: Sealing,
}

/// Which values of a stack are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sealing {
    /// Values marked as sensitive, and opaque data of formats
    Sensitive,
    /// All values of the stack
    All,
    /// Nothing; every reader of the store can read all secrets
    Plaintext,
}

impl Sealing {
    /// The policy for the head of a stack, and warnings for the stack's owner. Creates an identity if the policy needs one
    /// and the user has none.
    ///
    /// # Errors
    /// Like [`Keys::ensure`].
    pub(crate) fn prepare(self, keys: &Keys) -> Result<(SealingPolicy, Vec<String>), CliError> {
        let advice = match self {
            Self::Sensitive | Self::All => keys.ensure()?.iter().map(NewIdentity::advice).collect(),
            Self::Plaintext => Vec::new(),
        };
        Ok((self.policy(), advice))
    }

    /// The policy for the head of a stack.
    pub(crate) const fn policy(self) -> SealingPolicy {
        match self {
            Self::Sensitive => SealingPolicy::Sensitive,
            Self::All => SealingPolicy::All,
            Self::Plaintext => SealingPolicy::Plaintext,
        }
    }
}

/// An identity that was created because the user had none.
pub(crate) struct NewIdentity {
    pub(crate) file: PathBuf,
    pub(crate) recipient: String,
}

impl NewIdentity {
    /// A warning for the owner of the new identity.
    pub(crate) fn advice(&self) -> String {
        format!(
            "created your identity {} (recipient {}): back up this file, because encrypted values are lost without it, and \
             add a second recipient with `statectl recipients add RECIPIENT`",
            self.file.display(),
            self.recipient
        )
    }
}

/// The identities from the command line, the environment and the user's configuration folder.
pub(crate) struct Keys {
    settings: Arc<Settings>,
    entropy: Arc<dyn Entropy>,
    /// The loaded keys; none without an identity.
    found: Mutex<Option<Arc<AgeKeys>>>,
    /// Whether the user was warned of their own identity file, which can't be read.
    warned: AtomicBool,
}

impl Keys {
    /// Loads the identities.
    ///
    /// # Errors
    /// [`ExitCode::Undecipherable`] for a named file that can't be read or contains no identity.
    pub(crate) fn find(settings: Arc<Settings>, entropy: Arc<dyn Entropy>) -> Result<Self, CliError> {
        let keys = Self {
            settings,
            entropy,
            found: Mutex::default(),
            warned: AtomicBool::new(false),
        };
        keys.load()?;
        Ok(keys)
    }

    /// The keys that decrypt and create data keys; none without an identity.
    pub(crate) fn get(&self) -> Option<Arc<AgeKeys>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Loads an identity that another process of this user created since this one looked for it. Returns whether there is one.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub(crate) fn find_new(&self) -> Result<bool, CliError> {
        if self.get().is_some() {
            return Ok(false);
        }
        self.load()?;
        Ok(self.get().is_some())
    }

    /// The recipients that belong to the user's identities.
    pub(crate) fn own_recipients(&self) -> Vec<String> {
        self.get().map(|keys| keys.own_recipients()).unwrap_or_default()
    }

    /// Creates the user's identity if there is none, and loads it.
    ///
    /// # Errors
    /// [`ExitCode::Failed`] if the file can't be written.
    pub(crate) fn ensure(&self) -> Result<Option<NewIdentity>, CliError> {
        if self.get().is_some() {
            return Ok(None);
        }
        let file = own_file().ok_or_else(|| {
            let message = "cannot create an identity: there is no home folder";
            CliError::undecipherable("your identity", message)
                .with_hint("name a file with `--identity FILE`, or use `--policy plaintext`")
        })?;
        let made = generate_identity();
        let failed = |source| CliError::io(file.display().to_string(), &source);
        if let Some(folder) = file.parent() {
            durable::create_folder(folder).map_err(failed)?;
        }
        let created = create_whole(&file, made.file().as_bytes());
        self.load()?;
        match created {
            // Another process of this user created an identity meanwhile.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && self.get().is_some() => {
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let message =
                    "it exists and can't be used as an identity: move it away, or restore it from a backup";
                return Err(CliError::undecipherable(file.display().to_string(), message));
            }
            created => created.map_err(failed)?,
        }
        Ok(Some(NewIdentity {
            file,
            recipient: made.recipient().to_owned(),
        }))
    }

    /// The identities from files, without the passphrase.
    ///
    /// # Errors
    /// Like [`Self::find`].
    pub(crate) fn identities(&self) -> Result<Identities, CliError> {
        let named = &self.settings.identity;
        let mut identities = Identities::default();
        for path in named {
            identities.extend(read(path)?.map_err(|error| refused(&path.display().to_string(), &error))?);
        }
        if let Some(own) = own_file().filter(|path| named.is_empty() && path.is_file()) {
            match read(&own)? {
                Ok(found) => identities.extend(found),
                // Stacks that aren't encrypted need no identity, and those that are can't be changed without one.
                Err(error) => self.warn(&error),
            }
        }
        Ok(identities)
    }

    /// Warns once of the user's own identity file.
    fn warn(&self, error: &state_encrypt::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            line_to_stderr(&format!(
                "warning: {error}: continuing without your identity; restore the file from a backup, or move it away"
            ));
        }
    }

    fn load(&self) -> Result<(), CliError> {
        let mut identities = self.identities()?;
        let passphrase = match std::env::var(PASSPHRASE) {
            Ok(text) => Some(Passphrase::new(text).map_err(|error| refused(PASSPHRASE, &error))?),
            Err(_) => None,
        };
        if identities.is_empty() && passphrase.is_none() {
            return Ok(());
        }
        let own = identities.recipients().join("\n");
        let mut recipients: Recipients = own.parse().map_err(|error| refused("your identity", &error))?;
        if let Some(passphrase) = passphrase {
            identities.add_passphrase(passphrase.clone());
            recipients.add_passphrase(passphrase);
        }
        let limit = plugin_timeout()?;
        let identities = identities
            .with_plugin_timeout(limit)
            .with_prompter(Arc::new(PluginMessages));
        let recipients = recipients.with_plugin_timeout(limit);
        let rules = PluginRules::default().with_timeout(limit);
        let trusted = std::env::var(PLUGINS).unwrap_or_default();
        rules.trust(trusted.split(',').map(str::trim).map(str::to_owned));
        let mut keys = AgeKeys::new(identities, recipients, Arc::clone(&self.entropy)).with_plugins(rules);
        for (format, opaque) in formats::all().opaque() {
            keys = keys.with_opaque(format, opaque.in_entry, opaque.in_snapshot);
        }
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
        Ok(())
    }
}

/// The time limit of each call of an age plugin.
fn plugin_timeout() -> Result<Duration, CliError> {
    match std::env::var(PLUGIN_TIMEOUT) {
        Ok(text) => {
            friendly_duration(&text).map_err(|reason| CliError::usage(PLUGIN_TIMEOUT, &reason.to_string()))
        }
        Err(_) => Ok(PluginRules::DEFAULT_TIMEOUT),
    }
}

/// Shows the messages of age plugins, such as the request to touch a hardware key. Questions stay unanswered.
#[derive(Debug)]
struct PluginMessages;

impl Prompter for PluginMessages {
    fn show(&self, message: &str) {
        line_to_stderr(&format!("age plugin: {message}"));
    }

    fn confirm(&self, _: &str, _: &str, _: Option<&str>) -> Option<bool> {
        None
    }

    fn ask(&self, _: &str) -> Option<String> {
        None
    }

    fn ask_secret(&self, _: &str) -> Option<Passphrase> {
        None
    }
}

/// The path of the user's own identity file, whether it exists or not.
fn own_file() -> Option<PathBuf> {
    user_folder().map(|folder| folder.join(USER_FILE))
}

/// The identities in a file, or why its content isn't an identity.
///
/// # Errors
/// If the file can't be read, or other users can access it.
fn read(path: &Path) -> Result<Result<Identities, state_encrypt::Error>, CliError> {
    if contains_identity(&path.to_string_lossy()) {
        let message =
            "this is an identity, and the path of a file with one is expected; it isn't repeated here";
        return Err(CliError::usage("--identity or STATECTL_IDENTITY", message).with_hint(
            "write the identity to a file that only you can read, and pass its path; other users may have seen it on the \
             command line",
        ));
    }
    let name = path.display().to_string();
    let unreadable = |source| CliError {
        code: ExitCode::Undecipherable,
        ..CliError::io(name.clone(), &source)
            .with_hint("name a file with an age identity with `--identity FILE`")
    };
    let file = input::open(path).map_err(unreadable)?;
    // Checked on the opened file: a check of the path could be of another file.
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_file() && metadata.mode() & OPEN_TO_OTHERS != 0 {
        let message = format!(
            "refused to use the identity: other users can access the file (mode {:04o})",
            metadata.mode() & 0o7777
        );
        return Err(CliError::undecipherable(name, &message).with_hint(format!(
            "make it private with `chmod 600 {}`",
            quoted(&path.display().to_string())
        )));
    }
    let text = input::limited_text(file, input::MAX_SMALL).map(Zeroizing::new);
    let text = text.map_err(unreadable)?;
    Ok(Identities::parse(&name, &text))
}

fn refused(object: &str, error: &state_encrypt::Error) -> CliError {
    CliError::undecipherable(object, &error.to_string()).with_hint(error.hint())
}

/// Creates a private file with its whole content at once, so that no other process reads a part of it, and makes it durable: a
/// value may be encrypted for the identity right after. Fails if the file exists.
fn create_whole(file: &Path, content: &[u8]) -> std::io::Result<()> {
    let beside = file.with_extension(format!("{}.tmp", std::process::id()));
    // A process with the same id may have crashed here.
    drop(std::fs::remove_file(&beside));
    create_private(&beside, content)?;
    let linked = std::fs::hard_link(&beside, file);
    drop(std::fs::remove_file(&beside));
    match linked {
        // Not every file system has links.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => create_private(file, content),
        linked => linked,
    }?;
    match file.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Creates a file that only its owner can read. Fails if the file exists.
fn create_private(file: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    created.write_all(content)?;
    created.sync_all()
}

//! The identities at hand: what opens sealed stacks, and whom new data keys are wrapped to.

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::formats;
use crate::settings::Settings;
use crate::settings::file::user_folder;
use clap::ValueEnum;
use state_core::Entropy;
use state_core::head::SealingPolicy;
use state_encrypt::{AgeKeys, Identities, Passphrase, Recipients, generate_identity};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The user's own identity, in the folder for such files.
const USER_FILE: &str = "statectl/identity.txt";

/// A passphrase that opens stacks.
const PASSPHRASE: &str = "STATECTL_PASSPHRASE";

/// How the values of a new stack are stored.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NewStack {
    /// What is sealed in a new stack: what is marked as sensitive, all values, or nothing.
    #[arg(long, env = "STATECTL_POLICY", value_enum, default_value_t = Sealing::Sensitive, value_name = "POLICY")]
    pub(crate) policy: Sealing,
}

/// What is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sealing {
    /// What is marked as sensitive, and what may hold secrets that nobody marked.
    Sensitive,
    /// All values.
    All,
    /// Nothing: whoever reads the store reads every secret.
    Plaintext,
}

impl Sealing {
    /// The policy in the head of a stack that is about to be sealed, and what the stack's owner must know. Makes an
    /// identity where the policy needs one and there is none.
    ///
    /// # Errors
    /// As [`Keys::ensure`].
    pub(crate) fn prepare(self, keys: &Keys) -> Result<(SealingPolicy, Vec<String>), CliError> {
        let policy = match self {
            Self::Sensitive => SealingPolicy::Sensitive,
            Self::All => SealingPolicy::All,
            Self::Plaintext => return Ok((SealingPolicy::Plaintext, Vec::new())),
        };
        Ok((policy, keys.ensure()?.iter().map(Fresh::advice).collect()))
    }
}

/// An identity that was made because there was none.
pub(crate) struct Fresh {
    pub(crate) file: PathBuf,
    pub(crate) recipient: String,
}

impl Fresh {
    /// What its owner must know.
    pub(crate) fn advice(&self) -> String {
        format!(
            "made your identity {} (recipient {}): back it up, for without it nobody opens what is sealed, and let a \
             second one open it too: `statectl recipients add`",
            self.file.display(),
            self.recipient
        )
    }
}

/// What opens sealed stacks: the identities that the command line, the environment and the user's folder name.
pub(crate) struct Keys {
    settings: Arc<Settings>,
    entropy: Arc<dyn Entropy>,
    /// None without an identity.
    found: Mutex<Option<Arc<AgeKeys>>>,
}

impl Keys {
    /// Reads the files.
    ///
    /// # Errors
    /// [`ExitCode::Undecipherable`] for a file that can't be read or holds no identity.
    pub(crate) fn find(settings: Arc<Settings>, entropy: Arc<dyn Entropy>) -> Result<Self, CliError> {
        let keys = Self {
            settings,
            entropy,
            found: Mutex::default(),
        };
        keys.look()?;
        Ok(keys)
    }

    /// What unwraps and makes data keys; none without an identity.
    pub(crate) fn get(&self) -> Option<Arc<AgeKeys>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the user's identity if there is none; from then on there is.
    ///
    /// # Errors
    /// [`ExitCode::Failed`] when it can't be written.
    pub(crate) fn ensure(&self) -> Result<Option<Fresh>, CliError> {
        if self.get().is_some() {
            return Ok(None);
        }
        let file = own_file().ok_or_else(|| {
            let message = "there is no home folder to keep it in";
            CliError::undecipherable("your identity", message)
                .with_hint("name a file with `--identity`, or choose `--policy plaintext`")
        })?;
        let made = generate_identity();
        let failed = |source| CliError::io(file.display().to_string(), &source);
        if let Some(folder) = file.parent() {
            let mut builder = std::fs::DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(failed)?;
        }
        create_private(&file, made.file().as_bytes()).map_err(failed)?;
        self.look()?;
        Ok(Some(Fresh {
            file,
            recipient: made.recipient().to_owned(),
        }))
    }

    /// The identities in the files, and in no other place.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub(crate) fn identities(&self) -> Result<Identities, CliError> {
        let named = &self.settings.identity;
        let mut identities = Identities::default();
        let own = own_file().filter(|path| named.is_empty() && path.is_file());
        for path in named.iter().chain(&own) {
            identities.extend(read(path)?);
        }
        Ok(identities)
    }

    fn look(&self) -> Result<(), CliError> {
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
        let mut keys = AgeKeys::new(identities, recipients, Arc::clone(&self.entropy));
        for (format, opaque) in formats::all().opaque() {
            keys = keys.with_opaque(format, opaque.in_entry, opaque.in_snapshot);
        }
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
        Ok(())
    }
}

/// The user's own identity file, whether it is there or not.
fn own_file() -> Option<PathBuf> {
    user_folder().map(|folder| folder.join(USER_FILE))
}

fn read(path: &Path) -> Result<Identities, CliError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| CliError {
        code: ExitCode::Undecipherable,
        ..CliError::io(name.clone(), &source).with_hint("name a file with an age identity: `--identity FILE`")
    })?;
    Identities::parse(&name, &text).map_err(|error| refused(&name, &error))
}

fn refused(object: &str, error: &state_encrypt::Error) -> CliError {
    CliError::undecipherable(object, &error.to_string()).with_hint(error.hint())
}

/// Makes a file that only its owner can read; fails if there is one.
pub(crate) fn create_private(file: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    created.write_all(content)?;
    created.sync_all()
}

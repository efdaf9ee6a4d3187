//! Identities that unwrap data keys: secret keys of key files, and passphrases.

use crate::error::{Error, Result};
use crate::passphrase::Passphrase;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest accepted work factor of a passphrase file: the base-2 logarithm of scrypt's N. `age -d` has the same
/// limit.
pub const DEFAULT_MAX_WORK_FACTOR: u8 = 22;

/// Size limit of a key file, in bytes.
const MAX_FILE: usize = 1 << 20;

/// Secret keys and passphrases that unwrap data keys. `Debug` shows only their number.
#[derive(Clone)]
pub struct Identities {
    pub(crate) keys: Vec<SecretKey>,
    pub(crate) passphrases: Vec<Passphrase>,
    pub(crate) max_work_factor: u8,
    #[cfg(feature = "plugin")]
    pub(crate) prompter: crate::plugin::Prompts,
    #[cfg(feature = "plugin")]
    pub(crate) plugin_timeout: std::time::Duration,
    opened: Arc<AtomicU64>,
}

#[derive(Clone)]
pub(crate) enum SecretKey {
    X25519(age::x25519::Identity),
    #[cfg(feature = "ssh")]
    Ssh(Box<age::ssh::Identity>),
    #[cfg(feature = "plugin")]
    Plugin(age::plugin::Identity),
}

impl Default for Identities {
    /// Contains no identities, and accepts work factors up to [`DEFAULT_MAX_WORK_FACTOR`].
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            passphrases: Vec::new(),
            max_work_factor: DEFAULT_MAX_WORK_FACTOR,
            #[cfg(feature = "plugin")]
            prompter: crate::plugin::Prompts::default(),
            #[cfg(feature = "plugin")]
            plugin_timeout: crate::PluginRules::DEFAULT_TIMEOUT,
            opened: Arc::default(),
        }
    }
}

impl Identities {
    /// Parses an identity file: one or more of `AGE-SECRET-KEY-1…`, `AGE-PLUGIN-…` and SSH private keys, empty lines,
    /// and comments that begin with `#`. `origin` names the file in errors.
    ///
    /// # Errors
    /// [`Error::Identity`] with the line number and the expected form, never with the content of the line;
    /// [`Error::NoIdentity`].
    pub fn parse(origin: &str, text: &str) -> Result<Self> {
        let refuse = |line, reason: String| Error::Identity {
            origin: origin.to_owned(),
            line,
            reason,
        };
        if text.len() > MAX_FILE {
            return Err(refuse(
                1,
                format!("a file of {} bytes is not a key file", text.len()),
            ));
        }
        let mut identities = Self::default();
        let mut lines = (1..).zip(text.lines());
        while let Some((number, line)) = lines.next() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = match line.strip_prefix("-----BEGIN ") {
                Some(title) => {
                    let more = lines.by_ref().map(|(_, line)| line.trim_end());
                    read_block(line, title, more)
                }
                None => read_line(line),
            };
            identities
                .keys
                .push(key.map_err(|reason| refuse(number, reason))?);
        }
        if identities.keys.is_empty() {
            return Err(Error::NoIdentity {
                origin: origin.to_owned(),
            });
        }
        Ok(identities)
    }

    /// Creates identities that consist of one passphrase.
    pub fn of_passphrase(passphrase: Passphrase) -> Self {
        let mut identities = Self::default();
        identities.add_passphrase(passphrase);
        identities
    }

    /// Adds a passphrase to the identities.
    pub fn add_passphrase(&mut self, passphrase: Passphrase) {
        self.passphrases.push(passphrase);
    }

    /// Adds all keys and passphrases of other identities.
    pub fn extend(&mut self, others: Self) {
        self.keys.extend(others.keys);
        self.passphrases.extend(others.passphrases);
    }

    /// Sets the largest accepted work factor of passphrase files: the base-2 logarithm of scrypt's N. The default is
    /// [`DEFAULT_MAX_WORK_FACTOR`].
    #[must_use]
    pub fn with_max_work_factor(mut self, cap: u8) -> Self {
        self.max_work_factor = cap;
        self
    }

    /// Sets the prompter that answers questions of age plugins.
    #[cfg(feature = "plugin")]
    #[must_use]
    pub fn with_prompter(mut self, prompter: Arc<dyn crate::Prompter>) -> Self {
        self.prompter = crate::plugin::Prompts::new(prompter);
        self
    }

    /// Sets the time limit of each call of an age plugin. The default is [`PluginRules::DEFAULT_TIMEOUT`](crate::PluginRules::DEFAULT_TIMEOUT).
    #[cfg(feature = "plugin")]
    #[must_use]
    pub fn with_plugin_timeout(mut self, limit: std::time::Duration) -> Self {
        self.plugin_timeout = limit;
        self
    }

    /// Returns the names of the age plugins whose identities are among these.
    pub fn plugins(&self) -> Vec<String> {
        #[cfg(feature = "plugin")]
        let name = |key: &SecretKey| match key {
            SecretKey::Plugin(key) => Some(key.plugin().to_owned()),
            _ => None,
        };
        #[cfg(not(feature = "plugin"))]
        let name = |_: &SecretKey| None;
        self.keys.iter().filter_map(name).collect()
    }

    /// Returns the number of identities, passphrases included.
    pub fn len(&self) -> usize {
        self.keys.len() + self.passphrases.len()
    }

    /// Returns whether there are no identities.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many wrapped files these identities and their clones opened. Opening a stack opens one file.
    pub fn files_opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    pub(crate) fn count_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the recipients of the X25519 keys, as `age-keygen -y` prints them.
    pub fn recipients(&self) -> Vec<String> {
        let public = |key: &SecretKey| match key {
            SecretKey::X25519(key) => Some(key.to_public().to_string()),
            #[cfg(any(feature = "ssh", feature = "plugin"))]
            _ => None,
        };
        self.keys.iter().filter_map(public).collect()
    }
}

fn read_line(line: &str) -> Result<SecretKey, String> {
    const LENGTH: usize = 74;
    if line.starts_with("AGE-SECRET-KEY-PQ-") {
        return Err("a post-quantum identity, which this build can't read".to_owned());
    }
    if line.starts_with("AGE-SECRET-KEY-") {
        let length = line.chars().count();
        return line.parse().map(SecretKey::X25519).map_err(|_| {
            if length == LENGTH {
                "an AGE-SECRET-KEY-1 with a typo: its checksum is wrong".to_owned()
            } else {
                format!(
                    "an AGE-SECRET-KEY-1 has {LENGTH} characters, this one has {length}: cut off or mistyped"
                )
            }
        });
    }
    if line.starts_with("AGE-PLUGIN-") {
        return read_plugin(line);
    }
    if line.starts_with("age-encryption.org/") {
        return Err("the key file is itself encrypted: decrypt it with `age -d` first".to_owned());
    }
    if line.starts_with("age1") || line.starts_with("ssh-") {
        return Err("a recipient, which is public: expected the secret key that belongs to it".to_owned());
    }
    Err("not an identity: expected a line that begins with AGE-SECRET-KEY-1".to_owned())
}

/// Parses a key that spans several lines, from its `BEGIN` line on.
fn read_block<'l>(
    first: &str,
    title: &str,
    more: impl Iterator<Item = &'l str>,
) -> Result<SecretKey, String> {
    if title.starts_with("AGE ENCRYPTED FILE") {
        return Err("the key file is itself encrypted: decrypt it with `age -d` first".to_owned());
    }
    let kinds = ["OPENSSH PRIVATE KEY-----", "RSA PRIVATE KEY-----"];
    if !kinds.contains(&title) {
        return Err(
            "a type of key that age doesn't support: expected an OpenSSH or RSA private key".to_owned(),
        );
    }
    let mut block = zeroize::Zeroizing::new(String::from(first));
    let last = format!("-----END {title}");
    for line in more {
        block.push('\n');
        block.push_str(line);
        if line == last {
            return read_ssh(&block);
        }
    }
    Err(format!("an SSH key that is cut off: the line {last} is missing"))
}

#[cfg(feature = "ssh")]
fn read_ssh(block: &str) -> Result<SecretKey, String> {
    crate::ssh::identity(block)
        .map(|identity| SecretKey::Ssh(Box::new(identity)))
        .map_err(str::to_owned)
}

#[cfg(not(feature = "ssh"))]
fn read_ssh(_block: &str) -> Result<SecretKey, String> {
    Err("an SSH key; this build has no support for SSH keys (feature `ssh`)".to_owned())
}

#[cfg(feature = "plugin")]
fn read_plugin(line: &str) -> Result<SecretKey, String> {
    line.parse().map(SecretKey::Plugin).map_err(|_| {
        "an AGE-PLUGIN- identity that is cut off or has a typo: its checksum is wrong".to_owned()
    })
}

#[cfg(not(feature = "plugin"))]
fn read_plugin(_line: &str) -> Result<SecretKey, String> {
    Err("an identity of a plugin; this build has no support for age plugins (feature `plugin`)".to_owned())
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identities")
            .field("keys", &self.keys.len())
            .field("passphrases", &self.passphrases.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

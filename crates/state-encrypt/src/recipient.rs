//! Recipients of data keys: public keys, one per line, and passphrases.

use crate::error::{Error, Result};
use crate::passphrase::{DEFAULT_WORK_FACTOR, Passphrase};
use std::fmt;
use std::str::FromStr;

/// The largest accepted work factor of a passphrase: the base-2 logarithm of scrypt's N. `age -d` has the same limit.
const MAX_WORK_FACTOR: u8 = 22;

/// One public key to which a data key is wrapped. Its text is the parsed line without a comment.
#[derive(Clone)]
pub struct Recipient {
    text: String,
    pub(crate) key: RecipientKey,
}

#[derive(Clone)]
pub(crate) enum RecipientKey {
    X25519(age::x25519::Recipient),
    #[cfg(feature = "ssh")]
    Ssh(age::ssh::Recipient),
    #[cfg(feature = "plugin")]
    Plugin(age::plugin::Recipient),
}

impl Recipient {
    fn read(text: &str) -> Result<Self, String> {
        let key = read_key(text)?;
        let text = match &key {
            // The line may end in a comment, which the text of the parsed key doesn't contain.
            #[cfg(feature = "ssh")]
            RecipientKey::Ssh(key) => key.to_string(),
            _ => text.to_owned(),
        };
        Ok(Self { text, key })
    }

    /// Returns the recipient's line in a recipients file.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name of the age plugin that wraps keys to this recipient; none if no plugin is needed. The program is
    /// `age-plugin-` with this name.
    pub fn plugin(&self) -> Option<&str> {
        #[cfg(feature = "plugin")]
        if let RecipientKey::Plugin(key) = &self.key {
            return Some(key.plugin());
        }
        None
    }
}

fn read_key(text: &str) -> Result<RecipientKey, String> {
    if text.starts_with("AGE-SECRET-KEY-")
        || text.starts_with("AGE-PLUGIN-")
        || text.starts_with("-----BEGIN")
    {
        return Err(
            "a secret key; a recipient is the public key, which `age-keygen -y FILE` (age) or `ssh-keygen -y -f FILE` \
            (SSH) prints"
                .to_owned(),
        );
    }
    if text.starts_with("ssh-") {
        return read_ssh(text);
    }
    if !text.starts_with("age1") {
        return Err("not a recipient: expected a line that begins with age1 or ssh-".to_owned());
    }
    if let Ok(key) = text.parse() {
        return Ok(RecipientKey::X25519(key));
    }
    // The recipient of a plugin has the plugin's name between `age1` and the last `1`. A text without such a name
    // must be a native recipient, so the failure to parse it means a typo.
    match text[4..].rfind('1') {
        None | Some(0) => Err(typo(text)),
        Some(_) => read_plugin(text),
    }
}

fn typo(text: &str) -> String {
    let length = text.chars().count();
    if length == 62 {
        "an age1 recipient with a typo: its checksum is wrong".to_owned()
    } else {
        format!("an age1 recipient has 62 characters, this one has {length}: cut off or with a typo")
    }
}

#[cfg(feature = "ssh")]
fn read_ssh(text: &str) -> Result<RecipientKey, String> {
    crate::ssh::recipient(text).map(RecipientKey::Ssh)
}

#[cfg(not(feature = "ssh"))]
fn read_ssh(_text: &str) -> Result<RecipientKey, String> {
    Err("an SSH key; this build has no support for SSH keys (feature `ssh`)".to_owned())
}

#[cfg(feature = "plugin")]
fn read_plugin(text: &str) -> Result<RecipientKey, String> {
    match text.parse() {
        Ok(key) => Ok(RecipientKey::Plugin(key)),
        Err(_) => Err("an age1 recipient with a typo: its checksum is wrong".to_owned()),
    }
}

#[cfg(not(feature = "plugin"))]
fn read_plugin(_text: &str) -> Result<RecipientKey, String> {
    Err(
        "an age1 recipient with a typo, or of a plugin, which this build doesn't support (feature `plugin`)"
            .to_owned(),
    )
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({})", self.text)
    }
}

impl PartialEq for Recipient {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Recipient {}

impl FromStr for Recipient {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::read(text.trim()).map_err(|reason| Error::Recipient { line: 1, reason })
    }
}

/// The recipients of a data key: public keys and passphrases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipients {
    keys: Vec<Recipient>,
    pub(crate) passphrases: Vec<(Passphrase, u8)>,
    #[cfg(feature = "plugin")]
    pub(crate) prompter: crate::plugin::Prompts,
    #[cfg(feature = "plugin")]
    pub(crate) plugin_timeout: std::time::Duration,
}

impl Default for Recipients {
    /// Contains no recipients, and has the default time limit for plugins.
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            passphrases: Vec::new(),
            #[cfg(feature = "plugin")]
            prompter: crate::plugin::Prompts::default(),
            #[cfg(feature = "plugin")]
            plugin_timeout: crate::PluginRules::DEFAULT_TIMEOUT,
        }
    }
}

impl Recipients {
    /// Parses the lines of a recipients file: one public key per line, empty lines, and comments that begin with `#`.
    ///
    /// # Errors
    /// [`Error::Recipient`] with the line number and the expected form. A file without recipients is not an error.
    pub fn parse(text: &str) -> Result<Self> {
        let mut recipients = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let recipient =
                Recipient::read(line).map_err(|reason| Error::Recipient { line: number, reason })?;
            recipients.add(recipient);
        }
        Ok(recipients)
    }

    /// Adds a public key, unless it is present already.
    pub fn add(&mut self, recipient: Recipient) {
        if !self.keys.contains(&recipient) {
            self.keys.push(recipient);
        }
    }

    /// Removes a public key; returns whether it was present.
    pub fn remove(&mut self, recipient: &Recipient) -> bool {
        let before = self.keys.len();
        self.keys.retain(|other| other != recipient);
        self.keys.len() < before
    }

    /// Adds a passphrase. Each passphrase gets a separate wrapped file, because age doesn't allow a passphrase and
    /// other recipients in one file.
    pub fn add_passphrase(&mut self, passphrase: Passphrase) {
        self.passphrases.push((passphrase, DEFAULT_WORK_FACTOR));
    }

    /// Like [`Recipients::add_passphrase`], with a scrypt cost of 2 to the power of `work_factor`, from 1 to 22.
    /// Intended for tests: a passphrase with less work than the default is easy to guess.
    ///
    /// # Errors
    /// [`Error::WorkFactorRange`] for a work factor outside of 1 to 22.
    pub fn add_passphrase_with_work(&mut self, passphrase: Passphrase, work_factor: u8) -> Result<()> {
        if !(1..=MAX_WORK_FACTOR).contains(&work_factor) {
            return Err(Error::WorkFactorRange {
                asked: work_factor,
                most: MAX_WORK_FACTOR,
            });
        }
        self.passphrases.push((passphrase, work_factor));
        Ok(())
    }

    /// Sets the prompter that answers questions of age plugins.
    #[cfg(feature = "plugin")]
    #[must_use]
    pub fn with_prompter(mut self, prompter: std::sync::Arc<dyn crate::Prompter>) -> Self {
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

    /// Returns the public keys in the order in which they were added.
    pub fn keys(&self) -> &[Recipient] {
        &self.keys
    }

    /// Returns whether there are no recipients.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.passphrases.is_empty()
    }
}

/// Parses a recipients file with [`Recipients::parse`].
impl FromStr for Recipients {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests;

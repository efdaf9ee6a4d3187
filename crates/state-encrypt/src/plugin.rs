//! What age's plugins may ask of the person at the terminal.

use crate::passphrase::Passphrase;
use age::Callbacks;
use age::secrecy::SecretString;
use std::fmt;
use std::sync::Arc;

/// Answers the questions of plugins: touch the key, give a PIN. Without one every question is left unanswered.
pub trait Prompter: fmt::Debug + Send + Sync {
    /// Shows a message.
    fn show(&self, message: &str);

    /// Asks for a decision between the answer `yes` and, if there is one, `no`. None if nobody can be asked.
    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool>;

    /// Asks for something that isn't secret. None if nobody can be asked.
    fn ask(&self, question: &str) -> Option<String>;

    /// Asks for a secret, a PIN say. None if nobody can be asked.
    fn ask_secret(&self, question: &str) -> Option<Passphrase>;
}

/// A prompter, or none, as age wants it.
#[derive(Clone, Default)]
pub(crate) struct Prompts(Option<Arc<dyn Prompter>>);

impl Prompts {
    pub(crate) fn new(prompter: Arc<dyn Prompter>) -> Self {
        Self(Some(prompter))
    }
}

impl Callbacks for Prompts {
    fn display_message(&self, message: &str) {
        if let Some(prompter) = &self.0 {
            prompter.show(message);
        }
    }

    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        self.0.as_ref()?.confirm(message, yes, no)
    }

    fn request_public_string(&self, question: &str) -> Option<String> {
        self.0.as_ref()?.ask(question)
    }

    fn request_passphrase(&self, question: &str) -> Option<SecretString> {
        let passphrase = self.0.as_ref()?.ask_secret(question)?;
        Some(passphrase.secret())
    }
}

impl fmt::Debug for Prompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Prompts(some)"
        } else {
            "Prompts(none)"
        })
    }
}

/// Two sets of recipients are the same whoever is asked.
impl PartialEq for Prompts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Prompts {}

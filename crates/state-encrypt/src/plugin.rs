//! Passes questions of age plugins to the user.

use crate::passphrase::Passphrase;
use age::Callbacks;
use age::secrecy::SecretString;
use std::fmt;
use std::sync::Arc;

/// Answers the questions of age plugins, such as a PIN or a confirmation. Without a prompter every question stays
/// unanswered.
pub trait Prompter: fmt::Debug + Send + Sync {
    /// Shows a message to the user.
    fn show(&self, message: &str);

    /// Asks the user to choose between the answer `yes` and, if given, `no`. Returns `None` if no user can answer.
    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool>;

    /// Asks the user for a value that is not secret. Returns `None` if no user can answer.
    fn ask(&self, question: &str) -> Option<String>;

    /// Asks the user for a secret such as a PIN. Returns `None` if no user can answer.
    fn ask_secret(&self, question: &str) -> Option<Passphrase>;
}

/// An optional prompter, as the callbacks that age calls.
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

/// Always equal: the prompter doesn't take part in the comparison of two sets of recipients.
impl PartialEq for Prompts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Prompts {}

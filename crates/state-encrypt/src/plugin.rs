//! Calls of age plugins: a time limit, and the questions that a plugin asks the user.

use crate::passphrase::Passphrase;
use age::Callbacks;
use age::secrecy::SecretString;
use std::fmt;
use std::sync::{Arc, mpsc};
use std::time::Duration;

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

/// A plugin that didn't answer within its time limit, or ended without an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    limit: Duration,
    is_late: bool,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_late {
            true => write!(f, "the age plugin gave no answer within {:?}", self.limit),
            false => f.write_str("the call of the age plugin failed"),
        }
    }
}

/// Runs a call of a plugin in a thread of its own, and waits until it ends or the time limit is over.
///
/// age has no time limit of its own, and a plugin may wait for a device or a service for ever. A thread that is too late
/// stays until the plugin ends; a plugin reads the end of its input when this process exits.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let (answer, answered) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // The receiver is gone if the answer is too late.
        drop(answer.send(call()));
    });
    answered.recv_timeout(limit).map_err(|error| NoAnswer {
        limit,
        is_late: error == mpsc::RecvTimeoutError::Timeout,
    })
}

/// Always equal: the prompter doesn't take part in the comparison of two sets of recipients.
impl PartialEq for Prompts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Prompts {}

#[cfg(test)]
mod tests {
    use super::within;
    use std::time::Duration;

    #[test]
    fn call_ends_by_itself_or_at_its_time_limit() {
        assert_eq!(within(Duration::from_secs(60), || 7), Ok(7));
        let limit = Duration::from_millis(20);
        let late = within(limit, || std::thread::sleep(Duration::from_secs(60))).unwrap_err();
        assert_eq!(late.to_string(), "the age plugin gave no answer within 20ms");
    }
}

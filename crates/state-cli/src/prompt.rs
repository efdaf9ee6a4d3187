//! Questions: asked on a terminal only.

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::output::Terminal;
use state_engine::Interrupt;
use std::io::{BufRead, Write};

/// Who answers questions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt {
    /// Whether `--yes` answers in advance.
    pub(crate) yes: bool,
    pub(crate) terminal: Terminal,
}

impl Prompt {
    /// Whether a question gets an answer.
    pub(crate) const fn can_ask(&self) -> bool {
        self.yes || self.terminal.can_ask()
    }

    /// Returns when the answer is yes. Off a terminal nobody could answer: refused.
    ///
    /// # Errors
    /// [`ExitCode::Refused`] without a yes.
    pub(crate) fn confirm(&self, object: &str, question: &str) -> Result<(), CliError> {
        if self.yes {
            return Ok(());
        }
        self.require_terminal(object)?;
        judged(object, ask(question), "nothing was changed")
    }

    /// The same while signals are listened to: one of them is an answer too. `untouched` says what becomes of the record
    /// without a yes.
    ///
    /// # Errors
    /// As [`Self::confirm`]; [`ExitCode::Interrupted`] at the first request to stop.
    pub(crate) async fn confirm_unless(
        &self,
        interrupt: &Interrupt,
        object: &str,
        question: &str,
        untouched: &str,
    ) -> Result<(), CliError> {
        if self.yes {
            return Ok(());
        }
        self.require_terminal(object)?;
        let (sender, answer) = tokio::sync::oneshot::channel();
        let asked = question.to_owned();
        // A thread of its own, which may wait for ever: nothing waits for it when a signal comes first.
        std::thread::spawn(move || sender.send(ask(&asked)));
        tokio::select! {
            answer = answer => {
                let gone = |_| std::io::Error::other("nobody asked");
                judged(object, answer.map_err(gone).and_then(|answer| answer), untouched)
            }
            () = interrupt.stopping() => Err(interrupted(object, untouched)),
        }
    }

    fn require_terminal(&self, object: &str) -> Result<(), CliError> {
        if self.terminal.can_ask() {
            return Ok(());
        }
        let message = "it needs a confirmation, and there is no terminal to ask on";
        Err(CliError::refused(object, message).with_hint("run it again with `--yes`"))
    }
}

/// That somebody asked to stop before anything began.
pub(crate) fn interrupted(object: &str, untouched: &str) -> CliError {
    CliError::new(
        ExitCode::Interrupted,
        object,
        &format!("interrupted; {untouched}"),
    )
}

fn judged(object: &str, answer: std::io::Result<String>, untouched: &str) -> Result<(), CliError> {
    let answer = answer.map_err(|source| CliError::io("the terminal", &source))?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        let message = format!("not confirmed; {untouched}");
        Err(CliError::refused(object, &message))
    }
}

fn ask(question: &str) -> std::io::Result<String> {
    let mut screen = std::io::stderr().lock();
    write!(screen, "{question} [y/N] ")?;
    screen.flush()?;
    drop(screen);
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(answer)
}

//! Confirmations, which are asked on a terminal only.

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::output::Terminal;
use state_engine::Interrupt;
use std::io::{BufRead, Write};

/// Asks the user for confirmations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt {
    /// Whether `--yes` confirms every question.
    pub(crate) yes: bool,
    pub(crate) terminal: Terminal,
}

impl Prompt {
    /// Whether a question can be answered, by `--yes` or on a terminal.
    pub(crate) const fn can_ask(&self) -> bool {
        self.yes || self.terminal.can_ask()
    }

    /// Asks a question and returns if the answer is yes.
    ///
    /// # Errors
    /// [`ExitCode::Refused`] for any other answer, and without a terminal.
    pub(crate) fn confirm(&self, object: &str, question: &str) -> Result<(), CliError> {
        if self.yes {
            return Ok(());
        }
        self.require_terminal(object, question)?;
        check_answer(object, ask(question), "nothing was changed")
    }

    /// Like [`Self::confirm`], but a signal ends the question. `untouched` is the part of the error message that says what
    /// stays unchanged.
    ///
    /// # Errors
    /// Like [`Self::confirm`], and [`ExitCode::Interrupted`] after a signal.
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
        self.require_terminal(object, question)?;
        let (sender, answer) = tokio::sync::oneshot::channel();
        let asked = question.to_owned();
        // A detached thread, because reading stdin can't be cancelled: after a signal, the command ends without waiting for
        // an answer.
        std::thread::spawn(move || sender.send(ask(&asked)));
        tokio::select! {
            answer = answer => {
                let gone = |_| std::io::Error::other("the question was not asked");
                check_answer(object, answer.map_err(gone).and_then(|answer| answer), untouched)
            }
            () = interrupt.stopping() => Err(interrupted(object, untouched)),
        }
    }

    fn require_terminal(&self, object: &str, question: &str) -> Result<(), CliError> {
        if self.terminal.can_ask() {
            return Ok(());
        }
        let message = "not a terminal: pass --yes to confirm";
        Err(CliError::refused(object, message).with_hint(format!(
            "the question is: {question} To answer yes, run the command with `--yes`"
        )))
    }
}

/// The error after a signal before the run began.
pub(crate) fn interrupted(object: &str, untouched: &str) -> CliError {
    CliError::new(
        ExitCode::Interrupted,
        object,
        &format!("interrupted; {untouched}"),
    )
}

fn check_answer(object: &str, answer: std::io::Result<String>, untouched: &str) -> Result<(), CliError> {
    let answer = answer.map_err(|source| CliError::io("terminal", &source))?;
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

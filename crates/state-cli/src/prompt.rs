//! Questions: asked on a terminal only.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use std::io::{BufRead, Write};

/// Goes on when the answer is yes; `--yes` answers in advance. Off a terminal nobody could answer: refused.
///
/// # Errors
/// [`ExitCode::Refused`] when nobody said yes.
pub(crate) fn confirm(context: &Context, object: &str, question: &str) -> Result<(), CliError> {
    if context.global.yes {
        return Ok(());
    }
    let refused = |message: &str| CliError::new(ExitCode::Refused, object, message);
    if !context.terminal.can_ask() {
        return Err(
            refused("it needs a confirmation, and there is no terminal to ask on")
                .with_hint("run it again with `--yes`"),
        );
    }
    let answer = ask(question).map_err(|source| CliError::io("the terminal", &source))?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err(refused("not confirmed; nothing was changed"))
    }
}

fn ask(question: &str) -> std::io::Result<String> {
    let mut screen = std::io::stderr().lock();
    write!(screen, "{question} [y/N] ")?;
    screen.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(answer)
}

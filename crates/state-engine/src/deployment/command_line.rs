//! Refuses secrets in command lines: every user of the machine can read the arguments of a process.

use crate::goal::Goal;
use crate::kind::{InputType, KindDescription};

/// Returns an error text if a secret in the inputs would become an argument of a process, and `None` otherwise.
pub(super) fn secret_argument(kind: &KindDescription, goal: &Goal) -> Option<String> {
    let is_command = |name: &str| {
        let mut inputs = kind.inputs.iter();
        inputs.any(|input| input.name == name && matches!(input.takes, InputType::Command))
    };
    let mut marked = goal.sensitive_inputs.iter().map(|mark| top_level(mark));
    let name = marked.find(|name| is_command(name))?;
    Some(format!(
        "`{name}` contains a secret, and other users can read the arguments of a process: pass the secret in `environment` \
         or `stdin`"
    ))
}

/// Returns the name of the top-level input that contains the marked value. `mark` is a name or a JSON pointer.
fn top_level(mark: &str) -> &str {
    match mark.strip_prefix('/') {
        Some(pointer) => pointer.split('/').next().unwrap_or(pointer),
        None => mark,
    }
}

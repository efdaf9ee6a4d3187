//! Outcomes of commands, and the objects built from their output.

use super::process::Stdout;
use crate::builtin::members::{Members, flag, members, properties, text, texts};
use crate::provider::{Failure, Object};
use state_core::json::Kind;
use state_core::{Json, Properties};

/// The output that names the command that must run again.
pub(super) const UNFINISHED: &str = "unfinished";

/// Maximum length of an id in bytes.
const MAX_ID_BYTES: usize = 1024;

/// The outcome of a command.
pub(super) enum Outcome {
    Done(CommandResult),
    /// The command did nothing, or couldn't be started, for the given reason.
    NotDone(String),
    /// The command reported that the object doesn't exist.
    Missing(String),
    /// The command failed for the given reason and may have changed something.
    Failed(String),
}

/// The standard output of a successful command.
pub(super) struct CommandResult {
    pub(super) printed: Stdout,
    /// Name of the input that contains the command, such as `create`.
    pub(super) command: &'static str,
}

impl CommandResult {
    /// Builds the object from the standard output: the members of a JSON object become the outputs; other text becomes
    /// the output `stdout`. If a command other than `create` prints nothing, the outputs in `before` stay. `id` is the
    /// object's id unless the JSON object contains one.
    pub(super) fn object(
        self,
        inputs: &Properties,
        id: &str,
        before: &Properties,
    ) -> Result<Object, Failure> {
        if self.printed.is_cut {
            let what = "it printed more than 1 MiB: write large output to a file";
            return Err(self.unusable(what, inputs, id, before));
        }
        let printed = String::from_utf8_lossy(&self.printed.bytes);
        let printed = printed.trim_end_matches(['\n', '\r']);
        if printed.trim().is_empty() && self.command != "create" {
            return Ok(command_object(before, inputs, id));
        }
        let outputs = Json::parse(printed).ok().and_then(Properties::new);
        let Some(outputs) = outputs else {
            let stdout = Members::from([("stdout".to_owned(), Json::from_string(printed))]);
            return Ok(command_object(&properties(&stdout), inputs, id));
        };
        let own_id = outputs.get("id").and_then(|id| match id.kind() {
            Kind::String => id.as_str().map(|id| id.into_owned()),
            Kind::Number => Some(id.text().to_owned()),
            _ => None,
        });
        if let Some(wrong) = own_id.as_deref().and_then(id_problem) {
            let what = format!("the `id` that it printed {wrong}");
            return Err(self.unusable(&what, inputs, id, before));
        }
        Ok(command_object(&outputs, inputs, own_id.as_deref().unwrap_or(id)))
    }

    /// The failure of a command that succeeded but printed unusable output. The object is marked so that the command
    /// runs again.
    fn unusable(&self, what: &str, inputs: &Properties, id: &str, before: &Properties) -> Failure {
        let object = command_object(&marked_unfinished(before, self.command), inputs, id);
        Failure::partial(object, format!("`{}` succeeded, but {what}", self.command))
    }
}

/// Returns the reason why an id is invalid, as a verb phrase; `None` for a valid one. The reason doesn't quote the id,
/// which may be secret or contain terminal control sequences.
fn id_problem(id: &str) -> Option<String> {
    if id.is_empty() {
        return Some("is empty".to_owned());
    }
    if id.chars().any(char::is_control) {
        return Some("contains control characters".to_owned());
    }
    (id.len() > MAX_ID_BYTES).then(|| format!("has more than {MAX_ID_BYTES} bytes"))
}

/// Builds an object with these outputs and marks those that the inputs declare as secret.
pub(super) fn command_object(outputs: &Properties, inputs: &Properties, id: &str) -> Object {
    let mut object = Object::new(id, outputs.clone());
    object.sensitive_outputs = match flag(inputs, "sensitive") {
        true => {
            let names = members(outputs).into_keys();
            names.filter(|name| name != UNFINISHED).collect()
        }
        false => texts(inputs, "sensitive_outputs"),
    };
    object
}

/// Sets the output `unfinished` to the name of the command that must run again.
pub(super) fn marked_unfinished(outputs: &Properties, what: &str) -> Properties {
    let mut outputs = members(outputs);
    outputs.insert(UNFINISHED.to_owned(), Json::from_string(what));
    properties(&outputs)
}

/// Whether the output `unfinished` names this command.
pub(super) fn is_unfinished(outputs: &Properties, what: &str) -> bool {
    text(outputs, UNFINISHED).is_some_and(|marker| marker == what)
}

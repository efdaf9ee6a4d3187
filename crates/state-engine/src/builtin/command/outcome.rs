//! What a command said, and what that means.

use super::process::Stdout;
use crate::builtin::members::{Members, flag, members, properties, text, texts};
use crate::provider::{Failure, Object};
use state_core::json::Kind;
use state_core::{Json, Properties};

/// The output that says what failed and has to be done again.
pub(super) const UNFINISHED: &str = "unfinished";

/// So many bytes an id may have.
const MAX_ID_BYTES: usize = 1024;

/// How a command ended.
pub(super) enum Outcome {
    Done(CommandResult),
    /// It says so, or it was never started.
    NotDone(String),
    /// What it was about isn't there.
    Missing(String),
    /// It may have done something.
    Failed(String),
}

/// What a command that went well printed.
pub(super) struct CommandResult {
    pub(super) printed: Stdout,
    pub(super) command: &'static str,
}

impl CommandResult {
    /// The object that was told of; if nothing was, it is as it was.
    pub(super) fn object(
        self,
        inputs: &Properties,
        id: &str,
        before: &Properties,
    ) -> Result<Object, Failure> {
        if self.printed.is_cut {
            let what = "printed more than a mebibyte: write what is large to a file";
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

    /// It has done its work, and what it printed is no use: it has to be done again.
    fn unusable(&self, what: &str, inputs: &Properties, id: &str, before: &Properties) -> Failure {
        let object = command_object(&marked_unfinished(before, self.command), inputs, id);
        Failure::partial(object, format!("`{}` went well, but {what}", self.command))
    }
}

/// Why an id can't be used. It isn't quoted: it may be secret, and it may move the cursor of who reads it.
fn id_problem(id: &str) -> Option<String> {
    if id.is_empty() {
        return Some("is empty".to_owned());
    }
    if id.chars().any(char::is_control) {
        return Some("has control characters in it".to_owned());
    }
    (id.len() > MAX_ID_BYTES).then(|| format!("has more than {MAX_ID_BYTES} bytes"))
}

/// An object with these outputs, of which those are secret that the inputs say.
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

/// The outputs, and what failed and has to be done again.
pub(super) fn marked_unfinished(outputs: &Properties, what: &str) -> Properties {
    let mut outputs = members(outputs);
    outputs.insert(UNFINISHED.to_owned(), Json::from_string(what));
    properties(&outputs)
}

pub(super) fn is_unfinished(outputs: &Properties, what: &str) -> bool {
    text(outputs, UNFINISHED).is_some_and(|marker| marker == what)
}

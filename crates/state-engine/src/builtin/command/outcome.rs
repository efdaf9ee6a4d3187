//! What a command said, and what that means.

use crate::builtin::members::{Members, flag, members, properties, texts};
use crate::provider::{Failure, Object};
use state_core::json::Kind;
use state_core::{Json, Properties};

/// The output that says what failed and has to be done again.
pub(super) const UNFINISHED: &str = "unfinished";

/// How a command ended.
pub(super) enum Outcome {
    Done(Said),
    /// It says so, or it was never started.
    NotDone(String),
    /// What it was about isn't there.
    NotThere(String),
    /// It may have done something.
    Failed(String),
}

/// What a command that went well printed.
pub(super) struct Said {
    pub(super) stdout: Vec<u8>,
    /// It printed more than is kept.
    pub(super) is_cut: bool,
    pub(super) command: &'static str,
}

impl Said {
    /// The object that was told of; if nothing was, it is as it was.
    pub(super) fn object(
        self,
        inputs: &Properties,
        id: &str,
        before: &Properties,
    ) -> Result<Object, Failure> {
        if self.is_cut {
            let reason = format!(
                "`{}` went well, but printed more than a mebibyte: write what is large to a file",
                self.command
            );
            let mut outputs = members(before);
            outputs.insert(UNFINISHED.to_owned(), Json::from_string(self.command));
            return Err(Failure::partial(said(&properties(&outputs), inputs, id), reason));
        }
        let printed = String::from_utf8_lossy(&self.stdout);
        let printed = printed.trim_end_matches(['\n', '\r']);
        if printed.trim().is_empty() && self.command != "create" {
            return Ok(said(before, inputs, id));
        }
        let told = Json::parse(printed).ok().and_then(Properties::new);
        let Some(told) = told else {
            let stdout = Members::from([("stdout".to_owned(), Json::from_string(printed))]);
            return Ok(said(&properties(&stdout), inputs, id));
        };
        let own_id = told.get("id").and_then(|id| match id.kind() {
            Kind::String => id.as_str().map(|id| id.into_owned()),
            Kind::Number => Some(id.text().to_owned()),
            _ => None,
        });
        let own_id = own_id.filter(|id| !id.is_empty());
        Ok(said(&told, inputs, own_id.as_deref().unwrap_or(id)))
    }
}

/// An object with these outputs, of which those are secret that the inputs say.
pub(super) fn said(outputs: &Properties, inputs: &Properties, id: &str) -> Object {
    let mut object = Object::new(id, outputs.clone());
    object.sensitive_outputs = match flag(inputs, "sensitive") {
        true => members(outputs)
            .into_keys()
            .filter(|name| name != UNFINISHED)
            .collect(),
        false => texts(inputs, "sensitive_outputs"),
    };
    object
}

/// What a create may have left of which nothing is known.
pub(super) fn unfinished(inputs: &Properties, id: &str, what: &str) -> Object {
    let outputs = Members::from([(UNFINISHED.to_owned(), Json::from_string(what))]);
    said(&properties(&outputs), inputs, id)
}

pub(super) fn is_unfinished(outputs: &Properties, what: &str) -> bool {
    let marker = outputs
        .get(UNFINISHED)
        .and_then(|marker| marker.as_str().map(|text| text == what));
    marker.unwrap_or(false)
}

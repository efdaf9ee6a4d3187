//! Steps in JSON, and what may be shown of them.

use serde::Serialize;
use state_core::diff::MaskedChange;
use state_core::mask::Mask;
use state_engine::{Step, StepOp};

/// One step.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct StepView {
    pub(super) op: &'static str,
    pub(super) address: String,
    pub(super) deposed: Option<String>,
    pub(super) kind: String,
    pub(super) parent: Option<String>,
    /// What makes it a replacement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) why: Vec<String>,
    /// Inputs whose values nobody knows before it is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown: Vec<String>,
    pub(super) changes: Vec<MaskedChange>,
    /// Of what was compared with the world: it isn't there any more, so its entry goes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) gone: bool,
    #[serde(skip)]
    pub(super) does: StepOp,
}

impl StepView {
    /// What may be shown of a step.
    pub(super) fn of(step: &Step, mask: Mask) -> Self {
        let entry = step.new.as_deref().or(step.old.as_deref());
        Self {
            op: step.op.name(),
            address: step.key.address.to_string(),
            deposed: step.key.deposed.as_ref().map(ToString::to_string),
            kind: step.kind.clone(),
            parent: entry
                .and_then(|entry| entry.parent.as_ref())
                .map(ToString::to_string),
            why: match is_replacement(step.op) {
                true => step.why.clone(),
                false => Vec::new(),
            },
            unknown: step.unknown.clone(),
            changes: changes(step, mask),
            gone: step.op == StepOp::Refresh && step.new.is_none(),
            does: step.op,
        }
    }

    /// How a tree shows it.
    pub(super) const fn sign(&self) -> &'static str {
        match self.does {
            StepOp::Refresh if self.gone => "-",
            // Only what is recorded of it differs.
            StepOp::Same => "~",
            does => does.sign(),
        }
    }

    /// Whether it takes another object's place.
    pub(super) const fn is_replacement(&self) -> bool {
        is_replacement(self.does)
    }

    /// Its address, and which of the objects there it is.
    pub(super) fn name(&self) -> String {
        match &self.deposed {
            None => self.address.clone(),
            Some(key) => format!("{} (deposed {key})", self.address),
        }
    }
}

const fn is_replacement(op: StepOp) -> bool {
    matches!(op, StepOp::CreateReplacement | StepOp::ImportReplacement)
}

/// What differs; of what is made, all that it is made from.
fn changes(step: &Step, mask: Mask) -> Vec<MaskedChange> {
    let is_input = |pointer: &str| pointer.starts_with("/inputs/");
    match (&step.old, &step.new) {
        (_, None) => Vec::new(),
        (None, Some(_)) => {
            let inputs = step
                .properties()
                .into_iter()
                .filter(|property| is_input(&property.pointer));
            inputs.map(|property| property.masked(mask)).collect()
        }
        (Some(_), Some(_)) => {
            let changes = step.changes().into_iter();
            // Another object has another id and other outputs: that says nothing.
            let describe = changes.filter(|change| !is_replacement(step.op) || is_input(&change.pointer));
            describe.map(|change| change.masked(mask)).collect()
        }
    }
}

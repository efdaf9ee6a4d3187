//! Steps of a plan or run for display and JSON, with masked values.

use serde::Serialize;
use state_core::diff::MaskedChange;
use state_core::mask::Mask;
use state_engine::{Step, StepOp};

/// One step of a plan or run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct StepView {
    pub(super) op: &'static str,
    pub(super) address: String,
    pub(super) deposed: Option<String>,
    pub(super) kind: String,
    pub(super) parent: Option<String>,
    /// The properties whose change requires a replacement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) why: Vec<String>,
    /// Inputs whose values are known only after apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown: Vec<String>,
    pub(super) changes: Vec<MaskedChange>,
    /// For a refresh: whether the real resource no longer exists and is therefore removed from the state.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) gone: bool,
    #[serde(skip)]
    pub(super) does: StepOp,
}

impl StepView {
    /// Builds the view of a step, with masked values.
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

    /// The sign of the step in a tree.
    pub(super) const fn sign(&self) -> &'static str {
        match self.does {
            StepOp::Refresh if self.gone => "-",
            // The resource stays the same, and only its record in the state changes.
            StepOp::Same => "~",
            does => does.sign(),
        }
    }

    /// Whether the step creates the new resource of a replacement.
    pub(super) const fn is_replacement(&self) -> bool {
        is_replacement(self.does)
    }

    /// The resource's address; for a deposed resource also its key.
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

/// The changed properties; for a new resource, all its inputs.
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
            // A replacement always has a new id and new outputs: show only the changed inputs, which explain it.
            let shown = changes.filter(|change| !is_replacement(step.op) || is_input(&change.pointer));
            shown.map(|change| change.masked(mask)).collect()
        }
    }
}

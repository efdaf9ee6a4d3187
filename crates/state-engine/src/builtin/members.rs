//! Helpers of the built-in providers to read, build and validate the properties (inputs and outputs) of a resource.

pub(super) use crate::kind::{Members, members, properties_of as properties};

use crate::kind::KindDescription;
use crate::provider::{CheckRequest, Failure};
use state_core::{Json, Properties};

/// Returns a property if it exists and is a string.
pub(super) fn text(properties: &Properties, name: &str) -> Option<String> {
    let value = properties.get(name)?;
    value.as_str().map(|text| text.into_owned())
}

/// Returns a property as JSON, if it exists.
pub(super) fn value(properties: &Properties, name: &str) -> Option<Json> {
    properties.get(name).map(Json::from_view)
}

/// Returns the strings of a list property. A missing property or one of another type counts as an empty list.
pub(super) fn texts(properties: &Properties, name: &str) -> Vec<String> {
    let elements = properties.get(name).and_then(|list| list.elements());
    let texts = elements.into_iter().flatten();
    texts
        .filter_map(|text| text.as_str().map(|text| text.into_owned()))
        .collect()
}

/// Whether a property is `true`.
pub(super) fn flag(properties: &Properties, name: &str) -> bool {
    let flag = properties.get(name).and_then(|flag| flag.as_bool());
    flag == Some(true)
}

/// Validates inputs against the description of their kind. `more` checks the provider's own rules and adds the problems
/// that it finds. Returns the inputs with defaults, or all problems.
pub(super) fn checked_inputs(
    kind: &KindDescription,
    request: &CheckRequest,
    more: impl FnOnce(&Properties, &mut Vec<String>),
) -> Result<Properties, Failure> {
    let mut problems = kind.problems(&request.inputs, &request.unknown);
    let inputs = kind.with_defaults(&request.inputs, &request.unknown);
    more(&inputs, &mut problems);
    match problems.is_empty() {
        true => Ok(inputs),
        false => Err(Failure::NotDone(problems)),
    }
}

//! Inputs judged: by what their kind takes, and by what only its provider knows.

use crate::kind::KindDescription;
use crate::provider::{CheckRequest, Failure};
use state_core::Properties;

/// Every problem at once, or the inputs with their defaults.
pub(super) fn judged(
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

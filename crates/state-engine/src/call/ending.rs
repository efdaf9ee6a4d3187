//! Normalizes the results of provider calls: every failure has a reason, secrets are masked, every object has an id,
//! and panics are caught.

use super::{CallError, CallResult, CallTarget};
use crate::log::mask_line;
use crate::provider::{Failure, Object};
use state_core::sensitive::SecretStrings;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Adds a reason to a failure without one. A partial result without an id becomes a failure with an unknown effect,
/// because an object without an id can't be recorded.
pub(super) fn complete_failure(mut failure: Failure) -> Failure {
    let reasons = failure.reasons_mut();
    if reasons.is_empty() {
        reasons.push("its provider gave no reason".to_owned());
    }
    match failure {
        Failure::Partial { object, mut reasons } if object.id.is_empty() => {
            reasons.push("its provider returned no id for the partial result".to_owned());
            Failure::Unknown(reasons)
        }
        failure => failure,
    }
}

/// Masks secrets in the reasons of a failure.
pub(super) fn mask_failure(mut failure: Failure, secrets: &SecretStrings) -> Failure {
    for reason in failure.reasons_mut() {
        *reason = mask_line(reason, secrets);
    }
    failure
}

/// Refuses an object without an id. The call may have changed a real resource, so its effect counts as unknown.
pub(super) fn require_id(target: &CallTarget, object: Object) -> CallResult<Object> {
    if object.id.is_empty() {
        let reason = format!("the provider of kind `{}` returned an empty id", target.kind);
        return Err(CallError::Failed(Failure::unknown(reason)));
    }
    Ok(object)
}

/// Returns the output of a future. `None` if the future panics.
pub(super) async fn catch_panic<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // The future isn't polled again after a panic, so its inconsistent state can't be observed.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

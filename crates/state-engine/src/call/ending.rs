//! What a provider's call ended with, made presentable: failures that give a reason and reveal no secret, objects with an
//! id, and panics caught.

use super::{CallError, CallTarget, Called};
use crate::log::shown;
use crate::provider::{Failure, Object};
use state_core::sensitive::SecretStrings;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// A failure always says something, and an object that is there has an id.
pub(super) fn honest(mut failure: Failure) -> Failure {
    let reasons = failure.reasons_mut();
    if reasons.is_empty() {
        reasons.push("its provider gave no reason".to_owned());
    }
    match failure {
        Failure::Partial { object, mut reasons } if object.id.is_empty() => {
            reasons.push("its provider gave no id for what is there".to_owned());
            Failure::Unknown(reasons)
        }
        failure => failure,
    }
}

/// A failure that tells no secret.
pub(super) fn discreet(mut failure: Failure, secrets: &SecretStrings) -> Failure {
    for reason in failure.reasons_mut() {
        *reason = shown(reason, secrets);
    }
    failure
}

pub(super) fn named(about: &CallTarget, object: Object) -> Called<Object> {
    if object.id.is_empty() {
        let reason = format!("the provider of kind `{}` gave an empty id", about.kind);
        return Err(CallError::Failed(Failure::unknown(reason)));
    }
    Ok(object)
}

/// What a future gives; none if it panics.
pub(super) async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // The future isn't polled again after a panic, so nobody sees what it left half done.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

//! Tests of the engine over the memory backend and a simulated cloud.

#![expect(clippy::unwrap_used, reason = "a test that can't set up its case fails")]

mod builtin;
mod checker;
mod classes;
mod cloud;
mod cost;
mod documents;
mod failing;
mod harness;
mod kept;
mod lifecycle;
mod order;
mod outcomes;
mod plan;
mod preview;
mod program;
mod races;
mod settling;
mod steps;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future once and returns its output. Panics if the future is pending.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future is pending after the first poll"),
    }
}

//! Terraform's protocol for its `http` backend, as Terraform 1.11 uses it.
//!
//! All requests go to `/v1/state/PROJECT/STACK`, with basic authentication.
//!
//! | request | success | refusals |
//! |---|---|---|
//! | `GET` | 200 with the state, byte for byte as it was written; 404 if nothing was written | |
//! | `LOCK` with the lock as JSON | 200 | 423 with the holder's lock as JSON |
//! | `POST ?ID=lock` with the state | 200 | 423 if the lock is held and `ID` is missing or names another lock; 409 for a lock that no longer holds, another lineage, an older serial, or the same serial with other content |
//! | `UNLOCK` with the lock as JSON | 200, also if the stack was unlocked already | 409 if another lock is held |
//! | `UNLOCK` without a body (`terraform force-unlock`) | 200 | 409 if the rule forbids it |
//! | `DELETE ?ID=lock` | 200 | 423; 409 if the stack has resources |
//!
//! Every request: 400 if it is malformed, or if `Content-MD5` doesn't match; 401 without valid credentials; 408 if the body
//! doesn't arrive in time; 413 if it is too large; 422 if the stack or the state can't be used, for example a stack that was rolled back; 503 if the store is unavailable or
//! another writer is active. Terraform repeats a request after 503 twice, and never after a 4xx. It shows the status only, so
//! the reason of a refusal is in the body and in the audit line.

pub mod access;
pub mod audit;
mod body;
mod lock_info;
pub(crate) mod request;

use std::time::Duration;

/// Default limit of a request's body, in bytes: as large as the largest state that a store accepts.
pub const MAX_BODY: usize = 256 << 20;

/// Path of the address that answers 200 while the server accepts requests.
pub const HEALTH: &str = "/healthz";

/// Limits of the length and the time of requests.
#[derive(Clone, Copy, Debug)]
pub struct HttpOptions {
    /// Longest body, in bytes.
    pub max_body: usize,
    /// Longest time in which a body has to arrive.
    pub body_timeout: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            max_body: MAX_BODY,
            body_timeout: Duration::from_secs(60),
        }
    }
}

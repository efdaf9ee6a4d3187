//! Serves stacks to stock Terraform and OpenTofu by the protocol of their `http` backend.
//!
//! ```text
//!  terraform ──GET, POST, LOCK, UNLOCK──► http ──► session ──► state-import, state-manager ──► store
//!                                        (protocol)  (a locked stack by lock id)
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | [`http`] | the protocol: addresses, status codes, bodies, access, limits, audit lines |
//! | [`session`] | stacks that are locked by an id which the client chose: read, lock, write, unlock |
//! | [`server`] | listens on a loopback address, and finishes accepted requests before it ends |
//!
//! The session knows nothing of HTTP, so that another protocol can use it.
//!
//! # Locks
//! A lock of Terraform is a client lock of the stack: a record in the head, which every server and every `statectl` sees.
//! The server itself holds no state. Each write takes the writer lock for its own duration only, so any server of the same
//! store can continue after another one was killed.
//!
//! # Durability
//! A request that was accepted runs to its end, even if the client closes the connection: no step is left half done. All
//! requests are idempotent under the id of the lock, because Terraform repeats a request whose answer was lost.

pub mod http;
pub mod server;
pub mod session;

pub use http::access::{Access, Token};
pub use http::audit::{AuditLog, AuditRecord};
pub use http::{HttpOptions, MAX_BODY};
pub use server::{Server, ServerHandle};
pub use session::Sessions;

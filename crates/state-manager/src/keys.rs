//! Data keys: stored wrapped, used to seal values and to authenticate heads, journals and documents.
//!
//! `wrapped` opens stored keys, `trust` decides which head and journal this client accepts, `sealing` seals the
//! values of a locked stack, and `rotation` changes keys and recipients.

pub(crate) mod rotation;
pub(crate) mod sealing;
pub(crate) mod trust;
pub(crate) mod wrapped;

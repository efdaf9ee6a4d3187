//! Data keys: wrapped in the store, used to seal values and to authenticate heads, journals and documents.
//!
//! `wrapped` opens stored keys, `trust` decides which head and journal this client accepts, `sealing` seals values of a
//! locked stack; `rotation` changes who can open it.

pub(crate) mod rotation;
pub(crate) mod sealing;
pub(crate) mod trust;
pub(crate) mod wrapped;

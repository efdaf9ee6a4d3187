//! Data keys: stored wrapped, used to seal values and to authenticate heads, journals and documents.
//!
//! `wrapped` opens stored keys, `authenticate` decides which head and journal this client accepts, `trust` compares them
//! with what this client remembers, `sealing` seals the values of a locked stack, `reveal` opens values, and `rotation`
//! changes keys and recipients.

pub(crate) mod authenticate;
pub(crate) mod proof;
pub(crate) mod reveal;
pub(crate) mod rotation;
pub(crate) mod sealing;
pub(crate) mod trust;
pub(crate) mod wrapped;

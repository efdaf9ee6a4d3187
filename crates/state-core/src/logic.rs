//! Pure functions on entries and snapshots: ordering, verification, repair, comparison, merge and masking.

pub mod dag;
pub mod diff;
pub mod mask;
pub mod merge;
pub(crate) mod nearest;
pub mod repair;
pub mod sensitive;
pub mod suspects;
pub mod verify;

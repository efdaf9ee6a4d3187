//! Tests on real files: stale writers, crashed processes, damaged files and failing calls.

mod collecting;
mod compacting;
mod damage;
mod failing;
pub(crate) mod faults;
pub(crate) mod fixture;
mod folder;
mod journal;
mod preallocating;
mod racing;
mod takeover;

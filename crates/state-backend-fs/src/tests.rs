//! The contract on real files, with the stale, the dead and the damaged.

mod collecting;
mod damage;
mod failing;
pub(crate) mod faults;
pub(crate) mod fixture;
mod folder;
mod journal;
mod racing;
mod takeover;

//! The contract on real files, with the stale, the dead and the damaged.

mod damage;
mod fixture;
mod folder;
mod journal;
mod takeover;

//! Transfers between stacks and stores: moves of resources between two stacks of a store, and copies to another store.

pub(crate) mod copy;
pub(crate) mod moves;
pub(crate) mod settling;

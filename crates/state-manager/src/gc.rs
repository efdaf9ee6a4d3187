//! History collection: what a retention keeps, what a collection drops, what it deletes.

pub(crate) mod collect;
pub(crate) mod retention;
mod survey;

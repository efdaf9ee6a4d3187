//! History collection: which revisions a retention keeps, which ones a collection drops, and which objects it deletes.

pub(crate) mod collect;
pub(crate) mod retention;
mod survey;

//! History collection: which revisions a retention keeps, which revisions a collection drops, and which objects the
//! collection deletes.

pub(crate) mod collect;
pub(crate) mod retention;
mod survey;

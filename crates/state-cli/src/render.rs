//! How things look to people.

pub(crate) mod page;
pub(crate) mod table;
pub(crate) mod time;

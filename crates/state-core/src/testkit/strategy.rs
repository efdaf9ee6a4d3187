//! Proptest strategies for snapshots and their parts. They generate valid values, including unusual ones; only
//! [`corrupted`] generates invalid ones.

mod corrupt;
mod entry;
mod json;
mod list;
mod snapshot;
#[cfg(test)]
mod tests;

pub use corrupt::{Corruption, corrupted};
pub use json::{json_objects, json_values};
pub use list::{entries_in_order, short_or_long_list};
pub use snapshot::snapshots;

use crate::address::Address;
use proptest::prelude::*;

/// Generates addresses in the style of several tools, and some unusual ones that the grammar allows.
pub fn addresses() -> impl Strategy<Value = Address> {
    let text = prop_oneof![
        4 => "[a-d]{1,2}",
        2 => r"(module\.[a-c]{1,2}\.)?aws_[a-c]{1,3}\.[a-c](\[[0-9]{1,2}\])?",
        1 => r#"aws_[a-c]\.x\["[a-z /.]{0,3}"\]"#,
        1 => "urn:pulumi:dev::p::pkg:index:[A-C]::[a-c]{1,2}",
        1 => r"\PC{1,8}",
    ];
    text.prop_filter_map("an address", |text: String| Address::new(text).ok())
}

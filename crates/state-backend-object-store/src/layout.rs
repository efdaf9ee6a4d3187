//! The document `format`, which says what a store is, and the longest lease.

use serde::{Deserialize, Serialize};
use state_core::Enveloped;
use std::time::Duration;

/// The version of the layout that this build reads and writes.
pub(crate) const LAYOUT: u64 = 1;

/// The key of the document that says so.
pub(crate) const FORMAT: &str = "format";

/// The longest lease that is believed, whatever a document says.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(60 * 60);

/// The content of `format`. Fields of later layouts are ignored, so that their number can be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Layout {
    pub(crate) layout: u64,
    /// What was found out when the store was tried, before it was made; none if it wasn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proved: Option<Proved>,
}

/// What a store that was tried needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Proved {
    /// Its endpoint takes ETags only without their quotes.
    pub(crate) unquoted_etags: bool,
}

impl Enveloped for Layout {
    const KIND: &'static str = "format";
}

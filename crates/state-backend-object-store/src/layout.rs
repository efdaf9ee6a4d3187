//! The document `format`, which records the layout version, and the longest lease.

use serde::{Deserialize, Serialize};
use state_core::Enveloped;
use std::time::Duration;

/// The version of the layout that this build reads and writes.
pub(crate) const LAYOUT: u64 = 1;

/// Key of the document with the layout version.
pub(crate) const FORMAT: &str = "format";

/// The longest lease that other processes honour, whatever `lease.json` contains.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(60 * 60);

/// Content of `format`. Unknown fields of later layouts are ignored, so that an error can report their version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Layout {
    pub(crate) layout: u64,
    /// Result of the probe before the first write; `None` if the store wasn't probed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proved: Option<ProbedFeatures>,
}

/// Properties of a probed store that its clients must respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ProbedFeatures {
    /// Whether its endpoint accepts ETags only without quotes.
    pub(crate) unquoted_etags: bool,
}

impl Enveloped for Layout {
    const KIND: &'static str = "format";
}

//! How a run is done.

use state_core::Address;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How a run is done.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOptions {
    /// How many steps may be under way at once.
    pub parallel: usize,
    /// Only these are touched; empty: all.
    pub targets: BTreeSet<Address>,
    /// These aren't touched.
    pub exclude: BTreeSet<Address>,
    /// What depends on a target is a target too.
    pub target_dependents: bool,
    /// These are replaced, whether or not they changed.
    pub replace: BTreeSet<Address>,
    /// A step that fails doesn't stop those that don't depend on it.
    pub continue_on_error: bool,
    /// Reads all that is recorded before anything else.
    pub refresh: bool,
    /// Nothing is written and the world isn't changed.
    pub preview: bool,
    /// How long a call of a provider may take; none: as long as it likes.
    pub timeout: Option<Duration>,
}

impl Default for RunOptions {
    /// Ten at once, an hour a call.
    fn default() -> Self {
        Self {
            parallel: 10,
            targets: BTreeSet::new(),
            exclude: BTreeSet::new(),
            target_dependents: false,
            replace: BTreeSet::new(),
            continue_on_error: false,
            refresh: false,
            preview: false,
            timeout: Some(Duration::from_secs(60 * 60)),
        }
    }
}

/// What history is told of a run.
#[derive(Clone, Debug, Default)]
pub struct UpdateMetadata {
    /// Why.
    pub message: String,
    /// What else is to be remembered: a commit, a branch, a CI run.
    pub environment: BTreeMap<String, String>,
}

//! Options of a run, and what the history records about it.

use state_core::Address;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How a run is done.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOptions {
    /// How many steps may be in flight at once.
    pub parallel: usize,
    /// The run touches only these resources; empty: all.
    pub targets: BTreeSet<Address>,
    /// The run doesn't touch these resources.
    pub exclude: BTreeSet<Address>,
    /// Resources that depend on a target are targets too.
    pub target_dependents: bool,
    /// Resources that are replaced, whether or not they changed.
    pub replace: BTreeSet<Address>,
    /// A failed step doesn't stop the steps that don't depend on it.
    pub continue_on_error: bool,
    /// All recorded resources are read before anything else.
    pub refresh: bool,
    /// Time limit of one provider call; none: no limit.
    pub timeout: Option<Duration>,
}

impl Default for RunOptions {
    /// Ten steps at once, one hour for each call.
    fn default() -> Self {
        Self {
            parallel: 10,
            targets: BTreeSet::new(),
            exclude: BTreeSet::new(),
            target_dependents: false,
            replace: BTreeSet::new(),
            continue_on_error: false,
            refresh: false,
            timeout: Some(Duration::from_secs(60 * 60)),
        }
    }
}

/// What the history records about a run.
#[derive(Clone, Debug, Default)]
pub struct UpdateMetadata {
    /// The reason for the run.
    pub message: String,
    /// More context: a commit, a branch, a CI run.
    pub environment: BTreeMap<String, String>,
}

//! Puts the entries of a new snapshot in topological order.

use crate::error::Result;
use state_core::{SharedEntry, dag};

/// The entries, each after what it depends on.
pub(super) fn topological(entries: &[SharedEntry]) -> Result<Vec<SharedEntry>> {
    let order = dag::topological_order(entries).map_err(|cycle| state_core::Error::Integrity {
        object: "Terraform state".to_owned(),
        violations: vec![cycle.into()],
    })?;
    Ok(order.into_iter().map(|at| entries[at].clone()).collect())
}

//! An instance that was read, before its dependencies are settled.

use super::extension::{self, KeptDependencies};
use crate::error::Result;
use state_core::{Address, Entry, SharedEntry};
use std::sync::Arc;

/// An entry in the making. Small: there are as many as the state has instances.
#[derive(Debug)]
pub(super) struct Draft {
    /// With its extension. Nobody else holds it.
    pub(super) entry: SharedEntry,
    /// The dependencies as they were given; None if they weren't. Many drafts have the same.
    pub(super) listed: Option<Arc<[Address]>>,
}

impl Draft {
    /// The entry, to be changed.
    pub(super) fn entry_mut(&mut self) -> &mut Entry {
        Arc::make_mut(&mut self.entry)
    }

    /// Keeps the list of dependencies, where expanding ours would give another one.
    pub(super) fn keep(&mut self, dependencies: KeptDependencies) -> Result<()> {
        let mut facts = extension::of_entry(&self.entry)?.unwrap_or_default();
        facts.dependencies = Some(dependencies);
        let json = extension::to_json(&facts)?;
        self.entry_mut().extensions.insert(crate::TERRAFORM, json);
        Ok(())
    }
}

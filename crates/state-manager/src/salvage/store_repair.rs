//! Changes of a damaged store: [`StoreRepair`], which stores in folders and object stores implement.

use crate::salvage::rebuild::RebuiltStack;
use crate::salvage::stack_files::StackFiles;
use async_trait::async_trait;
use state_core::{Lineage, Result};

/// A change of a damaged store by one process. No object is overwritten or deleted before it was kept aside.
#[async_trait]
pub(super) trait StoreRepair: Send + Sync {
    /// The folder of the objects that this repair keeps aside.
    fn aside(&self) -> String;

    /// Whether an object was kept aside.
    fn has_moved(&self) -> bool;

    /// The stacks that an interrupted repair had rebuilt, and that this one put in place.
    fn finished(&self) -> &[Lineage];

    /// Moves an object aside. Returns its new path; none if it is missing.
    async fn move_aside(&mut self, path: &str) -> Result<Option<String>>;

    /// Creates `format`, if it is missing.
    async fn make_format(&self) -> Result<()>;

    /// Takes the writer lock of a stack, whatever of it is damaged.
    ///
    /// # Errors
    /// `Locked` while a writer holds the lock.
    async fn lock(&mut self, files: &StackFiles) -> Result<()>;

    /// Releases the lock, if it is held.
    async fn unlock(&mut self) -> Result<()>;

    /// Puts a rebuilt stack in the place of the one that was read, and keeps that one aside.
    ///
    /// # Errors
    /// `Corrupt` if the rebuilt stack, read back, has another state.
    async fn replace(&mut self, files: &StackFiles, rebuilt: &RebuiltStack) -> Result<()>;
}

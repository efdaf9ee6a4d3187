//! The memory of known stacks during a shell completion, which may read it and not change it: the user doesn't see what a completion
//! prints, so a first contact or a change of recipients must be left to the next command.

use async_trait::async_trait;
use state_core::{Lineage, Result, StackName};
use state_manager::{FileKnownStacks, KnownStacks, SealingChange, StackPin};
use std::sync::Arc;

/// Known stacks that are compared and not updated.
#[derive(Debug)]
pub(super) struct CompletionMemory(pub(super) Arc<FileKnownStacks>);

#[async_trait]
impl KnownStacks for CompletionMemory {
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>> {
        self.0.seen(lineage).await
    }

    async fn replace(&self, _lineage: Lineage, _before: Option<&StackPin>, _now: Option<&StackPin>) -> bool {
        true
    }

    async fn named(&self, name: &StackName) -> Result<Option<Lineage>> {
        self.0.named(name).await
    }

    async fn names(&self) -> Result<Vec<StackName>> {
        self.0.names().await
    }

    async fn replace_name(&self, _name: &StackName, _before: Option<Lineage>, _now: Option<Lineage>) -> bool {
        true
    }

    fn report(&self, _stack: &StackName, _change: &SealingChange) -> bool {
        false
    }
}

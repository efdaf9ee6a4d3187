//! The stack for a preview: the existing one, or an empty one in memory if it doesn't exist yet.

use crate::context::Context;
use crate::error::CliError;
use crate::store;
use crate::target::DEFAULT_STACK;
use state_core::backend::{MemoryBackend, Opening};
use state_core::head::SealingPolicy;
use state_core::{ErrorKind, StackName};
use state_manager::Stacks;
use std::sync::Arc;

/// The stack that `up` would change, found without creating anything.
pub(super) struct PreviewTarget {
    pub(super) name: StackName,
    pub(super) stacks: Stacks,
    /// Whether the stack exists in the store.
    pub(super) exists: bool,
}

impl PreviewTarget {
    /// Finds the stack named by the settings, or the only stack of the store.
    pub(super) async fn find(context: &Context) -> Result<Self, CliError> {
        let url = context.store.location()?.url;
        let stacks = match context.store.connect(&url, Opening::Existing).await {
            Ok(stacks) => stacks,
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::nowhere(context, None).await,
            Err(error) => return Err(store::not_opened(error)),
        };
        let name = context.store.choose(&stacks).await?;
        match name {
            Some(name) if stacks.get(&name).await?.is_some() => Ok(Self {
                name,
                stacks,
                exists: true,
            }),
            name => Self::nowhere(context, name).await,
        }
    }

    /// An empty stack in memory, equal to the one that the first `up` would create.
    async fn nowhere(context: &Context, name: Option<StackName>) -> Result<Self, CliError> {
        let name = match name.or_else(|| context.settings.stack.clone()) {
            Some(name) => name,
            None => StackName::new(StackName::DEFAULT_PROJECT, DEFAULT_STACK)?,
        };
        let stacks = Stacks::new(Arc::new(MemoryBackend::new()), context.environment.clone());
        stacks.new_stack_with(&name, SealingPolicy::Plaintext).await?;
        Ok(Self {
            name,
            stacks,
            exists: false,
        })
    }
}

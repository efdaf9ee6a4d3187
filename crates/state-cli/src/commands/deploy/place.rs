//! The stack that a preview looks at: the one that is there, or an empty one that is nowhere.

use crate::context::Context;
use crate::error::CliError;
use crate::store;
use crate::target::DEFAULT_STACK;
use state_core::backend::{MemoryBackend, Opening};
use state_core::head::SealingPolicy;
use state_core::{ErrorKind, StackName};
use state_manager::Stacks;
use std::sync::Arc;

/// Where `up` would work, found without making anything.
pub(super) struct Place {
    pub(super) name: StackName,
    pub(super) stacks: Stacks,
    /// Whether the stack is there.
    pub(super) exists: bool,
}

impl Place {
    /// Looks for it.
    pub(super) async fn find(context: &Context) -> Result<Self, CliError> {
        let url = context.store.place()?.url;
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

    /// An empty stack in memory: what the first `up` would find.
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

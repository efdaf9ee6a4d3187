//! The stack that a deployment works on: the existing one, or an empty one in memory for the preview of a stack that
//! doesn't exist yet.

use super::stack_choice::{self, Choice, ProgramName};
use crate::context::Context;
use crate::error::CliError;
use crate::store;
use state_core::backend::{MemoryBackend, Opening};
use state_core::head::SealingPolicy;
use state_core::{ErrorKind, StackName};
use state_manager::{Stack, Stacks};
use std::sync::Arc;

/// The stack that `up` would change, found without creating anything.
pub(super) struct DeployTarget {
    pub(super) stack: Stack,
    pub(super) stacks: Stacks,
    /// Whether the stack exists in the store.
    pub(super) exists: bool,
}

impl DeployTarget {
    /// Finds the stack of a program: see [`stack_choice::choose`].
    pub(super) async fn find(
        context: &Context,
        program: &ProgramName,
        adopt: bool,
    ) -> Result<Self, CliError> {
        let place = context.store.location()?;
        context.store.require_nearest(&place).await?;
        let stacks = match context.store.connect(&place.url, Opening::Existing).await {
            Ok(stacks) => store::with_spool(context.store.with_client_lock(stacks)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                context.store.require_unknown(&place.url).await?;
                let named = context.settings.stack.clone();
                return Self::nowhere(context, named.map_or_else(|| program.stack(), Ok)?).await;
            }
            Err(error) => return Err(store::not_opened(error)),
        };
        match stack_choice::choose(context, &stacks, program, adopt).await? {
            Choice::Existing(stack) => Ok(Self {
                stack: *stack,
                stacks,
                exists: true,
            }),
            Choice::Missing(name) => Self::nowhere(context, name).await,
        }
    }

    /// An empty stack in memory, equal to the one that the first `up` would create.
    async fn nowhere(context: &Context, name: StackName) -> Result<Self, CliError> {
        let stacks = Stacks::new(Arc::new(MemoryBackend::new()), context.environment.clone());
        let stack = stacks.new_stack_with(&name, SealingPolicy::Plaintext).await?;
        Ok(Self {
            stack,
            stacks,
            exists: false,
        })
    }
}

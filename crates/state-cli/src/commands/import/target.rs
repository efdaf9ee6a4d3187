//! Where a state is imported to: store and stack are made where they lack.

use crate::context::Context;
use crate::error::CliError;
use crate::identities::NewStack;
use crate::store;
use state_core::backend::Opening;
use state_core::{ErrorKind, StackName};
use state_manager::{Stack, Stacks};

/// The stack that a command made when there was none and nobody named one.
const DEFAULT_STACK: &str = "default";

/// Where a state is imported to.
pub(super) struct Target {
    pub(super) stack: Stack,
    pub(super) url: String,
    pub(super) created_store: bool,
    pub(super) created_stack: bool,
    /// What the owner of a new stack must know.
    pub(super) warnings: Vec<String>,
    stacks: Stacks,
}

impl Target {
    /// Finds or makes store and stack.
    pub(super) async fn prepare(context: &Context, sealing: &NewStack) -> Result<Self, CliError> {
        let url = store::place(context)?.url;
        let (stacks, created_store) = match store::connect(context, &url, Opening::Existing).await {
            Ok(stacks) => (store::as_holder(context, stacks), false),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let made = store::connect(context, &url, Opening::Create).await;
                (made.map_err(store::not_opened)?, true)
            }
            Err(error) => return Err(store::not_opened(error)),
        };
        let url = store::shown(&url);
        store::tell(context, &format!("store {url}"));
        let name = match store::choose(context, &stacks).await? {
            Some(name) => name,
            None => StackName::new(StackName::DEFAULT_PROJECT, DEFAULT_STACK)?,
        };
        let mut warnings = Vec::new();
        let (stack, created_stack) = match stacks.get(&name).await? {
            Some(stack) => (stack, false),
            None => {
                let (policy, advice) = sealing.prepare(context)?;
                warnings = advice;
                let stacks = store::with_keys(context, stacks.clone());
                (stacks.new_stack_with(&name, policy).await?, true)
            }
        };
        store::tell(context, &format!("stack {name}"));
        Ok(Self {
            stack,
            url,
            created_store,
            created_stack,
            warnings,
            stacks,
        })
    }

    /// Takes back the stack that was made for an import that failed. The error that led here is what counts.
    pub(super) async fn give_up(&self, error: CliError) -> CliError {
        if self.created_stack && self.stacks.remove(self.stack.name(), false).await.is_err() {
            // An empty stack more does no harm.
        }
        error
    }
}

//! Where a command works that makes store and stack where they lack: `import`, `up`.

use crate::context::Context;
use crate::error::CliError;
use crate::identities::NewStack;
use crate::settings;
use state_core::StackName;
use state_manager::{Stack, Stacks};

/// The stack that a command made when there was none and nobody named one.
pub(crate) const DEFAULT_STACK: &str = "default";

/// Where such a command works.
pub(crate) struct Target {
    pub(crate) stack: Stack,
    pub(crate) url: String,
    pub(crate) created_store: bool,
    pub(crate) created_stack: bool,
    /// What the owner of a new stack must know.
    pub(crate) warnings: Vec<String>,
    pub(crate) stacks: Stacks,
}

impl Target {
    /// Finds or makes store and stack.
    pub(crate) async fn prepare(context: &Context, sealing: &NewStack) -> Result<Self, CliError> {
        let url = context.store.place()?.url;
        let (mut stacks, created_store) = context.store.connect_or_make(&url).await?;
        if !created_store {
            stacks = context.store.as_holder(stacks);
        }
        let url = settings::shown(&url);
        context.store.tell(&format!("store {url}"));
        let name = match context.store.choose(&stacks).await? {
            Some(name) => name,
            None => StackName::new(StackName::DEFAULT_PROJECT, DEFAULT_STACK)?,
        };
        let mut warnings = Vec::new();
        let (stack, created_stack) = match stacks.get(&name).await? {
            Some(stack) => (stack, false),
            None => {
                let (policy, advice) = sealing.policy.prepare(&context.store.keys)?;
                warnings = advice;
                // Perhaps the identity that opens it was made just now.
                stacks = context.store.with_keys(stacks);
                (stacks.new_stack_with(&name, policy).await?, true)
            }
        };
        context.store.tell(&format!("stack {name}"));
        Ok(Self {
            stack,
            url,
            created_store,
            created_stack,
            warnings,
            stacks,
        })
    }

    /// Takes back the stack that was made for what then failed. The error that led here is what counts; an identity that
    /// was made is told with it, for it stays.
    pub(crate) async fn give_up(&self, mut error: CliError) -> CliError {
        for warning in &self.warnings {
            error.message.push_str(&format!("; {warning}"));
        }
        if self.created_stack && self.stacks.remove(self.stack.name(), false).await.is_err() {
            // An empty stack more does no harm.
        }
        error
    }
}

//! The target of `import` and `up`, which create the store and the stack if they are missing.

use crate::context::Context;
use crate::error::CliError;
use crate::identities::NewStack;
use crate::settings;
use crate::store::{self, several};
use state_core::head::SealingPolicy;
use state_core::{Error, StackName};
use state_manager::{Lookup, Stack, Stacks};

/// Name of the stack that is created if the store has none and the user names none.
pub(crate) const DEFAULT_STACK: &str = "default";

/// The store and the stack that a command works on.
pub(crate) struct Target {
    pub(crate) stack: Stack,
    pub(crate) url: String,
    pub(crate) created_store: bool,
    pub(crate) created_stack: bool,
    /// Warnings for the owner of a new stack.
    pub(crate) warnings: Vec<String>,
    pub(crate) stacks: Stacks,
}

impl Target {
    /// Opens or creates the store and the stack that the user named, else the only stack.
    pub(crate) async fn prepare(context: &Context, sealing: &NewStack) -> Result<Self, CliError> {
        Self::prepare_named(context, sealing, None).await
    }

    /// Opens or creates the store and the stack with this name; without a name, the one that the user named, else the only
    /// stack.
    pub(crate) async fn prepare_named(
        context: &Context,
        sealing: &NewStack,
        name: Option<StackName>,
    ) -> Result<Self, CliError> {
        let place = context.store.location()?;
        let (stacks, created_store) = context.store.connect_or_make(&place).await?;
        let mut stacks = store::with_spool(stacks);
        if !created_store {
            stacks = context.store.with_client_lock(stacks);
        }
        let url = settings::shown(&place.url);
        context.store.log_use(&format!("store {url}"));
        let wanted = name.as_ref().or(context.store.settings.stack.as_ref());
        let mut found = stacks.find_to_lock(wanted).await;
        // Another first run of this user may have created the identity and the stack since this one looked for them.
        if context.store.keys.find_new()? || matches!(found, Err(Error::Distrusted { .. })) {
            stacks = context.store.with_keys(stacks);
            found = stacks.find_to_lock(wanted).await;
        }
        let found = found?;
        // A program names its stack, and creates it again after the user gave up a lost one.
        let may_be_second = name.is_some();
        let name = match (&found, wanted) {
            (Lookup::Found(stack), _) => stack.name().clone(),
            (Lookup::Several(names), _) => return Err(several(&stacks, names)),
            (Lookup::None, Some(name)) => name.clone(),
            (Lookup::None, None) => StackName::new(StackName::DEFAULT_PROJECT, DEFAULT_STACK)?,
        };
        let mut warnings = Vec::new();
        let (stack, created_stack) = match found {
            Lookup::Found(stack) => (stack, false),
            _ => {
                let beside_orphan = match created_store {
                    true => Ok(()),
                    false => context.store.refuse_beside_orphan(&place.url, &name).await,
                };
                match beside_orphan {
                    Err(refusal) if may_be_second => warnings.push(refusal.message),
                    checked => checked?,
                }
                let (policy, advice) = sealing.policy.prepare(&context.store.keys)?;
                warnings.extend(advice);
                // `prepare` may have created the first identity, which the store doesn't have yet.
                stacks = context.store.with_keys(stacks);
                created_or_found(&stacks, &name, policy).await?
            }
        };
        context.store.log_use(&format!("stack {name}"));
        Ok(Self {
            stack,
            url,
            created_store,
            created_stack,
            warnings,
            stacks,
        })
    }

    /// Removes the stack that was created for a command which then failed, and returns the error of that command. Adds the
    /// warnings to the error, because a new identity stays even if the command failed.
    pub(crate) async fn give_up(&self, mut error: CliError) -> CliError {
        for warning in &self.warnings {
            error.message.push_str(&format!("; {warning}"));
        }
        if self.created_stack && self.stacks.remove(self.stack.name(), false).await.is_err() {
            // The error of the command is more important, and an empty stack does no harm.
        }
        error
    }
}

/// Creates a stack, or finds the one that another process created meanwhile. Returns whether this process created it.
async fn created_or_found(
    stacks: &Stacks,
    name: &StackName,
    policy: SealingPolicy,
) -> Result<(Stack, bool), CliError> {
    match stacks.new_stack_with(name, policy).await {
        Err(error @ (Error::Conflict { .. } | Error::Distrusted { .. })) => {
            match stacks.find_to_lock(Some(name)).await? {
                Lookup::Found(stack) => Ok((stack, false)),
                _ => Err(error.into()),
            }
        }
        created => Ok((created?, true)),
    }
}

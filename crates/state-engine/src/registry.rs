//! The registry of providers. The engine looks up the provider of a resource by the resource's kind.

use crate::approval::{CommandCall, ProgramCommands, ResourceCommand};
use crate::goal::Goal;
use crate::kind::KindDescription;
use crate::provider::{EarlierWork, Provider};
use state_core::{MutationId, Properties};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Providers by the kinds of resources that they handle. Clones share the providers.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    providers: BTreeMap<String, RegisteredProvider>,
}

/// A registered provider with its configuration.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredProvider {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) configuration: Properties,
}

impl Registry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a provider for a kind. An earlier registration of the kind is replaced.
    pub fn register(&mut self, kind: impl Into<String>, provider: Arc<dyn Provider>) {
        self.register_with(kind, provider, Properties::empty());
    }

    /// Registers a provider with a configuration. An earlier registration of the kind is replaced. One provider may be
    /// registered for several kinds: the engine calls [`Provider::configure`] once per distinct configuration.
    pub fn register_with(
        &mut self,
        kind: impl Into<String>,
        provider: Arc<dyn Provider>,
        configuration: Properties,
    ) {
        let registered = RegisteredProvider {
            provider,
            configuration,
        };
        self.providers.insert(kind.into(), registered);
    }

    /// Whether a provider is registered for a kind.
    pub fn contains(&self, kind: &str) -> bool {
        self.providers.contains_key(kind)
    }

    /// The inputs and outputs of a kind, if its provider describes them.
    pub fn describe(&self, kind: &str) -> Option<KindDescription> {
        self.get(kind)?.provider.describe(kind)
    }

    /// The registered kinds, sorted by name.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// The commands that a call with these inputs may start, and the files that it may read or delete. See
    /// [`Provider::commands`].
    pub(crate) fn commands(
        &self,
        kind: &str,
        id: Option<&str>,
        inputs: &Properties,
        call: CommandCall,
    ) -> Vec<ResourceCommand> {
        let registered = self.get(kind);
        registered.map_or_else(Vec::new, |it| it.provider.commands(kind, id, inputs, call))
    }

    /// The commands and files of any call for the object `id` with these inputs, without duplicates.
    pub(crate) fn all_commands(
        &self,
        kind: &str,
        id: Option<&str>,
        inputs: &Properties,
    ) -> Vec<ResourceCommand> {
        let mut all: Vec<ResourceCommand> = Vec::new();
        for call in CommandCall::ALL {
            let commands = self.commands(kind, id, inputs, call).into_iter();
            let new: Vec<_> = commands.filter(|command| !all.contains(command)).collect();
            all.extend(new);
        }
        all
    }

    /// The commands and files that a program declares for a resource.
    pub(crate) fn program_commands(&self, goal: &Goal) -> ProgramCommands {
        let commands = |inputs: &Properties| self.all_commands(&goal.kind, None, inputs);
        let variants: Vec<_> = goal.input_variants().iter().map(commands).collect();
        let is_literal = |command: &ResourceCommand| variants.iter().all(|variant| variant.contains(command));
        let (literal, derived) = commands(&goal.inputs).into_iter().partition(is_literal);
        ProgramCommands { literal, derived }
    }

    /// Whether work that an earlier process began for a mutation of a resource of this kind may go on
    /// ([`Provider::earlier_work`]). Without a provider for the kind, it ended.
    pub fn earlier_work(&self, kind: &str, mutation: MutationId) -> EarlierWork {
        let registered = self.get(kind);
        registered.map_or(EarlierWork::Ended, |registered| {
            registered.provider.earlier_work(mutation)
        })
    }

    /// Lets the provider of this kind delete what it noted about a mutation that is settled
    /// ([`Provider::forget_work`]).
    pub fn forget_work(&self, kind: &str, mutation: MutationId) {
        if let Some(registered) = self.get(kind) {
            registered.provider.forget_work(mutation);
        }
    }

    pub(crate) fn get(&self, kind: &str) -> Option<&RegisteredProvider> {
        self.providers.get(kind)
    }
}

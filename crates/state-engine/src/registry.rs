//! Which provider is in charge of which kinds.

use crate::kind::KindDescription;
use crate::provider::Provider;
use state_core::Properties;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Providers by the kinds of resources that they are in charge of. Clones share the providers.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    providers: BTreeMap<String, Registered>,
}

/// A provider with its configuration.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) configuration: Properties,
}

impl Registry {
    /// Nobody is in charge of anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a provider in charge of a kind; who was before isn't any more.
    pub fn register(&mut self, kind: impl Into<String>, provider: Arc<dyn Provider>) {
        self.register_with(kind, provider, Properties::empty());
    }

    /// The same with what the provider is configured with. One provider may be registered for several kinds: it is
    /// configured once for each configuration that differs.
    pub fn register_with(
        &mut self,
        kind: impl Into<String>,
        provider: Arc<dyn Provider>,
        configuration: Properties,
    ) {
        let registered = Registered {
            provider,
            configuration,
        };
        self.providers.insert(kind.into(), registered);
    }

    /// Whether somebody is in charge of a kind.
    pub fn knows(&self, kind: &str) -> bool {
        self.providers.contains_key(kind)
    }

    /// What a kind takes and gives, if its provider says it.
    pub fn describe(&self, kind: &str) -> Option<KindDescription> {
        self.get(kind)?.provider.describe(kind)
    }

    /// All kinds, sorted.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, kind: &str) -> Option<&Registered> {
        self.providers.get(kind)
    }
}

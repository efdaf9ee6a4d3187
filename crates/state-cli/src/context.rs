//! What a command works with: the global flags, the terminal, and the injected world.

use crate::actor::actor;
use crate::args::GlobalArgs;
use crate::config::Settings;
use crate::error::CliError;
use crate::identities;
use crate::output::Terminal;
use state_core::Timestamp;
use state_encrypt::AgeKeys;
use state_manager::Environment;
use std::sync::{Arc, Mutex, PoisonError};

/// What a command works with.
pub(crate) struct Context {
    pub(crate) global: GlobalArgs,
    pub(crate) terminal: Terminal,
    pub(crate) environment: Environment,
    /// Where the settings come from.
    pub(crate) settings: Settings,
    /// What opens sealed stacks, if anything is at hand.
    keys: Mutex<Option<Arc<AgeKeys>>>,
}

impl Context {
    /// Looks at the process once.
    pub(crate) fn new(global: GlobalArgs) -> Self {
        Self {
            settings: Settings::default(),
            terminal: Terminal::detect(global.color),
            environment: Environment::system(actor()),
            global,
            keys: Mutex::default(),
        }
    }

    /// Looks for what opens sealed stacks.
    ///
    /// # Errors
    /// For a file that was named and holds no identity.
    pub(crate) fn find_keys(&self) -> Result<(), CliError> {
        let found = identities::keys(self)?;
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }

    /// What opens sealed stacks, if anything is at hand.
    pub(crate) fn keys(&self) -> Option<Arc<AgeKeys>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The moment against which ages are told.
    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }
}

//! What a command works with: the global flags, the terminal, and the injected world.

use crate::actor::actor;
use crate::args::GlobalArgs;
use crate::config::Settings;
use crate::output::Terminal;
use state_core::Timestamp;
use state_manager::Environment;

/// What a command works with.
pub(crate) struct Context {
    pub(crate) global: GlobalArgs,
    pub(crate) terminal: Terminal,
    pub(crate) environment: Environment,
    /// Where the settings come from.
    pub(crate) settings: Settings,
}

impl Context {
    /// Looks at the process once.
    pub(crate) fn new(global: GlobalArgs) -> Self {
        Self {
            settings: Settings::default(),
            terminal: Terminal::detect(global.color),
            environment: Environment::system(actor()),
            global,
        }
    }

    /// The moment against which ages are told.
    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }
}

//! What a command gets: the settings, the output, the prompt, and what opens stores.

use crate::error::CliError;
use crate::identities::Keys;
use crate::output::{Output, Report, envelope_line};
use crate::prompt::Prompt;
use crate::render::Page;
use crate::settings::Settings;
use crate::store::Opener;
use serde::Serialize;
use state_core::Timestamp;
use state_manager::{Actor, Environment};
use std::sync::Arc;

/// What a command returns.
pub(crate) type CommandResult = Result<Report, CliError>;

/// What a command gets.
pub(crate) struct Context {
    pub(crate) settings: Arc<Settings>,
    pub(crate) output: Output,
    pub(crate) prompt: Prompt,
    pub(crate) environment: Environment,
    pub(crate) store: Opener,
}

impl Context {
    /// Looks at the process once.
    ///
    /// # Errors
    /// For a file that was named and holds no identity.
    pub(crate) fn new(settings: Settings, output: Output) -> Result<Self, CliError> {
        let settings = Arc::new(settings);
        let environment = Environment::system(actor());
        let store = Opener {
            keys: Keys::find(Arc::clone(&settings), Arc::clone(&environment.entropy))?,
            settings: Arc::clone(&settings),
            environment: environment.clone(),
            output,
        };
        Ok(Self {
            prompt: Prompt {
                yes: settings.yes,
                terminal: output.terminal,
            },
            settings,
            output,
            environment,
            store,
        })
    }

    /// The moment against which ages are told.
    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    /// The data in the envelope with `--json`, else the page.
    ///
    /// # Errors
    /// When the data has no JSON form: a mistake of this program.
    pub(crate) fn report(
        &self,
        kind: &'static str,
        data: &impl Serialize,
        warnings: Vec<String>,
        fill: impl FnOnce(&mut Page),
    ) -> CommandResult {
        let body = if self.output.json {
            envelope_line(kind, data, &warnings)?
        } else {
            Page::text(self.output.terminal.color_stdout, fill).into_bytes()
        };
        Ok(Report::raw(body, warnings))
    }
}

/// The user, the machine and the process.
fn actor() -> Actor {
    let system = rustix::system::uname();
    let user = rustix::process::getuid().as_raw();
    let host = system.nodename().to_string_lossy();
    Actor::of_process(host, user, |name| std::env::var(name).ok())
}

//! The context of a command: settings, output, prompt, environment, and access to stores.

use crate::error::CliError;
use crate::identities::Keys;
use crate::output::{Output, Report, envelope_line, line_to_stderr};
use crate::prompt::Prompt;
use crate::render::Page;
use crate::settings::Settings;
use crate::standings::Standings;
use crate::store::Opener;
use serde::Serialize;
use state_core::Timestamp;
use state_manager::{Actor, Environment};
use std::sync::Arc;

/// The result of a command.
pub(crate) type CommandResult = Result<Report, CliError>;

/// The context of a command.
pub(crate) struct Context {
    pub(crate) settings: Arc<Settings>,
    pub(crate) output: Output,
    pub(crate) prompt: Prompt,
    pub(crate) environment: Environment,
    pub(crate) store: Opener,
    /// What the user must know about the stacks that the command opened.
    pub(crate) standings: Arc<Standings>,
}

impl Context {
    /// Builds the context from the settings and the process's environment. A completion remembers nothing and prints no
    /// warnings.
    ///
    /// # Errors
    /// If an identity file named by the user can't be read or contains no identity.
    pub(crate) fn new(settings: Settings, output: Output, is_completion: bool) -> Result<Self, CliError> {
        let settings = Arc::new(settings);
        let environment = Environment::system(actor());
        let standings = Arc::new(Standings::new(output, settings.invocation(), is_completion));
        let store = Opener {
            keys: Keys::find(Arc::clone(&settings), Arc::clone(&environment.entropy))?,
            settings: Arc::clone(&settings),
            environment: environment.clone(),
            output,
            standings: Arc::clone(&standings),
            is_completion,
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
            standings,
        })
    }

    /// The current time, for printing ages.
    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    /// Shows a warning before the question that follows. Returns the warnings of the report: this one if no question follows,
    /// or if the report is JSON.
    pub(crate) fn warn_before_question(&self, warning: &str) -> Vec<String> {
        let text = self.settings.invocation().apply(warning);
        if !self.prompt.yes && !self.output.json {
            self.output
                .announce(|page| page.line(format_args!("warning: {text}")));
            return Vec::new();
        }
        if !self.prompt.yes && self.prompt.can_ask() {
            line_to_stderr(&format!("warning: {text}"));
        }
        vec![warning.to_owned()]
    }

    /// Builds a report: the data as a JSON document with `--json`, else the page as text.
    ///
    /// # Errors
    /// If the data can't be serialized, which is a bug in this program.
    pub(crate) fn report(
        &self,
        kind: &'static str,
        data: &impl Serialize,
        warnings: Vec<String>,
        fill: impl FnOnce(&mut Page),
    ) -> CommandResult {
        let invocation = self.settings.invocation();
        let warnings = warnings.into_iter().map(|text| invocation.apply(&text)).collect();
        let warnings = self.with_standings(warnings);
        let body = if self.output.json {
            envelope_line(kind, data, &warnings)?
        } else {
            let mut page = Page::of(self.output.terminal.color_stdout, invocation);
            fill(&mut page);
            page.finish().into_bytes()
        };
        Ok(Report::raw(body, warnings))
    }
}

impl Context {
    /// The warnings of a report, with those about the opened stacks that weren't printed yet.
    pub(crate) fn with_standings(&self, warnings: Vec<String>) -> Vec<String> {
        [self.standings.take_unreported(), warnings].concat()
    }
}

/// The user, host and process that locks and the history name.
fn actor() -> Actor {
    let system = rustix::system::uname();
    let user = rustix::process::getuid().as_raw();
    let host = system.nodename().to_string_lossy();
    Actor::of_process(host, user, |name| std::env::var(name).ok())
}

//! The commands of a state that the user approved, for a run: loaded from the client's memory, extended by a question or
//! by a program that the user runs.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::render::Page;
use crate::store::Opener;
use crate::trusted::TrustedCommands;
use state_core::{Digest, EntryKey, Lineage};
use state_engine::{CommandApprovals, Event, Interrupt, Observer, ResourceCommand, UnapprovedCommand};
use state_manager::Stacks;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The approvals for one stack.
pub(crate) struct Approvals {
    /// The approvals in the form that the engine checks.
    pub(crate) of_run: CommandApprovals,
    /// None without a home folder: approvals then last for one command.
    memory: Option<TrustedCommands>,
    /// The digests that `memory` contains already.
    remembered: Mutex<BTreeSet<Digest>>,
}

impl Approvals {
    /// Loads the approvals for a stack of the store that the settings name.
    ///
    /// # Errors
    /// If the client's memory can't be read.
    pub(crate) fn of_stack(opener: &Opener, stacks: &Stacks, lineage: Lineage) -> Result<Self, CliError> {
        let store = opener.identity(&stacks.url(), &opener.location()?.url);
        let memory = TrustedCommands::of_stack(&store, lineage);
        let approved = match &memory {
            Some(memory) => memory.digests()?,
            None => BTreeSet::new(),
        };
        Ok(Self {
            of_run: CommandApprovals::of(approved.iter().copied()),
            memory,
            remembered: Mutex::new(approved),
        })
    }

    /// Whether approvals outlast this command.
    pub(crate) const fn are_kept(&self) -> bool {
        self.memory.is_some()
    }

    /// Approves commands, for this run and later ones.
    ///
    /// # Errors
    /// If the client's memory can't be written.
    pub(crate) fn approve(&self, commands: &[UnapprovedCommand]) -> Result<(), CliError> {
        let digests = commands.iter().map(|command| command.digest);
        self.of_run.approve(digests.clone());
        self.remember(digests)
    }

    fn remember(&self, digests: impl IntoIterator<Item = Digest>) -> Result<(), CliError> {
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        for digest in digests {
            if !remembered.contains(&digest) {
                memory.approve(digest)?;
                remembered.insert(digest);
            }
        }
        Ok(())
    }

    /// Asks about the commands that a run was refused. Returns whether the user approved them now; then the run must be
    /// planned again. `--yes` doesn't approve commands: it is given before they are known.
    ///
    /// # Errors
    /// [`ExitCode::Unapproved`] if commands were refused and the user can't be asked.
    pub(crate) async fn ask(
        &self,
        context: &Context,
        interrupt: &Interrupt,
        object: &str,
        untouched: &str,
    ) -> Result<bool, CliError> {
        let refused = self.of_run.refused();
        if refused.is_empty() {
            return Ok(false);
        }
        let prompt = &context.prompt;
        if prompt.yes || !prompt.can_ask() {
            return Err(refusal(object, &refused, untouched));
        }
        let shows_secrets = context.settings.show_secrets;
        context
            .output
            .announce(|page| print(page, shown(&refused, shows_secrets)));
        if hides_parts(&refused, shows_secrets) {
            return Err(hidden(object));
        }
        let question = question(object, &refused);
        prompt
            .confirm_unless(interrupt, object, &question, untouched)
            .await?;
        self.approve(&refused)?;
        Ok(true)
    }

    /// Remembers the commands of the program that the user runs, so that `refresh` and `destroy` may run them later without
    /// the program. Returns a warning if that fails, because the run itself doesn't depend on it.
    pub(crate) fn remember_confirmed(&self) -> Option<String> {
        let error = self.remember(self.of_run.confirmed()).err()?;
        Some(format!(
            "can't remember the commands of the program: {}",
            error.message
        ))
    }
}

/// Remembers the derived commands of each step before the step begins, so that the client that crashes during the step may
/// settle it later.
pub(crate) struct RememberedSteps {
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) next: Arc<dyn Observer>,
}

impl Observer for RememberedSteps {
    fn event(&self, event: &Event) {
        if let Event::Planned(_) = event {
            // The end of the run tries again and reports the failure.
            drop(self.approvals.remember(self.approvals.of_run.take_executed()));
        }
        self.next.event(event);
    }
}

/// Prints commands, each with its resource and everything that decides what it executes.
pub(crate) fn print<'c>(
    page: &mut Page,
    commands: impl IntoIterator<Item = (&'c EntryKey, &'c ResourceCommand)>,
) {
    for (key, command) in commands {
        page.line(format_args!("  {key}: {} {command}", command.name));
        if command.is_file() {
            continue;
        }
        page.line(format_args!("      in {}", command.dir.display()));
        for (name, value) in &command.environment {
            page.line(format_args!(
                "      with {name}={}",
                ResourceCommand::quote(value)
            ));
        }
        if let Some(stdin) = &command.stdin {
            page.line(format_args!("      reading {}", ResourceCommand::quote(stdin)));
        }
    }
}

/// The commands as they may be shown, with the keys of their resources.
pub(crate) fn shown(
    commands: &[UnapprovedCommand],
    shows_secrets: bool,
) -> impl Iterator<Item = (&EntryKey, &ResourceCommand)> {
    commands.iter().map(move |unapproved| match shows_secrets {
        true => (&unapproved.key, &unapproved.command),
        false => (&unapproved.key, &unapproved.masked),
    })
}

/// Whether parts of a command would be hidden from the user who is asked about it.
pub(crate) fn hides_parts(commands: &[UnapprovedCommand], shows_secrets: bool) -> bool {
    !shows_secrets && commands.iter().any(UnapprovedCommand::is_masked)
}

/// The question whether commands may run.
pub(crate) fn question(object: &str, commands: &[UnapprovedCommand]) -> String {
    let number = |fits: fn(&ResourceCommand) -> bool| {
        let fitting = commands.iter().filter(|unapproved| fits(&unapproved.command));
        fitting.count()
    };
    let wants = [
        ("run", number(|it| !it.is_file()), "command", "commands"),
        (
            "read and delete",
            number(ResourceCommand::is_deletable_file),
            "file",
            "files",
        ),
        (
            "read",
            number(|it| it.is_file() && !it.is_deletable_file()),
            "file",
            "files",
        ),
    ];
    let wants: Vec<String> = wants
        .iter()
        .filter(|(_, number, ..)| *number > 0)
        .map(|(verb, number, one, many)| format!("{verb} {}", count(*number, one, many)))
        .collect();
    format!(
        "Allow the state of {object} to {} on this machine?",
        wants.join(" and ")
    )
}

/// The error for commands that aren't approved.
pub(crate) fn refusal(object: &str, commands: &[UnapprovedCommand], untouched: &str) -> CliError {
    let named: Vec<String> = commands
        .iter()
        .take(3)
        .map(|unapproved| format!("{} of {}", unapproved.command.name, unapproved.key))
        .collect();
    let more = match commands.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "the state, or a program that wasn't named, contains commands or files that aren't approved on this client \
         ({}{more}); {untouched}",
        named.join(", ")
    );
    CliError::new(ExitCode::Unapproved, object, &message)
        .with_hint(
            "review and approve them with `statectl trust commands`, or name the program that declares them, for example \
             `statectl refresh PROGRAM` or `statectl preview PROGRAM --refresh`; a command or path that contains outputs of \
             other resources always needs the approval",
        )
}

/// The error for a question about commands of which the user would see only parts.
pub(crate) fn hidden(object: &str) -> CliError {
    let message = "parts of the commands are secret and hidden, so they can't be reviewed";
    CliError::refused(object, message).with_hint("show them with `statectl trust commands --show-secrets`")
}

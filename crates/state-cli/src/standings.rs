//! What the user must know about the stacks that a command opened: that a stack was rolled back, or that its
//! authenticity wasn't checked.
//!
//! The library reports every opening here, so no command has to remember it. A warning is printed on stderr at once; with
//! `--json` it is part of the report, and of stderr if the command prints no such report.

use crate::invocation::Invocation;
use crate::output::{Output, line_to_stderr};
use state_core::{Serial, StackName};
use state_manager::{Authenticity, OpeningObserver, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A reason to doubt a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    Unchecked,
    RolledBack,
    Unopened,
    MissingLogs,
}

/// The standings of the stacks that a command opened.
#[derive(Debug)]
pub(crate) struct Standings {
    output: Output,
    /// The flags of the command, for the commands that warnings name.
    invocation: Invocation,
    /// Whether nothing is printed, because the shell asks for completions.
    is_silent: bool,
    found: Mutex<Findings>,
}

#[derive(Debug, Default)]
struct Findings {
    /// What was reported of which stack, so that nothing is repeated when a command opens a stack twice.
    known: BTreeSet<(StackName, Doubt)>,
    /// Warnings for the report in JSON.
    unreported: Vec<String>,
    /// Descriptions of stacks that were rolled back.
    regressions: BTreeMap<StackName, String>,
}

impl Standings {
    /// Collects standings for a command, or for a completion, which prints none.
    pub(crate) fn new(output: Output, invocation: Invocation, is_silent: bool) -> Self {
        Self {
            output,
            invocation,
            is_silent,
            found: Mutex::default(),
        }
    }

    /// The warnings that a report in JSON must contain; empty without `--json`, when they are printed already.
    pub(crate) fn take_unreported(&self) -> Vec<String> {
        std::mem::take(&mut self.found().unreported)
    }

    /// Prints the warnings that no report contained, for example because the output was streamed or the command failed.
    pub(crate) fn print_unreported(&self) {
        for warning in self.take_unreported() {
            line_to_stderr(&format!("warning: {warning}"));
        }
    }

    /// Describes how an opened stack was rolled back; none if it wasn't.
    pub(crate) fn regression(&self, stack: &StackName) -> Option<String> {
        self.found().regressions.get(stack).cloned()
    }

    /// Reports that values of a stack stayed encrypted although they should have been shown: a user with write access to the
    /// store can delete or exchange the files of an earlier key. `what` says what is shown in place of the values; `keys`
    /// are the first digits of their keys. Reports nothing without keys.
    pub(crate) fn unopened<'a>(
        &self,
        stack: &StackName,
        what: &str,
        keys: impl IntoIterator<Item = &'a str>,
    ) {
        let keys: Vec<_> = keys.into_iter().collect();
        if keys.is_empty() {
            return;
        }
        let files: Vec<_> = keys.iter().map(|key| format!("`keys/*-{key}*.age`")).collect();
        let warning = format!(
            "stack {}: {what}: none of your identities decrypts data key {}, or its file was changed; pass the right \
             identity with `--identity FILE`, or restore {} in the stack's folder from a backup",
            stack.short(),
            keys.join(" or "),
            files.join(" and ")
        );
        self.warn(stack, Doubt::Unopened, warning);
    }

    /// Reports that the logs of these updates are missing. Reports nothing without updates.
    pub(crate) fn missing_logs(&self, stack: &StackName, updates: &[Serial]) {
        if updates.is_empty() {
            return;
        }
        let (logs, revisions) = match updates {
            [_] => ("the log of an update is", "revision"),
            _ => ("the logs of some updates are", "revisions"),
        };
        let updates: Vec<_> = updates.iter().map(Serial::to_string).collect();
        let warning = format!(
            "stack {}: {logs} missing: deleted from the store, or the writer crashed before storing it ({revisions} {})",
            stack.short(),
            updates.join(", ")
        );
        self.warn(stack, Doubt::MissingLogs, warning);
    }

    fn warn(&self, stack: &StackName, doubt: Doubt, warning: String) {
        let mut found = self.found();
        if self.is_silent || !found.known.insert((stack.clone(), doubt)) {
            return;
        }
        if self.output.json {
            found.unreported.push(warning);
            return;
        }
        self.output.announce_colored(|page| page.warning(&warning));
    }

    fn found(&self) -> MutexGuard<'_, Findings> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpeningObserver for Standings {
    fn opened(&self, stack: &StackName, standing: &Standing) {
        let name = stack.short();
        if standing.authenticity == Authenticity::Unchecked {
            let warning = format!(
                "stack {name}: authenticity not checked: none of your identities can decrypt the stack's data key"
            );
            self.warn(stack, Doubt::Unchecked, warning);
        }
        if let Some(regression) = &standing.regression {
            let regression = format!("stack {name}: {regression}");
            let warning =
                format!("{regression}; if the stack was restored on purpose, run `statectl trust --accept`");
            let warning = self.invocation.or_stack(Some(stack)).apply(&warning);
            self.warn(stack, Doubt::RolledBack, warning);
            self.found()
                .regressions
                .entry(stack.clone())
                .or_insert(regression);
        }
    }
}

//! `trust commands`: approves the commands that a stack's state names.

use super::no_memory;
use crate::approvals::{self, Approvals};
use crate::commands::deploy::registry;
use crate::context::{CommandResult, Context};
use serde::Serialize;
use state_core::{Digest, Lineage};
use state_engine::{Basis, Engine, ResourceCommand, Run, UnapprovedCommand};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct CommandsReport {
    stack: String,
    lineage: Lineage,
    /// The commands that were approved now.
    approved: Vec<ApprovedCommand>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ApprovedCommand {
    address: String,
    name: &'static str,
    argv: Vec<String>,
    dir: String,
    digest: Digest,
}

/// Runs `trust commands` and returns its report.
pub(super) async fn run(context: &Context) -> CommandResult {
    let stacks = context.store.open().await?;
    let stack = context.store.chosen(&stacks).await?;
    let object = format!("stack {}", stack.name().short());
    let approvals = Approvals::of_stack(&context.store, &stacks, stack.lineage())?;
    let engine = Engine::new(stacks, context.environment.clone());
    let mut run = Run::new(registry(context)?);
    run.approvals = approvals.of_run.clone();
    let basis = Basis::tip(&stack).await?;
    let found = engine.unapproved_commands(basis, &run).await?;
    let shows_secrets = context.settings.show_secrets;
    if !found.is_empty() {
        if !approvals.are_kept() {
            return Err(no_memory(object));
        }
        context.output.announce(|page| {
            page.line(format_args!("commands and files in the state of {object}:"));
            approvals::print(page, approvals::shown(&found, shows_secrets));
        });
        // `--yes` approves unseen; a person who is asked must see everything.
        if !context.prompt.yes && approvals::hides_parts(&found, shows_secrets) {
            return Err(approvals::hidden(&object));
        }
        let question = approvals::question(&object, &found);
        context.prompt.confirm(&object, &question)?;
        approvals.approve(&found)?;
    }
    let report = CommandsReport {
        stack: stack.name().to_string(),
        lineage: stack.lineage(),
        approved: approvals::shown(&found, shows_secrets)
            .zip(&found)
            .map(|((_, command), found)| described(command, found))
            .collect(),
    };
    context.report("trust-commands", &report, Vec::new(), |page| {
        page.line(match report.approved.len() {
            0 => format!("the state of {object} names no unapproved commands or files"),
            1 => format!("approved 1 command or file of {object} on this client"),
            several => format!("approved {several} commands and files of {object} on this client"),
        });
    })
}

fn described(command: &ResourceCommand, unapproved: &UnapprovedCommand) -> ApprovedCommand {
    ApprovedCommand {
        address: unapproved.key.to_string(),
        name: command.name,
        argv: command.argv.clone(),
        dir: command.dir.display().to_string(),
        digest: unapproved.digest,
    }
}

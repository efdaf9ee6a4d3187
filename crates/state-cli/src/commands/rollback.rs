//! `rollback`: bring back an earlier revision, as a new one.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::marks::count;
use crate::reading::opened;
use crate::render::Page;
use crate::rollback_guard::{self, CrossedView};
use serde::Serialize;
use state_core::{Entry, EntryKey, RevisionId, Snapshot, State, UpdateKind};
use state_manager::{RevisionSpec, Session, UpdateRequest};
use std::collections::BTreeMap;

/// How many entries a preview names.
const NAMED: usize = 50;

/// Bring back what an earlier revision holds, as a new revision. Only the record changes, not the world.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The revision: an id, the beginning of one, a serial, or `@-` for the one before the current.
    #[arg(value_name = "REV")]
    revision: RevisionSpec,
    /// Even if entries moved to or from another stack since: they would be in both then, or in none.
    #[arg(long)]
    force: bool,
    /// What to remember in the history.
    #[arg(long, short)]
    message: Option<String>,
}

/// What a rollback changes, by the names of entries.
#[derive(Debug, Default, Serialize)]
struct Changes {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Done {
    stack: String,
    restored: RevisionId,
    revision: RevisionId,
    changed: bool,
    changes: Changes,
    /// Moves that it takes back on this side only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    crossed: Vec<CrossedView>,
}

/// Rolls back.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let target = stack.revision_list().await?.resolve(&args.revision)?;
    let view = stack.tip().await?;
    let object = format!("stack {}", stack.name().short());
    refuse_pending(&object, &view.state)?;
    // Two keys seal the same value to other bytes.
    let now = opened(&stack, view.snapshot()).await?;
    let then = opened(&stack, stack.get(&target).await?).await?;
    let changes = changes(&State::from_snapshot(stack.lineage(), &now)?, &then);
    let mut done = Done {
        stack: stack.name().to_string(),
        revision: target.clone(),
        restored: target,
        changed: false,
        changes,
        crossed: Vec::new(),
    };
    if view.state.current() == Some(&done.restored) {
        return report(context, &done, Vec::new());
    }
    context.output.announce(|page| {
        preview(page, &done.changes);
    });
    done.crossed = rollback_guard::look(context, &stack, &view.state, &done.restored).await?;
    rollback_guard::refuse(&object, &done.crossed, args.force)?;
    context.prompt.confirm(
        &object,
        &format!("Roll {object} back to revision {}?", done.restored),
    )?;
    let seen = view.state.current().cloned();
    let work = async |session: &Session| {
        if session.state().current() != seen.as_ref() {
            return Err(CliError::conflict(
                &*object,
                "another revision was made in the meantime; nothing was changed",
            )
            .with_hint("look at it with `statectl history`, then roll back again"));
        }
        refuse_pending(&object, &session.state())?;
        let request = UpdateRequest {
            message: args.message.clone().unwrap_or_default(),
            forced: !done.crossed.is_empty(),
            ..UpdateRequest::new(UpdateKind::Rollback)
        };
        Ok(session.rollback(request, &done.restored).await?)
    };
    let (revision, warnings) = context.store.locked(&stack, "rollback", work).await?;
    done.revision = revision;
    done.changed = true;
    report(context, &done, warnings)
}

fn refuse_pending(object: &str, state: &State) -> Result<(), CliError> {
    let pending = state.pending().count();
    if pending == 0 {
        return Ok(());
    }
    let message = format!(
        "{} pending; nothing was changed",
        count(pending, "operation is", "operations are")
    );
    Err(CliError::conflict(object, &message)
        .with_hint("resolve them first: `statectl pending list`, then `statectl pending resolve ID …`"))
}

/// What differs between a state and what it is to become, in the order of the two.
fn changes(now: &State, then: &Snapshot) -> Changes {
    let mut changes = Changes::default();
    let wanted: BTreeMap<EntryKey, &Entry> =
        then.entries.iter().map(|entry| (entry.key(), &**entry)).collect();
    for entry in now.entries() {
        if !wanted.contains_key(&entry.key()) {
            changes.removed.push(entry.key().to_string());
        }
    }
    for entry in &then.entries {
        match now.entry(&entry.key()) {
            None => changes.added.push(entry.key().to_string()),
            Some(old) if old != entry => changes.changed.push(entry.key().to_string()),
            Some(_) => {}
        }
    }
    changes
}

fn preview(page: &mut Page, changes: &Changes) {
    let all = [
        ("-", &changes.removed),
        ("~", &changes.changed),
        ("+", &changes.added),
    ];
    let lines = all
        .iter()
        .flat_map(|(sign, names)| names.iter().map(move |name| (sign, name)));
    let total: usize = all.iter().map(|(_, names)| names.len()).sum();
    for (sign, name) in lines.take(NAMED) {
        page.line(format_args!("  {sign} {name}"));
    }
    if total > NAMED {
        page.line(format_args!("  … and {} more", total - NAMED));
    }
    page.line(summary(changes));
}

fn summary(changes: &Changes) -> String {
    format!(
        "{} added, {} changed, {} removed in the record; the world stays as it is",
        changes.added.len(),
        changes.changed.len(),
        changes.removed.len()
    )
}

fn report(context: &Context, done: &Done, warnings: Vec<String>) -> CommandResult {
    context.report("rollback", done, warnings, |page| {
        if done.changed {
            page.line(format_args!(
                "rolled back to {}: now revision {}",
                done.restored, done.revision
            ));
        } else {
            page.line(format_args!(
                "nothing to do: {} is the current revision",
                done.revision
            ));
        }
    })
}

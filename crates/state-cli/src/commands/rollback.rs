//! The command `rollback`: restores an earlier revision as a new one.

use crate::context::{CommandResult, Context};
use crate::edit_review::{self, EffectView};
use crate::error::CliError;
use crate::marks::count;
use crate::reading::opened;
use crate::render::Page;
use crate::rollback_guard::{self, CrossedView};
use crate::unmarked_secrets;
use serde::Serialize;
use state_core::diff::common_ends;
use state_core::head::SealingPolicy;
use state_core::sensitive::{KeptMarks, keep_marks};
use state_core::{Address, DeposedKey, Entry, RevisionId, SharedEntry, Snapshot, State, UpdateKind};
use state_manager::{RevisionSpec, Session, UpdateRequest, View};
use std::collections::HashMap;

/// How many resources a preview names.
const NAMED: usize = 50;

/// Restore the state of an earlier revision
///
/// Writes a new revision with the state of the earlier one. Values that were encrypted since stay encrypted. Only the state changes; no real resource is changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The revision to restore: an id, a prefix of an id, a serial, or `@-`
    #[arg(value_name = "REV")]
    revision: RevisionSpec,
    /// Roll back even across moves between stacks, and to a state that its system can't load
    ///
    /// Resources that moved to another stack since would then be in both stacks, and resources that moved here in none.
    #[arg(long)]
    force: bool,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
}

/// What a rollback changes, by the addresses of resources.
#[derive(Debug, Default, Serialize)]
struct Changes {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RollbackReport {
    stack: String,
    restored: RevisionId,
    revision: RevisionId,
    changed: bool,
    changes: Changes,
    /// What the system of the stack's format will do because of the rollback.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    effects: Vec<EffectView>,
    /// How many values of the earlier revision are encrypted since, and stay encrypted.
    kept_encrypted: usize,
    /// Moves between stacks that the rollback reverts in this stack only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    crossed: Vec<CrossedView>,
}

/// Runs the command `rollback` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let view = opened_to_restore(context).await?;
    let stack = view.stack();
    let target = view.resolve(&args.revision).await??;
    let object = format!("stack {}", stack.name().short());
    refuse_pending(&object, &view.state)?;
    // Different data keys encrypt the same value to different bytes: compare decrypted values where possible.
    let now = opened(&view, view.snapshot()).await?;
    let stored = restorable(context, &view, &target).await?;
    let mut then = opened(&view, stored.clone()).await?;
    let kept = keep_marks(&now, &mut then, KeptMarks::All);
    let review = edit_review::restored(&object, &now, &then, args.force)?;
    let changes = changes(&now, &then);
    let mut done = RollbackReport {
        stack: stack.name().to_string(),
        revision: target.clone(),
        restored: target,
        changed: false,
        changes,
        effects: review.effects,
        kept_encrypted: kept,
        crossed: Vec::new(),
    };
    if view.state.current() == Some(&done.restored) {
        return report(context, &done, Vec::new());
    }
    context.output.announce(|page| preview(page, &done.changes));
    edit_review::announce(context, &done.effects);
    done.crossed = rollback_guard::inspect(context, &view, &done.restored).await?;
    rollback_guard::refuse(&object, &done.crossed, args.force)?;
    let lost = match view.head.policy {
        SealingPolicy::Sensitive => unmarked_secrets::lost_by_policy(context, stack.name(), &stored, &then),
        _ => Vec::new(),
    };
    context.prompt.confirm(
        &object,
        &format!("Roll {object} back to revision {}?", done.restored),
    )?;
    let seen = view.state.current().cloned();
    let work = async |session: &Session| {
        if session.state().current() != seen.as_ref() {
            return Err(CliError::conflict(
                &*object,
                "cannot roll back: another revision was written in the meantime",
            )
            .with_hint("show the new revision with `statectl history`, then run the command again"));
        }
        refuse_pending(&object, &session.state())?;
        let request = UpdateRequest {
            message: args.message.clone().unwrap_or_default(),
            forced: !done.crossed.is_empty(),
            ..UpdateRequest::new(UpdateKind::Rollback)
        };
        Ok(session.rollback(request, &done.restored).await?)
    };
    let (revision, mut warnings) = context.store.locked(&stack, "rollback", work).await?;
    warnings.extend(review.remarks.into_iter().chain(lost));
    done.revision = revision;
    done.changed = true;
    report(context, &done, warnings)
}

async fn opened_to_restore(context: &Context) -> Result<View, CliError> {
    match context.store.open_view_to_restore().await {
        Err(refused) => Err(context.store.advised(refused).await),
        opened => opened,
    }
}

/// The content of the revision to restore.
async fn restorable(context: &Context, view: &View, target: &RevisionId) -> Result<Snapshot, CliError> {
    match view.get(target).await.map_err(CliError::from) {
        Err(refused) => {
            let message = format!("revision {target} can't be restored: {}", refused.message);
            Err(context.store.advised(CliError { message, ..refused }).await)
        }
        read => read,
    }
}

fn refuse_pending(object: &str, state: &State) -> Result<(), CliError> {
    let pending = state.pending().count();
    if pending == 0 {
        return Ok(());
    }
    let message = format!(
        "cannot roll back: {}",
        count(pending, "pending operation", "pending operations")
    );
    Err(CliError::conflict(object, &message)
        .with_hint("resolve them first: `statectl pending list`, then `statectl pending resolve ID`"))
}

/// The differences between the current state and the state to restore, each part in the order of its state.
fn changes(now: &Snapshot, then: &Snapshot) -> Changes {
    let is_same = |now: &SharedEntry, then: &SharedEntry| key(now) == key(then);
    let (beginning, end) = common_ends(&now.entries, &then.entries, is_same);
    let (first_now, now) = now.entries.split_at(beginning);
    let (first_then, then) = then.entries.split_at(beginning);
    let (now, last_now) = now.split_at(now.len() - end);
    let (then, last_then) = then.split_at(then.len() - end);
    let changed = |now: &[SharedEntry], then: &[SharedEntry]| -> Vec<String> {
        let pairs = now.iter().zip(then).filter(|(now, then)| now != then);
        pairs.map(|(_, then)| then.key().to_string()).collect()
    };
    let mut changes = Changes {
        changed: changed(first_now, first_then),
        ..Changes::default()
    };
    let [present, wanted] = [now, then].map(by_key);
    for entry in now {
        if !wanted.contains_key(&key(entry)) {
            changes.removed.push(entry.key().to_string());
        }
    }
    for entry in then {
        match present.get(&key(entry)).copied() {
            None => changes.added.push(entry.key().to_string()),
            Some(old) if old != entry => changes.changed.push(entry.key().to_string()),
            Some(_) => {}
        }
    }
    changes.changed.extend(changed(last_now, last_then));
    changes
}

/// The key of an entry, without a copy of it.
type KeyRef<'s> = (&'s Address, Option<&'s DeposedKey>);

fn key(entry: &Entry) -> KeyRef<'_> {
    (&entry.address, entry.deposed.as_ref())
}

fn by_key(entries: &[SharedEntry]) -> HashMap<KeyRef<'_>, &SharedEntry> {
    entries.iter().map(|entry| (key(entry), entry)).collect()
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
        "{} added, {} changed, {} removed in the state; no real resource is changed",
        changes.added.len(),
        changes.changed.len(),
        changes.removed.len()
    )
}

fn report(context: &Context, done: &RollbackReport, warnings: Vec<String>) -> CommandResult {
    context.report("rollback", done, warnings, |page| {
        if done.changed {
            page.line(format_args!(
                "rolled back to {}: now revision {}",
                done.restored, done.revision
            ));
            if done.kept_encrypted > 0 {
                let values = count(done.kept_encrypted, "value that was", "values that were");
                page.line(format_args!(
                    "kept encrypted: {values} in plain text in that revision"
                ));
            }
        } else {
            page.line(format_args!(
                "nothing to do: {} is already the current revision",
                done.revision
            ));
        }
    })
}

//! The command `secret seal`: marks values as sensitive, and so encrypts them.

use super::findings::{self, Place, Readers, Side};
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::marks::{count, first};
use crate::reading::opened;
use serde::Serialize;
use state_core::head::SealingPolicy;
use state_core::mutation::{EditChange, StackOutputs};
use state_core::sensitive::Marks;
use state_core::{Entry, RevisionId, Snapshot, UpdateKind, UpdateResult};
use state_formats::add_chosen_marks;
use state_manager::{Rekey, Session, Stack, UpdateRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many places an error or a message names.
const NAMED: usize = 5;

/// Encrypt values that look like secrets
///
/// Marks the values as sensitive, in one revision. Exports to other tools don't contain the marks of resources. Earlier
/// revisions keep the values in plain text, unless `--history` is given.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Places as `secret scan` prints them, or addresses of resources
    ///
    /// An address selects every place in the resource that `secret scan` reports.
    #[arg(value_name = "PLACE", required_unless_present = "all")]
    places: Vec<String>,
    /// All places that `secret scan` reports
    #[arg(long, conflicts_with = "places")]
    all: bool,
    /// Delete all earlier revisions, which hold the values in plain text
    ///
    /// Stored revisions can't be changed. The data key is replaced, as with `rekey --forget-history`.
    #[arg(long)]
    history: bool,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct SealReport {
    stack: String,
    /// The revision that encrypts the values, or from which history begins now; none if nothing was changed.
    revision: Option<RevisionId>,
    places: Vec<String>,
    history_deleted: bool,
}

/// Runs the command `secret seal` and returns its report.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let object = format!("stack {}", stack.name().short());
    if stack.policy().await? == SealingPolicy::Plaintext {
        let message = "cannot encrypt values: the stack's policy is `plaintext`";
        return Err(
            CliError::conflict(object, message).with_hint("encrypt the stack with `statectl encrypt`")
        );
    }
    let work = async |session: &Session| seal(context, args, session, &object).await;
    let ((revision, places), warnings) = context.store.locked(&stack, "secret seal", work).await?;
    let forget = match &revision {
        Some(_) => args.history,
        // The values may have been encrypted earlier, without the history.
        None => args.history && confirms_deletion(context, &stack, &object).await?,
    };
    if forget {
        forget_history(&stack, args).await?;
    }
    let report = SealReport {
        stack: stack.name().to_string(),
        revision: if forget {
            Some(stack.current_rev().await?)
        } else {
            revision
        },
        places: places.iter().map(ToString::to_string).collect(),
        history_deleted: forget,
    };
    context.report("secret-seal", &report, warnings, |page| {
        let Some(revision) = &report.revision else {
            return page.line("nothing to encrypt");
        };
        match report.places.len() {
            0 => page.line(format_args!("nothing to encrypt: now revision {revision}")),
            number => {
                let values = count(number, "value", "values");
                page.line(format_args!("encrypted {values}: now revision {revision}"));
            }
        }
        match report.history_deleted {
            true => page.line("deleted all earlier revisions"),
            false => page.line("earlier revisions keep the values in plain text; delete them with `statectl rekey --forget-history`"),
        }
    })
}

/// Asks whether to delete the earlier revisions although there is nothing to encrypt. Returns false if there are none.
async fn confirms_deletion(context: &Context, stack: &Stack, object: &str) -> Result<bool, CliError> {
    if stack.list().await?.len() < 2 {
        return Ok(false);
    }
    let question = format!("Delete all earlier revisions of {object}?");
    context.prompt.confirm(object, &question)?;
    Ok(true)
}

/// Replaces the data key, because only that deletes all revisions before the current one.
async fn forget_history(stack: &Stack, args: &Args) -> Result<(), CliError> {
    let request = Rekey {
        forget_history: true,
        message: args
            .message
            .clone()
            .unwrap_or_else(|| "secret seal --history".to_owned()),
        ..Rekey::default()
    };
    stack.rekey("secret seal", request).await?;
    Ok(())
}

/// Marks the values in one revision. Returns none if all of them are encrypted already.
async fn seal(
    context: &Context,
    args: &Args,
    session: &Session,
    object: &str,
) -> Result<(Option<RevisionId>, Vec<Place>), CliError> {
    let state = session.state();
    let stored = state.snapshot(session.stack().name().to_string(), context.now());
    let open = opened(session.stack(), stored.clone()).await?;
    let places = chosen(args, &stored, &open, object)?;
    if places.is_empty() {
        return Ok((None, places));
    }
    let names = first(NAMED, &places, ", ");
    let what = count(places.len(), "value", "values");
    let question = match args.history {
        true => format!("Encrypt {what} of {object} ({names}), and delete all its earlier revisions?"),
        false => format!("Encrypt {what} of {object} ({names})?"),
    };
    context.prompt.confirm(object, &question)?;
    let message = args
        .message
        .clone()
        .unwrap_or_else(|| format!("secret seal {names}"));
    let request = UpdateRequest::new(UpdateKind::Edit).with_message(message);
    let changes = entry_changes(&stored, &places);
    let outputs: Vec<String> = places
        .iter()
        .filter(|place| place.entry.is_none())
        .map(|place| place.pointer.clone())
        .collect();
    if outputs.is_empty() {
        return Ok((Some(session.edit(request, &state, changes).await?), places));
    }
    // Outputs are set by an update, which records the resources too, so that one revision holds all.
    let update = session.start_update(request).await?;
    let sensitive = stored.sensitive_outputs.into_iter().chain(outputs);
    if !changes.is_empty() {
        update.edit(changes).await?;
    }
    update
        .set_outputs(StackOutputs {
            values: open.outputs,
            sensitive: sensitive.collect(),
        })
        .await?;
    let revision = update.finish(UpdateResult::Succeeded).await?;
    Ok((Some(revision), places))
}

/// One change for each resource with new marks.
fn entry_changes(stored: &Snapshot, places: &[Place]) -> Vec<EditChange> {
    let mut by_entry: BTreeMap<&str, Marks> = BTreeMap::new();
    for place in places {
        let Some(entry) = &place.entry else { continue };
        let marks = by_entry.entry(entry).or_default();
        match place.side {
            Side::Inputs => marks.inputs.push(place.pointer.clone()),
            Side::Outputs => marks.outputs.push(place.pointer.clone()),
        }
    }
    let mut changes = Vec::new();
    for entry in &stored.entries {
        if let Some(marks) = by_entry.remove(entry.key().to_string().as_str()) {
            let mut marked = Entry::clone(entry);
            add_chosen_marks(&mut marked, marks);
            changes.push(EditChange::Put {
                target: entry.key(),
                entry: Arc::new(marked),
            });
        }
    }
    changes
}

/// The places to encrypt: those that the arguments name and that aren't encrypted yet.
fn chosen(args: &Args, stored: &Snapshot, open: &Snapshot, object: &str) -> Result<Vec<Place>, CliError> {
    let found = findings::examine(stored, open);
    let exposed = found
        .into_iter()
        .filter(|(_, finding)| finding.readers == Readers::Store && finding.rule != "sensitive");
    let exposed: Vec<Place> = exposed.map(|(place, _)| place).collect();
    if args.all {
        return Ok(exposed);
    }
    let mut places = BTreeSet::new();
    for text in &args.places {
        let of_entry = exposed.iter().filter(|place| place.entry.as_ref() == Some(text));
        if open.entries.iter().any(|entry| entry.key().to_string() == *text) {
            places.extend(of_entry.cloned());
            continue;
        }
        let missing = || {
            CliError::not_found(object, &format!("no resource or value `{text}` in {object}"))
                .with_hint("list places with `statectl secret scan`, and resources with `statectl list`")
        };
        let place = parse(open, text).ok_or_else(missing)?;
        if findings::is_exposed(stored, &place) {
            places.insert(place);
        }
    }
    Ok(places.into_iter().collect())
}

/// Parses a place and checks that it exists.
fn parse(open: &Snapshot, text: &str) -> Option<Place> {
    for side in [Side::Inputs, Side::Outputs] {
        let separator = format!(":{}/", side.prefix());
        for (at, _) in text.match_indices(&separator) {
            let (entry, pointer) = (&text[..at], &text[at + separator.len() - 1..]);
            let place = Place {
                entry: Some(entry.to_owned()).filter(|entry| !entry.is_empty()),
                side,
                pointer: pointer.to_owned(),
            };
            if findings::value_at(open, &place).is_some() {
                return Some(place);
            }
        }
    }
    None
}

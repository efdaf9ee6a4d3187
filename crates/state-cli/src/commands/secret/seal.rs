//! The command `secret seal`: marks values as sensitive, and so encrypts them.

use super::findings::{self, Examination, Place, Side};
use super::readable::ReadableSecrets;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::marks::{count, first};
use crate::render::Page;
use crate::unmarked_secrets;
use serde::Serialize;
use state_core::head::SealingPolicy;
use state_core::mutation::EditChange;
use state_core::sensitive::{Marks, SecretNames};
use state_core::{EntryPosition, RevisionId, Snapshot, State, UpdateKind};
use state_formats::{add_chosen_marks, secret_names};
use state_manager::{Rekey, Session, Stack, UpdateRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many places an error or a message names.
const NAMED: usize = 5;

/// Encrypt values that look like secrets
///
/// Marks the values as sensitive, in one revision. Exports to other tools don't contain the marks of resources. Earlier
/// revisions keep the values in plain text, unless `--history` is given. The report names copies of the values that stay
/// readable in other places.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Places as `secret scan` prints them, or addresses of resources
    ///
    /// An address selects every place in the resource that `secret scan` reports, and `pending:ID` every place in a pending
    /// operation.
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
    /// How many earlier revisions may hold the values in plain text.
    earlier_revisions: usize,
    #[serde(flatten)]
    remaining: ReadableSecrets,
}

/// The result of [`seal`].
struct Sealing {
    /// The revision that encrypts the values; none if all of them are encrypted already.
    revision: Option<RevisionId>,
    places: Vec<Place>,
    remaining: ReadableSecrets,
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
    // Deleting the history replaces the data key.
    let unmarked = match args.history {
        true => unmarked_secrets::lost_by_rekey(context, &stack, None).await?,
        false => Vec::new(),
    };
    let work = async |session: &Session| seal(context, args, session, &object).await;
    let (sealing, mut warnings) = context.store.locked(&stack, "secret seal", work).await?;
    let Sealing {
        revision,
        places,
        remaining,
    } = sealing;
    let forget = match &revision {
        Some(_) => args.history,
        // The values may have been encrypted earlier, without the history.
        None => args.history && confirms_deletion(context, &stack, &object).await?,
    };
    if forget {
        forget_history(&stack, args).await?;
        warnings.extend(unmarked);
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
        earlier_revisions: stack.list().await?.len().saturating_sub(1),
        remaining,
    };
    context.report("secret-seal", &report, warnings, |page| report.print(page))
}

impl SealReport {
    fn print(&self, page: &mut Page) {
        match (&self.revision, self.places.len()) {
            (None, _) => page.line("nothing to encrypt"),
            (Some(revision), 0) => page.line(format_args!("nothing to encrypt: now revision {revision}")),
            (Some(revision), number) => {
                let values = count(number, "value", "values");
                page.line(format_args!("encrypted {values}: now revision {revision}"));
            }
        }
        if self.history_deleted {
            page.line("deleted all earlier revisions, and replaced the data key");
        } else if self.revision.is_some() && self.earlier_revisions > 0 {
            let revisions = count(
                self.earlier_revisions,
                "earlier revision keeps",
                "earlier revisions keep",
            );
            page.line(format_args!("{revisions} the values in plain text"));
            page.hint("delete the earlier revisions with `statectl rekey --forget-history`");
        }
        self.remaining.print(page);
    }
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

/// Marks the values in one revision.
async fn seal(context: &Context, args: &Args, session: &Session, object: &str) -> Result<Sealing, CliError> {
    let state = session.state();
    let stored = state.snapshot(session.stack().name().to_string(), context.now());
    let (open, _) = session.stack().reveal_if_possible(stored.clone()).await?;
    let examination = findings::examine(&stored, &open);
    let places = chosen(args, &stored, &open, &examination, object)?;
    if places.is_empty() {
        return Ok(Sealing {
            revision: None,
            places,
            remaining: ReadableSecrets::of(&examination),
        });
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
    let revision = record(session, request, &state, stored, &places).await?;
    let stored = session
        .state()
        .snapshot(session.stack().name().to_string(), context.now());
    let (open, _) = session.stack().reveal_if_possible(stored.clone()).await?;
    Ok(Sealing {
        revision: Some(revision),
        places,
        remaining: ReadableSecrets::of(&findings::examine(&stored, &open)),
    })
}

/// Records the marks of these places, as one revision.
async fn record(
    session: &Session,
    request: UpdateRequest,
    state: &State,
    mut stored: Snapshot,
    places: &[Place],
) -> Result<RevisionId, CliError> {
    let in_outputs = places.iter().filter(|place| place.owner.is_empty());
    let outputs: Vec<String> = in_outputs.map(|place| place.pointer.clone()).collect();
    let positions = mark(&mut stored, places);
    let is_listed = |position: &EntryPosition| matches!(position, EntryPosition::Listed(_));
    // An edit can change only listed resources, so a change of outputs or of pending operations replaces the whole state.
    if !outputs.is_empty() || !positions.iter().all(is_listed) {
        stored.sensitive_outputs.extend(outputs);
        return Ok(session.replace_with_pending(request, state, stored).await?);
    }
    let entries = positions
        .into_iter()
        .filter_map(|position| stored.entry_mut(position).cloned());
    let changes = entries.map(|entry| EditChange::Put {
        target: entry.key(),
        entry,
    });
    let changes = changes.collect();
    Ok(session.edit(request, state, changes).await?)
}

/// Marks the places in resources and in pending operations. Returns the positions of the marked entries.
fn mark(stored: &mut Snapshot, places: &[Place]) -> Vec<EntryPosition> {
    let mut by_owner: BTreeMap<&str, Marks> = BTreeMap::new();
    for place in places {
        let marks = by_owner.entry(&place.owner).or_default();
        match place.side {
            Side::Inputs => marks.inputs.push(place.pointer.clone()),
            Side::Outputs => marks.outputs.push(place.pointer.clone()),
        }
    }
    let owners = findings::owners(stored);
    let marked = owners.filter_map(|(owner, position, _)| Some((position, by_owner.remove(owner.as_str())?)));
    let marked: Vec<(EntryPosition, Marks)> = marked.collect();
    let mut positions = Vec::new();
    for (position, marks) in marked {
        if let Some(entry) = stored.entry_mut(position) {
            add_chosen_marks(Arc::make_mut(entry), marks);
            positions.push(position);
        }
    }
    positions
}

/// The places to encrypt: those that the arguments name and that aren't encrypted yet.
fn chosen(
    args: &Args,
    stored: &Snapshot,
    open: &Snapshot,
    examination: &Examination,
    object: &str,
) -> Result<Vec<Place>, CliError> {
    let exposed = examination.exposed().filter(|(place, _)| !place.is_name);
    let exposed: Vec<Place> = exposed.map(|(place, _)| place.clone()).collect();
    if args.all {
        return Ok(exposed);
    }
    let names = secret_names(open);
    let mut places = BTreeSet::new();
    for text in &args.places {
        if findings::owners(open).any(|(owner, _, _)| owner == *text) {
            places.extend(exposed.iter().filter(|place| place.owner == *text).cloned());
            continue;
        }
        let missing = || {
            CliError::not_found(object, &format!("no resource or value `{text}` in {object}"))
                .with_hint("list places with `statectl secret scan`, and resources with `statectl list`")
        };
        let place = parse(open, &names, text).ok_or_else(missing)?;
        if findings::is_exposed(stored, &place) {
            places.insert(place);
        }
    }
    Ok(places.into_iter().collect())
}

/// Parses a place and checks that it exists.
fn parse(open: &Snapshot, names: &SecretNames, text: &str) -> Option<Place> {
    for side in [Side::Inputs, Side::Outputs] {
        let separator = format!(":{}/", side.prefix());
        for (at, _) in text.match_indices(&separator) {
            let (owner, pointer) = (&text[..at], &text[at + separator.len() - 1..]);
            let place = Place::new(names, owner, side, pointer.to_owned());
            if findings::value_at(open, &place).is_some() {
                return Some(place);
            }
        }
    }
    None
}

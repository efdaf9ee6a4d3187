//! `edit`: an entry, or the whole snapshot, as text.

use super::document::{self, Change};
use super::editor::{self, Edited};
use super::operate::{self, Done, Remember, deposed_key, refused};
use super::preview;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use state_core::edits::Refusal;
use state_core::{Address, DeposedKey, EntryKey, SharedEntry, Snapshot, State, UpdateKind};
use state_manager::Session;

/// Edit an entry, or the whole snapshot, in $VISUAL or $EDITOR. What is saved is verified; what is wrong comes as a note
/// on top, until it is right or the file is emptied. Sensitive values are hidden and must come back as they are, unless
/// `--show-secrets` is said.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The entry; without it, the whole snapshot.
    #[arg(value_name = "ADDR")]
    address: Option<Address>,
    /// The generation of it that was replaced under this key and awaits deletion.
    #[arg(long, value_name = "KEY", requires = "address", value_parser = deposed_key)]
    deposed: Option<DeposedKey>,
    #[command(flatten)]
    remember: Remember,
}

/// Edits.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let work = async |session: &Session| {
        let state = session.state();
        match edited(context, args, session, &state)? {
            Edited::Good(Change::Entry(edits)) => {
                let request = operate::Request {
                    kind: "edit",
                    operations: Vec::new(),
                    message: args.remember.message.clone(),
                };
                operate::commit(context, session, *edits, &request).await
            }
            Edited::Good(Change::Snapshot(snapshot)) => {
                replace(context, args, session, &state, *snapshot).await
            }
            Edited::Unchanged => Ok(Done::prepared(session, Vec::new())),
            Edited::GivenUp => {
                context.output.announce(|page| page.line("the text was emptied"));
                Ok(Done::prepared(session, Vec::new()))
            }
        }
    };
    operate::locked(context, "edit", work).await
}

fn edited(
    context: &Context,
    args: &Args,
    session: &Session,
    state: &State,
) -> Result<Edited<Change>, CliError> {
    let show_secrets = context.settings.show_secrets;
    let give_up = "Save an empty file to give up. Lines like this one on top are left out.";
    let Some(address) = &args.address else {
        let snapshot = state.snapshot(session.stack().name().to_string(), context.now());
        let text = document::snapshot_text(&snapshot, show_secrets);
        let introduction = format!("Stack {}. {give_up}", session.stack().name().short());
        return editor::edit(context, &introduction, &text, |text| {
            document::read_snapshot(&snapshot, text, show_secrets)
        });
    };
    let entry = find(state, address, args.deposed.as_ref())?;
    let text = document::entry_text(entry, show_secrets);
    let introduction = format!("Entry {}. {give_up}", entry.key());
    editor::edit(context, &introduction, &text, |text| {
        document::read_entry(state, entry, text, show_secrets)
    })
}

fn find<'a>(
    state: &'a State,
    address: &Address,
    deposed: Option<&DeposedKey>,
) -> Result<&'a SharedEntry, CliError> {
    let key = EntryKey {
        address: address.clone(),
        deposed: deposed.cloned(),
    };
    let missing = || {
        let refusal = Refusal::NoEntry {
            address: address.clone(),
            live: deposed.is_none(),
        };
        refused(refusal, state, None)
    };
    state.entry(&key).ok_or_else(missing)
}

async fn replace(
    context: &Context,
    args: &Args,
    session: &Session,
    state: &State,
    snapshot: Snapshot,
) -> Result<Done, CliError> {
    let changes = preview::changes(state.entries(), snapshot.entries.iter());
    let done = Done::prepared(session, changes);
    done.confirm(context, session)?;
    let request = args.remember.request(UpdateKind::Edit, "edit");
    let revision = session.replace_entries(request, snapshot).await?;
    Ok(done.made(revision))
}

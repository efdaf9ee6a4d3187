//! The command `edit`: edits a resource or the whole snapshot in a text editor.

use super::document::{self, Change};
use super::editor::{self, EditResult};
use super::operate::{self, EditReport, MessageArg, deposed_key, refusal_to_error};
use super::preview;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::resource_arg::ResourceArg;
use crate::unmarked_secrets;
use state_core::edits::Refusal;
use state_core::{Address, DeposedKey, EntryKey, SharedEntry, Snapshot, State, UpdateKind};
use state_manager::Session;

/// Edit a resource or the whole snapshot in your editor
///
/// Opens $VISUAL or $EDITOR. The saved text is verified. If it has problems, the editor opens again with the problems at
/// the top, until the text is valid or the file is emptied. Sensitive values are hidden, and their placeholders must be
/// kept. `--show-secrets` shows them, but is refused for an encrypted stack: the decrypted values would be written to a file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The resource to edit [default: the whole snapshot]
    #[arg(value_name = "ADDR")]
    address: Option<ResourceArg>,
    /// Edit the deposed resource (replaced, but not yet deleted) that has this key
    #[arg(long, value_name = "KEY", requires = "address", value_parser = deposed_key)]
    deposed: Option<DeposedKey>,
    #[command(flatten)]
    remember: MessageArg,
}

/// Runs the command `edit` and returns its report.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let work = async |session: &Session| {
        let state = session.state();
        match edited(context, args, session, &state)? {
            EditResult::Accepted(Change::Entry(edits)) => {
                let request = operate::Request {
                    kind: "edit",
                    operations: Vec::new(),
                    message: args.remember.message.clone(),
                };
                operate::commit(context, session, *edits, &request).await
            }
            EditResult::Accepted(Change::Snapshot(snapshot)) => {
                replace(context, args, session, &state, *snapshot).await
            }
            EditResult::Unchanged => Ok(EditReport::prepared(session, Vec::new())),
            EditResult::Cancelled => {
                context
                    .output
                    .announce(|page| page.line("edit cancelled: the file is empty"));
                Ok(EditReport::prepared(session, Vec::new()))
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
) -> Result<EditResult<Change>, CliError> {
    let show_secrets = context.settings.show_secrets;
    if show_secrets && session.is_sealed() {
        let object = format!("stack {}", session.stack().name().short());
        let message = "refused to write decrypted values into a file for an editor: the stack is encrypted";
        return Err(CliError::refused(object, message).with_hint(
            "run `statectl edit` without `--show-secrets` to keep secret values behind placeholders; print a value \
             with `statectl show ADDR --show-secrets`",
        ));
    }
    let give_up = "Save an empty file to cancel. Lines like this one at the top are ignored.";
    let Some(ResourceArg { address, deposed }) = &args.address else {
        let snapshot = state.snapshot(session.stack().name().to_string(), context.now());
        let text = document::snapshot_text(&snapshot, show_secrets);
        let introduction = format!("Stack {}. {give_up}", session.stack().name().short());
        return editor::edit(context, &introduction, &text, |text| {
            document::read_snapshot(&snapshot, text, show_secrets)
        });
    };
    let entry = find(
        session,
        state,
        address,
        args.deposed.as_ref().or(deposed.as_ref()),
    )?;
    let text = document::entry_text(entry, show_secrets);
    let introduction = format!("Resource {}. {give_up}", entry.key());
    editor::edit(context, &introduction, &text, |text| {
        document::read_entry(state, entry, text, show_secrets)
    })
}

fn find<'a>(
    session: &Session,
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
        refusal_to_error(refusal, state, session.stack().name(), None)
    };
    state.entry(&key).ok_or_else(missing)
}

async fn replace(
    context: &Context,
    args: &Args,
    session: &Session,
    state: &State,
    snapshot: Snapshot,
) -> Result<EditReport, CliError> {
    let changes = preview::changes(state.entries(), snapshot.entries.iter());
    let mut done =
        EditReport::prepared(session, changes).reviewed(context, session, state, snapshot.entries.iter())?;
    let lost = unmarked_secrets::lost_by_edit(context, session, state, snapshot.entries.iter()).await?;
    done.warnings.extend(lost);
    done.confirm(context, session)?;
    let request = args.remember.request(UpdateKind::Edit, "edit");
    let revision = session.replace_entries(request, snapshot).await?;
    Ok(done.committed(revision))
}

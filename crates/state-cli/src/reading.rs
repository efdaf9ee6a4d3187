//! The state that a read-only command uses: the latest state, or with `--at` the state of a revision.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::StackStatus;
use state_core::{Serial, Snapshot, State};
use state_manager::{Authenticity, RevisionSpec, View};
use std::fmt::Display;
use std::sync::Arc;

/// Arguments of the flag `--at`, shared by reading commands.
#[derive(Debug, clap::Args)]
pub(crate) struct At {
    /// Read this revision [default: the latest state]
    ///
    /// A revision is named by its id, a prefix of its id, its serial, `@` (current) or `@-` (the one before).
    #[arg(long, value_name = "REV")]
    pub(crate) at: Option<RevisionSpec>,
}

/// The snapshot with decrypted values if an identity can decrypt them, else unchanged. For comparisons of snapshots that are
/// encrypted with different keys.
///
/// # Errors
/// `Sealed` if a value was altered.
pub(crate) async fn opened(view: &View, snapshot: Snapshot) -> state_core::Result<Snapshot> {
    Ok(view.reveal_if_possible(snapshot).await?.0)
}

/// A state read from a stack.
pub(crate) struct Reading {
    pub(crate) view: View,
    pub(crate) status: StackStatus,
    /// Whether the data key authenticated the latest state; none for the state of a revision.
    pub(crate) authenticity: Option<Authenticity>,
    pub(crate) state: Arc<State>,
    pub(crate) snapshot: Snapshot,
}

impl Reading {
    /// Reads the state that the flags select.
    pub(crate) async fn open(context: &Context, at: &At) -> Result<Self, CliError> {
        let (view, revision) = context.store.read_at(at.at.as_ref()).await?;
        let shows_secrets = context.settings.show_secrets;
        let (status, authenticity, mut snapshot, state) = match revision {
            None => {
                let is_open = !shows_secrets || view.head.key_id.is_none();
                (
                    StackStatus::of(&view),
                    Some(view.authenticity),
                    view.snapshot(),
                    is_open.then(|| Arc::clone(&view.state)),
                )
            }
            Some((revision, snapshot)) => {
                let status = StackStatus::at(&view.name, revision, &snapshot);
                (status, None, snapshot, None)
            }
        };
        if shows_secrets && state.is_none() {
            snapshot = view.reveal(snapshot).await?;
        }
        let state = match state {
            Some(state) => state,
            None => Arc::new(State::from_snapshot(view.head.lineage, &snapshot)?),
        };
        Ok(Self {
            view,
            status,
            authenticity,
            state,
            snapshot,
        })
    }

    /// The name of the state in an error: the stack, and the revision if `--at` names one.
    pub(crate) fn place(&self) -> String {
        let name = self.view.name.short();
        match &self.status.at {
            None => format!("stack {name}"),
            Some(revision) => format!("stack {name} at revision {revision}"),
        }
    }

    /// The error for a missing resource, with a suggestion of a similar address.
    pub(crate) fn missing(&self, address: &impl Display) -> CliError {
        let address = address.to_string();
        let candidates = self.snapshot.entries.iter().map(|entry| entry.address.as_str());
        let error = CliError {
            message: format!("no resource `{address}` in {}", self.place()),
            ..CliError::not_found(format!("resource {address}"), "")
        };
        let listing = "list all resources with `statectl list`";
        error.with_nearest(&address, candidates, listing, listing)
    }
}

/// The error for the revisions before the history that could be rebuilt of a damaged stack; none if the stack isn't damaged.
pub(crate) fn lost_before(view: &View, begins: Option<Serial>) -> Option<CliError> {
    let begins = begins.filter(|_| view.is_rebuilt())?;
    let object = format!("stack {}", view.name.short());
    let reason = format!("revisions before serial {begins} need what is damaged, or were deleted");
    let error = CliError::new(ExitCode::Integrity, object, &reason);
    Some(error.with_hint("list what can be read with `statectl verify --deep`, then run `statectl salvage`"))
}

//! What a reading command looks at: the latest state, or with `--at` that of a revision.

use crate::context::Context;
use crate::error::CliError;
use crate::marks::ResourceStatus;
use state_core::{Address, RevisionId, Snapshot, State};
use state_manager::{RevisionSpec, Stack};
use std::sync::Arc;

/// Which state to look at.
#[derive(Debug, clap::Args)]
pub(crate) struct At {
    /// Look at this revision: an id, the beginning of one, a serial, `@` or `@-`. Default: the latest state.
    #[arg(long, value_name = "REV")]
    pub(crate) at: Option<RevisionSpec>,
}

impl At {
    /// The revision that is meant; none for the latest state.
    pub(crate) async fn resolve(&self, stack: &Stack) -> Result<Option<RevisionId>, CliError> {
        match &self.at {
            None => Ok(None),
            Some(wanted) => Ok(Some(stack.revision_list().await?.resolve(wanted)?)),
        }
    }
}

/// A snapshot with its values open if an identity at hand opens them, else as it is: for comparing what two keys sealed.
pub(crate) async fn opened(stack: &Stack, snapshot: Snapshot) -> state_core::Result<Snapshot> {
    match stack.reveal(snapshot.clone()).await {
        Err(state_core::Error::Sealed { .. }) => Ok(snapshot),
        other => other,
    }
}

/// A state that was read.
pub(crate) struct Reading {
    pub(crate) stack: Stack,
    pub(crate) standing: ResourceStatus,
    pub(crate) state: Arc<State>,
    pub(crate) snapshot: Snapshot,
}

impl Reading {
    /// Reads what the flags ask for.
    pub(crate) async fn open(context: &Context, at: &At) -> Result<Self, CliError> {
        let stack = context.store.open_stack().await?;
        let shows_secrets = context.settings.show_secrets;
        let (standing, mut snapshot, state) = match at.resolve(&stack).await? {
            None => {
                let view = stack.tip().await?;
                let is_open = !shows_secrets || view.head.key_id.is_none();
                (
                    ResourceStatus::of(&view),
                    view.snapshot(),
                    is_open.then_some(view.state),
                )
            }
            Some(revision) => {
                let snapshot = stack.get(&revision).await?;
                (
                    ResourceStatus::at(stack.name(), revision, &snapshot),
                    snapshot,
                    None,
                )
            }
        };
        if shows_secrets && state.is_none() {
            snapshot = stack.reveal(snapshot).await?;
        }
        let state = match state {
            Some(state) => state,
            None => Arc::new(State::from_snapshot(stack.lineage(), &snapshot)?),
        };
        Ok(Self {
            stack,
            standing,
            state,
            snapshot,
        })
    }

    /// What to call it in an error: the stack, and the revision if one was asked for.
    pub(crate) fn place(&self) -> String {
        let name = self.stack.name().short();
        match &self.standing.at {
            None => format!("stack {name}"),
            Some(revision) => format!("stack {name} at revision {revision}"),
        }
    }

    /// That there is no such entry, with the one that may have been meant.
    pub(crate) fn missing(&self, address: &Address) -> CliError {
        let candidates = self.snapshot.entries.iter().map(|entry| entry.address.as_str());
        let message = format!("there is no such entry in {}", self.place());
        CliError::not_found(format!("entry {address}"), &message).with_nearest(
            address.as_str(),
            candidates,
            "`statectl list` lists all of them",
            "see what there is with `statectl list`",
        )
    }
}

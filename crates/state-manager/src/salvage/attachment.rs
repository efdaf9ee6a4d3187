//! Lets names lead to stacks that were put in place, and this client accept them.

use crate::keys::authenticate::UncheckedName;
use crate::salvage::damaged_store::SharedStore;
use crate::salvage::head_template::Client;
use crate::stacks::Stacks;
use crate::write::naming;
use state_core::backend::{NamePointer, NameTarget};
use state_core::sealing::StackKey;
use state_core::{Error, Lineage, Result, RevisionId, StackName};
use std::sync::Arc;

/// Lets a name lead to a stack. Signs the pointer if the stack has a data key.
pub(super) async fn point_to(
    store: &SharedStore,
    client: &Client,
    name: &StackName,
    lineage: Lineage,
    key: Option<&dyn StackKey>,
) -> Result<()> {
    let backend = store.backend()?;
    let before = UncheckedName::read(&*backend, name).await?;
    let pointer = NamePointer::new(name.clone(), NameTarget::Lineage(lineage), client.nonce());
    naming::swap_pointer(&*backend, before.map(|before| before.nonce()), pointer, key).await
}

/// The stacks of the store, as this client uses them.
pub(super) fn stacks(store: &SharedStore, client: &Client) -> Result<Stacks> {
    let mut stacks = Stacks::new(store.backend()?, client.environment.clone());
    if let Some(keys) = &client.keys {
        stacks = stacks.with_keys(Arc::clone(keys));
    }
    if let Some(known) = &client.known_stacks {
        stacks = stacks.with_known_stacks(Arc::clone(known));
    }
    Ok(stacks)
}

/// Replaces what this client remembers of a stack that was put in place, and of its name. `revision` is the one that must be
/// current.
///
/// # Errors
/// `Conflict` if the name leads to another stack, or if the stack changed since.
pub(super) async fn accept(
    stacks: &Stacks,
    lineage: Lineage,
    name: &StackName,
    revision: Option<&RevisionId>,
) -> Result<()> {
    let present = stacks.present(name).await?;
    let is_expected = revision.is_none_or(|revision| present.revision.as_ref() == Some(revision));
    if present.lineage != lineage || !is_expected {
        let reason = "another process changed it meanwhile; compare it with `statectl history`, then accept it with `statectl \
                      trust --accept`";
        return Err(Error::conflict(format!("stack {}", name.short()), reason));
    }
    stacks.trust(name, Some(&present)).await.map(drop)
}

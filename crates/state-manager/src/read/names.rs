//! The stacks of a store by name: lists them, and resolves a name to a stack.

use crate::client_lock;
use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{self, UncheckedHead};
use crate::read::{name_memory, view};
use serde::Serialize;
use state_core::backend::{ClientLock, Holder, LockStatus, NamePointer};
use state_core::{Error, Invalidation, Lineage, Result, RevisionId, StackName, Timestamp};

/// The summary of a stack in a list of stacks.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StackSummary {
    /// Name of the stack.
    pub name: StackName,
    /// Lineage of the stack.
    pub lineage: Lineage,
    /// Number of resources in the state.
    pub entries: usize,
    /// Current revision; none when nothing was committed.
    #[serde(rename = "revision")]
    pub current: Option<RevisionId>,
    /// Time of the last change.
    pub updated: Option<Timestamp>,
    /// Holder of the writer lock.
    pub holder: Option<Holder>,
    /// Client lock of the stack; none if there is none or it has expired.
    pub client_lock: Option<ClientLock>,
    /// Whether an update is open.
    pub update_open: bool,
    /// Number of pending operations plus pending moves of resources to this stack.
    pub pending: usize,
    /// Whether the state is known to match the real resources.
    pub reliable: bool,
    /// The mark of an update that left the whole state unreliable, with its time; none if there is no such mark.
    pub invalidated: Option<Invalidation>,
}

/// The stack with this name; none if it doesn't exist.
pub(crate) async fn find(store: &StoreContext, name: &StackName) -> Result<Option<StackContext>> {
    let head = bound_head(store, name).await?;
    name_memory::follow(store, name, head.as_ref().map(UncheckedHead::lineage)).await?;
    Ok(head.map(|head| store.stack(head.name().clone(), head.lineage())))
}

/// The stack with this name, or `NotFound`.
pub(crate) async fn require(store: &StoreContext, name: &StackName) -> Result<StackContext> {
    let found = find(store, name).await?;
    found.ok_or_else(|| Error::not_found(format!("stack {}", name.short())))
}

/// The head of the stack with this name, whether or not this client accepts the stack.
pub(crate) async fn bound_head(store: &StoreContext, name: &StackName) -> Result<Option<UncheckedHead>> {
    match store.backend().read_name(name).await? {
        Some(pointer) => bound(store, &pointer).await,
        None => Ok(None),
    }
}

/// Forgets what this client remembers of the stack with this name, and trusts its present state.
pub(crate) async fn trust(store: &StoreContext, name: &StackName) -> Result<view::View> {
    // The name is forgotten first: otherwise `require` would refuse a stack that was replaced.
    remember(store, name, None).await;
    let stack = require(store, name).await?;
    if let Some(known) = store.known_stacks() {
        known.remember(stack.lineage(), None).await;
    }
    view::tip(&stack).await
}

pub(crate) async fn remember(store: &StoreContext, name: &StackName, lineage: Option<Lineage>) {
    if let Some(known) = store.known_stacks() {
        known.remember_name(name, lineage).await;
    }
}

pub(crate) async fn summaries(store: &StoreContext) -> Result<Vec<StackSummary>> {
    let mut summaries = Vec::new();
    for head in listed(store).await? {
        summaries.push(summary(store, &head).await?);
    }
    Ok(summaries)
}

pub(crate) async fn names(store: &StoreContext) -> Result<Vec<StackName>> {
    let heads = listed(store).await?.into_iter();
    Ok(heads.map(|head| head.name().clone()).collect())
}

/// The heads of all stacks, sorted by name. Fails if one of the names leads to another stack than this client
/// remembers, or if a remembered stack is missing without proof. A name that this client doesn't know yet isn't
/// remembered: the user only saw it in a list.
async fn listed(store: &StoreContext) -> Result<Vec<UncheckedHead>> {
    let heads = heads(store).await?;
    for head in &heads {
        name_memory::check(store, head.name(), Some(head.lineage())).await?;
    }
    let names: Vec<_> = heads.iter().map(|head| head.name().clone()).collect();
    name_memory::check_absent(store, &names).await?;
    Ok(heads)
}

/// The heads of all stacks, sorted by name.
async fn heads(store: &StoreContext) -> Result<Vec<UncheckedHead>> {
    let mut heads = Vec::new();
    for pointer in store.backend().names().await? {
        if let Some(head) = bound(store, &pointer).await?
            && head.name().folded() == pointer.name.folded()
        {
            heads.push(head);
        }
    }
    Ok(heads)
}

/// The head to which a name pointer leads; none if the stack was removed or has another name. A pointer alone is not
/// sufficient, because a rename swaps pointer and head in two steps.
pub(crate) async fn bound(store: &StoreContext, pointer: &NamePointer) -> Result<Option<UncheckedHead>> {
    let Some(lineage) = pointer.lineage() else {
        return Ok(None);
    };
    let head = UncheckedHead::read(store, lineage).await;
    let head = head.map_err(|error| match error {
        // The head is written before its pointer, so a pointer without a head means damage.
        Error::NotFound { object } => {
            Error::corrupt(object, 0, "a name points to this stack, but its head is missing")
        }
        other => other,
    })?;
    if head.is_removed() {
        // Anyone with write access can set the mark, so on a sealed stack the head's tag must be valid.
        let stack = store.stack(pointer.name.clone(), lineage);
        authenticate::head(&stack).await?;
        return Ok(None);
    }
    let is_named = head.name().folded() == pointer.name.folded();
    let is_bound = is_named || head.is_moving_to(pointer.nonce);
    Ok(is_bound.then_some(head))
}

async fn summary(store: &StoreContext, head: &UncheckedHead) -> Result<StackSummary> {
    let stack = store
        .stack(head.name().clone(), head.lineage())
        .without_expectations();
    let tip = view::tip(&stack).await?;
    let now = stack.now();
    let LockStatus { holder, .. } = stack.backend().lock_status(stack.lineage()).await?;
    let client_lock = tip.head.client_lock.clone();
    Ok(StackSummary {
        name: stack.name().clone(),
        lineage: stack.lineage(),
        entries: tip.state.len(),
        current: tip.state.current().cloned(),
        updated: tip.moment().cloned(),
        holder,
        client_lock: client_lock.filter(|lock| client_lock::holds(lock, &now)),
        update_open: tip.update_open(),
        pending: tip.state.pending().count() + tip.state.incoming().count(),
        reliable: tip.is_reliable(),
        invalidated: tip.state.invalidated().cloned(),
    })
}

//! Writes the revision that records a salvage into a rebuilt stack, before that stack takes its place: no crash leaves an earlier
//! state as the current one without such a revision.

use crate::client_lock;
use crate::intent::UpdateRequest;
use crate::read::view;
use crate::salvage::earlier_keys;
use crate::salvage::head_template::Client;
use crate::salvage::rebuild::RebuiltStack;
use crate::salvage::rebuilt_backend::RebuiltBackend;
use crate::write::locked_stack::LockedStack;
use crate::write::{opening, snapshots, steps};
use state_core::{Error, Result, RevisionId, UpdateResult};
use std::sync::Arc;

/// The rebuilt stack with the revision of this request. No revision is written while another client has a lock on the stack:
/// its holder decides.
pub(super) async fn mark(
    client: &Client,
    rebuilt: RebuiltStack,
    request: UpdateRequest,
) -> Result<(RebuiltStack, Option<RevisionId>)> {
    let now = client.environment.clock.now();
    let lock = rebuilt.head.client_lock.as_ref();
    if lock.is_some_and(|lock| client_lock::holds(lock, &now)) {
        return Ok((rebuilt, None));
    }
    let RebuiltStack {
        head,
        before,
        frames,
        objects,
        ..
    } = rebuilt;
    let backend = Arc::new(RebuiltBackend::new(&head, before, &frames, objects).await?);
    let stack = client
        .store(Arc::clone(&backend) as Arc<dyn state_core::Backend>)
        .stack(head.name.clone(), head.lineage);
    let locked = Box::pin(opening::acquire_ungated(&stack, "salvage")).await?;
    let recorded = match earlier_keys::seal_state(&head) {
        true => resealed(&locked, request).await,
        false => match steps::start(&locked, request, false).await {
            Ok(_) => locked.end_update(UpdateResult::Succeeded).await,
            Err(error) => Err(error),
        },
    };
    let revision = locked.close_after(recorded).await?;
    let view = view::tip(&stack).await?;
    if view.state.current() != Some(&revision) {
        let reason = "the salvaged stack, read back, has another current revision";
        return Err(Error::corrupt(format!("stack {}", head.name.short()), 0, reason));
    }
    let (mut head, frames, objects) = backend.written(head.lineage, before.next).await?;
    // The journal of the stored stack is a new one. No tag covers these fields.
    head.closed = false;
    head.compactions = Vec::new();
    let marked = RebuiltStack {
        head,
        before,
        frames,
        objects,
        view: view.rebuilt(),
    };
    Ok((marked, Some(revision)))
}

/// Writes the state as a new revision, sealed with the present key: a session can't change values under an earlier one.
async fn resealed(locked: &LockedStack, request: UpdateRequest) -> Result<RevisionId> {
    let view = view::tip(&locked.stack).await?;
    let snapshot = view.reveal(view.snapshot()).await?;
    snapshots::replace_with_pending(locked, request, &view.state, snapshot).await
}

//! What a new owner finds undone, and finishes.

use crate::document::RevisionDocument;
use crate::load::Replayed;
use crate::stack::Stack;
use state_core::backend::{NamePointer, NameTarget, ObjectKind, ObjectName};
use state_core::{Head, Nonce, Result, StackName, Writer};

/// The revisions of the live journal whose documents are not written yet. Those that were deleted need none: theirs
/// may have been collected.
pub(crate) async fn missing_documents(stack: &Stack, replayed: &Replayed) -> Result<Vec<RevisionDocument>> {
    if replayed.revisions.is_empty() {
        return Ok(Vec::new());
    }
    let there = stack.backend().list(stack.lineage(), ObjectKind::Update).await?;
    let is_missing = |document: &&RevisionDocument| {
        !replayed.state.is_forgotten(&document.revision)
            && !there.contains(&ObjectName::Update(document.revision.clone()))
    };
    Ok(replayed.revisions.iter().filter(is_missing).cloned().collect())
}

/// A rename that an owner before began: forward if the new name's pointer was swapped, else back.
pub(crate) async fn finish_rename(stack: &Stack, writer: &dyn Writer, head: &Head) -> Result<()> {
    let Some(moving) = &head.moving_to else {
        return Ok(());
    };
    let target = stack.backend().read_name(&moving.name).await?;
    let swapped = target.is_some_and(|pointer| pointer.nonce == moving.nonce);
    let nonce = Nonce::random(&*stack.environment().entropy);
    if !swapped {
        writer.swap_head(nonce, &|head| head.moving_to = None).await?;
        return Ok(());
    }
    commit_rename(stack, writer, &head.name, &moving.name).await
}

/// The commit point of a rename, and the tombstone of the old name.
pub(crate) async fn commit_rename(
    stack: &Stack,
    writer: &dyn Writer,
    from: &StackName,
    to: &StackName,
) -> Result<()> {
    let entropy = &*stack.environment().entropy;
    writer
        .swap_head(Nonce::random(entropy), &|head| {
            head.name = to.clone();
            head.moving_to = None;
        })
        .await?;
    if from.folded() == to.folded() {
        return Ok(());
    }
    let old = stack.backend().read_name(from).await?;
    let ours = old
        .as_ref()
        .is_some_and(|pointer| pointer.lineage() == Some(stack.lineage()));
    if ours {
        let pointer = NamePointer {
            name: from.clone(),
            target: NameTarget::MovedTo(to.clone()),
            nonce: Nonce::random(entropy),
        };
        stack
            .backend()
            .swap_name(from, old.map(|pointer| pointer.nonce), &pointer)
            .await?;
    }
    Ok(())
}

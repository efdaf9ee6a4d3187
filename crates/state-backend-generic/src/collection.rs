//! What can be deleted of a stack, object by object.
//!
//! Fences stay, for ever: a stale owner is stopped by nothing but the fence in the first slot that it doesn't know. If
//! that were deleted, its next frame would be created there, and acknowledged, and never read by anyone.

use crate::layout::JournalName;
use crate::owner::Owner;
use crate::stack::Stack;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::{ObjectKind, ObjectName, StoredItem, StoredItemName};
use state_core::journal::FrameKind;
use state_core::{Frame, Head, Result, Slot};

/// As much of a frame as says what it is.
const HEADER: u64 = 64;

/// All objects, and of the journal what lies wholly before a slot and is no fence.
pub async fn stored_items(stack: &Stack, before: Slot) -> Result<Vec<StoredItem>> {
    let mut stored_items = Vec::new();
    for kind in ObjectKind::ALL {
        for listed in stack.store.list(&stack.paths.folder(kind), None).await? {
            if let Some(name) = ObjectName::from_file_name(kind, listed.file()) {
                stored_items.push(StoredItem {
                    name: StoredItemName::Object(name),
                    bytes: listed.bytes,
                });
            }
        }
    }
    let journal = stack.store.list(&stack.paths.journal(), None).await?;
    let ended = journal.iter().filter_map(|listed| {
        let name = JournalName::parse(listed.file()).filter(|name| name.end() <= before)?;
        Some((name, listed.bytes))
    });
    let judged = stream::iter(ended.collect::<Vec<_>>()).map(|(name, bytes)| async move {
        let piece = StoredItem {
            name: StoredItemName::Journal(name.to_string()),
            bytes,
        };
        Ok::<_, state_core::Error>((!is_fence(stack, &name).await?).then_some(piece))
    });
    let judged: Vec<_> = judged.buffered(stack.store.concurrency()).try_collect().await?;
    stored_items.extend(judged.into_iter().flatten());
    Ok(stored_items)
}

/// What can't be read as a frame is taken for one: it isn't deleted.
async fn is_fence(stack: &Stack, name: &JournalName) -> Result<bool> {
    let JournalName::Slot(_) = name else {
        return Ok(false);
    };
    let path = stack.paths.in_journal(name);
    let begins = stack.store.read_start(&path, HEADER).await?;
    Ok(begins.is_some_and(|bytes| Frame::peek(&bytes).is_none_or(|(_, kind)| kind != FrameKind::Data)))
}

/// Deletes pieces in their order; parts of the journal, which nobody reads any more, some at once.
pub async fn delete(owner: &Owner, stored_items: &[StoredItemName]) -> Result<()> {
    let stack = &owner.stack;
    owner.check_open()?;
    let head = owner.read_head().await?;
    for run in stored_items.chunk_by(|a, b| is_journal(a) && is_journal(b)) {
        let (run, head) = (run.to_vec(), &head);
        let deletions = stream::iter(run).map(|piece| async move { delete_one(stack, &piece, head).await });
        let deletions = deletions.buffered(stack.store.concurrency());
        deletions.try_collect::<()>().await?;
    }
    Ok(())
}

const fn is_journal(piece: &StoredItemName) -> bool {
    matches!(piece, StoredItemName::Journal(_))
}

async fn delete_one(stack: &Stack, piece: &StoredItemName, head: &Head) -> Result<()> {
    piece.check_not_referenced(head)?;
    let path = match piece {
        StoredItemName::Object(name) => stack.paths.object(name),
        StoredItemName::Journal(file) => {
            let floor = head.collection.as_ref().map(|collection| collection.base.start);
            let name = JournalName::parse(file).filter(|name| floor.is_some_and(|floor| name.end() <= floor));
            let Some(name) = name else {
                return Err(piece.refuse_delete("it isn't a part of the journal before the floor"));
            };
            if is_fence(stack, &name).await? {
                return Err(piece.refuse_delete("it is a fence, which stops a stale owner"));
            }
            stack.paths.in_journal(&name)
        }
    };
    stack.store.delete(&path).await
}

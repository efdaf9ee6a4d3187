//! Lists and deletes unneeded objects of a stack.
//!
//! Fences are never deleted. A stale owner appends to the slot after the last frame that it has seen, and only a fence
//! in that slot stops it. Without the fence, the store would accept and acknowledge the stale frame, and no reader
//! would ever see it.

use crate::layout::JournalName;
use crate::owner::Owner;
use crate::stack::Stack;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::{ObjectKind, ObjectName, StoredItem, StoredItemName};
use state_core::journal::FrameKind;
use state_core::{Frame, Head, Result, Slot};

/// The number of bytes to read of a frame in order to learn its kind.
const HEADER: u64 = 64;

/// Lists all objects, and the journal objects before a slot that are not fences.
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
        let name = JournalName::parse(listed.file()).filter(|name| name.is_before(before))?;
        Some((name, listed.bytes))
    });
    let deletable = stream::iter(ended.collect::<Vec<_>>()).map(|(name, bytes)| async move {
        let item = StoredItem {
            name: StoredItemName::Journal(name.to_string()),
            bytes,
        };
        Ok::<_, state_core::Error>((!is_fence(stack, &name).await?).then_some(item))
    });
    let deletable: Vec<_> = deletable
        .buffered(stack.store.concurrency())
        .try_collect()
        .await?;
    stored_items.extend(deletable.into_iter().flatten());
    Ok(stored_items)
}

/// Returns whether a journal object is a fence. An unreadable frame counts as a fence, so that it is never deleted.
async fn is_fence(stack: &Stack, name: &JournalName) -> Result<bool> {
    let JournalName::Slot(_) = name else {
        return Ok(false);
    };
    let path = stack.paths.in_journal(name);
    let start = stack.store.read_start(&path, HEADER).await?;
    Ok(start.is_some_and(|bytes| Frame::peek(&bytes).is_none_or(|(_, kind)| kind != FrameKind::Data)))
}

/// Deletes items in their order, because no remaining item may refer to a deleted one. Consecutive journal objects are
/// deleted concurrently: readers never read below the history floor, so the order of these objects doesn't matter.
pub async fn delete(owner: &Owner, stored_items: &[StoredItemName]) -> Result<()> {
    let stack = &owner.stack;
    owner.check_open()?;
    // Read the head from the store rather than from the cache: the deletions must respect the current base, and a
    // stale owner must stop here.
    let head = owner.read_head().await?;
    for run in stored_items.chunk_by(|a, b| is_journal(a) && is_journal(b)) {
        let (run, head) = (run.to_vec(), &head);
        let deletions = stream::iter(run).map(|item| async move { delete_one(stack, &item, head).await });
        let deletions = deletions.buffered(stack.store.concurrency());
        deletions.try_collect::<()>().await?;
    }
    Ok(())
}

const fn is_journal(item: &StoredItemName) -> bool {
    matches!(item, StoredItemName::Journal(_))
}

async fn delete_one(stack: &Stack, item: &StoredItemName, head: &Head) -> Result<()> {
    item.check_not_referenced(head)?;
    let path = match item {
        StoredItemName::Object(name) => stack.paths.object(name),
        StoredItemName::Journal(file) => {
            let floor = head.collection.as_ref().map(|collection| collection.base.start);
            let name =
                JournalName::parse(file).filter(|name| floor.is_some_and(|floor| name.is_before(floor)));
            let Some(name) = name else {
                return Err(item.refuse_delete("it is not a journal object before the history floor"));
            };
            // Checked right before the deletion: without the fence a stale owner could append to a slot that no reader
            // reads.
            if is_fence(stack, &name).await? {
                return Err(item.refuse_delete("it is a fence, which stops a stale lock holder"));
            }
            stack.paths.in_journal(&name)
        }
    };
    stack.store.delete(&path).await
}

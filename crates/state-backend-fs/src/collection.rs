//! Lists the files of a stack that a collection may delete.
//!
//! Whole segments are deleted, with their fences. No later operation depends on an old fence: a fenced writer checks
//! the head's epoch after each sync and before it acknowledges, and appends only to its own segment, which it holds
//! open. If that segment is unlinked, the writer's bytes go to a file without a name; if it creates another segment
//! by rotation, no fence names that segment. A reader that walks back through old segments may find one missing. It
//! then reads the head again, finds the new history floor, and starts over or returns `Error::Collected`.

use crate::dir::Dir;
use crate::layout::{CompactionName, SegmentName};
use crate::stack::Stack;
use state_core::backend::{ObjectKind, ObjectName, StoredItem, StoredItemName};
use state_core::{Head, Result, Slot};

/// Lists all objects, the segments that end before the slot `before`, and the compactions that start before it.
pub(crate) fn stored_items(stack: &Stack, before: Slot) -> Result<Vec<StoredItem>> {
    let mut stored_items = Vec::new();
    let mut add = |dir: &Dir, file: &str, name| -> Result<()> {
        if let Some(bytes) = dir.length(file)? {
            stored_items.push(StoredItem { name, bytes });
        }
        Ok(())
    };
    for kind in ObjectKind::ALL {
        let Some(dir) = stack.objects_if_any(kind)? else {
            continue;
        };
        for file in dir.entries()? {
            if let Some(name) = ObjectName::from_file_name(kind, &file) {
                add(&dir, &file, StoredItemName::Object(name))?;
            }
        }
    }
    let journal = stack.journal()?;
    let files = journal.entries()?;
    let segments: Vec<SegmentName> = files.iter().filter_map(|file| SegmentName::parse(file)).collect();
    // Without a segment that starts at `before`, the last segment before it may contain frames that are still needed.
    if segments.iter().any(|segment| segment.slot == before) {
        for segment in segments.iter().filter(|segment| segment.slot < before) {
            let file = segment.to_string();
            add(&journal, &file, StoredItemName::Journal(file.clone()))?;
        }
    }
    // The compaction of an earlier base, which a crash left. The next close removes the one that the head names.
    let named = stack.head()?.head.compactions;
    let is_named = |found: &CompactionName| named.iter().any(|named| named.start == found.start);
    let compactions = files.iter().filter_map(|file| CompactionName::parse(file));
    for compaction in compactions.filter(|found| found.start < before && !is_named(found)) {
        let file = compaction.to_string();
        add(&journal, &file, StoredItemName::Journal(file.clone()))?;
    }
    Ok(stored_items)
}

/// The folder of a stored item: that of a kind of objects, or the journal (`None`).
pub(crate) type ItemFolder = Option<ObjectKind>;

/// Returns folder and file name of an item. Fails if the head still needs the item.
pub(crate) fn locate(item: &StoredItemName, head: &Head) -> Result<(ItemFolder, String)> {
    item.check_not_referenced(head)?;
    match item {
        StoredItemName::Object(name) => Ok((Some(name.kind()), name.file_name())),
        StoredItemName::Journal(file) => {
            // A collection's base is the first slot of a segment, so a segment that starts before it also ends before
            // it.
            let floor = head.collection.as_ref().map(|collection| collection.base.start);
            // The head names only a compaction of its own base, which isn't below the floor.
            let start = SegmentName::parse(file).map(|segment| segment.slot);
            let start = start.or_else(|| Some(CompactionName::parse(file)?.start));
            if start.is_some_and(|start| floor.is_some_and(|floor| start < floor)) {
                return Ok((None, file.clone()));
            }
            Err(item.refuse_delete("it isn't a segment or a compaction before the history floor"))
        }
    }
}

//! What can be deleted of a stack, file by file.
//!
//! Whole segments go, their fences with them. On files nothing rests on an old fence: a writer that was fenced looks
//! at the head's epoch after each sync and before it acknowledges, and it appends to a segment of its own, which it
//! holds open. If that segment is unlinked, it writes to a file without a name; if it makes another one by rotation,
//! no fence leads there. A reader that is still on its way back through old segments finds one missing, reads the
//! head again, and finds the floor there: it starts over, or hears that what it asked for was collected.

use crate::dir::Dir;
use crate::layout::SegmentName;
use crate::stack::Stack;
use state_core::backend::{ObjectKind, ObjectName, StoredItem, StoredItemName};
use state_core::{Head, Result, Slot};

/// All objects, and the segments that lie wholly before a slot.
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
    // Otherwise the last one before it might reach beyond it.
    if segments.iter().any(|segment| segment.slot == before) {
        for segment in segments.iter().filter(|segment| segment.slot < before) {
            let file = segment.to_string();
            add(&journal, &file, StoredItemName::Journal(file.clone()))?;
        }
    }
    Ok(stored_items)
}

/// Where a piece is: with the objects of a kind, or in the journal.
pub(crate) type Place = Option<ObjectKind>;

/// The folder of a piece and its file in there, if no head that says this needs it.
pub(crate) fn locate(piece: &StoredItemName, head: &Head) -> Result<(Place, String)> {
    piece.check_not_referenced(head)?;
    match piece {
        StoredItemName::Object(name) => Ok((Some(name.kind()), name.file_name())),
        StoredItemName::Journal(file) => {
            // A collection's base begins a segment, so one that begins before it also ends before it.
            let floor = head.collection.as_ref().map(|collection| collection.base.start);
            let segment = SegmentName::parse(file);
            if segment.is_some_and(|segment| floor.is_some_and(|floor| segment.slot < floor)) {
                return Ok((None, file.clone()));
            }
            Err(piece.refuse_delete("it isn't a segment before the floor"))
        }
    }
}

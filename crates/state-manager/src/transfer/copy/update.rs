//! Brings an earlier copy of a stack up to date: new objects first, then the new frames, and the head last.
//!
//! ```text
//!  source   ─┼──┼──┼──┼──┼──┤
//!  copy     ─┼──┼──┤  └─────── frames that the copy takes over
//! ```
//!
//! Each writer that locks a stack appends a frame of its own. So a copy whose journal is a beginning of the source's journal
//! was changed by copies only. After an interruption at any point the copy is a valid stack, and the next copy goes on.

use super::comparison::{Relation, existing};
use super::{StackContents, Written, concurrency, copy_object, read};
use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::OpenedJournal;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::{Acquire, CopyUpdate, ObjectKind};
use state_core::head::SealingPolicy;
use state_core::{Error, Head, KeyId, Result};

/// Adds what is new in the source to its copy. Returns the contents of the source, and what was written.
///
/// # Errors
/// `Conflict` if something else than a copy changed the copy, or if the source can't prove that the copy is its beginning;
/// `Locked` if a writer holds the lock of the copy.
pub(super) async fn bring_up_to_date(
    store: &StoreContext,
    source: &StackContext,
    copy: &StackContext,
) -> Result<(StackContents, Written)> {
    let whole = read(source, None).await?;
    let there = read(copy, None).await?;
    let object = source.object();
    let is_behind = match Relation::of(&whole, &there) {
        Relation::SourceAhead(_) => true,
        Relation::Equal => has_older_head(source, &whole, &there),
        other => {
            let differs = other.describe().unwrap_or_default();
            return Err(existing(&object, &differs));
        }
    };
    if !is_behind {
        return Ok((whole, Written::default()));
    }
    whole.require_complete(source)?;
    if whole.sealing() != there.sealing() {
        // Until the head is replaced, readers of the copy would check the new frames with the old key.
        let reason = "the data key or the policy of the source was changed since: copy to an empty store";
        return Err(existing(&object, reason));
    }
    let objects = add_objects(store, source, &whole, &there).await?;
    let update = update(store, source, &whole.journal, &there.journal);
    let written = Written {
        frames: update.frames.len() as u64,
        objects,
        head: true,
    };
    store.backend().copy_target()?.update_stack(&update).await?;
    Ok((whole, written))
}

impl StackContents {
    /// The data key and the policy of the stack.
    pub(super) fn sealing(&self) -> (Option<KeyId>, SealingPolicy) {
        (self.journal.head.key_id, self.journal.head.policy)
    }
}

/// Whether the head of a copy is an earlier one of the source, of the same journal. A checkpoint, a client lock and a clean
/// close replace the head without a frame.
fn has_older_head(source: &StackContext, whole: &StackContents, there: &StackContents) -> bool {
    let (here, copy) = (&whole.journal.head, &there.journal.head);
    let point = |head: &Head| (head.base.start, head.floor, head.watermark.map(|mark| mark.slot));
    let (after, before) = (point(here), point(copy));
    let is_ahead = before.0 > after.0 || before.1 > after.1 || before.2 > after.2;
    // Otherwise the direction is unknown, and the head of the copy may be the later one.
    let is_from_here = copy.copied_from.as_deref() == Some(&*source.backend().url());
    !is_ahead && (before != after || is_from_here) && !has_same_content(here, copy)
}

fn has_same_content(source: &Head, copy: &Head) -> bool {
    let mut expected = source.clone();
    expected.copied_from.clone_from(&copy.copied_from);
    expected.tag.clone_from(&copy.tag);
    expected.has_content_of(copy)
}

/// Stores the objects that the copy doesn't have. Returns their number.
async fn add_objects(
    store: &StoreContext,
    source: &StackContext,
    whole: &StackContents,
    there: &StackContents,
) -> Result<u64> {
    let mut added = 0;
    for kind in ObjectKind::ALL {
        let of_kind = whole.objects.keys().filter(|name| name.kind() == kind);
        let new: Vec<_> = of_kind
            .filter(|name| !there.objects.contains_key(*name))
            .cloned()
            .collect();
        added += new.len() as u64;
        let (from, lineage, to) = (source.backend(), source.lineage(), store.backend());
        let copied = stream::iter(new).map(|name| copy_object(from, lineage, name, Some(to)));
        let copied: Vec<_> = copied.buffered(concurrency(kind)).try_collect().await?;
        if copied.iter().any(Option::is_none) {
            let reason = "its history was collected while it was copied; copy it again";
            return Err(Error::conflict(source.object(), reason));
        }
    }
    Ok(added)
}

fn update(
    store: &StoreContext,
    source: &StackContext,
    whole: &OpenedJournal,
    there: &OpenedJournal,
) -> CopyUpdate {
    let new = whole
        .frames
        .iter()
        .filter(|frame| frame.slot() >= there.tail.next);
    CopyUpdate {
        expected: there.head.nonce,
        head: whole.head_of_copy(source.backend().url(), source.nonce()),
        frames: new.cloned().collect(),
        lock: Acquire {
            holder: source.environment().holder("copy"),
            break_epoch: None,
            head_nonce: store.nonce(),
            fence_nonce: store.nonce(),
        },
    }
}

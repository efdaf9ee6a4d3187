//! Copies a stack with its whole history to another store, byte for byte.
//!
//! A copy writes the objects first, then the journal and the head. Then it compares both stacks by object digests and
//! by the chain, and writes the name last. Without its head the copy doesn't exist for readers, and without its name it
//! can't be found. Each step can be repeated, so copying again finishes an interrupted copy.
//!
//! Sealed values stay sealed, so no key is needed. If the key is available, head and journal are authenticated.

use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{self, HistoryPages, OpenedJournal, UncheckedHead, UncheckedName};
use crate::read::history_floor::HistoryFloor;
use crate::read::name_memory::Believed;
use crate::read::open::{self, Extent};
use crate::read::{name_memory, names, retrying};
use crate::write::naming;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use state_core::backend::{NamePointer, NameTarget, ObjectKind, ObjectName, Tail};
use state_core::sealing::StackKey;
use state_core::{Backend, Digest, Error, ErrorKind, Frame, Head, Lineage, Result, Slot, StackName};
use std::collections::BTreeMap;

/// The result of copying a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CopyReport {
    /// The name of the stack.
    #[serde(rename = "stack")]
    pub name: StackName,
    /// The lineage of the stack, the same in both stores.
    pub lineage: Lineage,
    /// Number of frames in the stack's journal.
    pub frames: u64,
    /// Number of the stack's objects: snapshots, history pages, logs, wrapped keys.
    pub objects: u64,
    /// Whether a complete copy existed before. In this case at most a missing name was written.
    pub was_there: bool,
}

/// The complete content of a stack.
struct StackContents {
    journal: OpenedJournal,
    /// Where the copied journal begins: the slot of its first frame, and the chain digest before that slot.
    before: Tail,
    /// The digest of each stored object.
    objects: BTreeMap<ObjectName, Digest>,
}

/// Copies a stack of another store to this one.
pub(crate) async fn copy_from(store: &StoreContext, source: &StackContext) -> Result<CopyReport> {
    let name = source.name().clone();
    let object = source.object();
    let there = names::resolve(store, &name).await?;
    if let Some(there) = there.and_then(|there| there.stack)
        && there.lineage() != source.lineage()
    {
        return Err(Error::conflict(
            object,
            "another stack has this name in the destination store",
        ));
    }
    let remembered = match name_memory::check(store, &name, Some(source.lineage())).await? {
        Believed::Unchanged => Some(source.lineage()),
        Believed::Changed { before } => before,
    };
    if name_memory::require_unused(store, &name, Some(source.lineage())).await? {
        return Err(Error::conflict(
            object,
            "another stack has this name in the destination store",
        ));
    }
    let copy = store.stack(name.clone(), source.lineage());
    let was_there = match UncheckedHead::read(store, source.lineage()).await {
        Ok(_) => true,
        // A stack with objects and without a head reads as `Corrupt`: an interrupted copy left the objects. A damaged
        // head is treated as missing too, and `adopt_stack` then refuses to replace it.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => false,
        Err(error) => return Err(error),
    };
    let whole = if was_there {
        read(source, None).await?
    } else {
        copy_contents(store, source).await?
    };
    // The copy is read back from the destination: it is complete only if its stored bytes equal those of the source.
    let there = read(&copy, None).await?;
    compare(&object, &whole, &there, was_there)?;
    // The name is written last, so that no reader finds a copy that failed the comparison.
    point_to(store, source, whole.journal.key.as_deref()).await?;
    // The copy's position was remembered when it was read back.
    store
        .remember_name(copy.name(), remembered, copy.lineage())
        .await?;
    Ok(CopyReport {
        name,
        lineage: source.lineage(),
        frames: whole.journal.frames.len() as u64,
        objects: whole.objects.len() as u64,
        was_there,
    })
}

/// Stores the source's objects in the destination, then its journal and head.
async fn copy_contents(store: &StoreContext, source: &StackContext) -> Result<StackContents> {
    let whole = read(source, Some(store.backend())).await?;
    let head = &whole.journal.head;
    // The first writer of the copy would finish an announced rename in the destination store, where another stack may
    // have the new name.
    if head.removed || head.moving_to.is_some() {
        let reason =
            "it was removed, or its rename is unfinished: lock it once to finish the rename, then copy it";
        return Err(Error::conflict(source.object(), reason));
    }
    let copy = whole.journal.head_of_copy(source.backend().url(), source.nonce());
    let adopted = store
        .backend()
        .copy_target()?
        .adopt_stack(&copy, whole.before, &whole.journal.frames)
        .await;
    match adopted {
        // Another copy finished first. The comparison decides whether it is equal.
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let other = UncheckedHead::read(store, source.lineage()).await;
            other.map(drop).map_err(|_| error)?;
        }
        other => other?,
    }
    Ok(whole)
}

/// Binds the name to the copy. From here on the copy can be found.
async fn point_to(store: &StoreContext, source: &StackContext, key: Option<&dyn StackKey>) -> Result<()> {
    let (name, lineage) = (source.name(), source.lineage());
    let known = UncheckedName::read(store.backend(), name).await?;
    if known.as_ref().and_then(UncheckedName::lineage) == Some(lineage) {
        return Ok(());
    }
    let before = known.map(|known| known.nonce());
    if key.is_none()
        && let Some(original) = UncheckedName::read(source.backend(), name).await?
        && original.lineage() == Some(lineage)
    {
        // Without the key this client can't sign a new pointer, so it copies the original, whose tag is valid in any
        // store.
        return original.store_in(store.backend(), before).await;
    }
    let pointer = NamePointer::new(name.clone(), NameTarget::Lineage(lineage), store.nonce());
    naming::swap_pointer(store.backend(), before, pointer, key).await
}

/// Reads the whole stack. With `to`, also writes each object to that backend. The objects are listed after the journal
/// was read, because by then each object that the journal names exists.
///
/// # Errors
/// `Conflict` if a collection or a checkpoint replaced the history meanwhile.
async fn read(stack: &StackContext, to: Option<&dyn Backend>) -> Result<StackContents> {
    // A rolled-back stack is not copied: clients of the other store couldn't notice that revisions are missing.
    let journal = open::journal(stack, Extent::Whole)
        .await?
        .require_current(stack)?;
    let head = Head::clone(&journal.head);
    let read = read_contents(stack, journal, to).await;
    if retrying::must_start_over(stack, &read, &head).await? {
        // Not repeated here: the destination has objects by now that the source no longer has.
        let reason = "its history was collected while it was copied; copy it again";
        return Err(Error::conflict(stack.object(), reason));
    }
    read
}

async fn read_contents(
    stack: &StackContext,
    journal: OpenedJournal,
    to: Option<&dyn Backend>,
) -> Result<StackContents> {
    let (from, lineage) = (stack.backend(), stack.lineage());
    let beginning = HistoryFloor::of(&journal.head).beginning;
    let pages = authenticate::pages(stack, &journal.head).await?;
    let mut objects = BTreeMap::new();
    for kind in ObjectKind::ALL {
        let mut names = from.list(lineage, kind).await?;
        // A page that the head doesn't name is no part of the stack.
        names.retain(|name| kind != ObjectKind::Update || pages.names(name));
        let copied = stream::iter(names).map(|name| copy_object(from, lineage, name, to));
        let copied: Vec<_> = copied.buffered(concurrency(kind)).try_collect().await?;
        objects.extend(copied.into_iter().flatten());
    }
    require_bases(&journal.head, &objects)?;
    require_pages(lineage, &pages, &objects)?;
    Ok(StackContents {
        journal,
        before: Tail {
            next: beginning.start,
            chain: beginning.chain,
        },
        objects,
    })
}

/// Number of objects of a kind that are copied at once. It is lower for snapshots, because each of them may be large.
const fn concurrency(kind: ObjectKind) -> usize {
    match kind {
        ObjectKind::Snapshot => 2,
        _ => 8,
    }
}

/// Reads one object and returns its name and digest; none if it was collected since it was listed. With `to`, also
/// writes the object to that backend.
async fn copy_object(
    from: &dyn Backend,
    lineage: Lineage,
    name: ObjectName,
    to: Option<&dyn Backend>,
) -> Result<Option<(ObjectName, Digest)>> {
    let bytes = match from.read(lineage, &name).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let digest = Digest::of(&bytes);
    if let Some(to) = to {
        to.copy_target()?.adopt_object(lineage, &name, bytes).await?;
    }
    Ok(Some((name, digest)))
}

/// Checks that the snapshots from which replay begins are among the objects: the journal is unusable without them.
///
/// # Errors
/// `Corrupt` if one is missing.
fn require_bases(head: &Head, objects: &BTreeMap<ObjectName, Digest>) -> Result<()> {
    let collected = head.collection.as_ref().map(|collection| &collection.base);
    let bases = [Some(&head.base), head.rev_base.as_ref(), collected]
        .into_iter()
        .flatten();
    let named = bases.filter_map(|base| base.snapshot.as_ref());
    let missing = named
        .map(|snapshot| snapshot.object())
        .find(|name| !objects.contains_key(name));
    match missing {
        Some(name) => {
            let object = format!("stack {}: {name}", head.lineage);
            Err(Error::corrupt(object, 0, "the head names it, and it is missing"))
        }
        None => Ok(()),
    }
}

/// Checks that the pages of the history are among the objects, with the digests that the head or the index names.
///
/// # Errors
/// `Corrupt` if a page is missing or has another digest.
fn require_pages(
    lineage: Lineage,
    pages: &HistoryPages,
    objects: &BTreeMap<ObjectName, Digest>,
) -> Result<()> {
    for page in pages.as_slice() {
        let name = page.object();
        let reason = match objects.get(&name) {
            Some(digest) if *digest == page.digest => continue,
            Some(_) => "its content doesn't match the digest in the head",
            None => "the head names it, and it is missing",
        };
        return Err(Error::corrupt(format!("stack {lineage}: {name}"), 0, reason));
    }
    Ok(())
}

/// Compares source and copy. Journals are compared by their chain, which covers every byte.
///
/// # Errors
/// If source and copy differ: `Conflict` if the copy existed before, because either stack may have been changed since;
/// `Corrupt` for a new copy.
fn compare(object: &str, source: &StackContents, copy: &StackContents, was_there: bool) -> Result<()> {
    let differ = |what: &str| {
        if was_there {
            return Error::conflict(object, format!("a copy exists already, and {what}"));
        }
        Error::corrupt(object, 0, format!("the copy differs from the source: {what}"))
    };
    if let Some(way) = describe_divergence(&source.journal, &copy.journal) {
        return Err(differ(&way));
    }
    let sealing = |contents: &StackContents| (contents.journal.head.key_id, contents.journal.head.policy);
    if sealing(source) != sealing(copy) {
        return Err(differ("its data key or its policy differs"));
    }
    if (source.before, &source.journal.head.base) != (copy.before, &copy.journal.head.base) {
        return Err(differ("its base or the beginning of its journal differs"));
    }
    // The copy may hold more objects: the source may have collected some since an earlier, interrupted copy.
    let missing = source
        .objects
        .iter()
        .find(|(name, digest)| copy.objects.get(*name) != Some(*digest));
    match missing {
        Some((name, _)) => Err(differ(&format!("{name} is missing or different"))),
        None => Ok(()),
    }
}

/// Describes how two journals of one stack differ; none if they are equal. Two journals with the same chain digest at a
/// slot have the same frames before it, because the chain covers all of them.
fn describe_divergence(source: &OpenedJournal, copy: &OpenedJournal) -> Option<String> {
    let (here, there) = (source.tail, copy.tail);
    if here == there {
        return None;
    }
    let chain_at = |view: &OpenedJournal, tail: Tail| {
        let end = view.tail.next == tail.next && view.tail.chain == tail.chain;
        let passes = |frame: &Frame| frame.slot().next() == tail.next && *frame.chain() == tail.chain;
        end || view.frames.iter().any(passes)
    };
    let frames = |more: Slot, less: Slot| match more.get() - less.get() {
        1 => "1 frame".to_owned(),
        count => format!("{count} frames"),
    };
    Some(if chain_at(copy, here) {
        format!(
            "the copy is ahead by {}: continue with the copy",
            frames(there.next, here.next)
        )
    } else if chain_at(source, there) {
        format!(
            "the source is ahead by {}: an existing copy can't be updated, so copy to an empty store",
            frames(here.next, there.next)
        )
    } else {
        let first_difference = first_difference(source, copy);
        format!("the two journals diverge from slot {first_difference} on: decide which stack to keep")
    })
}

/// The first slot with different frames in two journals. If none of their common slots differs, the end of the shorter
/// journal.
fn first_difference(source: &OpenedJournal, copy: &OpenedJournal) -> Slot {
    let there: BTreeMap<Slot, &Digest> = copy
        .frames
        .iter()
        .map(|frame| (frame.slot(), frame.chain()))
        .collect();
    let differs = |frame: &&Frame| {
        there
            .get(&frame.slot())
            .is_some_and(|chain| *chain != frame.chain())
    };
    let first = source.frames.iter().find(differs).map(Frame::slot);
    first.unwrap_or(source.tail.next.min(copy.tail.next))
}

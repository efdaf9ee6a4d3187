//! Copies a stack with its whole history to another store, byte for byte.
//!
//! A copy writes the objects first, then the journal and the head. Then it compares both stacks by object digests and
//! by the chain, verifies the copy, and writes the name last. Without its head the copy doesn't exist for readers, and without its name it
//! can't be found. Each step can be repeated, so copying again finishes an interrupted copy.
//!
//! A later copy to the same store adds what is new, if nothing but copies has changed the stack there: see [`update`].
//!
//! Sealed values stay sealed, so no key is needed. If the key is available, head and journal are authenticated.

mod comparison;
mod update;

use crate::compute::compute;
use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{self, HistoryPages, OpenedJournal, UncheckedHead, UncheckedName};
use crate::objects::stored_object;
use crate::read::history_floor::HistoryFloor;
use crate::read::name_memory::Believed;
use crate::read::open::{self, Extent};
use crate::read::{name_memory, names, retrying, verify};
use crate::write::naming;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use state_core::backend::{NamePointer, NameTarget, ObjectKind, ObjectName, Tail};
use state_core::sealing::StackKey;
use state_core::{Backend, Digest, Error, ErrorKind, Head, Lineage, Result, Serial, Slot, StackName};
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
    /// Whether a complete copy existed before.
    pub was_there: bool,
    /// Number of frames and objects that were written. Zero if the copy was up to date; then at most a missing name was
    /// written.
    pub written: Written,
}

/// Number of stored items that a copy wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Written {
    /// Number of frames in the stack's journal.
    pub frames: u64,
    /// Number of the stack's objects.
    pub objects: u64,
    /// Whether the head was replaced or created.
    pub head: bool,
}

/// The complete content of a stack.
struct StackContents {
    journal: OpenedJournal,
    /// Where the copied journal begins: the slot of its first frame, and the chain digest before that slot.
    before: Tail,
    /// The digest of each stored object.
    objects: BTreeMap<ObjectName, Digest>,
}

impl StackContents {
    fn size(&self) -> Written {
        Written {
            frames: self.journal.frames.len() as u64,
            objects: self.objects.len() as u64,
            head: true,
        }
    }

    /// Requires a head that another store can have.
    ///
    /// # Errors
    /// `Conflict` if the stack was removed, or if its rename is unfinished.
    fn require_complete(&self, source: &StackContext) -> Result<()> {
        let head = &self.journal.head;
        // The first writer of the copy would finish an announced rename in the destination store, where another stack may
        // have the new name.
        if head.removed || head.moving_to.is_some() {
            let reason = "it was removed, or its rename is unfinished: lock it once to finish the rename, then copy it";
            return Err(Error::conflict(source.object(), reason));
        }
        Ok(())
    }
}

/// Copies a stack of another store to this one, or brings an earlier copy up to date.
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
    let (whole, written) = if was_there {
        update::bring_up_to_date(store, source, &copy).await?
    } else {
        let whole = copy_contents(store, source).await?;
        let written = whole.size();
        (whole, written)
    };
    // The copy is read back from the destination: it is complete only if its stored bytes equal those of the source.
    let there = read(&copy, None).await?;
    comparison::compare(&object, &whole, &there, was_there)?;
    if written.head {
        // Equal bytes prove nothing about what they mean: the source may be damaged.
        verify::verify(&copy, true).await?;
    }
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
        written,
    })
}

/// Stores the source's objects in the destination, then its journal and head.
async fn copy_contents(store: &StoreContext, source: &StackContext) -> Result<StackContents> {
    let whole = read(source, Some(store.backend())).await?;
    whole.require_complete(source)?;
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
    let cut = ConsistentCut::new(&journal, &pages)?;
    // Nothing of a damaged stack should be left in the destination. From a remote store, each object is read only once.
    if to.is_some() && from.extensions().remote.is_none() {
        for name in from.list(lineage, ObjectKind::Snapshot).await? {
            match from.read(lineage, &name).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                read => require_undamaged(lineage, &name, &read?).await?,
            }
        }
    }
    let mut objects = BTreeMap::new();
    for kind in ObjectKind::ALL {
        let mut names = from.list(lineage, kind).await?;
        names.retain(|name| cut.contains(name));
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

/// The stack at the end of the journal that was read. Its writers go on while its objects are listed and copied.
struct ConsistentCut<'p> {
    pages: &'p HistoryPages,
    /// The serial of the last revision.
    serial: Serial,
    /// The slot after the last frame.
    next: Slot,
}

impl<'p> ConsistentCut<'p> {
    fn new(journal: &OpenedJournal, pages: &'p HistoryPages) -> Result<Self> {
        let mut serial = pages.as_slice().last().map_or(Serial::ZERO, |page| {
            Serial(page.first.get().saturating_add(page.revisions).saturating_sub(1))
        });
        for frame in journal.frames().each() {
            if let Some(document) = authenticate::document(journal.head.lineage, frame)? {
                serial = serial.max(document.revision.serial());
            }
        }
        Ok(Self {
            pages,
            serial,
            next: journal.tail.next,
        })
    }

    /// Whether an object may belong to the cut. An object of a later revision must not be copied: the next revision of the copy
    /// has the same serial, and couldn't store its own log and outputs.
    fn contains(&self, name: &ObjectName) -> bool {
        match name {
            ObjectName::Log(serial) | ObjectName::Outputs(serial) => *serial <= self.serial,
            ObjectName::Snapshot { slot, .. } => *slot <= self.next,
            // A page that the head doesn't name is no part of the stack.
            ObjectName::HistoryPage { .. } | ObjectName::HistoryIndex { .. } => self.pages.names(name),
            _ => true,
        }
    }
}

/// The length in bytes up to which an object is checked without another thread.
const SMALL: usize = 4 << 10;

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
        require_undamaged(lineage, &name, &bytes).await?;
        to.copy_target()?.adopt_object(lineage, &name, bytes).await?;
    }
    Ok(Some((name, digest)))
}

/// Checks an object against its name: damage isn't copied. A later copy would find the damaged object in its target.
///
/// # Errors
/// `Corrupt` if the object can't be what was written under this name.
async fn require_undamaged(lineage: Lineage, name: &ObjectName, bytes: &Bytes) -> Result<()> {
    // A thread takes longer to answer than the check of a small object, and the reads beside it would wait for its turn.
    let fault = if bytes.len() <= SMALL {
        stored_object::fault(name, bytes)
    } else {
        let (checked, stored) = (name.clone(), bytes.clone());
        compute(move || stored_object::fault(&checked, &stored)).await?
    };
    match fault {
        Some(reason) => Err(Error::corrupt(format!("stack {lineage}: {name}"), 0, reason)),
        None => Ok(()),
    }
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
    let named = bases.flat_map(|base| base.snapshots());
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

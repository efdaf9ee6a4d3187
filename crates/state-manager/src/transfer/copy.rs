//! A stack with its whole history goes to another store, byte for byte.
//!
//! Objects first, then the journal and the head, then the name: before the head the stack isn't there, and before the
//! name nobody finds it. Each step may be made again, so a copy that was cut short is finished by making it again. What
//! is sealed stays sealed: it takes no key. Afterwards the two are compared, by digests and by the chain.

use crate::context::{StackContext, StoreContext};
use crate::read::history_floor::{HistoryFloor, whole_journal};
use crate::read::names;
use crate::write::naming;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use state_core::backend::{JournalView, NamePointer, NameTarget, ObjectKind, ObjectName, Tail};
use state_core::{Backend, Digest, Error, ErrorKind, Frame, Head, Lineage, Result, Slot, StackName};
use std::collections::BTreeMap;

/// What a copy brought over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Copied {
    /// The stack.
    #[serde(rename = "stack")]
    pub name: StackName,
    /// Its identity, here and there.
    pub lineage: Lineage,
    /// How many frames its journal has.
    pub frames: u64,
    /// How many objects it has beside: snapshots, documents, logs, wrapped keys.
    pub objects: u64,
    /// Whether it was there already, whole.
    pub was_there: bool,
}

/// What a stack consists of.
struct Whole {
    view: JournalView,
    before: Tail,
    objects: BTreeMap<ObjectName, Digest>,
}

/// Copies a stack of another store to this one.
pub(crate) async fn copy_from(store: &StoreContext, source: &StackContext) -> Result<Copied> {
    let name = source.name().clone();
    let object = source.object();
    if let Some(there) = names::find(store, &name).await?
        && there.lineage() != source.lineage()
    {
        return Err(Error::conflict(
            object,
            "another stack has this name in the store that it would go to",
        ));
    }
    let (from, to) = (source.backend(), store.backend());
    let was_there = match to.read_head(source.lineage()).await {
        Ok(_) => true,
        // Without a head it was begun and never finished.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => false,
        Err(error) => return Err(error),
    };
    let whole = if was_there {
        read(from, source.lineage(), None).await?
    } else {
        take_in(store, source).await?
    };
    let there = read(to, source.lineage(), None).await?;
    compare(&object, &whole, &there, was_there)?;
    point_to(store, &name, source.lineage()).await?;
    Ok(Copied {
        name,
        lineage: source.lineage(),
        frames: whole.view.frames.len() as u64,
        objects: whole.objects.len() as u64,
        was_there,
    })
}

/// Objects, journal, head.
async fn take_in(store: &StoreContext, source: &StackContext) -> Result<Whole> {
    let whole = read(source.backend(), source.lineage(), Some(store.backend())).await?;
    let head = &whole.view.head;
    if head.removed || head.moving_to.is_some() {
        let reason = "it is being renamed, or was removed: lock it once, then copy it";
        return Err(Error::conflict(source.object(), reason));
    }
    let mut copy = head.clone();
    copy.copied_from = Some(source.backend().url());
    // The other store may keep its journal in another way.
    copy.compaction = None;
    copy.nonce = source.nonce();
    let adopted = store
        .backend()
        .copy_target()?
        .adopt_stack(&copy, whole.before, &whole.view.frames)
        .await;
    match adopted {
        // Another copy was quicker: the comparison tells whether it is the same.
        Err(error) if error.kind() == ErrorKind::Conflict => {
            store
                .backend()
                .read_head(source.lineage())
                .await
                .map_err(|_| error)?;
        }
        other => other?,
    }
    Ok(whole)
}

/// The last step: from here on it is found.
async fn point_to(store: &StoreContext, name: &StackName, lineage: Lineage) -> Result<()> {
    let known = store.backend().read_name(name).await?;
    if known.as_ref().and_then(NamePointer::lineage) == Some(lineage) {
        return Ok(());
    }
    let target = NameTarget::Lineage(lineage);
    naming::point(store.backend(), known, name, target, store.nonce()).await
}

/// All of a stack; each object goes on to another store as it is read, if one is given. Objects come after the journal
/// that names them.
async fn read(from: &dyn Backend, lineage: Lineage, to: Option<&dyn Backend>) -> Result<Whole> {
    let view = whole_journal(from, lineage).await?;
    let beginning = HistoryFloor::of(&view.head).beginning(lineage);
    let mut objects = BTreeMap::new();
    for kind in ObjectKind::ALL {
        let names = from.list(lineage, kind).await?;
        let carried = stream::iter(names).map(|name| carry(from, lineage, name, to));
        let carried: Vec<_> = carried.buffered(ahead(kind)).try_collect().await?;
        objects.extend(carried.into_iter().flatten());
    }
    require_bases(&view.head, &objects)?;
    Ok(Whole {
        view,
        before: Tail {
            next: beginning.start,
            chain: beginning.chain,
        },
        objects,
    })
}

/// How many objects of a kind are under way at once. A snapshot may fill the memory.
const fn ahead(kind: ObjectKind) -> usize {
    match kind {
        ObjectKind::Snapshot => 2,
        _ => 8,
    }
}

/// One object and its digest; none if it was collected since it was listed.
async fn carry(
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

/// The snapshots from which replay begins must be among the objects: without them the journal leads nowhere.
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

/// The chain covers every byte of the journal. One that was there before may have gone on, here or there.
fn compare(object: &str, source: &Whole, copy: &Whole, was_there: bool) -> Result<()> {
    let differ = |what: &str| {
        if was_there {
            return Error::conflict(object, format!("it is there already, and {what}"));
        }
        Error::corrupt(object, 0, format!("{what} after it was copied"))
    };
    if let Some(way) = parted(&source.view, &copy.view) {
        return Err(differ(&way));
    }
    if (source.before, &source.view.head.base) != (copy.before, &copy.view.head.base) {
        return Err(differ("its journal begins elsewhere, or its base is another one"));
    }
    let missing = source
        .objects
        .iter()
        .find(|(name, digest)| copy.objects.get(*name) != Some(*digest));
    match missing {
        Some((name, _)) => Err(differ(&format!("{name} is missing or another one"))),
        None => Ok(()),
    }
}

/// How two journals of one stack parted; none if they are the same. Each frame's chain covers all before it.
fn parted(source: &JournalView, copy: &JournalView) -> Option<String> {
    let (here, there) = (source.tail, copy.tail);
    if here == there {
        return None;
    }
    let chain_at = |view: &JournalView, tail: Tail| {
        let end = view.tail.next == tail.next && view.tail.chain == tail.chain;
        let passes = |frame: &Frame| frame.slot().next() == tail.next && *frame.chain() == tail.chain;
        end || view.frames.iter().any(passes)
    };
    let frames = |more: Slot, less: Slot| more.get() - less.get();
    Some(if chain_at(copy, here) {
        format!(
            "it has gone on there, by {} frames: go on with that one",
            frames(there.next, here.next)
        )
    } else if chain_at(source, there) {
        format!(
            "the source has gone on since, by {} frames: a copy isn't brought up to date, so copy it to an empty store",
            frames(here.next, there.next)
        )
    } else {
        let shared = shared(source, copy);
        format!("the two went different ways from slot {shared} on: agree on one")
    })
}

/// The first slot in which two journals differ.
fn shared(source: &JournalView, copy: &JournalView) -> Slot {
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

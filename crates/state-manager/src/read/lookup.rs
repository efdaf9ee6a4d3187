//! Looks a stack up by name, and reads it beside the lookup, with as few dependent requests as possible.
//!
//! ```text
//!  name known:    pointer ┐                              name new:  pointer ─► head ─┬─► data key
//!                 head ───┼─► data key                                               └─► journal and snapshot,
//!                         └─► journal and snapshot,                                      or lease
//!                             or lease
//! ```
//! A client that remembers the stack of a name reads the pointer and everything else at the same time. The pointer is
//! checked before anything that was read is compared, remembered or returned.
//!
//! This is the way of the common case: one stack, whose pointer and head agree. Everything else (renames, removals, names
//! that vanished, damage, races with writers) is decided by `names` and `open`, which read again whatever they need.

use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{self, Authenticated, OpenedHead, UncheckedHead, UncheckedName};
use crate::keys::trust;
use crate::known_stacks::StackPin;
use crate::read::name_memory::{self, Believed};
use crate::read::names::Pointer;
use crate::read::stored::UncheckedJournal;
use crate::read::view::View;
use crate::read::{names, open, stack_list, view};
use futures_util::future::{Either, join, join3, select};
use state_core::{Error, ErrorKind, Head, Lineage, Result, StackName};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The stack that a caller looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// The stack with this name.
    Named(&'a StackName),
    /// The only stack of the store.
    Only,
}

/// The result of a lookup.
#[derive(Clone, Debug)]
pub enum Lookup<T> {
    /// The store has no such stack, or no stack at all.
    None,
    /// The stack that the caller looked for.
    Found(T),
    /// The caller named no stack, and the store has several, with these names.
    Several(Vec<StackName>),
}

impl<T> Lookup<T> {
    /// The same result with another value for the stack.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Self::None => Lookup::None,
            Self::Found(found) => Lookup::Found(change(found)),
            Self::Several(names) => Lookup::Several(names),
        }
    }
}

/// The result of reading a stack and its pointer at the same time.
enum AtOnce<T> {
    /// The pointer leads to this stack.
    Found(T),
    /// The wanted name has no pointer.
    NoPointer,
    /// The general way must decide.
    Undecided,
}

/// A stack that was found for a caller that locks it.
pub(crate) struct FoundStack {
    pub(crate) stack: StackContext,
    /// The head with which the name was checked, and the time of the client's clock before the head was read. None if the
    /// stack was found in the general way.
    pub(crate) head: Option<(Authenticated<Head>, Duration)>,
}

/// Looks a stack up and opens it. For a caller that `restores` an earlier revision next, also reads the lease, which the
/// lock needs, and the latest page of the history.
pub(crate) async fn view(store: &StoreContext, wanted: Wanted<'_>, restores: bool) -> Result<Lookup<View>> {
    remembering(store, find_view(store, wanted, restores).await).await
}

/// Remembers the keys that a lookup opened before it failed.
async fn remembering<T>(store: &StoreContext, found: Result<T>) -> Result<T> {
    if found.is_err() {
        for lineage in store.opened_stacks() {
            Box::pin(trust::remember_opened(store, lineage)).await;
        }
    }
    found
}

async fn find_view(store: &StoreContext, wanted: Wanted<'_>, restores: bool) -> Result<Lookup<View>> {
    let pointer = match Box::pin(view_at_once(store, wanted, restores)).await {
        Ok(AtOnce::Found(view)) => return Ok(Lookup::Found(view)),
        Err(error) if is_final(&error) => return Err(error),
        Ok(AtOnce::NoPointer) => Pointer::Missing,
        Ok(AtOnce::Undecided) | Err(_) => Pointer::Unread,
    };
    Ok(match general(store, wanted, pointer).await? {
        Lookup::Found(stack) => Lookup::Found(view::tip(&stack).await?),
        Lookup::None => Lookup::None,
        Lookup::Several(names) => Lookup::Several(names),
    })
}

/// Looks a stack up that the caller is about to lock.
pub(crate) async fn stack(store: &StoreContext, wanted: Wanted<'_>) -> Result<Lookup<FoundStack>> {
    remembering(store, find_stack(store, wanted).await).await
}

async fn find_stack(store: &StoreContext, wanted: Wanted<'_>) -> Result<Lookup<FoundStack>> {
    let pointer = match Box::pin(stack_at_once(store, wanted)).await {
        Ok(AtOnce::Found(found)) => return Ok(Lookup::Found(found)),
        Err(error) if is_final(&error) => return Err(error),
        Ok(AtOnce::NoPointer) => Pointer::Missing,
        Ok(AtOnce::Undecided) | Err(_) => Pointer::Unread,
    };
    let found = general(store, wanted, pointer).await?;
    Ok(found.map(|stack| FoundStack { stack, head: None }))
}

/// Whether another way of reading would fail in the same way, after the store was asked as patiently again.
fn is_final(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied)
}

/// Looks a stack up by the pointers and heads of the store alone. `pointer` says what is known
/// about the pointer of the wanted name.
async fn general(store: &StoreContext, wanted: Wanted<'_>, pointer: Pointer) -> Result<Lookup<StackContext>> {
    if let Wanted::Named(name) = wanted {
        let found = names::find_after(store, name, pointer).await?;
        return Ok(found.map_or(Lookup::None, Lookup::Found));
    }
    let mut names = stack_list::names(store).await?;
    names.sort();
    match &*names {
        [] => Ok(Lookup::None),
        [only] => Ok(Lookup::Found(names::require(store, only).await?)),
        _ => Ok(Lookup::Several(names)),
    }
}

/// A head that was read beside the pointer of its stack's name.
struct FetchedHead {
    /// The pin from before the read.
    pin: Option<Box<StackPin>>,
    stack: StackContext,
    head: UncheckedHead,
    read_at: Duration,
}

impl FetchedHead {
    async fn read(store: &StoreContext, lineage: Lineage) -> Result<Self> {
        let read_at = store.environment.clock.elapsed();
        let pin = trust::pin(store, lineage).await?;
        let head = UncheckedHead::read(store, lineage).await?;
        Ok(Self {
            pin,
            stack: head.stack(store),
            head,
            read_at,
        })
    }
}

/// As [`view()`], for a stack whose pointer and head agree. After most errors, the general way decides.
async fn view_at_once(store: &StoreContext, wanted: Wanted<'_>, restores: bool) -> Result<AtOnce<View>> {
    let fetch = async |lineage| {
        let fetched = FetchedHead::read(store, lineage).await?;
        let journal = UncheckedJournal::of(store, &fetched.head);
        let lease = async {
            if restores {
                store.backend().prepare_acquire(lineage).await;
            }
        };
        let (journal, (), ()) = join3(journal, fetched.head.prepare(&fetched.stack), lease).await;
        Ok((fetched, journal?))
    };
    let (pointer, (fetched, journal)) = match beside_pointer(store, wanted, fetch).await? {
        AtOnce::Found(found) => found,
        AtOnce::NoPointer => return Ok(AtOnce::NoPointer),
        AtOnce::Undecided => return Ok(AtOnce::Undecided),
    };
    let FetchedHead {
        pin, stack, read_at, ..
    } = fetched;
    let journal = journal.open(&stack).await?;
    if !accepts(&stack, wanted, pointer, &journal.opened_head()).await? {
        return Ok(AtOnce::Undecided);
    }
    // The replay may wait for the snapshots to which the frames reset the state, so the page is read at the same time.
    let page = async {
        let latest = journal.head.history.pages.last().filter(|_| restores)?;
        let pages = authenticate::latest_pages(&journal.head);
        // If it can't be read, the query that needs the page repeats the read, and reports the error.
        authenticate::encoded_page(&stack, &pages, latest).await.ok()
    };
    let (accepted, page) = join(Box::pin(open::accept(&stack, &journal, pin.as_deref())), page).await;
    let (tip, standing) = accepted?;
    if let Some(page) = page {
        tip.keep_page(page);
    }
    Ok(AtOnce::Found(View::new(stack, Arc::new(tip), standing, read_at)))
}

/// As [`stack()`], for a stack whose pointer and head agree. After most errors, the general way decides.
async fn stack_at_once(store: &StoreContext, wanted: Wanted<'_>) -> Result<AtOnce<FoundStack>> {
    let fetch = async |lineage| {
        let fetched = FetchedHead::read(store, lineage).await?;
        let lease = store.backend().prepare_acquire(lineage);
        join(lease, fetched.head.prepare(&fetched.stack)).await;
        Ok(fetched)
    };
    let (pointer, fetched) = match beside_pointer(store, wanted, fetch).await? {
        AtOnce::Found(found) => found,
        AtOnce::NoPointer => return Ok(AtOnce::NoPointer),
        AtOnce::Undecided => return Ok(AtOnce::Undecided),
    };
    let FetchedHead {
        stack, head, read_at, ..
    } = fetched;
    let opened = authenticate::open_head(&stack, head.into_untrusted()).await?;
    if !accepts(&stack, wanted, pointer, &opened).await? {
        return Ok(AtOnce::Undecided);
    }
    Ok(AtOnce::Found(FoundStack {
        stack,
        head: Some((opened.head, read_at)),
    }))
}

/// Reads the pointer of the wanted name, and fetches the stack to which it leads: at the same time if this client
/// remembers the stack, else one after the other.
async fn beside_pointer<T>(
    store: &StoreContext,
    wanted: Wanted<'_>,
    fetch: impl AsyncFn(Lineage) -> Result<T>,
) -> Result<AtOnce<(UncheckedName, T)>> {
    let without_pointer = match wanted {
        Wanted::Named(_) => AtOnce::NoPointer,
        Wanted::Only => AtOnce::Undecided,
    };
    let remembered = remembered(store, wanted).await?;
    let early = async {
        match remembered {
            Some(lineage) => Some(fetch(lineage).await),
            None => None,
        }
    };
    // An error of the pointer ends the lookup at once: the other reads would only repeat attempts that failed.
    let (pointer, early) = match select(pin!(pointer(store, wanted)), pin!(early)).await {
        Either::Left((pointer, early)) => match pointer? {
            None => return Ok(without_pointer),
            Some(pointer) => (Some(pointer), early.await),
        },
        Either::Right((early, pointer)) => (pointer.await?, early),
    };
    let Some(pointer) = pointer else {
        return Ok(without_pointer);
    };
    let Some(lineage) = pointer.lineage() else {
        return Ok(AtOnce::Undecided);
    };
    let fetched = match early {
        Some(fetched) if remembered == Some(lineage) => fetched?,
        _ => fetch(lineage).await?,
    };
    Ok(AtOnce::Found((pointer, fetched)))
}

/// Whether the pointer leads to the opened stack, and whether this client believes it. A new name is remembered when the
/// stack is opened: a name from a head that turns out to be an older one must not replace the remembered name.
async fn accepts(
    stack: &StackContext,
    wanted: Wanted<'_>,
    pointer: UncheckedName,
    opened: &OpenedHead,
) -> Result<bool> {
    let Some(pointer) = authenticate::leading_to(opened, pointer)? else {
        return Ok(false);
    };
    let name = match wanted {
        Wanted::Named(name) => name,
        Wanted::Only => &pointer.name,
    };
    if let Believed::Changed { before } =
        name_memory::check(stack.store(), name, Some(stack.lineage())).await?
    {
        stack.note_new_name(name.clone(), before);
    }
    Ok(true)
}

/// The stack that this client remembers, to which the name probably leads.
async fn remembered(store: &StoreContext, wanted: Wanted<'_>) -> Result<Option<Lineage>> {
    let Some(known) = store.known_stacks() else {
        return Ok(None);
    };
    match wanted {
        Wanted::Named(name) => known.named(name).await,
        Wanted::Only => match &*known.names().await? {
            [only] => known.named(only).await,
            _ => Ok(None),
        },
    }
}

/// The pointer of the wanted name; none if there is none, or if a list of the names isn't enough to choose the stack.
async fn pointer(store: &StoreContext, wanted: Wanted<'_>) -> Result<Option<UncheckedName>> {
    if let Wanted::Named(name) = wanted {
        return UncheckedName::read(store.backend(), name).await;
    }
    let mut listed = UncheckedName::list(store.backend()).await?;
    let Some(only) = listed.pop().filter(|_| listed.is_empty()) else {
        return Ok(None);
    };
    if let Some(known) = store.known_stacks() {
        // A name that this client remembers and that isn't listed must be explained.
        let names = known.names().await?;
        if names.iter().any(|name| name.folded() != only.name().folded()) {
            return Ok(None);
        }
    }
    Ok(Some(only))
}

//! The list of a store's stacks: their names, and a summary of each.
//!
//! A stack costs a list two requests, however long its history is: the pointer of its name, and its head. A head that
//! closed its journal describes the state ([`ClosedState`](state_core::head::ClosedState)), and a head that this client
//! authenticated before is known without its data key. Any other stack is opened as a query opens it.

use crate::client_lock;
use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{self, Authenticated, UncheckedHead, UncheckedName};
use crate::keys::position::{AuthenticatedEnd, StackPosition};
use crate::keys::proof::Proof;
use crate::keys::trust;
use crate::known_stacks::StackPin;
use crate::read::name_memory::Outdated;
use crate::read::{name_memory, names, view};
use crate::standing::Standing;
use futures_util::future::join;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use state_core::backend::{ClientLock, Holder, LockStatus, Tail};
use state_core::{Error, ErrorKind, Head, Invalidation, Lineage, Result, RevisionId, StackName, Timestamp};

/// The number of stacks that a list reads at a time. Each one is a whole state in memory.
const CONCURRENT_STACKS: usize = 16;

/// The number of heads that a list reads at a time. A head is a small document.
const CONCURRENT_HEADS: usize = 64;

/// The summary of a stack in a list of stacks.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StackSummary {
    /// Name of the stack.
    pub name: StackName,
    /// Lineage of the stack.
    pub lineage: Lineage,
    /// Number of resources in the state.
    pub entries: usize,
    /// Current revision; none when nothing was committed.
    #[serde(rename = "revision")]
    pub current: Option<RevisionId>,
    /// Time of the last change.
    pub updated: Option<Timestamp>,
    /// Holder of the writer lock.
    pub holder: Option<Holder>,
    /// Client lock of the stack; none if there is none or it has expired.
    pub client_lock: Option<ClientLock>,
    /// Whether an update is open.
    pub update_open: bool,
    /// Number of pending operations plus pending moves of resources to this stack.
    pub pending: usize,
    /// Whether the state is known to match the real resources.
    pub reliable: bool,
    /// The mark of an update that left the whole state unreliable, with its time; none if there is no such mark.
    pub invalidated: Option<Invalidation>,
}

/// A stack of the list whose name was authenticated.
enum ListedStack {
    /// Its head describes the state.
    Closed(Box<StackSummary>),
    /// It must be opened.
    Unread(StackContext),
}

impl ListedStack {
    fn name(&self) -> &StackName {
        match self {
            Self::Closed(summary) => &summary.name,
            Self::Unread(stack) => stack.name(),
        }
    }

    fn lineage(&self) -> Lineage {
        match self {
            Self::Closed(summary) => summary.lineage,
            Self::Unread(stack) => stack.lineage(),
        }
    }
}

/// All stacks, sorted by name. At least one of them must meet the caller's expectations, which name a single stack.
pub(crate) async fn summaries(store: &StoreContext) -> Result<Vec<StackSummary>> {
    name_memory::repeated(async || Box::pin(summaries_once(store)).await).await
}

/// As [`summaries`], from one list of the names.
async fn summaries_once(store: &StoreContext) -> Result<Result<Vec<StackSummary>, Outdated>> {
    // The caller's expectations apply to one stack, so the others' names are looked up without them.
    let listed = store.listing();
    // Whether a stack meets expectations is decided by opening it.
    let may_skip_reading = store.expectations.is_default();
    let pointers = UncheckedName::list(store.backend()).await?.into_iter();
    let stacks = pointers.map(|pointer| Box::pin(stack_at(&listed, pointer, may_skip_reading)));
    let stacks = stream::iter(stacks.collect::<Vec<_>>()).buffered(CONCURRENT_HEADS);
    let stacks: Vec<Option<ListedStack>> = stacks.try_collect().await?;
    let stacks: Vec<ListedStack> = stacks.into_iter().flatten().collect();
    // A name that this client doesn't know yet isn't remembered: the user only saw it in a list.
    for stack in &stacks {
        name_memory::check(&listed, stack.name(), Some(stack.lineage())).await?;
    }
    let names: Vec<_> = stacks.iter().map(|stack| stack.name().clone()).collect();
    if let Err(outdated) = name_memory::check_absent(store, &names).await? {
        return Ok(Err(outdated));
    }
    let mut summaries = Vec::new();
    let mut unread = Vec::new();
    for stack in stacks {
        match stack {
            ListedStack::Closed(summary) => summaries.push(*summary),
            ListedStack::Unread(stack) => unread.push(stack),
        }
    }
    summaries.extend(read_summaries(store, unread).await?);
    summaries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Ok(summaries))
}

/// The stack to which a pointer leads; none if it has another name or was removed.
async fn stack_at(
    store: &StoreContext,
    pointer: UncheckedName,
    may_skip_reading: bool,
) -> Result<Option<ListedStack>> {
    let pin = trust::pin(store, pointer.subject()).await?;
    let name = pointer.name().clone();
    let head = match UncheckedHead::read(store, pointer.subject()).await {
        Ok(head) => Some(head),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let known = head.as_ref().zip(pin.as_deref());
    let named = match known.and_then(|(head, pin)| authenticate::named_by_known(store, &pointer, head, pin)) {
        Some(known) => Some(known),
        None => names::resolve_from(store, &name, Some(pointer), head).await?,
    };
    let Some((stack, head)) = named.and_then(|named| named.stack.zip(named.head)) else {
        return Ok(None);
    };
    // During a rename two pointers lead to the stack, which still has one name.
    if stack.name().folded() != name.folded() {
        return Ok(None);
    }
    let closed = match may_skip_reading {
        true => closed_summary(&stack, &head, pin.as_deref()).await,
        false => None,
    };
    Ok(Some(closed.map_or(ListedStack::Unread(stack), |summary| {
        ListedStack::Closed(Box::new(summary))
    })))
}

/// The summary of the stack with this name; none if it doesn't exist. Damage of other stacks doesn't matter.
pub(crate) async fn summary(store: &StoreContext, name: &StackName) -> Result<Option<StackSummary>> {
    match Box::pin(names::find(store, name)).await? {
        Some(stack) => Box::pin(read_summary(&stack)).await.map(Some),
        None => Ok(None),
    }
}

/// Reads the stacks that must be opened.
async fn read_summaries(store: &StoreContext, stacks: Vec<StackContext>) -> Result<Vec<StackSummary>> {
    let summarized = stacks.into_iter().map(|stack| async move {
        // Without expectations, the stack that was looked up is the one to read: its key is unwrapped already.
        let expected = match store.expectations.is_default() {
            true => stack.clone(),
            false => store.stack(stack.name().clone(), stack.lineage()),
        };
        let summary = Box::pin(read_summary(&expected)).await;
        (stack, expected, summary)
    });
    let mut summarized = stream::iter(summarized.collect::<Vec<_>>()).buffered(CONCURRENT_STACKS);
    let mut summaries = Vec::new();
    let mut others = Vec::new();
    while let Some((stack, expected, summary)) = summarized.next().await {
        match summary {
            Err(error @ (Error::Conflict { .. } | Error::Distrusted { .. }))
                if !expected.expectations().is_default() =>
            {
                others.push((stack, error));
            }
            read => summaries.push(read?),
        }
    }
    if summaries.is_empty()
        && let Some((_, error)) = others.pop()
    {
        return Err(error);
    }
    // These stacks are shown beside the expected one.
    for (stack, _) in others {
        summaries.push(read_summary(&stack).await?);
    }
    Ok(summaries)
}

/// The names of all stacks, as their heads spell them.
pub(crate) async fn names(store: &StoreContext) -> Result<Vec<StackName>> {
    name_memory::repeated(async || Box::pin(names_once(store)).await).await
}

/// As [`names()`], from one list of the pointers.
async fn names_once(store: &StoreContext) -> Result<Result<Vec<StackName>, Outdated>> {
    // The pointers aren't authenticated: that would open the key of every stack, and only the stack that the caller
    // chooses matters.
    let pointers = UncheckedName::list(store.backend()).await?.into_iter();
    let heads = pointers.map(|pointer| async move {
        let head = Box::pin(names::bound(store, &pointer)).await?;
        let named = head.filter(|head| head.name().folded() == pointer.name().folded());
        Ok::<_, Error>(named.map(|head| head.name().clone()))
    });
    let heads = stream::iter(heads.collect::<Vec<_>>()).buffered(CONCURRENT_HEADS);
    let names: Vec<Option<StackName>> = heads.try_collect().await?;
    let names: Vec<StackName> = names.into_iter().flatten().collect();
    let checked = name_memory::check_absent(store, &names).await?;
    Ok(checked.map(|()| names))
}

/// The names that lead to a stack by their pointers alone, sorted. Nothing is authenticated.
pub(crate) async fn pointer_names(store: &StoreContext) -> Result<Vec<StackName>> {
    let pointers = UncheckedName::list(store.backend()).await?;
    let leading = pointers.iter().filter(|pointer| pointer.lineage().is_some());
    Ok(leading.map(|pointer| pointer.name().clone()).collect())
}

/// The summary from the head alone, for a stack whose last session closed the journal. `pin` is from before the head was
/// read. None if the head doesn't describe the state, or if this client has to compare the journal with its pin: then
/// the stack must be read.
///
/// Nothing is lost by not reading the journal: it ends at the watermark, which the head's tag covers like the state. A
/// stack of which this client knows a later end, another end at the same slot, or another policy is read.
async fn closed_summary(
    stack: &StackContext,
    head: &Authenticated<Head>,
    pin: Option<&StackPin>,
) -> Option<StackSummary> {
    let (watermark, state) = head.closed_at()?;
    if head.proof() == Proof::Unchecked {
        return None;
    }
    let tail = Tail {
        next: watermark.slot.next(),
        chain: watermark.chain,
    };
    let revision = state.revision.clone();
    let mut position = StackPosition::at(head.proof(), head, revision.serial(), Some(revision), tail);
    if let Proof::Mac(_) = head.proof() {
        // The head's tag covers the watermark and not the epoch: a forged epoch must not get into the pin.
        position.authenticated = Some(AuthenticatedEnd { epoch: None, tail });
    }
    match pin {
        // As for a stack that is read for the first time.
        None => trust::remember_position(stack, &position).await,
        Some(pin) if position.is_pinned_as(pin) => {}
        Some(_) => return None,
    }
    if let Some(observer) = stack.observer() {
        let standing = Standing {
            authenticity: head.proof().into(),
            regression: None,
        };
        observer.opened(stack.name(), &standing);
    }
    let now = stack.now();
    let client_lock = head.client_lock.clone();
    Some(StackSummary {
        name: stack.name().clone(),
        lineage: stack.lineage(),
        entries: usize::try_from(state.resources).unwrap_or(usize::MAX),
        current: Some(state.revision.clone()),
        updated: Some(state.updated.clone()),
        holder: None,
        client_lock: client_lock.filter(|lock| client_lock::holds(lock, &now)),
        update_open: false,
        pending: 0,
        reliable: true,
        invalidated: None,
    })
}

async fn read_summary(stack: &StackContext) -> Result<StackSummary> {
    let status = stack.backend().lock_status(stack.lineage());
    let (tip, status) = join(view::tip(stack), status).await;
    let (tip, LockStatus { holder, .. }) = (tip?, status?);
    let now = stack.now();
    let client_lock = tip.head.client_lock.clone();
    Ok(StackSummary {
        name: stack.name().clone(),
        lineage: stack.lineage(),
        entries: tip.state.len(),
        current: tip.state.current().cloned(),
        updated: tip.moment().cloned(),
        holder,
        client_lock: client_lock.filter(|lock| client_lock::holds(lock, &now)),
        update_open: tip.update_open(),
        pending: tip.state.pending().count() + tip.state.incoming().count(),
        reliable: tip.is_reliable(),
        invalidated: tip.state.invalidated().cloned(),
    })
}

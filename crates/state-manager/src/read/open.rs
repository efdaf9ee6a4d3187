//! Opens a stack: the only way from stored bytes to a head or a journal, for readers and writers.
//!
//! ```text
//!  read ─► authenticate ─► expectations ─► compare with the memory ─► remember ─► observer
//!          tags, pinned     key, revision   serial, epoch, end,         MAC or
//!          key and policy                   chain of the journal        plain only
//! ```
//! A function outside of `read` can't skip a step, because the readers of the module `stored` are private to `read`.
//!
//! The futures of the longer steps are boxed: every operation on a stack contains one of these functions, and the stacks
//! of an embedder's threads may be small.

use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{self, Authenticated, OpenedHead, OpenedJournal, UncheckedHead};
use crate::keys::proof::Proof;
use crate::keys::trust::{self, PinComparison, StateEnd};
use crate::known_stacks::StackPin;
use crate::read::descent;
use crate::read::forks;
use crate::read::history_floor::{ATTEMPTS, whole_journal};
use crate::read::sealing_changes;
use crate::read::stored::{self, UncheckedJournal};
use crate::read::tip::Tip;
use crate::standing::Standing;
use state_core::{Error, Head, Lineage, Result, Slot};

/// The part of a journal that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// From the head's base on.
    Live,
    /// From the beginning of the remaining history on.
    Whole,
}

/// Head and journal of a stack, and how far this client may rely on them.
#[derive(Debug)]
pub(crate) struct OpenedStack {
    pub(crate) journal: OpenedJournal,
    pub(crate) standing: Standing,
}

impl OpenedStack {
    /// Requires that the stack wasn't rolled back, for a caller that writes what it read: to another store, or under
    /// the stack's key.
    ///
    /// # Errors
    /// `Distrusted` if the stack was rolled back.
    pub(crate) fn require_current(self, stack: &StackContext) -> Result<OpenedJournal> {
        match self.standing.regression {
            None => Ok(self.journal),
            Some(regression) => Err(trust::distrusted(stack, regression)),
        }
    }
}

/// Opens a stack without replaying its journal.
///
/// # Errors
/// `Sealed` and `Distrusted` when the stack isn't authentic; `Distrusted` and `Conflict` when it doesn't meet the
/// caller's expectations.
pub(crate) async fn journal(stack: &StackContext, extent: Extent) -> Result<OpenedStack> {
    let mut attempts = PinnedRead::begin(stack.store(), stack.lineage()).await?;
    loop {
        let opened = Box::pin(journal_after(stack, extent, attempts.pin())).await;
        if !attempts.must_repeat(stack.store(), &opened).await? {
            return opened;
        }
    }
}

async fn journal_after(stack: &StackContext, extent: Extent, pin: Option<&StackPin>) -> Result<OpenedStack> {
    let journal = match extent {
        Extent::Live => stored::journal(stack, None).await?,
        Extent::Whole => whole_journal(stack).await?,
    };
    descent::require(stack, &journal).await?;
    let end = unpinned_end(stack, &journal, pin).await;
    let standing = Box::pin(compare(stack, &journal, end.as_ref(), None, pin)).await?;
    Ok(OpenedStack { journal, standing })
}

/// Opens a stack and returns its head, for a question that the head alone answers.
///
/// # Errors
/// As [`journal`].
pub(crate) async fn head(stack: &StackContext) -> Result<Authenticated<Head>> {
    Ok(journal(stack, Extent::Live).await?.journal.head)
}

/// Opens a stack and replays its journal.
///
/// # Errors
/// As [`journal`], and `Corrupt` when the state can't be replayed.
pub(crate) async fn tip(stack: &StackContext) -> Result<(Tip, Standing)> {
    let mut attempts = PinnedRead::begin(stack.store(), stack.lineage()).await?;
    loop {
        let opened = Box::pin(tip_after(stack, attempts.pin())).await;
        if !attempts.must_repeat(stack.store(), &opened).await? {
            return opened;
        }
    }
}

async fn tip_after(stack: &StackContext, pin: Option<&StackPin>) -> Result<(Tip, Standing)> {
    let (journal, tip) = Box::pin(journal_and_tip(stack)).await?;
    let end = StateEnd::of(&tip.replayed.state);
    let standing = Box::pin(compare(stack, &journal, Some(&end), Some(&tip), pin)).await?;
    Ok((tip, standing))
}

async fn journal_and_tip(stack: &StackContext) -> Result<(OpenedJournal, Tip)> {
    let mut attempt = 1;
    loop {
        let journal = UncheckedJournal::read(stack, None).await?;
        let base = journal.base().clone();
        match Box::pin(replayed(stack, journal)).await {
            // A checkpoint may have moved the base during the read, and a collection may have deleted the old base's
            // snapshot.
            Err(error) if attempt < ATTEMPTS => {
                if stored::head(stack).await?.head.base == base {
                    // The base is unchanged, so the error isn't caused by a concurrent writer.
                    return Err(error);
                }
                attempt += 1;
            }
            other => return other,
        }
    }
}

async fn replayed(stack: &StackContext, journal: UncheckedJournal) -> Result<(OpenedJournal, Tip)> {
    let journal = journal.open(stack).await?;
    descent::require(stack, &journal).await?;
    let tip = Tip::of(stack, &journal).await?;
    Ok((journal, tip))
}

/// Accepts and replays a journal that was read beside the pointer of the stack's name. `pin` is from before the read.
///
/// # Errors
/// As [`tip`].
pub(super) async fn accept(
    stack: &StackContext,
    journal: &OpenedJournal,
    pin: Option<&StackPin>,
) -> Result<(Tip, Standing)> {
    descent::require(stack, journal).await?;
    let tip = Tip::of(stack, journal).await?;
    let end = StateEnd::of(&tip.replayed.state);
    let standing = compare(stack, journal, Some(&end), Some(&tip), pin).await?;
    Ok((tip, standing))
}

/// Accepts and replays the journal that was read under a new lock.
///
/// # Errors
/// As [`tip`], and `Distrusted` if the stack was rolled back: a writer would continue a history that this client knows
/// to be outdated.
pub(crate) async fn under_lock(stack: &StackContext, journal: &OpenedJournal) -> Result<Tip> {
    descent::require(stack, journal).await?;
    let tip = Tip::of(stack, journal).await?;
    // The lock excludes later positions, so the present pin applies.
    let pin = trust::pin(stack.store(), stack.lineage()).await?;
    match advance(
        stack,
        journal,
        Some(&StateEnd::of(&tip.replayed.state)),
        None,
        pin.as_deref(),
    )
    .await?
    {
        None => Ok(tip),
        Some(regression) => Err(trust::distrusted(stack, regression)),
    }
}

/// Refuses a stack that was rolled back, for a caller that is about to take its lock: a refused write must not change the head.
/// The stack is read only if the head is older than the one that this client knows, or doesn't record the last frames that this
/// client saw; every other rollback is found under the lock.
///
/// # Errors
/// `Distrusted` if the stack was rolled back; any error of reading the stack.
pub(crate) async fn refuse_older_head(stack: &StackContext, head: &Head) -> Result<()> {
    let mut attempts = PinnedRead::begin(stack.store(), stack.lineage()).await?;
    if !attempts.pin().is_some_and(|pin| is_older(head, pin)) {
        return Ok(());
    }
    // Another process of this client may have pinned a later position since the head was read: it is read again, after the pin.
    loop {
        let opened = Box::pin(current_tip(stack, attempts.pin())).await;
        if !attempts.must_repeat(stack.store(), &opened).await? {
            return opened;
        }
    }
}

/// Whether a head precedes the pinned position, or may do so, or the pin refuses every position.
fn is_older(head: &Head, pin: &StackPin) -> bool {
    let is_before = head.epoch < pin.epoch || head.watermark.map(|end| end.slot) < pin.closed;
    // The end of a journal that wasn't closed is known only from its frames.
    let recorded = head.watermark.map_or(Slot::ZERO, |end| end.slot.next());
    is_before || pin.next > recorded || pin.refusal().is_some()
}

async fn current_tip(stack: &StackContext, pin: Option<&StackPin>) -> Result<()> {
    let (journal, tip) = Box::pin(journal_and_tip(stack)).await?;
    let end = StateEnd::of(&tip.replayed.state);
    match advance(stack, &journal, Some(&end), Some(&tip), pin).await? {
        None => Ok(()),
        Some(regression) => Err(trust::distrusted(stack, regression)),
    }
}

/// Reads the head alone. Checks the head's key, policy and tag, but neither the expected revision nor the position. Two
/// kinds of callers need no more: a caller that is about to take the lock, because the stack is opened in full under
/// the lock; and a caller that opens sealed values of a state that it read, because each value has its own tag.
pub(crate) async fn head_alone(stack: &StackContext) -> Result<Authenticated<Head>> {
    let mut attempts = PinnedRead::begin(stack.store(), stack.lineage()).await?;
    loop {
        let opened = stored::head(stack).await;
        if !attempts.must_repeat(stack.store(), &opened).await? {
            return Ok(opened?.head);
        }
    }
}

/// Reads the head of another stack of the same store, to learn its name and whether it was removed. Its state must be
/// read with [`tip`].
pub(crate) async fn sibling(stack: &StackContext, lineage: Lineage) -> Result<(StackContext, OpenedHead)> {
    let mut attempts = PinnedRead::begin(stack.store(), lineage).await?;
    loop {
        let head = UncheckedHead::read(stack.store(), lineage).await?;
        let sibling = stack.sibling(head.name().clone(), lineage);
        let opened = authenticate::open_head(&sibling, head.into_untrusted()).await;
        if !attempts.must_repeat(stack.store(), &opened).await? {
            return Ok((sibling, opened?));
        }
    }
}

/// A read of a stack, with the pin from before the read.
pub(super) struct PinnedRead {
    lineage: Lineage,
    pin: Option<Box<StackPin>>,
    attempt: usize,
}

impl PinnedRead {
    pub(super) async fn begin(store: &StoreContext, lineage: Lineage) -> Result<Self> {
        Ok(Self {
            lineage,
            pin: trust::pin(store, lineage).await?,
            attempt: 1,
        })
    }

    pub(super) fn pin(&self) -> Option<&StackPin> {
        self.pin.as_deref()
    }

    /// Whether the read must be repeated: the stack was refused, and another process of this client changed the pin
    /// meanwhile. What was read is then older than the pin with which it was compared.
    pub(super) async fn must_repeat<T>(&mut self, store: &StoreContext, read: &Result<T>) -> Result<bool> {
        use Error::{Conflict, Distrusted, Sealed};
        let is_refused = matches!(read, Err(Distrusted { .. } | Sealed { .. } | Conflict { .. }));
        if is_refused && self.attempt < ATTEMPTS {
            self.attempt += 1;
            let before = std::mem::replace(&mut self.pin, trust::pin(store, self.lineage).await?);
            if self.pin != before {
                return Ok(true);
            }
        }
        if read.is_err() {
            Box::pin(trust::remember_opened(store, self.lineage)).await;
        }
        Ok(false)
    }
}

/// The end of the state, for a journal that the caller doesn't replay and of which this client has no pin yet. None if
/// it isn't needed, or if the state is damaged: the key of such a stack must be remembered too.
async fn unpinned_end(
    stack: &StackContext,
    journal: &OpenedJournal,
    pin: Option<&StackPin>,
) -> Option<StateEnd> {
    if pin.is_some() || stack.known_stacks().is_none() || journal.head.proof() == Proof::Unchecked {
        return None;
    }
    let tip = Tip::of(stack, journal).await;
    tip.ok().map(|tip| StateEnd::of(&tip.replayed.state))
}

/// Compares an authenticated journal with this client's pin from before the journal was read, updates the pin, and
/// reports the result to the observer.
async fn compare(
    stack: &StackContext,
    journal: &OpenedJournal,
    end: Option<&StateEnd>,
    tip: Option<&Tip>,
    pin: Option<&StackPin>,
) -> Result<Standing> {
    let standing = Standing {
        authenticity: journal.head.proof().into(),
        regression: advance(stack, journal, end, tip, pin).await?,
    };
    if let Some(observer) = stack.observer() {
        observer.opened(stack.name(), &standing);
    }
    Ok(standing)
}

/// Advances the pin, and reports a change of policy or recipients with the revisions that made it. If `tip` is none,
/// the journal is replayed to find these revisions. Returns a description of the regression if the stack was rolled
/// back.
async fn advance(
    stack: &StackContext,
    journal: &OpenedJournal,
    end: Option<&StateEnd>,
    tip: Option<&Tip>,
    pin: Option<&StackPin>,
) -> Result<Option<String>> {
    let salvaged = trust::follow_salvage(stack, journal, pin).await;
    let pin = salvaged.as_ref().or(pin);
    let fork = match pin {
        Some(pin) => {
            let end = end.cloned().unwrap_or_else(|| StateEnd::pinned(Some(pin)));
            forks::before_base(stack, journal, end.serial, end.revision.as_ref(), pin).await?
        }
        None => None,
    };
    if fork.is_some() {
        return Ok(fork);
    }
    let change = match trust::advance_pin(stack, journal, end, pin).await? {
        PinComparison::Advanced => None,
        PinComparison::RolledBack(regression) => return Ok(Some(regression)),
        PinComparison::Changed(change) => Some(*change),
    };
    if journal.head.proof() != Proof::Unchecked {
        stack.remember_new_name().await?;
    }
    let Some(change) = change else {
        return Ok(None);
    };
    let replayed = match tip {
        Some(_) => None,
        None => Tip::of(stack, journal).await.ok(),
    };
    match tip.or(replayed.as_ref()) {
        Some(tip) => sealing_changes::report(stack, tip, change).await,
        // The state is damaged, so the revisions that made the change are unknown. The change is reported without them.
        None => change.report(stack).await,
    }
    Ok(None)
}

//! Compares the position of a stack with this client's pin ([`StackPin`]: what the client remembers of the stack), and
//! updates the pin. Only authenticated fields decide whether a store is newer than the pin: the serial, the watermark
//! and the chain of the journal.

use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{Authenticated, OpenedJournal};
use crate::keys::position::{Continuity, StackPosition};
use crate::keys::proof::Proof;
use crate::known_stacks::{SealingChange, SealingPin, StackPin};
use state_core::{Error, Head, KeyId, Lineage, Result, RevisionId, Serial, StackName, State};

/// The position of a stack compared with the pinned one.
pub(crate) enum PinComparison {
    /// No rollback was detected. The position is pinned now. It isn't pinned if this client has no known stacks, or
    /// can't open the key of a sealed stack.
    Advanced,
    /// The stack was rolled back; the description says how. The pin stays at the highest position that was seen.
    RolledBack(String),
    /// A holder of the key changed policy or recipients. [`UnreportedChange::report`] pins the position.
    Changed(Box<UnreportedChange>),
}

/// A change of policy or recipients that wasn't reported to the user yet.
pub(crate) struct UnreportedChange {
    /// The change. Its `origins` and `names` are empty until `sealing_changes::report` reads them from the history and
    /// the head.
    pub(crate) change: SealingChange,
    /// The serial at which this client last saw the stack before the change.
    pub(crate) since: Serial,
    /// The policy and the recipients before the change.
    was: SealingPin,
    /// The pin for the position after the change.
    now: StackPin,
    /// The pinned data key before the change.
    key_before: Option<KeyId>,
}

impl UnreportedChange {
    /// Reports the change to the user and pins the position. A change that couldn't be shown is reported again later.
    pub(crate) async fn report(self, stack: &StackContext) {
        let Some(known_stacks) = stack.known_stacks() else {
            return;
        };
        let mut now = self.now;
        if !known_stacks.report(stack.name(), &self.change) {
            now.sealing = Some(self.was);
            now.unreported_since = Some(self.since);
        }
        // Another process of this client may have pinned a later position, or another data key, while the change was
        // reported.
        change_pin(stack.store(), stack.lineage(), |before| {
            let key = before.and_then(|before| before.key);
            let is_later = before.is_some_and(|before| now.precedes(before));
            let is_other = key != self.key_before && key != now.key;
            (!is_later && !is_other).then(|| now.clone())
        })
        .await;
    }
}

/// The pin of the stack, which a caller reads before it reads the store: the store must contain this position, even if
/// another process of this client pins a later one meanwhile.
///
/// # Errors
/// When the known stacks can't be read.
pub(crate) async fn pin(store: &StoreContext, lineage: Lineage) -> Result<Option<Box<StackPin>>> {
    // Boxed, because callers hold it in their futures while they read the store.
    match store.known_stacks() {
        Some(known_stacks) => Ok(known_stacks.seen(lineage).await?.map(Box::new)),
        None => Ok(None),
    }
}

/// The serial and the current revision of a state.
#[derive(Clone, Debug)]
pub(crate) struct StateEnd {
    pub(crate) serial: Serial,
    pub(crate) revision: Option<RevisionId>,
}

impl StateEnd {
    pub(crate) fn of(state: &State) -> Self {
        Self {
            serial: state.serial(),
            revision: state.current().cloned(),
        }
    }

    /// The end that a pin remembers. It replaces the true end of a journal that isn't replayed: the pinned end of the
    /// journal and its chain detect every rollback that the true serial would reveal.
    pub(crate) fn pinned(pin: Option<&StackPin>) -> Self {
        Self {
            serial: pin.map_or(Serial::ZERO, |pin| pin.serial),
            revision: pin.and_then(|pin| pin.revision.clone()),
        }
    }
}

/// Compares the position of the stack with the pinned one, and pins it if it lies ahead. `end` is that of the state at
/// the end of the journal, or none if the journal wasn't replayed; `before` is the pin from before the journal was read.
///
/// # Errors
/// When the known stacks can't be read; `Conflict` when this client reads the stack for the first time, and another
/// process of this client pinned another data key meanwhile.
pub(crate) async fn advance_pin(
    stack: &StackContext,
    journal: &OpenedJournal,
    end: Option<&StateEnd>,
    before: Option<&StackPin>,
) -> Result<PinComparison> {
    let Some(known_stacks) = stack.known_stacks() else {
        return Ok(PinComparison::Advanced);
    };
    let compared_with = |pin: Option<&StackPin>| {
        let end = end.cloned().unwrap_or_else(|| StateEnd::pinned(pin));
        journal.position(end.serial, end.revision)
    };
    if let Some(regression) = before.and_then(|before| compared_with(Some(before)).regression(before)) {
        return Ok(PinComparison::RolledBack(regression));
    }
    loop {
        let pinned = known_stacks.seen(stack.lineage()).await?;
        let point = compared_with(pinned.as_ref());
        // Only the pin from before the read was compared with the key of this journal. A key that another process of this
        // client pinned since is newer, or contradicts this journal.
        if let Some(key) = pinned.as_ref().and_then(|pinned| pinned.key)
            && point.proof != Proof::Mac(key)
            && before.and_then(|before| before.key) != Some(key)
        {
            return match before {
                Some(_) => Ok(PinComparison::Advanced),
                None => Err(Error::conflict(
                    stack.object(),
                    "another process of this client read it with another data key meanwhile; try again",
                )),
            };
        }
        // The position of a sealed stack whose key can't be opened isn't pinned: after a forged position, this client
        // would refuse the true stack as rolled back.
        let Some(now) = point.to_pin(pinned.as_ref()) else {
            return Ok(PinComparison::Advanced);
        };
        if let Some(pinned) = &pinned
            && let Some(regression) = point.regression(pinned)
        {
            // Another process of this client read a later position while this one read the store.
            return Ok(match point.precedes(pinned) {
                true => PinComparison::Advanced,
                false => PinComparison::RolledBack(regression),
            });
        }
        if let Some(pinned) = &pinned
            && let Some(was) = pinned.expected_sealing(&point.sealing)
            && let Some(change) = SealingChange::between(&was, &point.sealing)
        {
            return Ok(PinComparison::Changed(Box::new(UnreportedChange {
                change,
                since: pinned.unreported_since.unwrap_or(pinned.serial),
                was,
                now,
                key_before: pinned.key,
            })));
        }
        if pinned.as_ref() == Some(&now)
            || known_stacks
                .replace(stack.lineage(), pinned.as_ref(), Some(&now))
                .await
        {
            return Ok(PinComparison::Advanced);
        }
    }
}

/// Pins the position at which a session ended or failed, unless the pin lies after it or has another data key. The lock
/// may have been broken without this session's knowledge, and another process of this client may have written to the
/// stack, or given it another data key, since.
pub(crate) async fn remember_position(stack: &StackContext, point: &StackPosition<'_>) {
    change_pin(stack.store(), stack.lineage(), |before| {
        let is_own_key = |key| point.proof == Proof::Mac(key);
        let is_ahead = before.is_none_or(|before| {
            before.next <= point.tail.next && before.epoch <= point.epoch && before.key.is_none_or(is_own_key)
        });
        is_ahead.then(|| session_pin(point, before)).flatten()
    })
    .await;
}

/// The pin for the position of a session.
fn session_pin(point: &StackPosition<'_>, before: Option<&StackPin>) -> Option<StackPin> {
    let mut now = point.to_pin(before)?;
    // A change that wasn't shown when the session began is still to be reported, so the pin keeps the policy and the
    // recipients from before the change.
    if let Some(before) = before.filter(|before| before.unreported_since.is_some()) {
        now.sealing.clone_from(&before.sealing);
        now.unreported_since = before.unreported_since;
    }
    Some(now)
}

/// Pins the key, the policy and the recipients that this client has just set, so that its next read doesn't report them
/// as a change. `former` is the data key before that. Does nothing if another process of this client pinned a third key,
/// or a later owner of the lock, since: this session's key may be a former one by now.
pub(crate) async fn remember_sealing(
    stack: &StackContext,
    head: &Authenticated<Head>,
    former: Option<KeyId>,
) {
    let Proof::Mac(key) = head.proof() else {
        return;
    };
    change_pin(stack.store(), stack.lineage(), |before| {
        let before = before?.clone();
        let is_own_key = before.key.is_none() || before.key == former || before.key == Some(key);
        if !is_own_key || before.epoch > head.epoch {
            return None;
        }
        // The present head also contains changes by other users. If one of them wasn't shown yet, pinning this head
        // would hide the change from the next report.
        let sealing = match before.unreported_since {
            Some(_) => before.sealing,
            None => Some(SealingPin::of(head)),
        };
        Some(StackPin {
            key: Some(key),
            sealing,
            ..before
        })
    })
    .await;
}

/// Pins the id of a first key before the head names the key. If this client crashes after the head swap and before it
/// pins the new head, it still recognises its own key and refuses a foreign one.
pub(crate) async fn announce_key(stack: &StackContext, key: KeyId) {
    change_pin(stack.store(), stack.lineage(), |before| {
        let mut pin = before?.clone();
        pin.announced.push(key);
        Some(pin)
    })
    .await;
}

/// Pins the name that this client is about to give to the stack. If this client crashes after the head has the name, its
/// next read doesn't report its own rename as a change.
pub(crate) async fn announce_name(stack: &StackContext, name: &StackName) {
    change_pin(stack.store(), stack.lineage(), |before| {
        Some(StackPin {
            renaming_to: Some(name.clone()),
            ..before?.clone()
        })
    })
    .await;
}

/// Removes the name that this client was about to give to the stack from the pin: a later rename to that name, by another
/// holder, is a change to report.
pub(crate) async fn withdraw_name(stack: &StackContext) {
    change_pin(stack.store(), stack.lineage(), |before| {
        let before = before.filter(|before| before.renaming_to.is_some())?;
        Some(StackPin {
            renaming_to: None,
            ..before.clone()
        })
    })
    .await;
}

/// Pins the salvage that this client announced, if an authenticated journal contains it. Returns the pin then.
pub(crate) async fn follow_salvage(
    stack: &StackContext,
    journal: &OpenedJournal,
    pin: Option<&StackPin>,
) -> Option<StackPin> {
    let salvaged = pin?.salvaged()?;
    let is_authentic = matches!(journal.head.proof(), Proof::Mac(_) | Proof::Plain);
    let position = journal.position(Serial::ZERO, None);
    if !is_authentic || position.continuity(&salvaged) != Continuity::Continued {
        return None;
    }
    change_pin(stack.store(), stack.lineage(), |before| {
        (before == pin).then(|| salvaged.clone())
    })
    .await;
    Some(salvaged)
}

/// Notes in the pin that the stack is no longer empty: this client is about to write to it without giving it a key.
pub(crate) async fn remember_unsealed_writing(stack: &StackContext) {
    change_pin(stack.store(), stack.lineage(), |before| {
        Some(StackPin {
            empty: false,
            ..before.filter(|before| before.empty)?.clone()
        })
    })
    .await;
}

/// Pins the data key of a stack that this client opened, if it has no pin of the stack. For a read that failed: an attacker
/// who showed a sealed stack first, and then a plain one in its place, must not be believed by the next command. A pin is
/// never changed here: the failed read may have been of a forged stack.
pub(crate) async fn remember_opened(store: &StoreContext, lineage: Lineage) {
    let Some(key) = store.opened_key(lineage) else {
        return;
    };
    change_pin(store, lineage, |before| {
        before.is_none().then(|| StackPin {
            key: Some(key),
            ..StackPin::default()
        })
    })
    .await;
}

/// Replaces the pin of a stack by the result of `change`, which is called again if another process of this client
/// changed the pin meanwhile. Does nothing if `change` returns none, or if the known stacks are missing or unreadable.
pub(crate) async fn change_pin(
    store: &StoreContext,
    lineage: Lineage,
    change: impl Fn(Option<&StackPin>) -> Option<StackPin> + Send + Sync,
) {
    let Some(known_stacks) = store.known_stacks() else {
        return;
    };
    while let Ok(before) = known_stacks.seen(lineage).await
        // Only the user decides about a pin that can't be read.
        && before.as_ref().is_none_or(|before| before.unreadable.is_none())
        && let Some(now) = change(before.as_ref())
    {
        if known_stacks.replace(lineage, before.as_ref(), Some(&now)).await {
            break;
        }
    }
}

/// The error for a client that would write to a stack that it doesn't trust.
pub(crate) fn distrusted(stack: &StackContext, reason: String) -> Error {
    Error::distrusted(stack.object(), reason)
}

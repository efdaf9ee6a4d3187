//! Checks a stack against this client's pin: the stack's key must be the pinned key or endorsed by it, and the stack's
//! position must not lie before the pinned position.

use crate::context::StackContext;
use crate::keys::proof::Proof;
use crate::keys::wrapped;
use crate::known_stacks::{SealingChange, SealingPin, StackPin};
use state_core::backend::Tail;
use state_core::journal::Frame;
use state_core::sealing::StackKey;
use state_core::{Base, Digest, Epoch, Error, Head, KeyId, Result, Serial, Slot};

/// Checks the epoch, the policy and the data key of a head against the pin. `key` is the head's key, if this client can
/// open it, and `unopened` the reason if it can't. A client without any identity may read on when the endorsement can't be verified: it sees no sealed value,
/// remembers nothing and signs nothing.
///
/// # Errors
/// `Distrusted` in these cases:
/// - the epoch is further ahead of the pinned one than takeovers can have raised it
/// - no key is pinned, the head names none, and the policy differs from the pinned policy
/// - a key is pinned, and the head names none
/// - the head names another key, and this client can't verify that the pinned key endorses it
/// - this client has identities, opened the pinned key before, and can't open the head's key
pub(crate) async fn require_key(
    stack: &StackContext,
    head: &Head,
    key: Option<&dyn StackKey>,
    unopened: Option<&str>,
) -> Result<()> {
    let Some(pin) = pin(stack).await? else {
        return Ok(());
    };
    if head.epoch > pin.epoch && !pin.epoch.leads_to(head.epoch) {
        let (was, is) = (pin.epoch, head.epoch);
        let reason = format!(
            "its epoch rose from {was} to {is} since this client last saw it, more than takeovers can raise it: \
             its head was forged or damaged"
        );
        return Err(distrusted(stack, reason));
    }
    let Some(pinned) = pin.key else {
        return require_policy(stack, head, &pin);
    };
    let Some(now) = head.key_id else {
        let reason = format!("it was sealed with key {pinned}, and its head now states that it is plaintext");
        return Err(distrusted(stack, reason));
    };
    let replaced = now != pinned;
    if replaced {
        match endorsement(stack, head, pinned, now).await? {
            Endorsement::Verified => {}
            // A client without the key sees no sealed value, so an endorsement that it can't verify exposes nothing to
            // it.
            Endorsement::Unknown if key.is_none() => {}
            Endorsement::Unknown => {
                let reason = format!(
                    "its data key is {now} now, and this client can't verify that {pinned} endorses it: none of your \
                     identities opens a key between the two"
                );
                return Err(distrusted(stack, reason));
            }
            Endorsement::Missing => {
                let reason = format!(
                    "its data key is {now} now, and {pinned} doesn't endorse it: the key was replaced without the \
                     pinned key"
                );
                return Err(distrusted(stack, reason));
            }
        }
    }
    if key.is_some() || stack.keyring().provider().is_none() {
        return Ok(());
    }
    // This client has identities and opened the pinned key once. If it read on, it would accept unauthenticated
    // content, like a client that never had the key.
    let cause = unopened.map_or_else(String::new, |cause| format!(" ({cause})"));
    let reason = match replaced {
        true => format!(
            "this client opened its data key {pinned} before, and none of your identities opens {now}, which replaced it: \
             you were removed from its recipients, or its key files were changed{cause}"
        ),
        false => format!(
            "this client opened its data key {pinned} before, and can't open it now: its key file is missing, damaged or \
             wrapped to other recipients, or another identity is in use{cause}"
        ),
    };
    Err(distrusted(stack, reason))
}

/// Checks the policy of a stack that had no data key when this client last saw it. The policy of such a stack changes
/// only when the stack gets a key.
fn require_policy(stack: &StackContext, head: &Head, pin: &StackPin) -> Result<()> {
    match &pin.sealing {
        Some(sealing) if head.key_id.is_none() && sealing.policy != head.policy => {
            let (was, is) = (sealing.policy, head.policy);
            let reason = format!(
                "its policy was `{was}` when this client last saw it, and is `{is}` now, without a data key that could have \
                 signed the change"
            );
            Err(distrusted(stack, reason))
        }
        _ => Ok(()),
    }
}

async fn pin(stack: &StackContext) -> Result<Option<StackPin>> {
    match stack.known_stacks() {
        Some(known_stacks) => known_stacks.seen(stack.lineage()).await,
        None => Ok(None),
    }
}

/// Whether each key, from the pinned key to the key in use, endorses the key that replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endorsement {
    /// Each key endorses the next one.
    Verified,
    /// One of the keys in between can't be opened with any available identity.
    Unknown,
    /// A link is missing, or was not made with the key before it.
    Missing,
}

async fn endorsement(stack: &StackContext, head: &Head, pinned: KeyId, now: KeyId) -> Result<Endorsement> {
    let Some(keys) = &head.keys else {
        return Ok(Endorsement::Missing);
    };
    let mut endorsed = pinned;
    for link in &keys.succession {
        if link.old != endorsed || endorsed == now {
            // Skip links before the pinned key, because that key is trusted already, and links after the key in use.
            continue;
        }
        let old = match wrapped::unwrap(stack, link.old).await {
            Err(Error::Sealed { .. }) => return Ok(Endorsement::Unknown),
            other => other?,
        };
        if old.endorse(link.new, link.generation) != link.endorsement {
            return Ok(Endorsement::Missing);
        }
        endorsed = link.new;
    }
    Ok(match endorsed == now {
        true => Endorsement::Verified,
        false => Endorsement::Missing,
    })
}

/// The position of a stack compared with the pinned one.
pub(crate) enum PinComparison {
    /// The position is not before the pinned one, and is pinned now.
    Advanced,
    /// The stack was rolled back; the description says how. The pin stays at the highest position that was seen.
    RolledBack(String),
    /// A holder of the key changed policy or recipients. The position is pinned when the change is reported.
    Changed(UnreportedChange),
}

/// A change of policy or recipients that wasn't reported to the user yet.
pub(crate) struct UnreportedChange {
    /// The change, without its origin.
    pub(crate) change: SealingChange,
    /// The serial at which this client last saw the stack before the change.
    pub(crate) since: Serial,
    was: SealingPin,
    now: StackPin,
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
        known_stacks.remember(stack.lineage(), Some(&now)).await;
    }
}

/// Compares the position of the stack with the pinned one, and pins it if it lies ahead.
///
/// # Errors
/// When the known stacks can't be read.
pub(crate) async fn advance_pin(stack: &StackContext, point: &StackPosition<'_>) -> Result<PinComparison> {
    let Some(known_stacks) = stack.known_stacks() else {
        return Ok(PinComparison::Advanced);
    };
    let before = known_stacks.seen(stack.lineage()).await?;
    if let Some(before) = &before
        && let Some(regression) = point.regression(before)
    {
        return Ok(PinComparison::RolledBack(regression));
    }
    // A position that wasn't authenticated isn't remembered: a forged one would make this client refuse the true one.
    let Some(now) = point.to_pin(before.as_ref()) else {
        return Ok(PinComparison::Advanced);
    };
    if let Some(before) = &before
        && let Some(was) = &before.sealing
        && let Some(change) = SealingChange::between(was, &point.sealing)
    {
        return Ok(PinComparison::Changed(UnreportedChange {
            change,
            since: before.unreported_since.unwrap_or(before.serial),
            was: was.clone(),
            now,
        }));
    }
    if before.as_ref() != Some(&now) {
        known_stacks.remember(stack.lineage(), Some(&now)).await;
    }
    Ok(PinComparison::Advanced)
}

/// Pins the position at which a session ended.
pub(crate) async fn remember_position(stack: &StackContext, point: &StackPosition<'_>) {
    if let Some(known_stacks) = stack.known_stacks()
        && let Ok(before) = known_stacks.seen(stack.lineage()).await
        && let Some(mut now) = point.to_pin(before.as_ref())
    {
        // A change that wasn't shown when the session began is still to be reported.
        if let Some(before) = before.filter(|before| before.unreported_since.is_some()) {
            now.sealing = before.sealing;
            now.unreported_since = before.unreported_since;
        }
        known_stacks.remember(stack.lineage(), Some(&now)).await;
    }
}

/// Pins the policy and the recipients that this client has just set, so that its next read doesn't report them as a
/// change.
pub(crate) async fn remember_sealing(stack: &StackContext, sealing: SealingPin) {
    if let Some(known_stacks) = stack.known_stacks()
        && let Ok(Some(before)) = known_stacks.seen(stack.lineage()).await
    {
        // Otherwise a change by another user that wasn't shown yet would never be.
        if before.unreported_since.is_some() {
            return;
        }
        let now = StackPin {
            sealing: Some(sealing),
            ..before
        };
        known_stacks.remember(stack.lineage(), Some(&now)).await;
    }
}

/// The error for a client that would write to a stack that it doesn't trust.
pub(crate) fn distrusted(stack: &StackContext, reason: String) -> Error {
    Error::distrusted(stack.object(), reason)
}

/// A position of a stack. The epoch, the serial and the end of the journal never decrease.
#[derive(Debug)]
pub(crate) struct StackPosition<'a> {
    pub(crate) proof: Proof,
    /// Policy and recipients in the head.
    pub(crate) sealing: SealingPin,
    pub(crate) epoch: Epoch,
    pub(crate) serial: Serial,
    pub(crate) tail: Tail,
    /// The base, and the journal from that base on; none if only the end of the journal is known.
    pub(crate) journal: Option<(&'a Base, &'a [Frame])>,
}

impl StackPosition<'_> {
    /// Returns the pin for this position, based on the previous pin; none for a position that wasn't authenticated.
    fn to_pin(&self, before: Option<&StackPin>) -> Option<StackPin> {
        let key = match self.proof {
            Proof::Mac(id) => Some(id),
            Proof::Plain => before.and_then(|before| before.key),
            Proof::Unchecked => return None,
        };
        Some(StackPin {
            key,
            sealing: Some(self.sealing.clone()),
            unreported_since: None,
            outputs: before.and_then(|before| before.outputs.clone()),
            epoch: self.epoch,
            serial: self.serial,
            next: self.tail.next,
            chain: Some(self.tail.chain),
        })
    }

    /// Describes why this position doesn't continue the pinned one; none if it does, or if a fork can't be detected.
    fn regression(&self, before: &StackPin) -> Option<String> {
        let back = |what: &str, was: u64, is: u64| {
            (is < was).then(|| {
                format!("the store was rolled back: {what} was {was} when this client last saw it, and is now {is}")
            })
        };
        back("its serial", before.serial.get(), self.serial.get())
            .or_else(|| back("its epoch", before.epoch.get(), self.epoch.get()))
            .or_else(|| back("the end of its journal", before.next.get(), self.tail.next.get()))
            .or_else(|| self.fork(before))
    }

    /// Describes a fork: the journal before the pinned position isn't the one that this client saw. None if there is no
    /// fork, or if it can't be detected.
    fn fork(&self, before: &StackPin) -> Option<String> {
        // A fork can't be detected if one of the digests is unknown: the pin may have none, and a checkpoint or a
        // collection may have removed the frames before the pinned slot.
        let (was, is) = (before.chain?, self.chain_at(before.next)?);
        (was != is).then(|| {
            let next = before.next;
            format!(
                "the store's history was replaced: the part of its journal before slot {next} isn't the one that \
                 this client saw"
            )
        })
    }

    /// Returns the chain digest before a slot; none if this part of the journal doesn't contain it.
    fn chain_at(&self, next: Slot) -> Option<Digest> {
        if next == self.tail.next {
            return Some(self.tail.chain);
        }
        let (base, frames) = self.journal?;
        if next == base.start {
            return Some(base.chain);
        }
        let last = Slot(next.get().checked_sub(1)?);
        let at = frames.binary_search_by_key(&last, Frame::slot).ok()?;
        Some(*frames[at].chain())
    }
}

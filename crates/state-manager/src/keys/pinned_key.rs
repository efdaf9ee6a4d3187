//! Checks the data key of a head against this client's pin ([`StackPin`]: what this client remembers of the stack). The
//! head must name the pinned key, or a key that the pinned key endorses directly or through the keys in between. If no
//! key is pinned, a client that seals values accepts only a first key that it made itself.

use crate::context::StackContext;
use crate::keys::{trust, wrapped};
use crate::known_stacks::StackPin;
use state_core::head::SealingPolicy;
use state_core::sealing::StackKey;
use state_core::{Error, Head, KeyId, Result};

/// Maximum number of recipients that an error lists.
const MOST_NAMED: usize = 8;

/// Checks the epoch, the policy and the data key of a head against the pin. `key` is the head's key, if this client can
/// open it, and `unopened` the reason if it can't. A client without any identity may read on when it can't verify the
/// endorsement: it sees no sealed value, remembers nothing and signs nothing.
///
/// # Errors
/// `Distrusted` in these cases:
/// - the epoch is further ahead of the pinned one than takeovers can have raised it
/// - no key is pinned, the head names none, and the policy differs from the pinned policy
/// - no key is pinned, the pinned policy seals values, this client has identities, and the head names a key that this
///   client didn't make
/// - this client has only read the stack's published outputs, and the head names no key, or a key from which this client
///   derives another key of the outputs
/// - a key is pinned, and the head names none
/// - the head names another key, and this client can't verify that the pinned key endorses it
/// - this client has identities and can't open the head's key, unless the user accepted that for this key
pub(crate) async fn require(
    stack: &StackContext,
    head: &Head,
    key: Option<&dyn StackKey>,
    unopened: Option<&str>,
) -> Result<()> {
    let Some(pin) = trust::pin(stack.store(), stack.lineage()).await? else {
        return Ok(());
    };
    // The stack is read like one that this client doesn't know, with a warning, and can't be written.
    if pin.unreadable.is_some() {
        return Ok(());
    }
    if head.epoch > pin.epoch && !pin.epoch.leads_to(head.epoch) {
        let (was, is) = (pin.epoch, head.epoch);
        let reason = format!(
            "its epoch rose from {was} to {is} since this client last saw it, more than takeovers can raise it: \
             its head was forged or damaged"
        );
        return Err(distrusted(stack, reason));
    }
    let Some(pinned) = pin.key else {
        require_key_of_outputs(stack, head, key, &pin)?;
        return require_first_key(stack, head, &pin);
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
            Endorsement::Unknown | Endorsement::Missing => {
                let reason = format!(
                    "its data key is {now} now, and this client can't verify that {pinned} endorses it: the key was \
                     replaced without the pinned key, or a key between the two can't be opened"
                );
                return Err(distrusted(stack, reason));
            }
        }
    }
    let is_accepted = pin.unopened && !replaced;
    if key.is_some() || is_accepted || stack.keyring().provider().is_none() {
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

/// Checks a stack of which this client has only read the published outputs. Only a sealed stack publishes outputs, and
/// their key is derived from the data key. So a head that this client authenticates must name the data key of these
/// outputs.
fn require_key_of_outputs(
    stack: &StackContext,
    head: &Head,
    key: Option<&dyn StackKey>,
    pin: &StackPin,
) -> Result<()> {
    let Some(outputs) = pin.outputs.as_ref().filter(|_| pin.sealing.is_none()) else {
        return Ok(());
    };
    let pinned = outputs.key;
    let reason = match (head.key_id, key) {
        (None, _) => format!(
            "this client read its outputs, sealed with key {pinned}, and its head now states that it is plaintext"
        ),
        (Some(now), Some(key)) if key.outputs_id() != Some(pinned) => format!(
            "this client read its outputs, sealed with key {pinned}, and the outputs of its data key {now} have another \
             key: the data key was replaced, or another client forged the stack"
        ),
        // Without the data key, this client sees no sealed value and remembers nothing.
        (Some(_), _) => return Ok(()),
    };
    Err(distrusted(stack, reason))
}

/// Checks a stack that had no data key when this client last saw it. Nothing endorses the first key of a stack, and
/// anyone with write access can wrap a key of their own to the client's recipient. So only a key that this client made
/// is accepted. A stack with the policy `plaintext` has no secrets that a foreign key would expose.
fn require_first_key(stack: &StackContext, head: &Head, pin: &StackPin) -> Result<()> {
    let Some(sealing) = &pin.sealing else {
        return Ok(());
    };
    let Some(now) = head.key_id else {
        return require_policy(stack, head, sealing.policy);
    };
    // A client without an identity seals nothing, and remembers nothing of a stack whose key it can't open.
    let seals = sealing.policy != SealingPolicy::Plaintext && stack.keyring().provider().is_some();
    if !seals || pin.announced.contains(&now) {
        return Ok(());
    }
    let recipients = head.keys.as_ref().map(|keys| keys.recipients.as_slice());
    let recipients = recipients.unwrap_or_default().iter().take(MOST_NAMED);
    // The names come from a head that no known key signed.
    let named: Vec<_> = recipients.map(|one| one.escape_debug().to_string()).collect();
    let reason = format!(
        "it had no data key when this client last saw it, and another client has sealed it since, with key {now} for \
         {}: anyone who can write to the store can do that",
        named.join(", ")
    );
    Err(distrusted(stack, reason))
}

/// Checks the policy of a stack without a data key. The policy changes only when the stack gets a key.
fn require_policy(stack: &StackContext, head: &Head, was: SealingPolicy) -> Result<()> {
    let is = head.policy;
    if was == is {
        return Ok(());
    }
    let reason = format!(
        "its policy was `{was}` when this client last saw it, and is `{is}` now, without a data key that could have \
         signed the change"
    );
    Err(distrusted(stack, reason))
}

/// Whether each key, from the pinned key to the key in use, endorses the key that replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endorsement {
    /// Each key endorses the next one.
    Verified,
    /// One of the keys in between can't be opened with any available identity.
    Unknown,
    /// The head contains no endorsement of one of the keys, or the endorsement wasn't made with the key before.
    Missing,
}

/// Follows the endorsements in the head from the pinned key to the key in use.
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

fn distrusted(stack: &StackContext, reason: String) -> Error {
    Error::distrusted(stack.object(), reason)
}

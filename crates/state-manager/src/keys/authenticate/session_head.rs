//! The head of a locked stack. Every swap compares the head that it replaces with the one that this session
//! authenticated or wrote, so that the session signs its own changes only.

use super::name::sign_pointer;
use super::{Authenticated, OpenedHead, Sealed};
use crate::context::StackContext;
use crate::keys::proof::Proof;
use state_core::backend::HeadChange;
use state_core::head::{Keys, Succession};
use state_core::sealing::StackKey;
use state_core::{Error, Head, Nonce, Result, Slot, Writer};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of sent heads that a session remembers while the outcome of their swaps is unknown.
const MOST_UNSETTLED: usize = 64;

/// The head of a locked stack as this session last authenticated or wrote it.
///
/// While the session holds the lock, only the session changes the head. The store therefore contains the last
/// acknowledged head, or a head whose swap was sent and not acknowledged.
#[derive(Debug)]
pub(crate) struct SessionHead {
    /// Name of the stack in error messages.
    object: String,
    key: Option<Arc<dyn StackKey>>,
    /// The proof of the head that was authenticated. The head of each swap has the same.
    proof: Proof,
    known: Mutex<KnownHeads>,
}

#[derive(Debug)]
struct KnownHeads {
    acknowledged: Head,
    /// Heads that were sent to the store after the acknowledged head, oldest first. Each of them may be stored.
    sent: VecDeque<Head>,
}

impl SessionHead {
    /// Starts with the head that was authenticated under the lock. `object` names the stack in error messages.
    pub(crate) fn new(object: String, opened: OpenedHead) -> Self {
        Self {
            object,
            key: opened.key,
            proof: opened.head.proof(),
            known: Mutex::new(KnownHeads {
                acknowledged: opened.head.into_value(),
                sent: VecDeque::new(),
            }),
        }
    }

    /// The head after the last acknowledged swap.
    pub(crate) fn current(&self) -> Authenticated<Head> {
        Authenticated::new(self.known().acknowledged.clone(), self.proof)
    }

    /// The head after the last acknowledged swap, if the stack has a data key.
    pub(crate) fn sealed(&self) -> Option<Sealed<Head>> {
        let key = self.key.clone()?;
        Some(Sealed::new(self.known().acknowledged.clone(), key))
    }

    /// The head after the last acknowledged swap, with its key.
    pub(crate) fn opened(&self) -> OpenedHead {
        OpenedHead {
            head: self.current(),
            key: self.key.clone(),
            _private: (),
        }
    }

    /// The stack's data key; none for a stack without one.
    pub(crate) fn key(&self) -> Option<&dyn StackKey> {
        self.key.as_deref()
    }

    /// Tags the pointer of the stack's name under the current key, if any, and under `next`, the key that the next head
    /// swap names. A crash leaves either the old or the new key in the head; the pointer has a tag under each of them.
    ///
    /// # Errors
    /// `Distrusted` if the name doesn't lead to the stack.
    pub(crate) async fn sign_pointer(&self, stack: &StackContext, next: &dyn StackKey) -> Result<()> {
        let keys: Vec<&dyn StackKey> = self.key().into_iter().chain([next]).collect();
        sign_pointer(stack, &self.current(), &keys).await
    }

    /// Changes the head, and signs it if the stack has a key.
    ///
    /// # Errors
    /// `Distrusted` when the store holds a head that this session neither authenticated nor wrote; nothing is signed.
    pub(crate) async fn swap(
        &self,
        writer: &dyn Writer,
        nonce: Nonce,
        change: HeadChange<'_>,
    ) -> Result<Authenticated<Head>> {
        self.swap_under(self.key.as_deref(), writer, nonce, change).await
    }

    /// Changes the head to one that names a new data key, and signs it with that key. Returns the new head and its key.
    ///
    /// # Errors
    /// As [`SessionHead::swap`].
    pub(crate) async fn swap_key(
        &self,
        key: &Arc<dyn StackKey>,
        writer: &dyn Writer,
        nonce: Nonce,
        change: HeadChange<'_>,
    ) -> Result<OpenedHead> {
        let head = self.swap_under(Some(&**key), writer, nonce, change).await?;
        Ok(OpenedHead {
            head,
            key: Some(Arc::clone(key)),
            _private: (),
        })
    }

    /// Returns the head's key section for the key `new`, which is in use from slot `next` on and may be the stack's
    /// first key. `files` are the numbers of its key files.
    pub(crate) fn successor(
        &self,
        new: &dyn StackKey,
        next: Slot,
        files: Vec<u64>,
        recipients: &[String],
    ) -> Keys {
        // Only a signed head says something about keys: see `Head::validate`.
        let signed = self.key.as_ref().map(|_| self.known().acknowledged.clone());
        let before = signed.and_then(|head| head.keys);
        let generation = before
            .as_ref()
            .map_or(1, |keys| keys.generation.saturating_add(1));
        let since = before.as_ref().map_or(next, |keys| keys.since);
        let (outputs, mut names, mut succession) = match before {
            Some(keys) => (keys.outputs, keys.names, keys.succession),
            None => Default::default(),
        };
        // The name of a removed recipient is removed too.
        names.retain(|named, _| recipients.contains(named) || outputs.contains(named));
        succession.extend(self.key.as_deref().map(|old| Succession {
            old: old.id(),
            new: new.id(),
            generation,
            until: next,
            endorsement: old.endorse(new.id(), generation),
        }));
        Keys {
            generation,
            since,
            files,
            recipients: recipients.to_vec(),
            outputs,
            names,
            succession,
        }
    }

    async fn swap_under(
        &self,
        key: Option<&dyn StackKey>,
        writer: &dyn Writer,
        nonce: Nonce,
        change: HeadChange<'_>,
    ) -> Result<Authenticated<Head>> {
        let signed = |head: &mut Head| {
            // The comparison is inside this closure because the backend reads the head again for each attempt.
            self.known().require(&self.object, head)?;
            change(head)?;
            if head.key_id != key.map(|key| key.id()) {
                let reason = "a change of its head names another data key than the one that signs it";
                return Err(Error::sealed(&self.object, reason));
            }
            if let Some(key) = key {
                head.sign(key);
            }
            // The backend sets the same nonce, by which `settle` finds this head among the sent ones.
            head.nonce = nonce;
            self.known().add(head);
            Ok(())
        };
        let head = writer.swap_head(nonce, &signed).await?;
        self.known().settle(&head);
        let proof = key.map_or(Proof::Plain, |key| Proof::Mac(key.id()));
        Ok(Authenticated::new(head, proof))
    }

    fn known(&self) -> MutexGuard<'_, KnownHeads> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownHeads {
    /// Requires that the head in the store has the content of a head that this session authenticated or sent.
    fn require(&self, object: &str, stored: &Head) -> Result<()> {
        let mut known = std::iter::once(&self.acknowledged).chain(&self.sent);
        if known.any(|known| stored.has_content_of(known)) {
            return Ok(());
        }
        let changed = differences(&self.acknowledged, stored);
        let reason = format!(
            "its {changed} changed in the store while this session held the lock; the session didn't sign the change"
        );
        Err(Error::distrusted(object, reason))
    }

    fn add(&mut self, head: &Head) {
        if self.sent.len() == MOST_UNSETTLED {
            self.sent.pop_front();
        }
        self.sent.push_back(head.clone());
    }

    /// Notes that the store acknowledged a head. Heads that were sent earlier can't take effect any more, because each
    /// swap succeeds only against the version that it read.
    fn settle(&mut self, head: &Head) {
        // The head is missing from the list if a later swap was acknowledged first. Then `acknowledged` is newer
        // already.
        if let Some(at) = self.sent.iter().rposition(|sent| sent.nonce == head.nonce) {
            self.sent.drain(..=at);
            self.acknowledged = head.clone();
        }
    }
}

/// Names the parts in which two heads differ, for messages.
fn differences(known: &Head, stored: &Head) -> String {
    let keys = |head: &Head| head.keys.clone();
    let recipients = |head: &Head| keys(head).map(|keys| keys.recipients);
    let outputs = |head: &Head| keys(head).map(|keys| keys.outputs);
    let parts = [
        ("data key", known.key_id != stored.key_id),
        ("policy", known.policy != stored.policy),
        ("recipients", recipients(known) != recipients(stored)),
        ("recipients of the outputs", outputs(known) != outputs(stored)),
        ("client lock", known.client_lock != stored.client_lock),
        (
            "name",
            (&known.name, &known.moving_to) != (&stored.name, &stored.moving_to),
        ),
        ("base", (&known.base, known.floor) != (&stored.base, stored.floor)),
        ("history", known.history != stored.history),
    ];
    let changed: Vec<_> = parts
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(part, _)| *part)
        .collect();
    match changed.is_empty() {
        true => "content".to_owned(),
        false => changed.join(", "),
    }
}

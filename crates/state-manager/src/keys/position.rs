//! The position of a stack at one moment, and its comparison with the position that a client pinned. The journal is a
//! chain of frames, and a slot is the position of a frame in the journal.

use crate::keys::proof::Proof;
use crate::known_stacks::{SealingPin, StackPin};
use state_core::backend::Tail;
use state_core::journal::{Frame, FrameKind};
use state_core::{Base, Digest, Enveloped, Epoch, Head, RevisionId, Serial, Slot, State};

/// A position of a stack. The epoch, the serial, the watermark and the end of the journal never decrease. On a sealed
/// stack, the data key authenticates all of them except the epoch.
#[derive(Debug)]
pub(crate) struct StackPosition<'a> {
    pub(crate) proof: Proof,
    /// Identity of the head, see [`identity`].
    pub(crate) head: Digest,
    /// Policy and recipients in the head.
    pub(crate) sealing: SealingPin,
    pub(crate) epoch: Epoch,
    pub(crate) serial: Serial,
    /// The current revision of the state at this position.
    pub(crate) revision: Option<RevisionId>,
    /// The slot of the watermark in the head: the last frame when a session closed the journal.
    pub(crate) closed: Option<Slot>,
    pub(crate) tail: Tail,
    /// The end of the part that the data key authenticates; none if nothing follows it. A fence has no tag, and the
    /// head's tag doesn't cover the epoch.
    pub(crate) authenticated: Option<AuthenticatedEnd>,
    /// The head, and the journal from its base on; none if only the end of the journal is known.
    pub(crate) journal: Option<(&'a Head, &'a [Frame])>,
}

/// The end of the authenticated part of a sealed stack's journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuthenticatedEnd {
    /// The epoch of the last data frame; none if no data frame was read.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) tail: Tail,
}

impl AuthenticatedEnd {
    /// The end of the last data frame of a journal, or the head's base if the journal has none.
    pub(crate) fn of(head: &Head, frames: &[Frame]) -> Self {
        let last = frames.iter().rfind(|frame| frame.kind() == FrameKind::Data);
        match last {
            Some(frame) => Self {
                epoch: Some(frame.epoch()),
                tail: Tail {
                    next: frame.slot().next(),
                    chain: *frame.chain(),
                },
            },
            None => Self {
                epoch: None,
                tail: Tail {
                    next: head.base.start,
                    chain: head.base.chain,
                },
            },
        }
    }
}

/// The digest of a head with all its fields, also those that its tag doesn't cover.
pub(crate) fn identity(head: &Head) -> Digest {
    Digest::of(&head.encode())
}

/// Whether a journal continues the one that this client saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuity {
    /// The journal contains the pinned position.
    Continued,
    /// The journal has another chain at the pinned position.
    Forked,
    /// The pin has no chain digest, or the pinned position lies before the base.
    Unknown,
}

impl StackPosition<'_> {
    /// The position at the end of a journal whose frames aren't known.
    pub(crate) fn at_end(proof: Proof, head: &Head, state: &State, tail: Tail) -> Self {
        Self::at(proof, head, state.serial(), state.current().cloned(), tail)
    }

    /// As [`Self::at_end`], for a state of which only the serial and the current revision are known.
    pub(crate) fn at(
        proof: Proof,
        head: &Head,
        serial: Serial,
        revision: Option<RevisionId>,
        tail: Tail,
    ) -> Self {
        Self {
            proof,
            head: identity(head),
            sealing: SealingPin::of(head),
            epoch: head.epoch,
            serial,
            revision,
            closed: head.watermark.map(|watermark| watermark.slot),
            tail,
            authenticated: None,
            journal: None,
        }
    }

    /// Returns the pin for this position, based on the previous pin; none for a sealed stack whose key can't be opened.
    /// What follows the authenticated part isn't pinned: after a forged fence, this client would refuse the true stack
    /// as rolled back.
    pub(crate) fn to_pin(&self, before: Option<&StackPin>) -> Option<StackPin> {
        let before = before.cloned().unwrap_or_default();
        let (epoch, next, chain) = match &self.authenticated {
            None => (self.epoch, self.tail.next, Some(self.tail.chain)),
            // A session of this client pins its own fence, too.
            Some(end) if before.next > end.tail.next => (before.epoch, before.next, before.chain),
            Some(end) => (
                before.epoch.max(end.epoch.unwrap_or_default()),
                end.tail.next,
                Some(end.tail.chain),
            ),
        };
        let key = match self.proof {
            Proof::Mac(id) => Some(id),
            Proof::Plain => before.key,
            Proof::Unchecked | Proof::Published => return None,
        };
        Some(StackPin {
            key,
            unopened: false,
            sealing: Some(self.sealing.clone()),
            unreported_since: None,
            outputs: before.outputs,
            epoch,
            serial: self.serial,
            revision: self.revision.clone(),
            closed: self.closed.max(before.closed),
            // A plain head proves itself: reading it costs no key.
            head: key.map(|_| self.head),
            next,
            chain,
            announced: match key {
                Some(_) => Vec::new(),
                None => before.announced,
            },
            empty: key.is_none() && before.empty && self.is_empty(),
            renaming_to: before
                .renaming_to
                .filter(|to| self.sealing.name.as_ref() != Some(to)),
            salvaging_to: before.salvaging_to,
            unreadable: None,
        })
    }

    /// Whether this position of a closed journal is the pinned one, with nothing left to report. Another session may have
    /// written a fence without data since: neither the epoch nor a fence at the end is pinned, see [`Self::to_pin`].
    pub(crate) fn is_pinned_as(&self, pinned: &StackPin) -> bool {
        let Some(own) = self.to_pin(Some(pinned)) else {
            return false;
        };
        let is_same_end = pinned.next == own.next && pinned.chain == own.chain;
        !pinned.unopened
            && pinned.unreported_since.is_none()
            && pinned.key == own.key
            && pinned.sealing == own.sealing
            && pinned.serial == own.serial
            && pinned.revision == own.revision
            && pinned.closed == self.closed
            && pinned.epoch <= own.epoch
            && (is_same_end || pinned.next < own.next)
    }

    /// Whether this position lies before the pinned one.
    pub(crate) fn precedes(&self, pinned: &StackPin) -> bool {
        // The epoch of the head and a fence at the end aren't pinned either: see `to_pin`. A session that wrote no data
        // raised only these two.
        let (epoch, next) = match &self.authenticated {
            Some(end) => (end.epoch.unwrap_or_default(), end.tail.next),
            None => (self.epoch, self.tail.next),
        };
        let own = StackPin {
            serial: self.serial,
            epoch,
            closed: self.closed,
            next,
            ..StackPin::default()
        };
        own.precedes(pinned)
    }

    /// Describes why this position doesn't continue the pinned one; none if it does, or if a fork can't be detected.
    pub(crate) fn regression(&self, before: &StackPin) -> Option<String> {
        let back = |what: &str, was: u64, is: u64| {
            (is < was).then(|| {
                format!("the store was rolled back: {what} was {was} when this client last saw it, and is now {is}")
            })
        };
        before
            .refusal()
            .or_else(|| back("its serial", before.serial.get(), self.serial.get()))
            .or_else(|| back("its epoch", before.epoch.get(), self.epoch.get()))
            .or_else(|| back("the end of its journal", before.next.get(), self.tail.next.get()))
            .or_else(|| self.older_head(before))
            .or_else(|| self.fork(before))
            .or_else(|| self.foreign_content(before))
    }

    /// Describes a store that combines an older head with a newer journal. Each session moves the watermark forward.
    /// The head's tag covers the watermark and not the epoch, so an attacker could raise the epoch of the older head,
    /// but not its watermark.
    fn older_head(&self, before: &StackPin) -> Option<String> {
        (self.closed < before.closed).then(|| {
            "the store was rolled back: its head is older than the head that this client last saw".to_owned()
        })
    }

    /// Describes a fork: the journal before the pinned position isn't the one that this client saw.
    fn fork(&self, before: &StackPin) -> Option<String> {
        let next = before.next;
        (self.continuity(before) == Continuity::Forked).then(|| {
            format!(
                "the store's history was replaced: the part of its journal before slot {next} isn't the one that \
                 this client saw"
            )
        })
    }

    /// Describes content without a signature in a stack that this client created and didn't write to yet. The first
    /// session of this client would sign the foreign content.
    fn foreign_content(&self, before: &StackPin) -> Option<String> {
        let is_signed = matches!(self.proof, Proof::Mac(_));
        (before.empty && !is_signed && !self.is_empty()).then(|| {
            "this client created the stack empty, and its content was written since without a data key"
                .to_owned()
        })
    }

    /// Whether nothing was written to the stack. False if only the end of the journal is known.
    ///
    /// Covers the fields of the head that only a session with content sets, because the first session signs the head as
    /// it is. A client lock and another policy don't count as content.
    fn is_empty(&self) -> bool {
        self.journal.is_some_and(|(head, frames)| {
            let is_data = |frame: &Frame| frame.kind() == FrameKind::Data;
            let is_new = head.base == Base::empty(head.lineage)
                && head.rev_base.is_none()
                && head.history.is_empty()
                && head.floor == Slot::ZERO
                && head.collection.is_none()
                && head.moving_to.is_none()
                && head.copied_from.is_none();
            is_new && !frames.iter().any(is_data)
        })
    }

    /// Whether the journal contains the pinned position.
    pub(crate) fn continuity(&self, before: &StackPin) -> Continuity {
        match (before.chain, self.chain_at(before.next)) {
            (Some(was), Some(is)) if was == is => Continuity::Continued,
            (Some(_), Some(_)) => Continuity::Forked,
            _ => Continuity::Unknown,
        }
    }

    /// Returns the chain digest before a slot; none if this part of the journal doesn't contain it.
    fn chain_at(&self, next: Slot) -> Option<Digest> {
        if next == self.tail.next {
            return Some(self.tail.chain);
        }
        let (head, frames) = self.journal?;
        if next == head.base.start {
            return Some(head.base.chain);
        }
        let last = Slot(next.get().checked_sub(1)?);
        let at = frames.binary_search_by_key(&last, Frame::slot).ok()?;
        Some(*frames[at].chain())
    }
}

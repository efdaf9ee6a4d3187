//! Whether a stack went back in time since it was seen.

use super::Seen;
use state_core::backend::{JournalView, Tail};
use state_core::journal::Frame;
use state_core::sealing::StackKey;
use state_core::{Base, Digest, Epoch, Serial, Slot, State};

/// Where a stack is: what of it only grows.
#[derive(Debug)]
pub(crate) struct Point<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) serial: Serial,
    pub(crate) tail: Tail,
    /// The live journal and the base that it begins at; none where only the end is known.
    pub(crate) journal: Option<(&'a Base, &'a [Frame])>,
}

impl<'a> Point<'a> {
    /// Where it is as a reader sees it.
    pub(crate) fn of(view: &'a JournalView, state: &State) -> Self {
        Self {
            epoch: view.head.epoch,
            serial: state.serial(),
            tail: view.tail,
            journal: Some((&view.head.base, &view.frames)),
        }
    }

    /// What is to be remembered of it, after what was known before.
    pub(super) fn seen(&self, before: Option<&Seen>, key: Option<&dyn StackKey>) -> Seen {
        Seen {
            key: key.map(|key| key.id()).or(before.and_then(|before| before.key)),
            outputs: before.and_then(|before| before.outputs.clone()),
            epoch: self.epoch,
            serial: self.serial,
            next: self.tail.next,
            chain: Some(self.tail.chain),
        }
    }

    /// How it went back, or aside; none when it only went on, as far as can be told from here.
    pub(super) fn regression(&self, before: &Seen) -> Option<String> {
        let back = |what: &str, was: u64, is: u64| {
            (is < was).then(|| {
                format!("the store went back in time: {what} was {was} when it was seen last, and is {is}")
            })
        };
        back("its serial", before.serial.get(), self.serial.get())
            .or_else(|| back("its epoch", before.epoch.get(), self.epoch.get()))
            .or_else(|| back("the end of its journal", before.next.get(), self.tail.next.get()))
            .or_else(|| self.fork(before))
    }

    /// Whether it took another way than the one that was seen.
    fn fork(&self, before: &Seen) -> Option<String> {
        let (was, is) = (before.chain?, self.chain_at(before.next)?);
        (was != is).then(|| {
            let next = before.next;
            format!("the store has another past than the one that was seen: its journal differs before slot {next}")
        })
    }

    /// The chain before a slot; none where this view of the journal doesn't reach.
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

//! What a head knows of its journal: points at which the chain must be this one. For stores that read a journal.

use super::Tail;
use crate::counter::Slot;
use crate::digest::Digest;
use crate::head::{Base, Head};

/// The points of one head: where its bases begin, where history does, and the last clean close.
#[derive(Clone, Debug)]
pub struct ChainAnchors<'a> {
    bases: Vec<(&'static str, &'a Base)>,
    watermark: Option<(Slot, Digest)>,
}

impl<'a> ChainAnchors<'a> {
    /// What this head knows.
    pub fn of(head: &'a Head) -> Self {
        Self {
            bases: head.bases().collect(),
            watermark: head.watermark.map(|mark| (mark.slot.next(), mark.chain)),
        }
    }

    /// The chain before a slot, if the head names a base there.
    pub fn chain_before(&self, slot: Slot) -> Option<Digest> {
        let there = self.bases.iter().find(|(_, base)| base.start == slot);
        there.map(|(_, base)| base.chain)
    }

    /// Checks a point that the reader of a journal comes to.
    ///
    /// # Errors
    /// Why it can't be.
    pub fn pass(&self, tail: Tail) -> Result<(), String> {
        for (what, base) in &self.bases {
            if base.start == tail.next && base.chain != tail.chain {
                return Err(format!(
                    "the chain at slot {} isn't that of the head's {what}",
                    tail.next
                ));
            }
        }
        if self
            .watermark
            .is_some_and(|(next, chain)| next == tail.next && chain != tail.chain)
        {
            return Err(format!(
                "the chain before slot {} isn't that of the last clean close",
                tail.next
            ));
        }
        Ok(())
    }

    /// Checks the journal's end: it must reach what the head knows of it.
    ///
    /// # Errors
    /// Why it can't be.
    pub fn finish(&self, tail: Tail) -> Result<(), String> {
        let bases = self.bases.iter().map(|(_, base)| base.start);
        let known = bases.chain(self.watermark.map(|(next, _)| next)).max();
        match known {
            Some(known) if known > tail.next => Err(format!(
                "the journal ends at slot {} but reached {known}: it was cut",
                tail.next
            )),
            _ => Ok(()),
        }
    }
}

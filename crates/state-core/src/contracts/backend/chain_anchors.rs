//! Points of a journal at which the head records the digest chain. Stores check these points while they read a journal,
//! so that a reader notices a journal that was truncated or replaced.

use super::Tail;
use crate::counter::Slot;
use crate::digest::Digest;
use crate::head::{Base, Head};

/// The recorded points of one head: its bases, the beginning of history, and the last clean close.
#[derive(Clone, Debug)]
pub struct ChainAnchors<'a> {
    bases: Vec<(&'static str, &'a Base)>,
    watermark: Option<(Slot, Digest)>,
}

impl<'a> ChainAnchors<'a> {
    /// Collects the points that the head records.
    pub fn of(head: &'a Head) -> Self {
        Self {
            bases: head.bases().collect(),
            watermark: head.watermark.map(|mark| (mark.slot.next(), mark.chain)),
        }
    }

    /// The digest chain before a slot, if the head names a base at this slot.
    pub fn chain_before(&self, slot: Slot) -> Option<Digest> {
        let base = self.bases.iter().find(|(_, base)| base.start == slot);
        base.map(|(_, base)| base.chain)
    }

    /// Checks the digest chain at one position. A store calls this at each position of the journal that it reads.
    ///
    /// # Errors
    /// A message that names the recorded point whose chain differs.
    pub fn pass(&self, tail: Tail) -> Result<(), String> {
        for (what, base) in &self.bases {
            if base.start == tail.next && base.chain != tail.chain {
                return Err(format!(
                    "the chain before slot {} differs from the one that the head records for {what}",
                    tail.next
                ));
            }
        }
        if self
            .watermark
            .is_some_and(|(next, chain)| next == tail.next && chain != tail.chain)
        {
            return Err(format!(
                "the chain before slot {} differs from the chain at the last clean close",
                tail.next
            ));
        }
        Ok(())
    }

    /// Checks that the journal, which ends at `tail`, reaches every recorded point.
    ///
    /// # Errors
    /// A message that names the slot that the journal should reach.
    pub fn finish(&self, tail: Tail) -> Result<(), String> {
        let bases = self.bases.iter().map(|(_, base)| base.start);
        let known = bases.chain(self.watermark.map(|(next, _)| next)).max();
        match known {
            Some(known) if known > tail.next => Err(format!(
                "the journal was truncated: it ends before slot {}, but reached slot {known} earlier",
                tail.next
            )),
            _ => Ok(()),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::ChainAnchors;
    use crate::backend::Tail;
    use crate::head::{Base, Watermark};
    use crate::{Digest, Head, Lineage, Nonce, Slot};

    fn head() -> Head {
        let lineage = Lineage::from_bits([1; 16]);
        let name = "shop/production".parse().unwrap();
        Head::new(lineage, name, Nonce::from_bytes([1; 16]))
    }

    fn tail(next: u64, chain: &[u8]) -> Tail {
        Tail {
            next: Slot(next),
            chain: Digest::of(chain),
        }
    }

    #[test]
    fn journal_that_ends_before_the_watermark_is_truncated() {
        let closed = Head {
            watermark: Some(Watermark {
                slot: Slot(6),
                chain: Digest::of(b"close"),
            }),
            ..head()
        };
        let anchors = ChainAnchors::of(&closed);
        let truncated = anchors.finish(tail(6, b"before")).unwrap_err();
        assert!(truncated.contains("reached slot 7"), "{truncated}");
        assert_eq!(anchors.finish(tail(7, b"close")), Ok(()));
        assert_eq!(anchors.finish(tail(9, b"after")), Ok(()));
    }

    #[test]
    fn journal_that_ends_before_the_base_is_truncated() {
        let checkpointed = Head {
            base: Base {
                start: Slot(4),
                chain: Digest::of(b"base"),
                ..head().base
            },
            ..head()
        };
        let anchors = ChainAnchors::of(&checkpointed);
        assert!(anchors.finish(tail(3, b"before")).is_err());
        assert_eq!(anchors.finish(tail(4, b"base")), Ok(()));
    }

    #[test]
    fn other_chain_at_a_recorded_point_is_refused() {
        let recorded = Head {
            base: Base {
                start: Slot(4),
                chain: Digest::of(b"base"),
                ..head().base
            },
            watermark: Some(Watermark {
                slot: Slot(6),
                chain: Digest::of(b"close"),
            }),
            ..head()
        };
        let anchors = ChainAnchors::of(&recorded);
        assert_eq!(anchors.chain_before(Slot(4)), Some(Digest::of(b"base")));
        for (next, chain) in [(4, b"base" as &[u8]), (7, b"close")] {
            assert_eq!(anchors.pass(tail(next, chain)), Ok(()));
            assert!(anchors.pass(tail(next, b"other")).is_err(), "slot {next}");
        }
        assert_eq!(
            anchors.pass(tail(5, b"other")),
            Ok(()),
            "no point is recorded here"
        );
    }
}

//! The compactions of a journal: which ones a head names, which ones a reader uses, and those that this client still has in
//! memory.

use bytes::Bytes;
use state_core::head::{Compaction, MAX_COMPACTIONS, MAX_EARLIER_COMPACTIONS};
use state_core::{Head, Slot};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The limit on the bytes of the compactions that are kept in memory.
const MOST_BYTES: usize = 4 << 20;

/// The limit on their number.
const MOST: usize = 16;

/// The compactions that a changed head names: those from its base on, and the last ones before it. `before` are those that the
/// head named before the change. `stored`, if given, are the present ones from the base on.
pub(crate) fn named(head: &Head, before: &[Compaction], stored: Option<Vec<Compaction>>) -> Vec<Compaction> {
    let base = head.base.start;
    let (earlier, present): (Vec<_>, Vec<_>) = before.iter().partition(|named| named.start < base);
    let present = stored.unwrap_or(present);
    // Readers of early revisions need these, until a collection deletes the revisions.
    let mut named: Vec<_> = earlier
        .into_iter()
        .filter(|named| !head.is_collected(named.start))
        .collect();
    named.drain(..named.len().saturating_sub(MAX_EARLIER_COMPACTIONS));
    // With a gap after the base, readers would miss frames.
    if present.first().is_some_and(|first| first.start == base) {
        named.extend(present);
    }
    named
}

/// Those of the named compactions that follow each other from this slot on. Others were named by a damaged or forged head,
/// or belong to another base.
pub(crate) fn usable(from: Slot, named: &[Compaction]) -> Vec<Compaction> {
    let mut usable: Vec<Compaction> = Vec::new();
    for compaction in named.iter().skip_while(|named| named.start != from) {
        let next = usable.last().map_or(from, |last| last.end);
        if compaction.start != next || compaction.end <= next || usable.len() == MAX_COMPACTIONS {
            break;
        }
        usable.push(*compaction);
    }
    usable
}

/// The compactions that were read last. A command that reads a journal, and then takes the lock, reads them once: their frames
/// share this memory. The name of a compaction contains a digest of its content, so a kept one is never outdated.
#[derive(Clone, Default)]
pub(crate) struct KeptCompactions(Arc<Mutex<VecDeque<(String, Bytes)>>>);

impl KeptCompactions {
    /// The content of the compaction with this path; none if it isn't kept.
    pub(crate) fn get(&self, path: &str) -> Option<Bytes> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|(known, _)| known == path);
        found.map(|(_, bytes)| bytes.clone())
    }

    /// Keeps the content of a compaction whose digest and frames were checked, unless it is large.
    pub(crate) fn keep(&self, path: &str, bytes: &Bytes) {
        if bytes.len() > MOST_BYTES {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| known != path);
        kept.push_back((path.to_owned(), bytes.clone()));
        while kept.len() > MOST || kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > MOST_BYTES {
            kept.pop_front();
        }
    }
}

impl fmt::Debug for KeptCompactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(kept.iter().map(|(path, _)| path)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{KeptCompactions, MOST, MOST_BYTES, named, usable};
    use bytes::Bytes;
    use state_core::head::{Compaction, MAX_EARLIER_COMPACTIONS};
    use state_core::{Digest, Head, Lineage, Nonce, Slot};

    fn compaction(start: u64, end: u64) -> Compaction {
        Compaction {
            start: Slot(start),
            end: Slot(end),
            digest: Digest::of(b""),
            length: 0,
        }
    }

    fn head(base: u64, floor: u64) -> Head {
        let lineage = Lineage::from_bits([1; 16]);
        let mut head = Head::new(lineage, "shop".parse().unwrap(), Nonce::from_bytes([1; 16]));
        (head.base.start, head.floor) = (Slot(base), Slot(floor));
        head
    }

    #[test]
    fn compaction_before_a_moved_base_stays_named() {
        let before = [compaction(0, 9), compaction(9, 12)];
        assert_eq!(named(&head(0, 0), &before, None), before);
        assert_eq!(named(&head(12, 0), &before, None), before);
        let stored = vec![compaction(13, 20)];
        let all = [before[0], before[1], stored[0]];
        assert_eq!(named(&head(13, 0), &before, Some(stored.clone())), all);
        let later = vec![compaction(13, 30)];
        let replaced = named(&head(13, 0), &all, Some(later.clone()));
        assert_eq!(replaced, [before[0], before[1], later[0]]);
        // A gap after the base.
        assert_eq!(named(&head(12, 0), &before, Some(stored)), before);
    }

    #[test]
    fn collected_compaction_is_named_no_longer() {
        let before = [compaction(0, 9), compaction(9, 12), compaction(12, 15)];
        assert_eq!(named(&head(12, 9), &before, None), before[1..]);
        assert_eq!(named(&head(12, 12), &before, None), before[2..]);
    }

    #[test]
    fn head_names_only_the_last_earlier_compactions() {
        let most = MAX_EARLIER_COMPACTIONS as u64;
        let before: Vec<_> = (0..most + 3).map(|at| compaction(at, at + 1)).collect();
        assert_eq!(named(&head(most + 3, 0), &before, None), before[3..]);
    }

    #[test]
    fn reader_uses_compactions_without_a_gap_from_its_slot_on() {
        let named = [
            compaction(0, 4),
            compaction(4, 8),
            compaction(8, 9),
            compaction(10, 12),
        ];
        assert_eq!(usable(Slot(0), &named), named[..2], "at most two");
        assert_eq!(usable(Slot(4), &named), named[1..3]);
        assert_eq!(usable(Slot(8), &named), named[2..3], "a gap follows");
        assert_eq!(usable(Slot(5), &named), []);
        assert_eq!(usable(Slot(0), &[compaction(0, 0), compaction(0, 4)]), []);
    }

    #[test]
    fn memory_for_compactions_is_bounded() {
        let kept = KeptCompactions::default();
        let half = Bytes::from(vec![0; MOST_BYTES / 2]);
        for path in ["a", "b", "b", "c"] {
            kept.keep(path, &half);
        }
        assert_eq!(kept.get("a"), None);
        assert!(kept.get("b").is_some() && kept.get("c").is_some());
        kept.keep("d", &Bytes::from(vec![0; MOST_BYTES + 1]));
        assert_eq!(kept.get("d"), None, "it would leave no place for others");
        assert!(kept.get("c").is_some());
        for number in 0..MOST {
            kept.keep(&number.to_string(), &Bytes::from_static(b"-"));
        }
        assert_eq!((kept.get("c"), kept.get("0").is_some()), (None, true));
    }
}

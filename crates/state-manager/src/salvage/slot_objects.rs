//! Reads the journal of a stack in an object store, as far as it is intact: one object per slot, and compactions of many slots.
//!
//! A slot is proven by the digest chain before its frame: from the slot before, a compaction, or a base that the head records.

use crate::salvage::damage::Damage;
use crate::salvage::frame_index::{FrameChain, FrameIndex};
use crate::salvage::journal_files::{JournalFiles, JournalReading};
use bytes::Bytes;
use state_core::backend::{ChainAnchors, Tail};
use state_core::head::Compaction;
use state_core::journal::ParsedFrame;
use state_core::{Digest, Epoch, Frame, Head, Lineage, Slot};
use std::collections::BTreeMap;

/// The journal objects of a stack, by their names.
#[derive(Debug, Default)]
pub(super) struct SlotObjects {
    slots: BTreeMap<Slot, Bytes>,
    compactions: BTreeMap<String, Bytes>,
}

/// The digest chains before slots, as far as frames that were read prove them.
struct KnownChains<'a> {
    lineage: Lineage,
    anchors: Option<ChainAnchors<'a>>,
    /// The chains after intact frames of compactions, by the slot that follows.
    compacted: BTreeMap<Slot, Vec<Digest>>,
}

/// The name of a compaction.
pub(super) fn compaction_name(compaction: &Compaction) -> String {
    let (start, end) = (compaction.start.get(), compaction.end.get());
    format!("{start:020}-{end:020}-{}", compaction.digest.short())
}

/// The name of the object of a slot.
pub(super) fn slot_name(slot: Slot) -> String {
    format!("{:020}", slot.get())
}

/// The slot in the name of an object.
fn slot_of(name: &str) -> Option<Slot> {
    let slot = Slot(name.parse().ok()?);
    (slot_name(slot) == name).then_some(slot)
}

/// The first slot and the digest in the name of a compaction.
fn compaction_of(name: &str) -> Option<(Slot, &str)> {
    let mut parts = name.splitn(3, '-');
    let (start, end, short) = (parts.next()?, parts.next()?, parts.next()?);
    slot_of(end)?;
    Some((slot_of(start)?, short))
}

impl SlotObjects {
    /// The journal objects among these; none if the journal is one of files.
    pub(super) fn of(stored: &[(String, Bytes)]) -> Option<Self> {
        let mut objects = Self::default();
        for (name, bytes) in stored {
            if let Some(slot) = slot_of(name) {
                objects.slots.insert(slot, bytes.clone());
            } else if compaction_of(name).is_some() {
                objects.compactions.insert(name.clone(), bytes.clone());
            }
        }
        (!objects.slots.is_empty() || !objects.compactions.is_empty()).then_some(objects)
    }

    /// Finds the intact frames, and all damage.
    pub(super) fn scan(&self, folder: &str, lineage: Lineage, head: Option<&Head>) -> JournalReading {
        let mut index = FrameIndex::default();
        let mut damage = Vec::new();
        let mut chains = KnownChains {
            lineage,
            anchors: head.map(ChainAnchors::of),
            compacted: BTreeMap::new(),
        };
        self.scan_compactions(&mut index, &chains);
        for frame in index.frames() {
            let after = chains.compacted.entry(frame.slot().next()).or_default();
            after.push(*frame.chain());
        }
        let proven = self.scan_slots(folder, &mut index, &chains, &mut damage);
        if let Some(head) = head {
            self.check_compactions(folder, head, &mut damage);
        }
        let floor = head.map_or(Slot::ZERO, |head| head.floor);
        let newest = index.newest(head.map(|head| head.epoch));
        let chain = newest.and_then(|end| index.back_from(&end));
        let tail = chain.as_ref().map_or(floor, |chain| chain.tail().next);
        if let Some(chain) = &chain {
            check_links(folder, chain, &proven, &mut damage);
        }
        self.check_gaps(folder, floor, tail, &mut damage);
        let last = self.slots.keys().next_back().map(|slot| slot.next());
        let is_whole =
            chain.is_some_and(|chain| chain.before.next <= floor) && last.is_none_or(|last| last <= tail);
        let files = JournalFiles {
            index,
            is_whole,
            epoch: Epoch::ZERO,
        };
        JournalReading { files, damage }
    }

    fn scan_compactions(&self, index: &mut FrameIndex, chains: &KnownChains<'_>) {
        for (name, bytes) in &self.compactions {
            let Some((start, short)) = compaction_of(name) else {
                continue;
            };
            if Digest::of(bytes).short() != short {
                continue;
            }
            let mut before = chains.before(start, None);
            before.extend(index.chains_before(start, chains.lineage));
            let slot_before = start.get().checked_sub(1).map(Slot);
            let stored = slot_before.and_then(|slot| self.slots.get(&slot));
            before.extend(stored.and_then(|bytes| Frame::unverified_chain(bytes)));
            for chain in before {
                index.scan(bytes, 0, Some(chain));
            }
        }
    }

    /// Adds the frames of slots. Returns the chains after the proven ones.
    fn scan_slots(
        &self,
        folder: &str,
        index: &mut FrameIndex,
        chains: &KnownChains<'_>,
        damage: &mut Vec<Damage>,
    ) -> BTreeMap<Slot, Digest> {
        let mut all_proven = BTreeMap::new();
        let mut previous: Option<(Slot, Digest)> = None;
        for (slot, bytes) in &self.slots {
            let follows = previous.filter(|(before, _)| before.next() == *slot);
            let before = chains.before(*slot, follows.map(|(_, chain)| chain));
            let (proven, reason) = proof(bytes, *slot, &before);
            if let Some((before, after)) = proven {
                index.scan(bytes, 0, Some(before));
                previous = Some((*slot, after));
                all_proven.insert(*slot, after);
                continue;
            }
            // Without the frame before it, a readable frame is neither proven nor known to be damaged.
            if !before.is_empty() || Frame::peek(bytes).is_none() {
                damage.push(Damage::new(format!("{folder}/{}", slot_name(*slot)), reason));
            }
            // The chain that the object records proves the next frame, which it was computed for.
            previous = Frame::unverified_chain(bytes).map(|chain| (*slot, chain));
        }
        all_proven
    }

    /// Reports compactions that the head names and readers can't use. Earlier ones than the base's aren't reported: after a crash, a
    /// head may name one that was never stored, and nothing would replace it any more.
    fn check_compactions(&self, folder: &str, head: &Head, damage: &mut Vec<Damage>) {
        let present = |compaction: &&Compaction| compaction.start >= head.base.start;
        for compaction in head.compactions.iter().filter(present) {
            let name = compaction_name(compaction);
            let reason = match self.compactions.get(&name) {
                Some(bytes) if Digest::of(bytes) == compaction.digest => continue,
                Some(_) => "its content doesn't match its digest; readers use the single slots instead",
                None => "it is missing; readers use the single slots instead",
            };
            damage.push(Damage::new(format!("{folder}/{name}"), reason));
        }
    }

    /// Reports missing slots. Slots before the floor may have been collected.
    fn check_gaps(&self, folder: &str, floor: Slot, tail: Slot, damage: &mut Vec<Damage>) {
        let mut next = floor;
        let end = [tail].into_iter().filter(|tail| *tail > floor);
        for slot in self.slots.range(floor..).map(|(slot, _)| *slot).chain(end) {
            if slot > next {
                let reason = match slot.get() - next.get() {
                    1 => "it is missing".to_owned(),
                    missing => format!("it and the next {} are missing", slots(missing - 1)),
                };
                damage.push(Damage::new(format!("{folder}/{}", slot_name(next)), reason));
            }
            next = next.max(slot.next());
        }
    }
}

/// Reports slots with an intact frame of another journal: an interrupted salvage leaves frames that were replaced, which a
/// compaction still proves.
fn check_links(folder: &str, chain: &FrameChain, proven: &BTreeMap<Slot, Digest>, damage: &mut Vec<Damage>) {
    let linked: BTreeMap<Slot, &Digest> = chain
        .frames
        .iter()
        .map(|frame| (frame.slot(), frame.chain()))
        .collect();
    for (slot, after) in proven.range(chain.before.next..) {
        if linked.get(slot).copied() != Some(after) {
            let reason = "its frame isn't part of the journal that ends with the newest frame";
            damage.push(Damage::new(format!("{folder}/{}", slot_name(*slot)), reason));
        }
    }
}

fn slots(count: u64) -> String {
    match count {
        1 => "slot".to_owned(),
        count => format!("{count} slots"),
    }
}

impl KnownChains<'_> {
    /// The chains that may precede a slot. `follows` is the one that the slot before records.
    fn before(&self, slot: Slot, follows: Option<Digest>) -> Vec<Digest> {
        let genesis = (slot == Slot::ZERO).then(|| Tail::genesis(self.lineage).chain);
        let anchor = self
            .anchors
            .as_ref()
            .and_then(|anchors| anchors.chain_before(slot));
        let compacted = self.compacted.get(&slot).into_iter().flatten().copied();
        follows
            .into_iter()
            .chain(genesis)
            .chain(anchor)
            .chain(compacted)
            .collect()
    }
}

/// The chain before a slot's frame that proves the frame, and the chain after it; none with the reason why it isn't proven.
fn proof(bytes: &Bytes, slot: Slot, before: &[Digest]) -> (Option<(Digest, Digest)>, &'static str) {
    let mut reason = "its frame can't be read";
    for chain in before {
        match Frame::parse(bytes, 0, chain) {
            ParsedFrame::Frame(frame) if frame.slot() != slot => {
                reason = "it contains the frame of another slot";
            }
            ParsedFrame::Frame(frame) if frame.bytes().len() != bytes.len() => {
                reason = "extra bytes follow its frame";
            }
            ParsedFrame::Frame(frame) => return (Some((*chain, *frame.chain())), reason),
            ParsedFrame::End => reason = "it is empty",
            ParsedFrame::Short { reason: why } | ParsedFrame::Bad { reason: why } => reason = why,
        }
    }
    (None, reason)
}

//! Reads the journal of a stack, as far as it is intact: segments and compactions in files. `slot_objects` reads those of
//! object stores.

use crate::compute::compute;
use crate::salvage::damage::Damage;
use crate::salvage::damaged_store::SharedStore;
use crate::salvage::frame_index::{FrameIndex, FrameScan};
use crate::salvage::slot_objects;
use bytes::Bytes;
use state_core::journal::{Fence, Frame, Previous};
use state_core::{Base, Digest, Epoch, Head, Lineage, Result, Slot};
use std::collections::BTreeMap;

/// Length of the chain digest at the start of a segment that was copied from another store.
const ADOPTED_PREFIX: usize = 32;

/// The intact frames of a journal.
#[derive(Debug)]
pub(super) struct JournalFiles {
    pub(super) index: FrameIndex,
    /// Whether no segment is damaged or missing.
    pub(super) is_whole: bool,
    /// The highest epoch of a segment.
    pub(super) epoch: Epoch,
}

/// The journal with its damage.
#[derive(Debug)]
pub(super) struct JournalReading {
    pub(super) files: JournalFiles,
    pub(super) damage: Vec<Damage>,
}

/// One segment as it was read.
struct Segment {
    scan: FrameScan,
    /// The chain before its first frame, as its fence records it.
    before: Option<Digest>,
    /// The end of the segment before, as the fence of this one records it.
    previous: Option<Previous>,
}

/// Reads all journal files of a stack.
pub(super) async fn read(
    store: &SharedStore,
    lineage: Lineage,
    head: Option<&Head>,
) -> Result<JournalReading> {
    let folder = format!("stacks/{lineage}/journal");
    let names = store.entries(&folder).await?;
    let paths: Vec<String> = names.iter().map(|name| format!("{folder}/{name}")).collect();
    let stored = store.read_all(&paths).await?;
    let files: Vec<(String, Bytes)> = names
        .into_iter()
        .zip(stored)
        .map(|(name, bytes)| (name, bytes.unwrap_or_default()))
        .collect();
    let head = head.cloned();
    compute(move || match slot_objects::SlotObjects::of(&files) {
        Some(objects) => objects.scan(&folder, lineage, head.as_ref()),
        None => scan_files(&folder, files, lineage, head.as_ref()),
    })
    .await
}

/// Scans segments and compactions in files.
fn scan_files(
    folder: &str,
    files: Vec<(String, Bytes)>,
    lineage: Lineage,
    head: Option<&Head>,
) -> JournalReading {
    let mut index = FrameIndex::default();
    let mut segments = BTreeMap::new();
    let mut compactions = Vec::new();
    let mut damage = Vec::new();
    for (file, bytes) in files {
        if let Some((slot, epoch)) = segment_name(&file) {
            let segment = scan_segment(&mut index, epoch, &bytes);
            segments.insert((epoch, slot), (file, segment));
        } else if let Some(slot) = file.strip_suffix(".frames").and_then(|slot| slot.parse().ok()) {
            compactions.push((format!("{folder}/{file}"), Slot(slot), bytes));
        }
    }
    let is_whole = check_segments(folder, &segments, head, &mut damage);
    let in_segments = index.clone();
    for (path, slot, bytes) in compactions {
        // The frames before it may have been collected: then bases of the head and fences record the chain before it.
        let bases = head.into_iter().flat_map(known_bases);
        let bases = bases.filter(|base| base.start == slot).map(|base| base.chain);
        let fences = segments.iter().filter(|((_, start), _)| *start == slot);
        let fences = fences.filter_map(|(_, (_, segment))| segment.before);
        let before = index
            .chains_before(slot, lineage)
            .into_iter()
            .chain(bases)
            .chain(fences);
        let mut end = 0;
        for chain in before {
            end = end.max(index.scan(&bytes, 0, Some(chain)).length as u64);
        }
        let named = head.map_or(&[][..], |head| &head.compactions).iter();
        let mut unreadable = named.filter(|named| named.start == slot && named.length > end);
        // A compaction isn't synced: after a power loss it may be empty or torn. Damage is only what the segments don't hold.
        if unreadable.any(|named| !is_whole || !in_segments.has_slots(named.start, named.end)) {
            let reason = "its frames can't be read, and the segments don't hold all of them";
            damage.push(Damage::new(path, reason));
        }
    }
    let epoch = segments.keys().map(|(epoch, _)| *epoch).max();
    let floor = head.map_or(Slot::ZERO, |head| head.floor);
    let copied = index
        .frames()
        .filter(|frame| !in_segments.contains(frame.chain()));
    let missing = copied.map(Frame::slot).filter(|slot| *slot >= floor).min();
    if let Some(slot) = missing.filter(|_| is_whole) {
        let reason = format!("the segment with slot {slot} is missing; a compaction holds its frames");
        damage.push(Damage::new(folder, reason));
    }
    let files = JournalFiles {
        is_whole: is_whole && missing.is_none(),
        index,
        epoch: epoch.unwrap_or(Epoch::ZERO),
    };
    JournalReading { files, damage }
}

/// The slot and the epoch in the name of a segment.
fn segment_name(file: &str) -> Option<(Slot, Epoch)> {
    let (slot, epoch) = file.strip_suffix(".log")?.split_once('-')?;
    let name = (Slot(slot.parse().ok()?), Epoch(epoch.parse().ok()?));
    (format!("{:020}-{}.log", name.0.get(), name.1) == file).then_some(name)
}

fn scan_segment(index: &mut FrameIndex, epoch: Epoch, bytes: &Bytes) -> Segment {
    if epoch == Epoch::ZERO {
        let chain = bytes.first_chunk::<ADOPTED_PREFIX>().copied();
        let start = ADOPTED_PREFIX.min(bytes.len());
        let scan = index.scan(bytes, start, chain.map(Digest::from_bytes));
        return Segment {
            scan,
            before: None,
            previous: None,
        };
    }
    let fence = Frame::unverified_payload(bytes);
    let fence = fence.and_then(|payload| Fence::decode("fence", payload).ok());
    let scan = index.scan(bytes, 0, fence.as_ref().map(|fence| fence.chain));
    // A fence is believed only if its frame is intact.
    let fence = fence.filter(|_| scan.length > 0);
    Segment {
        scan,
        before: fence.as_ref().map(|fence| fence.chain),
        previous: fence.and_then(|fence| fence.previous),
    }
}

/// The bases that a head records, with that at which a collection ended.
fn known_bases(head: &Head) -> impl Iterator<Item = &Base> {
    let collected = head.collection.as_ref().map(|collection| &collection.base);
    head.bases().map(|(_, base)| base).chain(collected)
}

/// Reports damaged and missing segments. Returns whether there is none.
fn check_segments(
    folder: &str,
    segments: &BTreeMap<(Epoch, Slot), (String, Segment)>,
    head: Option<&Head>,
    damage: &mut Vec<Damage>,
) -> bool {
    let before = damage.len();
    let fences = segments
        .values()
        .filter_map(|(_, segment)| segment.previous.as_ref());
    let counted: BTreeMap<&str, &Previous> = fences.map(|fence| (fence.segment.as_str(), fence)).collect();
    let newest = segments.keys().max();
    for (name, (file, segment)) in segments {
        let scan = &segment.scan;
        let reason = match counted.get(file.as_str()) {
            // The bytes that follow are those of a fenced writer.
            Some(counted) if scan.length as u64 >= counted.length => None,
            Some(_) => Some(scan.reason.unwrap_or("it was cut")),
            None if scan.length == 0 => Some("it doesn't begin with an intact fence"),
            // A crash may have cut the last write, and nothing follows a cut.
            None if Some(name) == newest && !scan.continues => None,
            None => scan.reason.filter(|_| scan.continues),
        };
        damage.extend(reason.map(|reason| Damage::new(format!("{folder}/{file}"), reason)));
    }
    let floor = head.map_or(Slot::ZERO, |head| head.floor);
    let files: Vec<&str> = segments.values().map(|(file, _)| file.as_str()).collect();
    for (name, counted) in counted {
        // Segments before the floor may have been collected.
        if !files.contains(&name) && counted.last_slot >= floor {
            damage.push(Damage::new(format!("{folder}/{name}"), "it is missing"));
        }
    }
    damage.len() == before
}

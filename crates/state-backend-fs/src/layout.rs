//! File names of the store's tree, formatted and parsed, and the contents of `format` and `meta.json`.

use serde::{Deserialize, Serialize};
use state_core::{Enveloped, Epoch, Generation, Lineage, Slot};
use std::fmt;

/// The layout version that this build reads and writes.
pub(crate) const LAYOUT: u64 = 1;

pub(crate) const FORMAT: &str = "format";
pub(crate) const NAMES: &str = "names";
pub(crate) const NAMES_LOCK: &str = "names.lock";
pub(crate) const STACKS: &str = "stacks";
pub(crate) const META: &str = "meta.json";
pub(crate) const HEAD: &str = "head.json";
pub(crate) const HEAD_LOCK: &str = "head.lock";
pub(crate) const JOURNAL: &str = "journal";

/// The beginning of the names of temporary files, which readers ignore.
pub(crate) const TEMPORARY: &str = ".tmp-";

/// The file whose space is freed before data is deleted on a full disk.
pub(crate) const RESERVE: &str = "reserve";

/// The largest head, name, format or metadata that is read, in bytes.
pub(crate) const MAX_DOCUMENT: u64 = 1 << 20;

/// The largest object in bytes.
pub(crate) const MAX_OBJECT: u64 = 1 << 30;

/// The largest segment in bytes. Checkpoints start new segments long before this limit.
pub(crate) const MAX_SEGMENT: u64 = 8 << 30;

/// Limit on the preallocated space after the last frame of a segment, in bytes.
pub(crate) const MAX_PREALLOCATED: u64 = 1 << 20;

/// Content of `format`. Unknown fields of later layouts are ignored, so that an error can report their version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub(crate) layout: u64,
    /// Whether the members of the group of the store's folder may use the store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) group: bool,
}

impl Enveloped for Layout {
    const KIND: &'static str = "format";
}

/// Content of the file `meta.json` of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meta {
    pub(crate) lineage: Lineage,
}

impl Enveloped for Meta {
    const KIND: &'static str = "meta";
}

/// Returns the name of the writer's lock file in a generation.
pub(crate) fn lock_file(generation: Generation) -> String {
    format!("lock.{generation}")
}

/// `<slot:020>-<epoch>.log`: a segment, named by its first slot and its owner's epoch. Ordered by epoch, then by slot
/// (the order of the fields): the later segment is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    pub(crate) epoch: Epoch,
    pub(crate) slot: Slot,
}

impl SegmentName {
    /// Parses a file name; returns `None` if it isn't the name of a segment.
    pub(crate) fn parse(file: &str) -> Option<Self> {
        let (slot, epoch) = file.strip_suffix(".log")?.split_once('-')?;
        let name = Self {
            epoch: Epoch(epoch.parse().ok()?),
            slot: Slot(slot.parse().ok()?),
        };
        (name.to_string() == file).then_some(name)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{}.log", self.slot.get(), self.epoch)
    }
}

/// `<start:020>.frames`: a compaction, named by the first slot of the base whose frames it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionName {
    pub(crate) start: Slot,
}

impl CompactionName {
    /// Parses a file name; returns `None` if it isn't the name of a compaction.
    pub(crate) fn parse(file: &str) -> Option<Self> {
        let start = Slot(file.strip_suffix(".frames")?.parse().ok()?);
        let name = Self { start };
        (name.to_string() == file).then_some(name)
    }
}

impl fmt::Display for CompactionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}.frames", self.start.get())
    }
}

#[cfg(test)]
mod tests {
    use super::{CompactionName, Epoch, SegmentName, Slot};

    #[test]
    fn compaction_name_round_trips_and_others_are_refused() {
        let name = CompactionName { start: Slot(345) };
        assert_eq!(name.to_string(), "00000000000000000345.frames");
        assert_eq!(CompactionName::parse(&name.to_string()), Some(name));
        for other in [
            "345.frames",
            "+0000000000000000345.frames",
            "00000000000000000345-12.log",
            "00000000000000000345.frames.gz",
        ] {
            assert_eq!(CompactionName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn segment_name_round_trips_and_others_are_refused() {
        let name = SegmentName {
            epoch: Epoch(12),
            slot: Slot(345),
        };
        assert_eq!(name.to_string(), "00000000000000000345-12.log");
        assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
        for unexpected_type_error in [
            "345-12.log",
            "00000000000000000345-012.log",
            "00000000000000000345-+12.log",
            "00000000000000000345-12.log.gz",
            ".tmp-1-2",
            "../00000000000000000345-12.log",
        ] {
            assert_eq!(
                SegmentName::parse(unexpected_type_error),
                None,
                "{unexpected_type_error}"
            );
        }
    }

    #[test]
    fn segments_are_ordered_by_epoch_then_slot() {
        let name = |epoch, slot| SegmentName {
            epoch: Epoch(epoch),
            slot: Slot(slot),
        };
        assert!(name(2, 3) > name(1, 9));
        assert!(name(2, 4) > name(2, 3));
    }
}

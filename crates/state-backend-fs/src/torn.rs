//! Decides whether an interrupted write explains the bytes after the last whole frame of the last segment.
//!
//! ```text
//!  growing       ├─frame─┼─frame─┼guard┤                   the next frame replaces the guard
//!  preallocated  ├─frame─┼─frame─┼guard┼ 0 0 0 0 0 0 0 ┤   the next frame replaces guard and zeros
//! ```
//!
//! A disk loses a write in whole sectors, and a lost sector of a frame shows by its zeros. One to seven zeros prove nothing,
//! because damage to a byte or chance can leave as many. A lost sector must still be recognized if the frame has only so few
//! bytes in that sector. The **guard** makes that possible: with a frame that ends up to seven bytes before or after the start of
//! a sector, the writer also writes the first bytes of the next frame, which all data frames share.
//!
//! - The frame ends up to seven bytes *after* the start of a sector: the guard is then missing in its lost last sector too, which makes
//!   eight bytes or more. If only bytes of the frame are zero, the frame is damaged.
//! - The frame ends up to seven bytes *before* the end of a sector: the part of the next frame in that sector is durable before
//!   that frame is written.
//!
//! The MAC of a frame follows its chain digest. If only the sector with the end of the MAC was lost, the frame reads as whole and
//! forged. Such a frame is torn, too.

use state_core::Frame;
use std::ops::Range;

/// The unit in which a disk loses writes, in bytes.
const SECTOR: usize = 512;

/// How many bytes of a sector must be zero to prove a lost write. One or two bytes may be zero by chance, or by
/// damage to one byte.
pub(crate) const MIN_ZERO_RUN: usize = 8;

/// The first bytes of every data frame: magic, version, kind and digest algorithm.
const GUARD: [u8; MIN_ZERO_RUN - 1] = *b"SJF1\x01\x01\x01";

/// The length of a frame without payload and MAC: no frame is shorter.
const MIN_FRAME: usize = 96;

/// Returns the bytes that a writer writes after a frame that ends at `end`.
pub(crate) fn guard(end: u64) -> &'static [u8] {
    let sector = SECTOR as u64;
    let (after, before) = (end % sector, sector - end % sector);
    match (usize::try_from(after), usize::try_from(before)) {
        (Ok(1..MIN_ZERO_RUN), _) => &GUARD,
        // In the next sector, the guard would be the old content of a part of the next frame that isn't all zero.
        (_, Ok(before @ 1..MIN_ZERO_RUN)) => &GUARD[..before],
        _ => &[],
    }
}

/// Returns whether the file ends within the frame at `at`, as after an unfinished write.
pub(crate) fn is_cut(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    let magic = &rest[..rest.len().min(4)];
    // The first frame can't be cut: it is a fence, which was synced before the segment got its name.
    at > 0 && Frame::is_header_prefix(magic) && !frame_follows(rest)
}

/// Returns whether the frame at `at` is incomplete because a part of it never reached the disk: one of its sectors, or all
/// bytes from one of them on.
pub(crate) fn is_unwritten(bytes: &[u8], at: usize) -> bool {
    if at == 0 {
        return false;
    }
    // A file system may extend a file before it writes the data, and a writer extends a file before it needs the space.
    let written = at + written_length(&bytes[at..]);
    if guard(at as u64).starts_with(&bytes[at..written]) {
        return true;
    }
    // A header that ends in zeros is the last one that can begin before them.
    let searched = bytes.len().min(written + Frame::extent(&[]));
    let is_followed = frame_follows(&bytes[at..searched]);
    !is_followed && (is_prefix(bytes, at, written) || has_lost_sector(bytes, at))
}

/// Returns whether the end of the MAC of a frame at `at` never reached the disk, although the frame's digest is right. The digest
/// doesn't cover the MAC.
pub(crate) fn has_unwritten_mac(bytes: &[u8], at: usize, frame: &Frame) -> bool {
    let end = at + frame.bytes().len();
    // Nearly all frames end in another byte, so only a few are examined further.
    at > 0
        && frame.key_id().is_some()
        && bytes[end - 1] == 0
        && has_lost_sector(bytes, at)
        && !frame_follows(&bytes[at..])
}

/// Returns whether the first bytes of a data frame were written into preallocated space, and nothing of the rest. An append is
/// cut at any byte if its process is killed, and while a reader sees it half copied.
///
/// Zeros must follow the frame: without preallocated space, the file is cut instead.
fn is_prefix(bytes: &[u8], at: usize, written: usize) -> bool {
    let prefix = &bytes[at..written];
    let known = prefix.len().min(GUARD.len());
    let Some(end) = frame_end(bytes, at) else {
        return false;
    };
    prefix[..known] == GUARD[..known] && written + MIN_ZERO_RUN <= end && end + MIN_ZERO_RUN <= bytes.len()
}

/// The end of the frame at `at` according to its header. Of a frame whose header isn't complete, only the bytes are counted
/// that every frame has; `None` if a complete header is damaged.
fn frame_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let header = Frame::extent(&[]);
    match Frame::peek(rest) {
        Some(_) => Some(at.saturating_add(Frame::extent(rest))),
        None => (written_length(rest) < header).then_some(at + MIN_FRAME),
    }
}

/// Returns whether a sector of the frame at `at` reads as zeros, from the start of the frame or sector to the end of the sector
/// or file.
fn has_lost_sector(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    // Without a readable header the length of the frame is unknown: only the sectors of the shortest frame are examined then.
    let end = at.saturating_add(Frame::extent(rest).max(MIN_FRAME));
    // The guard was written with the frame before, and is in the lost sector's old content.
    let guarded = at % SECTOR < MIN_ZERO_RUN && guard(at as u64) == &rest[..rest.len().min(GUARD.len())];
    let start = if guarded { at + GUARD.len() } else { at };
    let known_end = bytes.len().min(end + guard_after_start(end));
    (at / SECTOR..end.min(bytes.len()).div_ceil(SECTOR)).any(|sector| {
        let begin = start.max(sector * SECTOR);
        let sector_end = bytes.len().min((sector + 1) * SECTOR);
        let known = sector_end.min(known_end).saturating_sub(begin);
        known >= MIN_ZERO_RUN && is_zero(bytes, begin..sector_end)
    })
}

/// The length of the guard of a frame that ends right after the start of a sector, which is in the same sector.
fn guard_after_start(end: usize) -> usize {
    match end % SECTOR {
        1..MIN_ZERO_RUN => GUARD.len(),
        _ => 0,
    }
}

/// The number of bytes up to the last one that isn't zero.
fn written_length(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last + 1)
}

fn is_zero(bytes: &[u8], range: Range<usize>) -> bool {
    bytes[range].iter().all(|byte| *byte == 0)
}

/// Returns whether another frame begins after the first byte. Each batch is synced before the next is written, so a
/// frame that is followed by another was complete once, and is damaged rather than torn.
fn frame_follows(rest: &[u8]) -> bool {
    Frame::header_anywhere(rest.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests;

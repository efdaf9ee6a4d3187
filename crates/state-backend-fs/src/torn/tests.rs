//! Tests which bytes at the end of a journal count as an interrupted append, and which as damage.

use super::{GUARD, MIN_FRAME, MIN_ZERO_RUN, SECTOR, guard, has_unwritten_mac, is_cut, is_unwritten};
use bytes::Bytes;
use state_core::journal::{FrameKind, ParsedFrame};
use state_core::testkit::key::TagKey;
use state_core::{Digest, Epoch, Frame, Nonce, Slot};

/// Length of the file of these tests.
const FILE: usize = 8 * SECTOR;

fn frame(payload: usize) -> Frame {
    let (nonce, payload) = (Nonce::from_bits([9; 16]), vec![b'x'; payload]);
    Frame::new(FrameKind::Data, Epoch(1), Slot(7), nonce, &payload, &before()).unwrap()
}

/// A frame with a MAC.
fn sealed_frame(payload: usize) -> Frame {
    let (nonce, payload) = (Nonce::from_bits([9; 16]), vec![b'x'; payload]);
    let key = Some(&TagKey::new(1));
    Frame::tagged(
        key,
        FrameKind::Data,
        Epoch(1),
        Slot(7),
        nonce,
        &payload,
        &before(),
    )
    .unwrap()
}

/// The chain before the frame.
fn before() -> Digest {
    Digest::of(b"before")
}

/// What a reader makes of the bytes at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Whole,
    Torn,
    Damaged,
}

fn judge(bytes: &[u8], at: usize) -> Verdict {
    let parsed = Frame::parse(&Bytes::copy_from_slice(bytes), at, &before());
    let is_short = matches!(parsed, ParsedFrame::Short { .. });
    match parsed {
        ParsedFrame::Frame(frame) if has_unwritten_mac(bytes, at, &frame) => Verdict::Torn,
        ParsedFrame::Frame(_) => Verdict::Whole,
        _ if is_short && is_cut(bytes, at) || is_unwritten(bytes, at) => Verdict::Torn,
        _ => Verdict::Damaged,
    }
}

/// A preallocated file before and after the append of a frame at `at`, each with the guard that belongs to it.
fn appended(at: usize, frame: &Frame) -> (Vec<u8>, Vec<u8>) {
    let mut old = vec![0; FILE];
    old[..at].fill(b'o');
    let guard_before = guard(at as u64);
    old[at..at + guard_before.len()].copy_from_slice(guard_before);
    let (mut new, end) = (old.clone(), at + frame.bytes().len());
    let guard_after = guard(end as u64);
    new[at..end].copy_from_slice(frame.bytes());
    new[end..end + guard_after.len()].copy_from_slice(guard_after);
    (old, new)
}

#[test]
fn guard_is_the_prefix_of_every_data_frame() {
    let shortest = frame(0);
    assert_eq!(shortest.bytes().len(), MIN_FRAME);
    assert!(shortest.bytes().starts_with(&GUARD));
    for end in 0..2 * SECTOR as u64 {
        let guard = guard(end);
        assert!(GUARD.starts_with(guard));
        assert!((end % 512) + guard.len() as u64 <= 512, "within one sector");
    }
}

#[test]
fn preallocated_space_after_a_frame_ends_the_journal() {
    for at in 1..=2 * SECTOR {
        let (old, _) = appended(at, &frame(0));
        for length in (at + 1..at + 2 * MIN_FRAME).chain([FILE]) {
            assert!(judge(&old[..length], at) == Verdict::Torn, "{at} of {length}");
        }
    }
}

/// Checks what a reader makes of a file to which a frame was appended at `at`, if any of the written sectors were lost.
fn check_lost_sectors(frame: &Frame, at: usize, (old, new): (&[u8], &[u8])) {
    let first = at / SECTOR;
    let end = at + frame.bytes().len();
    let written = (end + guard(end as u64).len()).div_ceil(SECTOR) - first;
    for kept in 0..1 << written {
        let mut bytes = old.to_vec();
        for sector in (0..written).filter(|sector| kept >> sector & 1 == 1) {
            let sector_end = new.len().min((first + sector + 1) * SECTOR);
            let range = (first + sector) * SECTOR..sector_end;
            bytes[range.clone()].copy_from_slice(&new[range]);
        }
        let is_whole = bytes[at..end] == frame.bytes()[..];
        let expected = if is_whole { Verdict::Whole } else { Verdict::Torn };
        let message = format!("at {at}, {frame:?}, sectors {kept:b}");
        assert_eq!(judge(&bytes, at), expected, "{message}");
    }
}

/// Frames whose lengths end them at all places of a sector when they are appended at all places.
fn frames() -> Vec<Frame> {
    let lengths = [0, 1, 40, 400, 1_000];
    lengths
        .into_iter()
        .flat_map(|payload| [frame(payload), sealed_frame(payload)])
        .collect()
}

#[test]
fn append_that_lost_any_sectors_is_torn_or_whole() {
    for frame in frames() {
        for at in SECTOR..2 * SECTOR {
            let (old, new) = appended(at, &frame);
            check_lost_sectors(&frame, at, (&old, &new));
        }
    }
}

#[test]
fn append_to_a_growing_file_that_lost_sectors_is_torn() {
    for frame in frames() {
        for at in SECTOR..2 * SECTOR {
            let (mut old, mut new) = appended(at, &frame);
            let end = at + frame.bytes().len();
            let length = (end + guard(end as u64).len()).max(at + guard(at as u64).len());
            // The file may have its new length without the new sectors, and its old length as well.
            old.truncate(length);
            new.truncate(length);
            check_lost_sectors(&frame, at, (&old, &new));
            for cut in at + guard(at as u64).len()..length {
                let verdict = judge(&new[..cut], at);
                let expected = if cut < end { Verdict::Torn } else { Verdict::Whole };
                assert_eq!(verdict, expected, "at {at}, cut at {cut} of {end}");
            }
        }
    }
}

#[test]
fn zeros_in_the_mac_of_a_frame_before_another_are_kept() {
    let (first, at) = (sealed_frame(390), SECTOR + 20);
    let (_, mut bytes) = appended(at, &first);
    let end = at + first.bytes().len();
    assert!(end % SECTOR < 16, "the last sector holds only bytes of the MAC");
    bytes[end - end % SECTOR..end].fill(0);
    assert_eq!(judge(&bytes, at), Verdict::Torn);
    bytes[end..end + MIN_FRAME].copy_from_slice(frame(0).bytes());
    // The frame was synced before the next one was written. Its MAC is damaged, and authentication refuses it.
    assert_eq!(judge(&bytes, at), Verdict::Whole);
}

#[test]
fn append_that_was_cut_at_any_byte_is_torn() {
    let frame = frame(700);
    let length = frame.bytes().len();
    for at in [SECTOR, SECTOR + 3, 700, 2 * SECTOR - 3] {
        let (old, _) = appended(at, &frame);
        for cut in 0..length {
            let mut bytes = old.clone();
            bytes[at..at + cut].copy_from_slice(&frame.bytes()[..cut]);
            // Fewer zeros may be damage to a byte of an acknowledged frame.
            let expected = match cut + MIN_ZERO_RUN <= length {
                true => Verdict::Torn,
                false => Verdict::Damaged,
            };
            assert_eq!(judge(&bytes, at), expected, "at {at}, cut {cut}");
            // Without preallocated space after the frame, an append leaves no zeros.
            let is_lost_sector = judge(&bytes[..at + length], at) != Verdict::Damaged;
            assert!(!is_lost_sector || cut < length - 8, "at {at}, cut {cut}");
        }
    }
}

#[test]
fn damaged_frame_before_preallocated_space_is_corrupt() {
    let frame = frame(1);
    let is_near_edge = |place: usize| place % SECTOR < 17 || place % SECTOR > SECTOR - 17;
    for at in SECTOR..2 * SECTOR {
        let (_, new) = appended(at, &frame);
        let end = at + frame.bytes().len();
        if !is_near_edge(at) && !is_near_edge(end) && at % 31 != 0 {
            continue;
        }
        // Up to seven bytes at any place, and each other value of one byte at some places.
        for begin in at..end {
            // Only the first seven bytes of a small frame's first sector may be other than zero: without them it is lost.
            let most = if begin == at { GUARD.len() } else { MIN_ZERO_RUN };
            for run in 1..most {
                let mut bytes = new.clone();
                bytes[begin..end.min(begin + run)].fill(0);
                let is_changed = bytes != new;
                let expected = if is_changed {
                    Verdict::Damaged
                } else {
                    Verdict::Whole
                };
                assert_eq!(judge(&bytes, at), expected, "at {at}, zeros {begin} + {run}");
            }
        }
        for value in 0..=u8::MAX {
            let mut bytes = new.clone();
            let place = at + usize::from(value) % frame.bytes().len();
            bytes[place] ^= value;
            let expected = if value == 0 {
                Verdict::Whole
            } else {
                Verdict::Damaged
            };
            assert_eq!(judge(&bytes, at), expected, "at {at}, byte {place}");
        }
    }
}

#[test]
fn damaged_frame_before_another_is_corrupt() {
    let (first, at) = (frame(700), SECTOR + 20);
    let (_, bytes) = appended(at, &first);
    let end = at + first.bytes().len();
    let mut both = bytes;
    both[end..end + MIN_FRAME].copy_from_slice(frame(0).bytes());
    for sector in at / SECTOR..end.div_ceil(SECTOR) {
        let mut damaged = both.clone();
        damaged[at.max(sector * SECTOR)..end.min((sector + 1) * SECTOR)].fill(0);
        assert_eq!(judge(&damaged, at), Verdict::Damaged, "sector {sector}");
    }
    assert_eq!(judge(&both, at), Verdict::Whole);
}

#[test]
fn foreign_bytes_before_preallocated_space_are_corrupt() {
    for junk in [&b"x"[..], b"SJFX", b"SJF1\x01\x02", b"\0x", &[b'x'; 600]] {
        let mut bytes = vec![0; FILE];
        bytes[..700].fill(b'o');
        bytes[700..700 + junk.len()].copy_from_slice(junk);
        assert_eq!(judge(&bytes, 700), Verdict::Damaged, "{junk:?}");
    }
}

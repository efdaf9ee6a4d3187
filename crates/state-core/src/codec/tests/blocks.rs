//! The result of decoding the stored form in blocks depends neither on the blocks nor on the number of threads.

use super::laws::snapshot;
use super::{encode_stored, with_entries};
use crate::codec::{decode, decode_stored};
use crate::testkit::run::property_config;
use crate::{Error, Result, Snapshot};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::num::NonZeroUsize;

fn decoded(blocks: &[&[u8]], threads: usize) -> Result<Snapshot> {
    let mut blocks = blocks.iter();
    let threads = NonZeroUsize::new(threads).expect("at least one thread");
    decode_stored("stored", threads, |buffer| {
        Ok(fill(buffer, blocks.next().copied()))
    })
}

/// Replaces the content of a buffer by the block, if there is one.
pub(super) fn fill(buffer: &mut Vec<u8>, block: Option<&[u8]>) -> bool {
    buffer.clear();
    buffer.extend_from_slice(block.unwrap_or_default());
    block.is_some()
}

/// Cuts a text after some of its newlines.
fn cut<'t>(text: &'t [u8], places: &[Index]) -> Vec<&'t [u8]> {
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', text).map(|at| at + 1).collect();
    let mut ends: Vec<usize> = match ends.len() {
        0 => Vec::new(),
        count => places.iter().map(|place| ends[place.index(count)]).collect(),
    };
    ends.sort_unstable();
    let mut start = 0;
    let mut blocks = Vec::new();
    for end in ends.into_iter().chain([text.len()]) {
        blocks.push(&text[start..end]);
        start = end;
    }
    blocks
}

/// The outcome with all details, so that errors can be compared.
fn outcome(result: Result<Snapshot>) -> std::result::Result<Snapshot, String> {
    result.map_err(|error| format!("{error:?}"))
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn blocks_and_threads_change_no_result(
        snapshot in snapshot(),
        places in vec(any::<Index>(), 0..6),
        damages in vec((any::<Index>(), any::<Index>(), 0..7_u8), 0..4),
        threads in 1..5_usize,
    ) {
        let mut lines: Vec<Vec<u8>> =
            encode_stored(&snapshot).split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        for (line, byte, kind) in damages {
            if lines.is_empty() {
                break;
            }
            let at = line.index(lines.len());
            let last = lines[at].len() - 1;
            let place = byte.index(last + 1);
            match kind {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => lines[at].insert(place, 0xff),
                3 => lines[at].insert(place, b'\n'),
                4 => lines.insert(at, b"]}\n".to_vec()),
                // Removes or adds a comma before the newline.
                5 if lines[at].ends_with(b",\n") => drop(lines[at].remove(last - 1)),
                5 => lines[at].insert(last, b','),
                _ => lines[at][place] = b'"',
            }
        }
        let text = lines.concat();
        let expected = outcome(decoded(&[&text], 1));
        if let Ok(snapshot) = &expected {
            prop_assert_eq!(&decode("stored", &text).unwrap(), snapshot);
        }
        let blocks = cut(&text, &places);
        prop_assert_eq!(outcome(decoded(&blocks, threads)), expected.clone());
        let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
        prop_assert_eq!(outcome(decoded(&lines, threads)), expected);
    }
}

/// A stored snapshot with `count` entries, of which some have an invalid type.
fn numbered(count: usize, is_invalid: impl Fn(usize) -> bool) -> String {
    let entry = |index| {
        let entry_type = if is_invalid(index) { "bush" } else { "leaf" };
        format!("{{\"address\":\"a{index}\",\"kind\":\"k{index}\",\"type\":\"{entry_type}\"}}")
    };
    let entries: Vec<String> = (0..count).map(entry).collect();
    with_entries(&entries.join(",\n"))
}

#[test]
fn first_error_is_reported_by_any_number_of_threads() {
    let text = numbered(1000, |index| index >= 500 && index % 7 == 3);
    let lines: Vec<&[u8]> = text.as_bytes().split_inclusive(|&byte| byte == b'\n').collect();
    let expected = outcome(decoded(&[text.as_bytes()], 1));
    assert!(expected.is_err());
    for threads in 1..=8 {
        assert_eq!(outcome(decoded(&lines, threads)), expected, "{threads} threads");
    }
}

#[test]
fn entries_of_all_threads_keep_their_order() {
    let text = numbered(1000, |_| false);
    let lines: Vec<&[u8]> = text.as_bytes().split_inclusive(|&byte| byte == b'\n').collect();
    let expected = decode("stored", text.as_bytes()).unwrap();
    for threads in 1..=8 {
        assert_eq!(decoded(&lines, threads).unwrap(), expected, "{threads} threads");
    }
}

#[test]
fn error_of_the_source_ends_the_decoding() {
    let text = numbered(100, |index| index == 50);
    let lines: Vec<&[u8]> = text.as_bytes().split_inclusive(|&byte| byte == b'\n').collect();
    for threads in [1, 4] {
        for (readable, is_malformed) in [(40, false), (60, true)] {
            let (mut rest, mut failed) = (lines[..readable].iter(), 0);
            let result = decode_stored("stored", NonZeroUsize::new(threads).unwrap(), |buffer| match rest
                .next()
            {
                Some(line) => Ok(fill(buffer, Some(line))),
                None => {
                    failed += 1;
                    Err(Error::corrupt("stored", 0, "it can't be read"))
                }
            });
            let error = result.unwrap_err();
            assert_eq!(matches!(error, Error::Malformed { .. }), is_malformed, "{error}");
            assert!(failed <= 1, "the source was called after its error");
        }
    }
}

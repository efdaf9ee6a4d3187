//! Every cut and every changed bit of a small journal.

use super::fixture::{TestStore, append, data};
use state_core::backend::JournalView;
use state_core::{Backend, Error, ErrorKind};
use std::fs;

/// Creates a journal of two segments. Also returns the end of each frame in the second segment.
async fn small() -> (TestStore, Vec<u64>) {
    let place = TestStore::new().await;
    let owner = place.acquire("ann").await;
    append(&owner, owner.tail, "a\n").await;
    drop(owner);
    let owner = place.acquire("bob").await;
    let tail = append(&owner, owner.tail, "bb\n").await;
    append(&owner, tail, "ccc\n").await;
    let read = place.store.read_journal(place.lineage, None).await.unwrap();
    let lengths = read.frames[2..].iter().map(|frame| frame.bytes().len() as u64);
    let ends = lengths.scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    (place, ends.collect())
}

/// Checks the result of reading a journal of which a byte was changed. The guard after the last frame belongs to no frame.
fn check_changed(read: Result<JournalView, Error>, is_guard: bool, message: &str) {
    match read {
        Ok(read) if is_guard => assert_eq!(data(&read.frames), ["a\n", "bb\n", "ccc\n"], "{message}"),
        read => {
            let error = read.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{message}: {error}");
            assert!(error.object().contains("journal/0000"), "{message}: {error}");
        }
    }
}

#[tokio::test]
async fn cut_last_segment_keeps_its_whole_frames() {
    let (place, ends) = small().await;
    let path = place.segment(2, 2);
    let whole = fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let expected = ends.iter().filter(|end| **end <= cut as u64).count();
        let read = place.store.read_journal(place.lineage, None).await;
        match expected.checked_sub(1) {
            None => assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "{cut}"),
            Some(count) => {
                let expected = &["a\n", "bb\n", "ccc\n"][..=count];
                assert_eq!(data(&read.unwrap().frames), expected, "{cut}");
            }
        }
    }
    let end = usize::try_from(*ends.last().unwrap()).unwrap();
    fs::write(&path, &whole[..end - 5]).unwrap();
    let next = place.acquire("next").await;
    append(&next, next.tail, "d\n").await;
    assert_eq!(place.payloads().await, ["a\n", "bb\n", "d\n"]);
    // The torn frame doesn't count, even if the rest of it appears later.
    fs::write(&path, &whole).unwrap();
    assert_eq!(place.payloads().await, ["a\n", "bb\n", "d\n"]);
}

#[tokio::test]
async fn every_changed_bit_is_corrupt_and_names_the_file() {
    let (place, ends) = small().await;
    for (path, end) in [
        (place.segment(0, 1), u64::MAX),
        (place.segment(2, 2), *ends.last().unwrap()),
    ] {
        let whole = fs::read(&path).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &changed).unwrap();
            let read = place.store.read_journal(place.lineage, None).await;
            check_changed(read, bit as u64 / 8 >= end, &format!("bit {bit}"));
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[tokio::test]
async fn every_byte_set_to_zero_or_ones_is_corrupt() {
    let (place, ends) = small().await;
    let path = place.segment(2, 2);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        for value in [0, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            fs::write(&path, &changed).unwrap();
            let read = place.store.read_journal(place.lineage, None).await;
            if changed == whole {
                read.unwrap();
            } else {
                let is_guard = at as u64 >= *ends.last().unwrap();
                check_changed(read, is_guard, &format!("byte {at} to {value}"));
            }
        }
    }
}

#[tokio::test]
async fn cut_of_a_continued_segment_is_corrupt() {
    let (place, _) = small().await;
    let path = place.segment(0, 1);
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{cut}: {error}");
    }
}

#[tokio::test]
async fn long_file_without_frames_is_refused_before_it_is_read() {
    // A sparse file of 5 GB takes no space. Reading it took 5 GB of memory.
    let (place, ends) = small().await;
    let path = place.segment(2, 2);
    let whole = fs::read(&path).unwrap();
    for kept in [0, whole.len()] {
        fs::write(&path, &whole[..kept]).unwrap();
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(5 << 30)
            .unwrap();
        let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("no frame begins here"), "{error}");
    }
    let end = usize::try_from(*ends.last().unwrap()).unwrap();
    assert!(whole.len() - end < 8, "only a guard follows");
    fs::write(&path, &whole).unwrap();
    // Fewer zeros may be an interrupted write.
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    assert_eq!(place.payloads().await, ["a\n", "bb\n", "ccc\n"]);
}

//! Segments: rotation, bases, history, and the end that a clean close records in the head.

use super::fixture::{TestStore, append, data, nonce};
use state_core::backend::Tail;
use state_core::head::{Base, Watermark};
use state_core::{Backend, Digest, ErrorKind, Slot};
use std::fs;

/// Creates two segments, and a base at the second.
async fn rotated() -> (TestStore, Tail) {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let tail = append(&owner, owner.tail, "a\n").await;
    let tail = append(&owner, tail, "b\n").await;
    let base = Base {
        snapshot: None,
        content: None,
        start: tail.next,
        chain: tail.chain,
    };
    let tail = owner.writer.rotate(tail, nonce(4)).await.unwrap();
    let tail = append(&owner, tail, "c\n").await;
    let change = move |head: &mut state_core::Head| {
        head.base = base.clone();
        Ok(())
    };
    owner.writer.swap_head(nonce(5), &change).await.unwrap();
    (place, tail)
}

#[tokio::test]
async fn journal_is_read_from_the_base_or_an_earlier_slot() {
    let (place, tail) = rotated().await;
    let view = place.store.read_journal(place.lineage, None).await.unwrap();
    assert_eq!(view.frames[0].slot(), Slot(3));
    assert_eq!(view.tail, tail);
    assert_eq!(data(&view.frames), ["c\n"]);
    let slots = |from| {
        let place = &place;
        async move {
            let view = place
                .store
                .read_journal(place.lineage, Some(Slot(from)))
                .await
                .unwrap();
            assert_eq!(view.tail, tail);
            view.frames
                .iter()
                .map(|frame| frame.slot().get())
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(slots(0).await, [0, 1, 2, 3, 4]);
    assert_eq!(slots(2).await, [2, 3, 4]);
    assert_eq!(slots(4).await, [4]);
    assert!(slots(5).await.is_empty());
    assert!(slots(99).await.is_empty());
    assert_eq!(data(&place.acquire("next").await.frames), ["c\n"]);
}

#[tokio::test]
async fn base_with_a_wrong_chain_is_corrupt() {
    let (place, _) = rotated().await;
    let owner = place.acquire("next").await;
    let wrong = |head: &mut state_core::Head| {
        head.base.chain = Digest::of(b"other");
        Ok(())
    };
    owner.writer.swap_head(nonce(6), &wrong).await.unwrap();
    let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn missing_segment_is_corrupt_unless_collected() {
    let (place, _) = rotated().await;
    fs::remove_file(place.segment(0, 1)).unwrap();
    place.store.read_journal(place.lineage, None).await.unwrap();
    let error = place
        .store
        .read_journal(place.lineage, Some(Slot(0)))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let owner = place.acquire("next").await;
    let floor = |head: &mut state_core::Head| {
        head.floor = Slot(3);
        Ok(())
    };
    owner.writer.swap_head(nonce(6), &floor).await.unwrap();
    let error = place
        .store
        .read_journal(place.lineage, Some(Slot(0)))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    fs::remove_file(place.segment(3, 1)).unwrap();
    let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.object().ends_with("00000000000000000003-1.log"), "{error}");
    assert!(error.object().contains(&place.lineage.to_string()), "{error}");
}

#[tokio::test]
async fn journal_cut_before_its_last_clean_close_is_corrupt() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let first = append(&owner, owner.tail, "a\n").await;
    let length = fs::metadata(place.segment(0, 1)).unwrap().len();
    append(&owner, first, "b\n").await;
    let mark = |slot, tail: Tail| {
        move |head: &mut state_core::Head| {
            let (slot, chain) = (Slot(slot), tail.chain);
            head.watermark = Some(Watermark { slot, chain });
            Ok(())
        }
    };
    owner.writer.swap_head(nonce(5), &mark(1, first)).await.unwrap();
    assert_eq!(place.payloads().await, ["a\n", "b\n"]);
    // A cut between two frames is detected only before the end that the head records.
    let file = fs::File::options().write(true).open(place.segment(0, 1)).unwrap();
    file.set_len(length).unwrap();
    assert_eq!(place.payloads().await, ["a\n"]);
    for length in [length - 1, length - 98, length - 99] {
        file.set_len(length).unwrap();
        let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{length}: {error}");
    }
}

#[tokio::test]
async fn wrong_chain_at_the_last_clean_close_is_corrupt() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    append(&owner, owner.tail, "a\n").await;
    let wrong = |head: &mut state_core::Head| {
        head.watermark = Some(Watermark {
            slot: Slot(1),
            chain: Digest::of(b"other"),
        });
        Ok(())
    };
    owner.writer.swap_head(nonce(5), &wrong).await.unwrap();
    let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn restored_old_head_is_corrupt() {
    let place = TestStore::new().await;
    let old = fs::read(place.stack().join("head.json")).unwrap();
    drop(place.acquire("me").await);
    fs::write(place.stack().join("head.json"), old).unwrap();
    let request = super::fixture::request("me", None);
    for error in [
        place.store.read_journal(place.lineage, None).await.unwrap_err(),
        place.store.acquire(place.lineage, &request).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

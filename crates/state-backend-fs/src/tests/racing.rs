//! Races: a second process runs at the worst moment, between two calls of the first.

use super::fixture::{TestStore, append, data, frame, nonce, request};
use state_core::head::Watermark;
use state_core::{Backend, Epoch, Error, Slot};

#[tokio::test]
async fn break_during_an_acquire_leaves_one_owner() {
    for at in [0, 1] {
        let place = TestStore::new().await;
        drop(place.acquire("ann").await);
        let (other, lineage) = (place.other(), place.lineage);
        let (answer, taken) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        // The second process runs before call 0, after the lock file is taken, or before call 1, after `head.lock` is
        // taken too.
        place.store.meter().faults.interrupt(at, move || {
            let request = request("bob", Some(Epoch(1)));
            answer
                .send(runtime.block_on(other.acquire(lineage, &request)))
                .unwrap();
        });
        let mine = place.store.acquire(place.lineage, &request("cy", None)).await;
        match (mine, taken.await.unwrap()) {
            (Err(Error::Locked { holder, .. }), Ok(theirs)) => {
                assert_eq!((at, holder.who.as_str()), (0, "bob"));
                append(&theirs, theirs.tail, "b\n").await;
            }
            (Ok(mine), Err(Error::Locked { object, .. })) => {
                assert_eq!(at, 1);
                assert!(object.ends_with("head.lock"));
                append(&mine, mine.tail, "c\n").await;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(place.payloads().await.len(), 1);
    }
}

#[tokio::test]
async fn takeover_rereads_a_head_that_changed_since_it_was_read() {
    let place = TestStore::new().await;
    drop(place.acquire("ann").await);
    let path = place.stack().join("head.json");
    let mut changed = place.store.read_head(place.lineage).await.unwrap();
    changed.name = "shop/new".parse().unwrap();
    let bytes = state_core::Enveloped::encode(&changed);
    // Replaces the head after it was read, right before call 1 writes the holder into `head.lock`.
    place
        .store
        .meter()
        .faults
        .interrupt(1, move || std::fs::write(path, bytes).unwrap());
    let owner = place.acquire("bob").await;
    assert_eq!(owner.head.name.to_string(), "shop/new");
}

#[tokio::test]
async fn frame_written_during_a_takeover_counts_for_both_or_none() {
    let place = TestStore::new().await;
    let old = place.acquire("ann").await;
    let (other, lineage) = (place.other(), place.lineage);
    let (answer, taken) = tokio::sync::oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    // The second process runs after the write and before the sync.
    place.store.meter().faults.interrupt(1, move || {
        let request = request("bob", Some(Epoch(1)));
        answer
            .send(runtime.block_on(other.acquire(lineage, &request)))
            .unwrap();
    });
    let error = old
        .writer
        .append(&frame(Epoch(1), old.tail, "a\n"))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Fenced {
                indeterminate: true,
                ..
            }
        ),
        "{error}"
    );
    let new = taken.await.unwrap().unwrap();
    assert_eq!(data(&new.frames), ["a\n"]);
    assert_eq!(place.payloads().await, ["a\n"]);
}

/// The journal ends at the watermark when the takeover examines it, and goes on before its fencing point.
#[tokio::test]
async fn frame_acknowledged_during_a_takeover_is_kept() {
    let place = TestStore::new().await;
    let old = place.acquire("ann").await;
    let (slot, chain) = (Slot(old.tail.next.0 - 1), old.tail.chain);
    let mark = |head: &mut state_core::Head| {
        head.watermark = Some(Watermark { slot, chain });
        Ok(())
    };
    old.writer.swap_head(nonce(5), &mark).await.unwrap();
    let (tail, other) = (old.tail, place.other());
    let (answer, appended) = tokio::sync::oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    // Calls 0 and 1 write the holders. Call 2 stages the new head: the journal was examined before it.
    other.meter().faults.interrupt(2, move || {
        let frame = frame(Epoch(1), tail, "a\n");
        answer.send(runtime.block_on(old.writer.append(&frame))).unwrap();
    });
    let request = request("bob", Some(Epoch(1)));
    let new = other.acquire(place.lineage, &request).await.unwrap();
    appended.await.unwrap().unwrap();
    assert_eq!(data(&new.frames), ["a\n"]);
    assert_eq!(place.payloads().await, ["a\n"]);
}

#[tokio::test]
async fn head_change_is_repeated_on_a_changed_head() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let path = place.stack().join("head.json");
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let change = |head: &mut state_core::Head| {
        if calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            let mut other = head.clone();
            other.name = "shop/new".parse().unwrap();
            std::fs::write(&path, state_core::Enveloped::encode(&other)).unwrap();
        }
        head.floor = Slot(1);
        Ok(())
    };
    let head = owner.writer.swap_head(nonce(6), &change).await.unwrap();
    assert_eq!(
        (head.floor, head.name.to_string().as_str()),
        (Slot(1), "shop/new")
    );
    assert_eq!(calls.into_inner(), 2);
}

#[tokio::test]
async fn reader_is_refused_while_the_new_epoch_has_no_segment() {
    let place = TestStore::new().await;
    let (other, lineage) = (place.other(), place.lineage);
    let (answer, read) = tokio::sync::oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    // Calls 0 and 1 write the holders, and calls 2 to 6 replace the head. Before call 7 the head has the new epoch, and
    // the journal has no segment of it.
    place.store.meter().faults.interrupt(7, move || {
        answer
            .send(runtime.block_on(other.read_journal(lineage, None)))
            .unwrap();
    });
    let owner = place.acquire("me").await;
    match read.await.unwrap() {
        Err(Error::Locked { object, holder }) => {
            assert!(object.ends_with("head.lock"));
            assert_eq!(holder.who, "me");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(owner.head.epoch, Epoch(1));
}

#[tokio::test]
async fn reader_starts_over_after_a_takeover() {
    let place = TestStore::new().await;
    let owner = place.acquire("ann").await;
    append(&owner, owner.tail, "a\n").await;
    let (other, lineage) = (place.other(), place.lineage);
    let runtime = tokio::runtime::Handle::current();
    place.store.meter().faults.interrupt(0, move || {
        let request = request("bob", Some(Epoch(1)));
        drop(runtime.block_on(other.acquire(lineage, &request)).unwrap());
    });
    let view = place.store.read_journal(place.lineage, None).await.unwrap();
    assert_eq!(view.head.epoch, Epoch(2));
    assert_eq!(view.frames.len(), 3);
}

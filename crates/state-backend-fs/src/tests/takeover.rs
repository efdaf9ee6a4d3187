//! Takeovers: locks, fencing, removal, and takeovers that crash.

use super::fixture::{TestStore, after, append, data, frame, nonce, request};
use bytes::Bytes;
use state_core::backend::{ObjectName, Tail};
use state_core::journal::FrameKind;
use state_core::{Backend, Epoch, Error, ErrorKind, Generation, Slot};
use std::fs;

#[tokio::test]
async fn error_for_a_second_owner_names_the_lock_holder() {
    let place = TestStore::new().await;
    let first = place.acquire("ann").await;
    for store in [&place.store, &place.other()] {
        match store.acquire(place.lineage, &request("bob", None)).await {
            Err(Error::Locked { holder, .. }) => assert_eq!(holder.who, "ann"),
            other => panic!("{other:?}"),
        }
        let status = store.lock_status(place.lineage).await.unwrap();
        assert_eq!(status.epoch, Epoch(1));
        assert_eq!(status.holder.unwrap().who, "ann");
    }
    first.writer.release().await.unwrap();
    let status = place.store.lock_status(place.lineage).await.unwrap();
    assert_eq!(status.holder, None);
    assert_eq!(place.acquire("bob").await.head.epoch, Epoch(2));
}

#[tokio::test]
async fn dropped_writer_frees_its_lock_and_keeps_its_frames() {
    let place = TestStore::new().await;
    for round in 1..=20 {
        let owner = place.acquire("me").await;
        assert_eq!(owner.head.epoch, Epoch(round));
        assert_eq!(data(&owner.frames).len() as u64, round - 1);
        append(&owner, owner.tail, "{}\n").await;
    }
}

#[tokio::test]
async fn stale_writer_is_fenced_after_break() {
    let place = TestStore::new().await;
    let old = place.acquire("ann").await;
    let tail = append(&old, old.tail, "kept\n").await;
    let other = place.other();
    let new = other
        .acquire(place.lineage, &request("bob", Some(Epoch(1))))
        .await
        .unwrap();
    assert_eq!(new.head.epoch, Epoch(2));
    assert_eq!(new.head.generation, Generation(1));
    assert_eq!(data(&new.frames), ["kept\n"]);

    let stale = frame(Epoch(1), tail, "stale\n");
    match old.writer.append(&stale).await {
        Err(Error::Fenced {
            mine,
            theirs,
            indeterminate,
            ..
        }) => {
            assert_eq!((mine, theirs, indeterminate), (Epoch(1), Epoch(2), true));
        }
        result => panic!("{result:?}"),
    }
    // From now on the stale writer fails before it writes.
    let again = old.writer.append(&stale).await;
    assert!(
        matches!(
            again,
            Err(Error::Fenced {
                indeterminate: false,
                ..
            })
        ),
        "{again:?}"
    );
    assert_eq!(old.writer.check().await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(
        old.writer
            .swap_head(nonce(5), &|_| Ok(()))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Fenced
    );
    assert_eq!(
        old.writer.remove(nonce(5)).await.unwrap_err().kind(),
        ErrorKind::Fenced
    );
    drop(old);

    append(&new, new.tail, "new\n").await;
    assert_eq!(place.payloads().await, ["kept\n", "new\n"]);
    drop(new);
    assert_eq!(data(&place.acquire("cy").await.frames), ["kept\n", "new\n"]);
}

#[tokio::test]
async fn stale_rotation_is_fenced_and_its_segment_ignored() {
    let place = TestStore::new().await;
    let old = place.acquire("ann").await;
    let tail = append(&old, old.tail, "kept\n").await;
    let new = place
        .other()
        .acquire(place.lineage, &request("bob", Some(Epoch(1))))
        .await
        .unwrap();
    let error = old.writer.rotate(tail, nonce(4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(place.segment(2, 1).exists());
    append(&new, new.tail, "new\n").await;
    assert_eq!(place.payloads().await, ["kept\n", "new\n"]);
}

#[tokio::test]
async fn break_requires_the_current_epoch() {
    let place = TestStore::new().await;
    let owner = place.acquire("ann").await;
    let other = place.other();
    for epoch in [0, 2] {
        let broken = other
            .acquire(place.lineage, &request("bob", Some(Epoch(epoch))))
            .await;
        assert_eq!(broken.unwrap_err().kind(), ErrorKind::Conflict);
    }
    owner.writer.check().await.unwrap();
    let breaker = other
        .acquire(place.lineage, &request("bob", Some(Epoch(1))))
        .await
        .unwrap();
    // The lock file of the new generation excludes the next process.
    let third = place.store.acquire(place.lineage, &request("cy", None)).await;
    match third {
        Err(Error::Locked { holder, .. }) => assert_eq!(holder.who, "bob"),
        other => panic!("{other:?}"),
    }
    drop(owner);
    breaker.writer.check().await.unwrap();
}

#[tokio::test]
async fn head_swap_keeps_fields_that_callers_may_not_change() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let change = |head: &mut state_core::Head| {
        head.floor = Slot(0);
        head.name = "shop/new".parse().unwrap();
        head.epoch = Epoch(77);
        head.generation = Generation(77);
        Ok(())
    };
    let head = owner.writer.swap_head(nonce(6), &change).await.unwrap();
    assert_eq!(head, place.store.read_head(place.lineage).await.unwrap());
    assert_eq!((head.epoch, head.generation), (Epoch(1), Generation(0)));
    assert_eq!(head.nonce, nonce(6));
    assert_eq!(head.name.to_string(), "shop/new");
    append(&owner, owner.tail, "{}\n").await;
}

#[tokio::test]
async fn removed_stack_accepts_no_writes() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let tail = append(&owner, owner.tail, "{}\n").await;
    owner.writer.remove(nonce(8)).await.unwrap();
    let head = place.store.read_head(place.lineage).await.unwrap();
    assert!(head.removed);
    assert_eq!(head.epoch, Epoch(2));
    let late = owner.writer.append(&frame(Epoch(1), tail, "late\n")).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Closed);
    let name = ObjectName::Snapshot {
        slot: Slot(1),
        short: "0".repeat(16),
    };
    let late = owner.writer.create(&name, Bytes::new()).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Closed);
    owner.writer.release().await.unwrap();
    for break_epoch in [None, Some(Epoch(2))] {
        let result = place
            .store
            .acquire(place.lineage, &request("you", break_epoch))
            .await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Conflict);
    }
    assert_eq!(place.payloads().await, ["{}\n"]);
}

#[tokio::test]
async fn crashed_takeover_costs_only_an_epoch() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    append(&owner, owner.tail, "kept\n").await;
    drop(owner);
    let dead = place.acquire("dead").await;
    drop(dead);
    fs::remove_file(place.segment(2, 2)).unwrap();
    assert_eq!(place.payloads().await, ["kept\n"]);
    let next = place.acquire("next").await;
    assert_eq!(next.head.epoch, Epoch(3));
    assert_eq!(data(&next.frames), ["kept\n"]);
    append(&next, next.tail, "more\n").await;
    assert_eq!(place.payloads().await, ["kept\n", "more\n"]);
}

#[tokio::test]
async fn refused_takeover_of_a_damaged_journal_changes_nothing() {
    let place = TestStore::new().await;
    let owner = place.acquire("ann").await;
    append(&owner, owner.tail, "kept\n").await;
    drop(owner);
    let path = place.segment(0, 1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let head = fs::read(place.stack().join("head.json")).unwrap();
    for _ in 0..4 {
        let refused = place.store.acquire(place.lineage, &request("bob", None)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(fs::read(place.stack().join("head.json")).unwrap(), head);
    }
    bytes[100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let next = place.acquire("bob").await;
    assert_eq!(
        (data(&next.frames), next.head.epoch),
        (vec!["kept\n".to_owned()], Epoch(2))
    );
}

#[tokio::test]
async fn reader_waits_for_a_takeover_and_names_its_process() {
    let place = TestStore::new().await;
    drop(place.acquire("me").await);
    fs::remove_file(place.segment(0, 1)).unwrap();
    let lock = fs::File::options()
        .write(true)
        .open(place.stack().join("head.lock"))
        .unwrap();
    lock.lock().unwrap();
    fs::write(place.stack().join("head.lock"), r#"{"who":"hung","pid":7}"#).unwrap();
    match place.other().read_journal(place.lineage, None).await {
        Err(Error::Locked { object, holder }) => {
            assert!(object.ends_with("head.lock"), "{object}");
            assert_eq!((holder.who.as_str(), holder.pid), ("hung", 7));
        }
        other => panic!("{other:?}"),
    }
    lock.unlock().unwrap();
    assert!(place.payloads().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_acknowledged_frames_during_takeovers() {
    let place = std::sync::Arc::new(TestStore::new().await);
    let acknowledged = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let order = std::sync::atomic::Ordering::SeqCst;
    let reader = tokio::spawn({
        let (place, acknowledged, done) = (place.clone(), acknowledged.clone(), done.clone());
        async move {
            let other = crate::FsBackend::open(place.root()).unwrap();
            let (mut reads, mut last) = (0, 0);
            while !done.load(order) {
                let floor = acknowledged.load(order).max(last);
                let view = other.read_journal(place.lineage, None).await.unwrap();
                let seen = data(&view.frames);
                assert!(seen.len() >= floor, "{} of {floor}", seen.len());
                for (index, payload) in seen.iter().enumerate() {
                    assert_eq!(payload, &format!("{index}\n"));
                }
                (reads, last) = (reads + 1, seen.len());
            }
            reads
        }
    });
    let mut count = 0;
    let mut before = None;
    for round in 0..20 {
        let break_epoch = (before.is_some() && round % 2 == 1).then_some(Epoch(round));
        if break_epoch.is_none() {
            drop(before.take());
        }
        let owner = place
            .store
            .acquire(place.lineage, &request("me", break_epoch))
            .await
            .unwrap();
        let mut tail = owner.tail;
        for step in 0..6 {
            if step == 3 {
                tail = owner.writer.rotate(tail, nonce(4)).await.unwrap();
            }
            tail = append(&owner, tail, &format!("{count}\n")).await;
            count += 1;
            acknowledged.store(count, order);
        }
        before = Some(owner);
    }
    done.store(true, order);
    assert!(reader.await.unwrap() > 0);
    assert_eq!(place.payloads().await.len(), count);
}

#[tokio::test]
async fn frame_out_of_order_is_refused_and_closes_the_writer() {
    let place = TestStore::new().await;
    for case in 0..4 {
        let owner = place.acquire("me").await;
        let epoch = owner.writer.epoch();
        let good = frame(epoch, owner.tail, "a\n");
        let wrong = match case {
            0 => frame(Epoch(epoch.get() + 1), owner.tail, "a\n"),
            1 => frame(epoch, after(&good), "a\n"),
            2 => frame(
                epoch,
                Tail {
                    chain: *good.chain(),
                    ..owner.tail
                },
                "a\n",
            ),
            _ => {
                let Tail { next, chain } = owner.tail;
                state_core::Frame::new(FrameKind::Fence, epoch, next, nonce(3), b"{}\n", &chain).unwrap()
            }
        };
        let error = owner.writer.append(&wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{wrong:?}");
        let error = owner.writer.append(&good).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{wrong:?}");
        assert_eq!(place.payloads().await.len(), 0);
    }
}

#[tokio::test]
async fn rotation_beyond_the_end_is_refused_without_effect() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let good = frame(Epoch(1), owner.tail, "a\n");
    let error = owner.writer.rotate(after(&good), nonce(4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    owner.writer.append(&good).await.unwrap();
    assert_eq!(place.payloads().await, ["a\n"]);
}

#[tokio::test]
async fn unreadable_head_after_a_write_is_indeterminate() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let head = place.stack().join("head.json");
    fs::rename(&head, place.folder.path().join("head")).unwrap();
    let first = frame(Epoch(1), owner.tail, "a\n");
    let error = owner.writer.append(&first).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    fs::rename(place.folder.path().join("head"), &head).unwrap();
    let error = owner
        .writer
        .append(&frame(Epoch(1), after(&first), "b\n"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    drop(owner);
    // Indeterminate, and applied, as the next owner shows.
    assert_eq!(data(&place.acquire("next").await.frames), ["a\n"]);
}

#[tokio::test]
async fn dropped_future_still_finishes_its_operation() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let first = frame(Epoch(1), owner.tail, "a\n");
    {
        let mut append = std::pin::pin!(owner.writer.append(&first));
        let polled =
            std::future::poll_fn(|context| std::task::Poll::Ready(append.as_mut().poll(context))).await;
        drop(polled);
    }
    append(&owner, after(&first), "b\n").await;
    assert_eq!(place.payloads().await, ["a\n", "b\n"]);
}

#[tokio::test]
async fn lock_with_a_forged_generation_can_be_broken() {
    let place = TestStore::new().await;
    drop(place.acquire("me").await);
    let path = place.stack().join("head.json");
    let mut head = place.store.read_head(place.lineage).await.unwrap();
    head.generation = Generation(u64::MAX);
    std::fs::write(path, state_core::Enveloped::encode(&head)).unwrap();
    let _holder = place.acquire("me").await;
    for epoch in [2, 3] {
        let (other, broken) = (place.other(), request("bob", Some(Epoch(epoch))));
        let broken = other.acquire(place.lineage, &broken).await.unwrap();
        broken.writer.check().await.unwrap();
        std::mem::forget(broken);
    }
}

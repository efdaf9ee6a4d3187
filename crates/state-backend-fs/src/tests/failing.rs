//! Every call that changes the disk fails once, or is the last call before the process crashes.

use super::faults::FaultKind;
use super::fixture::{TestStore, after, append, data, frame, head, nonce, request};
use crate::FsBackend;
use bytes::Bytes;
use rustix::io::Errno;
use state_core::backend::{NamePointer, NameTarget, ObjectName};
use state_core::{Backend, Epoch, Error, ErrorKind, Frame, Slot, Writer};

/// The result of a run: the acknowledged operations, and the error that ended it.
#[derive(Debug, Default)]
struct Outcome {
    named: bool,
    acknowledged: Vec<String>,
    failed: Option<(String, Error)>,
    object: bool,
    swapped: bool,
}

fn object() -> ObjectName {
    ObjectName::Snapshot {
        slot: Slot(2),
        short: "0123456789abcdef".to_owned(),
    }
}

fn pointer() -> NamePointer {
    NamePointer::new(
        "shop/web".parse().unwrap(),
        NameTarget::Lineage(head().lineage),
        nonce(1),
    )
}

/// Runs the life of a stack up to the first failed write.
async fn live(store: &FsBackend, outcome: &mut Outcome) -> Result<(), Error> {
    store.create_stack(&head()).await?;
    store.swap_name(&pointer().name, None, &pointer()).await?;
    outcome.named = true;
    let owner = store.acquire(head().lineage, &request("me", None)).await?;
    let mut tail = owner.tail;
    for step in 0..4 {
        if step == 2 {
            tail = owner.writer.rotate(tail, nonce(4)).await?;
            owner.writer.create(&object(), Bytes::from_static(b"x")).await?;
            outcome.object = true;
            let swap = |head: &mut state_core::Head| {
                head.floor = Slot(1);
                Ok(())
            };
            owner.writer.swap_head(nonce(5), &swap).await?;
            outcome.swapped = true;
        }
        let payload = format!("{step}\n");
        let next = frame(Epoch(1), tail, &payload);
        if let Err(error) = owner.writer.append(&next).await {
            check_sticky(owner.writer.as_ref(), &next).await;
            outcome.failed = Some((payload, error));
            return Ok(());
        }
        outcome.acknowledged.push(payload);
        tail = after(&next);
    }
    owner.writer.release().await
}

/// Checks that a writer refuses all writes after a failed append, although the disk works again.
async fn check_sticky(writer: &dyn Writer, frame: &Frame) {
    let again = writer.append(frame).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Closed, "{again}");
    let swap = writer.swap_head(nonce(6), &|_| Ok(())).await.unwrap_err();
    assert_eq!(swap.kind(), ErrorKind::Closed, "{swap}");
}

/// Runs the life of a stack with one fault; returns whether the fault was reached.
async fn with_fault(at: usize, how: FaultKind) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let store = FsBackend::create(folder.path()).unwrap();
    store.meter().faults.plan(at, how);
    let mut outcome = Outcome::default();
    let result = live(&store, &mut outcome).await;
    let reached = store.meter().faults.record().len() > at;
    let context = format!("{how:?} at {at}: {outcome:?}, {result:?}");
    drop(store);

    let store = FsBackend::open(folder.path()).unwrap();
    if outcome.named {
        let name = store.read_name(&pointer().name).await.unwrap();
        assert_eq!(name, Some(pointer()), "{context}");
        check_state(&store, &outcome, &context).await;
    } else {
        // A failed creation can be repeated from the start.
        store.create_stack(&head()).await.unwrap();
        store.swap_name(&pointer().name, None, &pointer()).await.unwrap();
        store
            .acquire(head().lineage, &request("next", None))
            .await
            .unwrap();
    }
    reached
}

async fn check_state(store: &FsBackend, outcome: &Outcome, context: &str) {
    let view = store.read_journal(head().lineage, Some(Slot(0))).await.unwrap();
    let next = store
        .acquire(head().lineage, &request("next", None))
        .await
        .unwrap();
    let seen = data(&next.frames);
    assert_eq!(data(&view.frames), seen, "{context}");
    let surplus = seen.strip_prefix(outcome.acknowledged.as_slice()).expect(context);
    match &outcome.failed {
        None => assert!(surplus.is_empty(), "{context}"),
        Some((payload, error)) => match error.kind() {
            ErrorKind::NotApplied => assert!(surplus.is_empty(), "{context}"),
            ErrorKind::Indeterminate => {
                assert!(surplus.is_empty() || surplus == [payload.as_str()], "{context}");
            }
            kind => panic!("{kind:?}: {context}"),
        },
    }
    if outcome.object {
        assert_eq!(
            store.read(head().lineage, &object()).await.unwrap(),
            b"x"[..],
            "{context}"
        );
    }
    if outcome.swapped {
        assert_eq!(next.head.floor, Slot(1), "{context}");
    }
    append(&next, next.tail, "more\n").await;
}

#[tokio::test]
async fn any_failed_call_loses_nothing_and_reports_its_outcome() {
    for how in [FaultKind::Before, FaultKind::After, FaultKind::Crash] {
        let mut at = 0;
        while with_fault(at, how).await {
            at += 1;
        }
        assert!(at > 50, "only {at} calls were made to fail");
    }
}

#[tokio::test]
async fn refused_write_is_not_applied_failed_sync_indeterminate() {
    for (at, kind) in [(0, ErrorKind::NotApplied), (1, ErrorKind::Indeterminate)] {
        let place = TestStore::new().await;
        let owner = place.acquire("me").await;
        let tail = append(&owner, owner.tail, "a\n").await;
        place.store.meter().faults.refuse(at, Errno::NOSPC);
        let next = frame(Epoch(1), tail, "b\n");
        let error = owner.writer.append(&next).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        check_sticky(owner.writer.as_ref(), &next).await;
        drop(owner);
        let next = place.acquire("next").await;
        assert_eq!(data(&next.frames).len(), 1 + at);
        append(&next, next.tail, "c\n").await;
    }
}

#[tokio::test]
async fn full_disk_while_creating_an_object_keeps_the_writer_open() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    // First the creation of the temporary file fails, then the write of its bytes.
    for at in [0, 1] {
        place.store.meter().faults.refuse(at, Errno::NOSPC);
        let error = owner
            .writer
            .create(&object(), Bytes::from_static(b"x"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");
    }
    append(&owner, owner.tail, "a\n").await;
    owner
        .writer
        .create(&object(), Bytes::from_static(b"x"))
        .await
        .unwrap();
    let left = std::fs::read_dir(place.stack().join("snapshots"))
        .unwrap()
        .count();
    assert_eq!(left, 1);
}

#[tokio::test]
async fn files_and_folders_are_synced_in_protocol_order() {
    let place = TestStore::new().await;
    let faults = &place.store.meter().faults;
    let lineage = place.lineage.to_string();
    let folder = format!("syncfolder {lineage}");
    faults.record();
    let owner = place.acquire("me").await;
    let replaced = [
        "stage head.json",
        "write head.json",
        "sync head.json",
        "move head.json",
        &folder,
    ];
    let segment = "00000000000000000000-1.log";
    let new = |segment: &str| {
        ["stage", "write", "sync", "move"]
            .map(|call| format!("{call} {segment}"))
            .to_vec()
    };
    let mut expected = vec!["write lock.0", "write head.lock"];
    expected.extend(replaced);
    let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
    expected.extend(new(segment));
    expected.push("syncfolder journal".to_owned());
    assert_eq!(faults.record(), expected);

    let tail = append(&owner, owner.tail, "a\n").await;
    assert_eq!(
        faults.record(),
        [format!("write {segment}"), format!("sync {segment}")]
    );
    owner.writer.rotate(tail, nonce(4)).await.unwrap();
    let second = "00000000000000000002-1.log";
    let mut expected = new(second);
    expected.push("syncfolder journal".to_owned());
    assert_eq!(faults.record(), expected);

    // A reader returns only durable frames, and a new owner continues only durable frames.
    place.store.read_journal(place.lineage, None).await.unwrap();
    let read = [
        format!("sync {second}"),
        format!("sync {segment}"),
        "syncfolder journal".to_owned(),
    ];
    assert_eq!(faults.record(), [&read[..], &[folder]].concat());
    drop(owner);
    let next = place.acquire("next").await;
    assert_eq!(faults.record()[7..10], read);
    append(&next, next.tail, "b\n").await;
    drop(next);
    faults.record();
    place.acquire("last").await;
    let third = "00000000000000000003-2.log";
    let rewritten = [format!("write {third}"), format!("sync {third}")];
    assert_eq!(
        faults.record()[7..9],
        rewritten,
        "a sync alone may have failed before"
    );
}

#[tokio::test]
async fn name_is_durable_after_it_was_read() {
    let place = TestStore::new().await;
    place
        .store
        .swap_name(&pointer().name, None, &pointer())
        .await
        .unwrap();
    let faults = &place.store.meter().faults;
    let swapped = faults.record();
    let last = ["move web.json", "syncfolder shop"];
    assert_eq!(swapped[swapped.len() - 2..], last);
    place.store.read_name(&pointer().name).await.unwrap();
    assert_eq!(
        faults.record(),
        ["syncfolder shop", "syncfolder names", "syncfolder store"]
    );
}

/// Another process may have created it, and may not have synced it yet.
#[tokio::test]
async fn existing_object_is_durable_before_it_counts_as_created() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let name = object();
    let create = || owner.writer.create(&name, Bytes::from_static(b"x"));
    create().await.unwrap();
    let faults = &place.store.meter().faults;
    let created = faults.record();
    let file = created.last_chunk::<2>().unwrap()[0].replace("move ", "sync ");
    create().await.unwrap();
    assert_eq!(faults.record(), [file.as_str(), "syncfolder snapshots"]);
}

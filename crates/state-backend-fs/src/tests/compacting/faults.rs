//! Closes whose compaction fails or is cut short: the close succeeds if the head can be written, no acknowledged frame is
//! lost, and the next clean close makes the compaction whole.

use super::{close, compaction, session, slots, try_close};
use crate::FsBackend;
use crate::tests::faults::FaultKind;
use crate::tests::fixture::{TestStore, append, data, request};
use rustix::io::Errno;
use state_core::backend::{Acquired, Tail};
use state_core::{Backend, ErrorKind, Slot};
use std::fs;

/// A stack with closed sessions, and the owner of one more, which has appended a frame.
struct Prepared {
    place: TestStore,
    owner: Acquired,
    tail: Tail,
    sessions: u64,
}

/// After one session, the next close makes the compaction. After two sessions, it adds frames to the compaction.
const SESSIONS: [u64; 2] = [1, 2];

impl Prepared {
    async fn new(sessions: u64) -> Self {
        let place = TestStore::new().await;
        for _ in 0..sessions {
            session(&place.store).await;
        }
        let owner = place.acquire("me").await;
        let tail = append(&owner, owner.tail, "mine\n").await;
        Self {
            place,
            owner,
            tail,
            sessions,
        }
    }

    /// Returns the calls of a close and a release that change the disk.
    async fn calls(sessions: u64) -> Vec<String> {
        let Self {
            place, owner, tail, ..
        } = Self::new(sessions).await;
        place.store.meter().faults.record();
        close(&owner, tail).await;
        owner.writer.release().await.unwrap();
        place.store.meter().faults.record()
    }

    /// Checks as another process that all acknowledged frames are there, and that the next close makes the compaction
    /// whole.
    async fn check(self, context: &str) {
        let Self {
            place,
            owner,
            sessions,
            ..
        } = self;
        drop(owner);
        let other = FsBackend::open(place.root()).unwrap();
        let all: Vec<u64> = (0..2 * sessions + 2).collect();
        assert_eq!(slots(&other, None).await, all, "{context}");
        assert_eq!(slots(&other, Some(Slot::ZERO)).await, all, "{context}");
        let head = session(&other).await;
        let end = head.compactions.first().map(|compaction| compaction.end);
        assert_eq!(end, Some(Slot(2 * sessions + 4)), "{context}");
        let all: Vec<u64> = (0..2 * sessions + 4).collect();
        assert_eq!(slots(&other, None).await, all, "{context}");
        let stored = fs::read(compaction(&place, 0)).unwrap();
        let view = other.read_journal(place.lineage, Some(Slot::ZERO)).await.unwrap();
        let frames: Vec<u8> = view
            .frames
            .iter()
            .flat_map(|frame| frame.bytes().to_vec())
            .collect();
        let length = usize::try_from(head.compactions[0].length).unwrap();
        assert_eq!(stored[..length], frames, "{context}");
        let last = data(&view.frames);
        assert_eq!(last[last.len() - 2..], ["mine\n", "a\n"], "{context}");
    }
}

#[tokio::test]
async fn failed_call_of_a_compaction_fails_no_close() {
    for sessions in SESSIONS {
        let calls = Prepared::calls(sessions).await;
        let of_compaction = (0..calls.len()).filter(|at| calls[*at].ends_with(".frames"));
        let of_compaction: Vec<usize> = of_compaction.collect();
        // Stage, write and move; or one write in place.
        assert_eq!(
            of_compaction.len(),
            if sessions == 1 { 3 } else { 1 },
            "{calls:?}"
        );
        for at in of_compaction {
            for errno in [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::ROFS] {
                let prepared = Prepared::new(sessions).await;
                let context = format!("{errno:?} at {}, {sessions} sessions", calls[at]);
                prepared.place.store.meter().faults.refuse(at, errno);
                let head = close(&prepared.owner, prepared.tail).await;
                assert!(head.closed, "{context}");
                // The head goes on naming what the file held before.
                let ends: Vec<u64> = head.compactions.iter().map(|one| one.end.get()).collect();
                assert_eq!(ends, if sessions == 1 { vec![] } else { vec![4] }, "{context}");
                prepared.owner.writer.release().await.unwrap();
                let files = fs::read_dir(prepared.place.stack().join("journal")).unwrap();
                let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
                assert!(names.all(|name| !name.starts_with(".tmp-")), "{context}");
                prepared.check(&context).await;
            }
        }
    }
}

#[tokio::test]
async fn kill_at_any_call_of_a_close_loses_no_frame() {
    for sessions in SESSIONS {
        let calls = Prepared::calls(sessions).await;
        assert!(calls.len() > 6, "{calls:?}");
        for how in [FaultKind::Before, FaultKind::After, FaultKind::Crash] {
            for (at, call) in calls.iter().enumerate() {
                let prepared = Prepared::new(sessions).await;
                let context = format!("{how:?} at {call}, {sessions} sessions");
                prepared.place.store.meter().faults.plan(at, how);
                let closed = try_close(&prepared.owner, prepared.tail).await;
                let is_reported = closed.is_ok() || !call.ends_with(".frames") || how == FaultKind::Crash;
                assert!(is_reported, "{context}: {closed:?}");
                drop(prepared.owner.writer.release().await);
                prepared.check(&context).await;
            }
        }
    }
}

/// A close that was killed in the middle of its write leaves any part of the bytes, and a damaged disk any others.
#[tokio::test]
async fn torn_end_of_a_compaction_does_not_count() {
    let prepared = Prepared::new(2).await;
    let file = compaction(&prepared.place, 0);
    let good = fs::read(&file).unwrap();
    let calls = Prepared::calls(2).await;
    let append = calls.iter().position(|call| call.ends_with(".frames")).unwrap();
    for torn in [1, 40, 97, 98, 150, 195] {
        let prepared = Prepared::new(2).await;
        let file = compaction(&prepared.place, 0);
        // The process is killed before its append; a part of the append is put in its place.
        prepared.place.store.meter().faults.plan(append, FaultKind::Crash);
        drop(try_close(&prepared.owner, prepared.tail).await);
        let view = prepared.place.other();
        let view = view.read_journal(prepared.place.lineage, None).await.unwrap();
        let whole: Vec<u8> = view
            .frames
            .iter()
            .flat_map(|frame| frame.bytes().to_vec())
            .collect();
        assert_eq!(whole[..good.len()], good);
        fs::write(&file, &whole[..good.len() + torn]).unwrap();
        prepared.check(&format!("{torn} bytes of the append")).await;
    }
}

#[tokio::test]
async fn break_at_any_call_of_a_close_leaves_one_owner() {
    for sessions in SESSIONS {
        let calls = Prepared::calls(sessions).await;
        let mut refused = 0;
        for (at, call) in calls.iter().enumerate() {
            let prepared = Prepared::new(sessions).await;
            let (other, lineage) = (prepared.place.other(), prepared.place.lineage);
            let epoch = prepared.owner.writer.epoch();
            let (answer, taken) = tokio::sync::oneshot::channel();
            let runtime = tokio::runtime::Handle::current();
            prepared.place.store.meter().faults.interrupt(at, move || {
                let request = request("breaker", Some(epoch));
                answer
                    .send(runtime.block_on(other.acquire(lineage, &request)))
                    .unwrap();
            });
            let mine = try_close(&prepared.owner, prepared.tail).await;
            drop(prepared.owner.writer.release().await);
            let context = format!("break at {call}, {sessions} sessions: {mine:?}");
            match taken.await.unwrap() {
                // `head.lock` is held from before the compaction until after the head names it.
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Locked, "{context}: {error}");
                    assert!(error.object().ends_with("head.lock"), "{context}: {error}");
                    assert!(mine.unwrap().closed);
                    refused += 1;
                }
                Ok(theirs) => {
                    assert!(data(&theirs.frames).contains(&"mine\n".to_owned()), "{context}");
                    let tail = append(&theirs, theirs.tail, "theirs\n").await;
                    close(&theirs, tail).await;
                    theirs.writer.release().await.unwrap();
                    let all: Vec<u64> = (0..2 * sessions + 4).collect();
                    assert_eq!(slots(&prepared.place.store, None).await, all, "{context}");
                    assert_eq!(
                        slots(&prepared.place.store, Some(Slot::ZERO)).await,
                        all,
                        "{context}"
                    );
                    continue;
                }
            }
            prepared.check(&context).await;
        }
        assert!(refused > 5, "{refused} of {calls:?}");
    }
}

#[tokio::test]
async fn reader_at_any_call_of_a_close_sees_all_frames() {
    for sessions in SESSIONS {
        let calls = Prepared::calls(sessions).await;
        for (at, call) in calls.iter().enumerate() {
            let prepared = Prepared::new(sessions).await;
            let (other, lineage) = (prepared.place.other(), prepared.place.lineage);
            let (answer, read) = tokio::sync::oneshot::channel();
            let runtime = tokio::runtime::Handle::current();
            prepared.place.store.meter().faults.interrupt(at, move || {
                answer
                    .send(runtime.block_on(other.read_journal(lineage, None)))
                    .unwrap();
            });
            close(&prepared.owner, prepared.tail).await;
            prepared.owner.writer.release().await.unwrap();
            let context = format!("read at {call}, {sessions} sessions");
            let view = read.await.unwrap().unwrap();
            let slots: Vec<u64> = view.frames.iter().map(|frame| frame.slot().get()).collect();
            assert_eq!(slots, (0..2 * sessions + 2).collect::<Vec<_>>(), "{context}");
            prepared.check(&context).await;
        }
    }
}

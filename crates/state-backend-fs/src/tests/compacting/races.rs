//! Readers beside writers that compact, move the base and collect: no reader misses a frame that was acknowledged before it
//! began.

use super::{close, collected, moved, session};
use crate::FsBackend;
use crate::testkit::{HostileFs, SimulatedFs};
use crate::tests::fixture::{append, frame, head, request};
use state_core::backend::JournalView;
use state_core::testkit::hostile::{Action, Attacker, Intervention, Rewrite};
use state_core::{Backend, ErrorKind, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Runs a future of a test to its end, on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// What another process does between two steps of a reader.
#[derive(Clone, Copy, Debug)]
enum Beside {
    CleanSession,
    CrashedSession,
    /// Sessions that move the base, collect everything before it, and close.
    Collection,
}

/// Runs another process on the machine. Returns the end of the journal that it acknowledged.
fn run_beside(machine: &SimulatedFs, beside: Beside) {
    let store = machine.open("/store").unwrap();
    block_on(async {
        match beside {
            Beside::CleanSession => drop(session(&store).await),
            Beside::CrashedSession => {
                let owner = store.acquire(head().lineage, &request("me", None)).await.unwrap();
                append(&owner, owner.tail, "a\n").await;
            }
            Beside::Collection => {
                let (owner, base) = moved(&store).await;
                collected(&store, &owner, &base).await;
                drop(owner);
                session(&store).await;
            }
        }
    });
}

/// Checks that frames follow each other without a gap from the base on, and reach the slot `end`.
fn check_view(view: &JournalView, end: u64, context: &str) {
    let slots: Vec<u64> = view.frames.iter().map(|frame| frame.slot().get()).collect();
    let base = view.head.base.start.get();
    let next = view.tail.next.get();
    assert_eq!(slots, (base..next).collect::<Vec<_>>(), "{context}");
    assert!(next >= end, "{context}: {next} instead of {end}");
}

#[test]
fn reader_misses_nothing_if_others_write_between_its_steps() {
    for beside in [Beside::CleanSession, Beside::CrashedSession, Beside::Collection] {
        for at in 0.. {
            let machine = SimulatedFs::new();
            let store = machine.create("/store").unwrap();
            block_on(async {
                store.create_stack(&head()).await.unwrap();
                for _ in 0..3 {
                    session(&store).await;
                }
            });
            let attacker = Attacker::default();
            let reader = HostileFs::simulated(&machine, "/store", attacker.clone())
                .open()
                .unwrap();
            let other = machine.clone();
            // The attacker makes no edit: its function only marks the moment at which the other process runs.
            let action = Action::Rewrite(Rewrite::new("another process", move |_, _| {
                thread::scope(|scope| scope.spawn(|| run_beside(&other, beside)).join().unwrap());
                Vec::new()
            }));
            attacker.plan([Intervention::on_request(at, action)]);
            let view = block_on(reader.read_journal(head().lineage, None)).unwrap();
            check_view(&view, 6, &format!("{beside:?} before request {at}"));
            if attacker.requests().len() <= at {
                assert!(at > 8, "only {at} requests");
                break;
            }
        }
    }
}

/// A stale owner and its successor close at once: one of them is fenced, and the compaction has the frames of both.
#[test]
fn owners_that_close_at_once_keep_all_acknowledged_frames() {
    for round in 0..60 {
        let machine = SimulatedFs::new();
        let store = machine.create("/store").unwrap();
        let (stale, tail) = block_on(async {
            store.create_stack(&head()).await.unwrap();
            session(&store).await;
            session(&store).await;
            let stale = store
                .acquire(head().lineage, &request("stale", None))
                .await
                .unwrap();
            let tail = append(&stale, stale.tail, "x\n").await;
            (stale, tail)
        });
        let other = machine.open("/store").unwrap();
        let breaking = request("next", Some(stale.writer.epoch()));
        let (late, end) = thread::scope(|scope| {
            let late = scope.spawn(|| block_on(super::try_close(&stale, tail)));
            if round % 3 == 1 {
                thread::sleep(Duration::from_micros(round * 10));
            }
            let next = block_on(other.acquire(head().lineage, &breaking)).unwrap();
            let end = block_on(append(&next, next.tail, "y\n"));
            block_on(close(&next, end));
            block_on(next.writer.release()).unwrap();
            (late.join().unwrap(), end.next)
        });
        if let Err(error) = late {
            assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        }
        let view = block_on(store.read_journal(head().lineage, None)).unwrap();
        check_view(&view, end.get(), &format!("round {round}"));
        let whole = block_on(store.read_journal(head().lineage, Some(Slot::ZERO))).unwrap();
        assert_eq!(view.frames, whole.frames, "round {round}");
        let compacted = view.head.compactions.first().map(|compaction| compaction.end);
        assert_eq!(compacted, Some(end), "round {round}");
    }
}

/// Sessions close, crash, move the base and collect, while readers read all the time.
#[test]
fn readers_beside_sessions_see_all_acknowledged_frames() {
    const SESSIONS: u64 = 250;
    let machine = SimulatedFs::new();
    let store = machine.create("/store").unwrap();
    block_on(store.create_stack(&head())).unwrap();
    let (end, is_done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let reads = thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (machine, end, is_done) = (machine.clone(), Arc::clone(&end), Arc::clone(&is_done));
                scope.spawn(move || {
                    let store = machine.open("/store").unwrap();
                    let mut reads = 0_u64;
                    while !is_done.load(Ordering::SeqCst) {
                        let acknowledged = end.load(Ordering::SeqCst);
                        match block_on(store.read_journal(head().lineage, None)) {
                            Ok(view) => check_view(&view, acknowledged, "beside sessions"),
                            // Takeovers hold `head.lock` all the time.
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
                        }
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        for number in 0..SESSIONS {
            let last = block_on(one_session(&store, number, &end));
            end.store(last, Ordering::SeqCst);
        }
        is_done.store(true, Ordering::SeqCst);
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum::<u64>()
    });
    assert!(reads > 50, "only {reads} reads");
    let view = block_on(store.read_journal(head().lineage, None)).unwrap();
    check_view(&view, end.load(Ordering::SeqCst), "at the end");
}

/// One of several kinds of sessions. Publishes each acknowledged end, and returns the last one.
async fn one_session(store: &FsBackend, number: u64, end: &AtomicU64) -> u64 {
    if number % 17 == 16 {
        let (owner, base) = moved(store).await;
        end.store(base.start.get(), Ordering::SeqCst);
        collected(store, &owner, &base).await;
        return base.start.next().get();
    }
    let owner = store.acquire(head().lineage, &request("me", None)).await.unwrap();
    let mut tail = owner.tail;
    for _ in 0..1 + number % 3 {
        let next = frame(owner.writer.epoch(), tail, "a\n");
        owner.writer.append(&next).await.unwrap();
        tail = crate::tests::fixture::after(&next);
        end.store(tail.next.get(), Ordering::SeqCst);
    }
    if number % 5 != 4 {
        close(&owner, tail).await;
        owner.writer.release().await.unwrap();
    }
    tail.next.get()
}

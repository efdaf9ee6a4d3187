//! Tests of writes whose outcome the store doesn't report.

use super::*;
use state_core::backend::{NamePointer, NameTarget, ObjectName};
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance::Bench;
use state_core::{Backend, Enveloped, Error, ErrorKind, Lineage, Nonce, Result, Serial, StackName};
use std::task::Context;
use store::Fault;

/// Runs a takeover, two appends, a head swap, an object write and a release. Returns the acknowledged payloads and
/// the result.
async fn session(
    backend: &GenericBackend,
    bench: &Bench<'_>,
    lineage: Lineage,
) -> (Vec<Vec<u8>>, Result<()>) {
    let mut acknowledged = Vec::new();
    let result = async {
        let held = bench.acquire(lineage, "anna").await?;
        let mut tail = held.tail;
        for payload in [&b"\"one\"\n"[..], b"\"two\"\n"] {
            (_, tail) = bench.append(&held, tail, payload).await?;
            acknowledged.push(payload.to_vec());
        }
        held.writer.swap_head(bench.nonce(), &|_| Ok(())).await?;
        let name = ObjectName::Log(Serial(1));
        held.writer.create(&name, b"log"[..].into()).await?;
        assert_eq!(&backend.read(lineage, &name).await?[..], b"log");
        held.writer.release().await
    };
    let result = result.await;
    (acknowledged, result)
}

/// Runs the session with a fault at each of its writes.
fn at_every_write(fault: Fault, check: impl Fn(usize, &Result<()>)) {
    for at in 0.. {
        let store = MemoryStore::default();
        let backend = backend(&store);
        let entropy = SeededEntropy::new(1);
        let bench = Bench::new(&backend, &entropy);
        let lineage = block_on(bench.stack()).unwrap();
        let before = store.writes();
        store.fail(at, fault);
        let (acknowledged, result) = block_on(session(&backend, &bench, lineage));
        if store.writes() - before <= at {
            assert!(at > 5, "{fault:?} was tried at {at} writes only");
            return;
        }
        check(at, &result);
        store.heal();
        let view = block_on(backend.read_journal(lineage, None)).unwrap();
        let seen: Vec<_> = view.frames.iter().map(|frame| frame.payload().to_vec()).collect();
        for payload in &acknowledged {
            let times = seen.iter().filter(|seen| *seen == payload).count();
            assert_eq!(
                times, 1,
                "{fault:?} at {at}: the journal contains an acknowledged frame {times} times"
            );
        }
    }
}

#[test]
fn lost_answers_are_settled_by_reading_back() {
    for fault in [Fault::Before, Fault::After, Fault::OwnConflict] {
        at_every_write(fault, |at, result| {
            assert!(result.is_ok(), "{fault:?} at {at}: {result:?}");
        });
    }
}

#[test]
fn outcome_that_cannot_be_settled_is_indeterminate() {
    at_every_write(Fault::Dead, |at, result| {
        let error = result.as_ref().unwrap_err();
        assert!(matches!(error, Error::Indeterminate { .. }), "at {at}: {error:?}");
    });
}

#[test]
fn interrupted_append_closes_the_writer() {
    let store = MemoryStore::default();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(1);
    let bench = Bench::new(&backend, &entropy);
    let lineage = block_on(bench.stack()).unwrap();
    let held = block_on(bench.acquire(lineage, "anna")).unwrap();
    store.fail(0, Fault::Never);
    {
        let mut append = pin!(bench.append(&held, held.tail, b"\"one\"\n"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(append.as_mut().poll(&mut context).is_pending());
    }
    store.heal();
    // The first frame may be stored: its slot must not be tried with another frame.
    let next = block_on(bench.append(&held, held.tail, b"\"two\"\n")).unwrap_err();
    assert_eq!(next.kind(), ErrorKind::Closed);
    let view = block_on(backend.read_journal(lineage, None)).unwrap();
    assert_eq!(view.frames.last().unwrap().payload(), b"\"one\"\n");
}

#[test]
fn failed_append_closes_the_writer() {
    for (fault, expected) in [
        (Fault::Dead, ErrorKind::Indeterminate),
        (Fault::Refused, ErrorKind::NotApplied),
    ] {
        let store = MemoryStore::default();
        let backend = backend(&store);
        let entropy = SeededEntropy::new(1);
        let bench = Bench::new(&backend, &entropy);
        let lineage = block_on(bench.stack()).unwrap();
        let held = block_on(bench.acquire(lineage, "anna")).unwrap();
        store.fail(0, fault);
        let failed = block_on(bench.append(&held, held.tail, b"\"one\"\n")).unwrap_err();
        assert_eq!(failed.kind(), expected, "{fault:?}: {failed}");
        store.heal();
        let before = store.writes();
        let next = block_on(bench.append(&held, held.tail, b"\"two\"\n")).unwrap_err();
        assert_eq!(next.kind(), ErrorKind::Closed, "{fault:?}: {next}");
        assert_eq!(store.writes(), before, "{fault:?}: the slot is never tried again");
        // The next owner goes on behind whatever was stored.
        let request = bench.request("bert", Some(held.writer.epoch()));
        let owner = block_on(backend.acquire(lineage, &request)).unwrap();
        block_on(bench.append(&owner, owner.tail, b"\"three\"\n")).unwrap();
        let view = block_on(backend.read_journal(lineage, None)).unwrap();
        assert!(view.frames.iter().all(|frame| frame.payload() != b"\"two\"\n"));
    }
}

#[test]
fn refusal_after_an_unanswered_create_is_indeterminate() {
    let name = ObjectName::Log(Serial(1));
    // The first request may have stored the bytes, so the refusal of the second one doesn't say that they aren't stored.
    for (faults, expected) in [
        (&[Fault::Refused] as &[Fault], ErrorKind::NotApplied),
        (&[Fault::Before, Fault::Refused], ErrorKind::Indeterminate),
        (
            &[Fault::Before, Fault::Before, Fault::Refused],
            ErrorKind::Indeterminate,
        ),
    ] {
        let store = MemoryStore::default();
        let backend = backend(&store);
        let entropy = SeededEntropy::new(1);
        let bench = Bench::new(&backend, &entropy);
        let lineage = block_on(bench.stack()).unwrap();
        let held = block_on(bench.acquire(lineage, "anna")).unwrap();
        for is_append in [false, true] {
            for (after, fault) in faults.iter().enumerate() {
                store.fail(after, *fault);
            }
            let failed = match is_append {
                false => block_on(held.writer.create(&name, b"log"[..].into())),
                true => block_on(bench.append(&held, held.tail, b"\"one\"\n")).map(drop),
            };
            assert_eq!(failed.unwrap_err().kind(), expected, "{faults:?}");
        }
    }
}

/// Another process reads the new pointer and replaces it before the read that settles the lost answer.
#[test]
fn pointer_replaced_after_a_lost_answer_is_indeterminate() {
    let store = MemoryStore::default();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(1);
    let name = StackName::new("shop", "production").unwrap();
    let target = NameTarget::Lineage(Lineage::random(&entropy));
    let pointer = || NamePointer::new(name.clone(), target.clone(), Nonce::random(&entropy));
    let (first, second, third) = (pointer(), pointer(), pointer());
    block_on(backend.swap_name(&name, None, &first)).unwrap();
    store.fail(0, Fault::After);
    let (hooked, other) = (store.clone(), store.clone());
    store.before_write_of("production.json", move || {
        hooked.before_read_of("production.json", move || {
            let key = other.keys("production.json").remove(0);
            other.put(&key, third.encode().into());
        });
    });
    let swapped = block_on(backend.swap_name(&name, Some(first.nonce), &second));
    let error = swapped.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
}

/// A stack without a head doesn't exist, so a copy that was interrupted can be repeated.
#[test]
fn interrupted_copy_leaves_no_head_without_its_frames() {
    const FRAMES: usize = 5;
    for at in 0.. {
        let store = MemoryStore::default();
        let backend = backend(&store);
        let entropy = SeededEntropy::new(1);
        store.fail(at, Fault::Dead);
        let copied = block_on(Bench::new(&backend, &entropy).stack_of(FRAMES as u64));
        store.heal();
        let heads = store.keys("/head.json");
        let slots = store
            .keys("")
            .iter()
            .filter(|key| key.contains("/journal/"))
            .count();
        assert!(
            heads.is_empty() || slots == FRAMES,
            "only {slots} frames after write {at}"
        );
        if copied.is_ok() {
            assert_eq!((heads.len(), slots), (1, FRAMES));
            assert!(at > FRAMES, "the copy was interrupted at {at} writes only");
            return;
        }
    }
}

#[test]
fn frames_missing_from_a_stale_list_are_read() {
    let store = MemoryStore::default();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(1);
    let bench = Bench::new(&backend, &entropy);
    let lineage = block_on(bench.stack()).unwrap();
    let held = block_on(bench.acquire(lineage, "anna")).unwrap();
    store.freeze_lists();
    let mut tail = held.tail;
    for _ in 0..5 {
        (_, tail) = block_on(bench.append(&held, tail, b"\"one\"\n")).unwrap();
        let view = block_on(backend.read_journal(lineage, None)).unwrap();
        assert_eq!(view.frames.last().unwrap().slot().next(), tail.next);
    }
}

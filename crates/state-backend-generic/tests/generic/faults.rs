//! Tests of writes whose outcome the store doesn't report.

use super::*;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance::Bench;
use state_core::{Backend, Error, ErrorKind, Lineage, Result};
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
        let name = state_core::backend::ObjectName::Log(state_core::Serial(1));
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

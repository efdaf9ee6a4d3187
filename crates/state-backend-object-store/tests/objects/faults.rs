//! One or two faults at any requests of thirty operations: with retries, no caller notices them.

use super::disturbed::is_honest;
use super::schedules::in_virtual_time;
use super::*;
use futures_util::FutureExt;
use model::{Actor, new_stack};
use oracle::{Oracle, WriteOutcome};
use state_backend_object_store::testkit::StoreFault;
use state_core::backend::RemoteStore;
use state_core::testkit::run::scaled;
use state_core::{Backend, ErrorKind, Lineage, Result};
use std::panic::{AssertUnwindSafe, resume_unwind};

/// The seed of the lineage and of all nonces.
const SEED: u64 = 7;

/// Number of pairs of faults; `STATE_TEST_SCALE` multiplies it, up to the number of all pairs.
const PAIRS: u32 = 20_000;

/// Number of threads that share the pairs.
const THREADS: usize = 2;

/// Number of the further requests that a retry adds, so that the second fault strikes retries of the last operation too.
const RETRIES: usize = 4;

/// A fault, and the number of the request that it strikes.
type PlannedFault = (usize, StoreFault);

/// Runs thirty operations of two writers, of which the second takes over from the first twice. All results must be
/// the same as without the fault.
async fn thirty([one, other]: [ObjectBackend; 2], oracle: &Arc<Oracle>) -> Result<()> {
    let entropy = Arc::new(SeededEntropy::new(SEED));
    let lineage = new_stack(&one, &entropy).await?;
    let mut anna = Actor::new("anna", one, lineage, &entropy, oracle);
    let mut bert = Actor::new("bert", other, lineage, &entropy, oracle);
    anna.rename().await?;
    anna.acquire(None).await?;
    for _ in 0..3 {
        anna.append().await?;
    }
    anna.freeze().await?;
    bert.check_reader_view().await?;
    anna.checkpoint().await?;
    anna.append().await?;
    expect_error(bert.acquire(None).await, ErrorKind::Locked)?;
    anna.append().await?;
    anna.release().await?;
    bert.acquire(None).await?;
    bert.append().await?;
    bert.freeze().await?;
    bert.rename().await?;
    bert.append().await?;
    anna.break_lock().await?;
    expect_error(bert.append().await, ErrorKind::Fenced)?;
    anna.append().await?;
    anna.checkpoint().await?;
    anna.append().await?;
    anna.collect().await?;
    bert.check_reader_view().await?;
    anna.append().await?;
    bert.break_lock().await?;
    bert.append().await?;
    bert.collect().await?;
    bert.append().await?;
    bert.freeze().await?;
    bert.release().await?;
    anna.check_reader_view().await
}

/// Returns any error but the expected one.
fn expect_error(result: Result<()>, expected: ErrorKind) -> Result<()> {
    match result {
        Ok(()) => panic!("{expected:?} is expected"),
        Err(error) if error.kind() == expected => Ok(()),
        Err(error) => Err(error),
    }
}

/// The lineage of the stack that [`thirty`] creates.
fn lineage() -> Lineage {
    Lineage::random(&SeededEntropy::new(SEED))
}

/// A store with two handles that have opened it, since the first request isn't retried for long.
async fn opened() -> (FaultyStore, [ObjectBackend; 2]) {
    let store = faulty();
    let pair = [backend(&store), backend(&store)];
    for handle in &pair {
        handle.ready().await.unwrap();
    }
    (store, pair)
}

/// Returns the number of requests without a fault.
async fn requests() -> usize {
    let (clean, pair) = opened().await;
    let before = clean.counts().all();
    thirty(pair, &Arc::default()).await.unwrap();
    let requests = clean.counts().all() - before;
    assert!((80..400).contains(&requests), "{requests}");
    requests
}

/// Runs the thirty operations with these faults. Returns whether all of them succeeded; otherwise, the error must be
/// honest, and the next owner must be able to go on.
async fn struck_by(faults: &[PlannedFault]) -> bool {
    let (store, pair) = opened().await;
    for (at, fault) in faults {
        store.fail(*at, *fault);
    }
    let oracle = Arc::<Oracle>::default();
    let run = thirty(pair, &oracle).await;
    store.heal();
    store.deliver().await;
    let reader = backend(&store);
    if let Err(error) = &run {
        assert!(is_honest(error.kind()), "{error:?}");
        let created = reader.read_head(lineage()).await;
        if created.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            assert_eq!(oracle.count(WriteOutcome::Acknowledged), 0);
            return false;
        }
        oracle.judge_store(&reader, lineage()).await;
        let entropy = Arc::new(SeededEntropy::new(!SEED));
        let mut next = Actor::new("next", backend(&store), lineage(), &entropy, &oracle);
        next.break_lock().await.unwrap();
        next.append().await.unwrap();
    }
    oracle.judge_store(&reader, lineage()).await;
    if run.is_ok() {
        assert_eq!(oracle.count(WriteOutcome::Acknowledged), 12);
        assert_eq!(oracle.count(WriteOutcome::Unknown), 0);
    }
    run.is_ok()
}

/// As [`struck_by`]. A panic is preceded by a line with the faults.
#[expect(clippy::print_stdout, reason = "a failing test prints the faults")]
async fn judged(faults: &[PlannedFault]) -> bool {
    let done = AssertUnwindSafe(struck_by(faults)).catch_unwind().await;
    done.unwrap_or_else(|panic| {
        println!("failed with these faults: {faults:?}");
        resume_unwind(panic)
    })
}

#[tokio::test(start_paused = true)]
async fn one_fault_anywhere_in_thirty_operations_is_retried() {
    let requests = requests().await;
    for fault in StoreFault::ALL {
        for at in 0..requests {
            assert!(judged(&[(at, fault)]).await, "{fault:?} at request {at}");
        }
    }
}

/// Returns the pair of faults with this number; the pairs of kinds change fastest. `None` if there are fewer pairs.
fn pair_of_faults(number: usize, requests: usize) -> Option<[PlannedFault; 2]> {
    let kinds = StoreFault::ALL.len();
    let (mut places, one, other) = (
        number / (kinds * kinds),
        StoreFault::ALL[number / kinds % kinds],
        StoreFault::ALL[number % kinds],
    );
    for first in 0..requests {
        let later = requests - 1 - first;
        if places < later {
            return Some([(first, one), (first + 1 + places, other)]);
        }
        places -= later;
    }
    None
}

/// Runs every pair of faults, or in CI an evenly strided sample of them.
#[test]
fn two_faults_anywhere_in_thirty_operations_lose_nothing() {
    let kinds = StoreFault::ALL.len();
    let requests = in_virtual_time(requests()) + RETRIES;
    let all = requests * (requests - 1) / 2 * kinds * kinds;
    assert!(pair_of_faults(all - 1, requests).is_some() && pair_of_faults(all, requests).is_none());
    let mut stride = (all / scaled(PAIRS) as usize).max(1);
    // With a multiple of the number of kinds, the sample would contain few pairs of kinds.
    while stride > 1 && stride.is_multiple_of(kinds) {
        stride -= 1;
    }
    let share = |thread: usize| {
        in_virtual_time(async move {
            let (mut run, mut masked) = (0, 0);
            for number in (thread * stride..all).step_by(stride * THREADS) {
                let faults = pair_of_faults(number, requests).unwrap();
                (run, masked) = (run + 1, masked + usize::from(judged(&faults).await));
            }
            (run, masked)
        })
    };
    let (mut run, mut masked) = (0, 0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || share(thread)))
            .collect();
        for thread in threads {
            let (these, those) = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            (run, masked) = (run + these, masked + those);
        }
    });
    println!("{run} of {all} pairs of faults; retries masked both of them in {masked}");
    assert!(run >= all.min(PAIRS as usize), "{run} of {all} pairs");
    // One request may need more time than an operation has, if both faults strike it.
    assert!(masked * 100 >= run * 99, "{masked} of {run} pairs");
}

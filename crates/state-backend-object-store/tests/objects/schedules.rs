//! Random faults and two concurrent writers: no acknowledged write is lost, none is applied twice, and no write of a
//! stale writer is visible.

use super::*;
use futures_util::FutureExt;
use model::{Actor, new_stack};
use oracle::{Oracle, WriteOutcome};
use state_backend_object_store::testkit::StoreFault;
use state_core::Entropy;
use state_core::backend::RemoteStore;
use state_core::testkit::run::scaled;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

/// Number of schedules; `STATE_TEST_SCALE` multiplies it. No time limit ends the test before all of them ran.
const SCHEDULES: u32 = 10_000;

/// Number of threads that share the schedules.
const THREADS: usize = 2;

fn draw(entropy: &SeededEntropy, below: usize) -> usize {
    let bits = entropy.bits();
    usize::from(u16::from_le_bytes([bits[0], bits[1]])) % below
}

async fn step(actor: &mut Actor, choice: usize) {
    // The oracle has recorded the result.
    drop(match choice {
        0..=8 => actor.append().await,
        9 | 10 => actor.acquire(None).await,
        11 => actor.break_lock().await,
        12 => actor.freeze().await,
        13 => actor.checkpoint().await,
        14 => actor.collect().await,
        15 => actor.release().await,
        16 => actor.rename().await,
        _ => actor.check_reader_view().await,
    });
}

async fn schedule(seed: u64) -> (usize, usize) {
    let dice = SeededEntropy::new(seed);
    let (entropy, oracle) = (Arc::new(SeededEntropy::new(!seed)), Arc::<Oracle>::default());
    let store = faulty();
    let mut options = options();
    options.retry_timeout = Duration::from_millis([100, 700, 5_000, 30_000][draw(&dice, 4)]);
    let open = || ObjectBackend::new(Arc::new(store.clone()), options.clone(), Opening::Create);
    let (one, other) = (open(), open());
    one.ready().await.unwrap();
    other.ready().await.unwrap();
    let lineage = new_stack(&one, &entropy).await.unwrap();
    let rarity = [3, 6, 12, 40][draw(&dice, 4)];
    for request in 0..600 {
        if draw(&dice, rarity) == 0 {
            store.fail(request, StoreFault::ALL[draw(&dice, StoreFault::ALL.len())]);
        }
    }
    store.interleave(seed);
    let mut anna = Actor::new("anna", one, lineage, &entropy, &oracle);
    let mut bert = Actor::new("bert", other, lineage, &entropy, &oracle);
    for _ in 0..15 {
        let (mine, theirs) = (draw(&dice, 18), draw(&dice, 18));
        // Run concurrently as often as one after the other.
        if draw(&dice, 2) == 0 {
            futures_util::join!(step(&mut anna, mine), step(&mut bert, theirs));
        } else {
            step(&mut anna, mine).await;
            step(&mut bert, theirs).await;
        }
    }
    drop((anna, bert));
    store.heal();
    let reader = backend(&store);
    oracle.judge_store(&reader, lineage).await;
    store.deliver().await;
    oracle.judge_store(&reader, lineage).await;
    (
        oracle.count(WriteOutcome::Acknowledged),
        oracle.count(WriteOutcome::Unknown),
    )
}

/// Runs these schedules; returns how many ran, and how many of their frames were acknowledged or are unknown.
#[expect(clippy::print_stdout, reason = "a failing test prints how to replay it")]
async fn schedules(seeds: impl Iterator<Item = usize>) -> (usize, usize, usize) {
    let (mut run, mut acknowledged, mut unknown) = (0, 0, 0);
    for seed in seeds {
        let done = AssertUnwindSafe(schedule(seed as u64)).catch_unwind().await;
        let (these, those) = done.unwrap_or_else(|panic| {
            println!("replay with STATE_TEST_SEED={seed}");
            resume_unwind(panic)
        });
        (run, acknowledged, unknown) = (run + 1, acknowledged + these, unknown + those);
    }
    (run, acknowledged, unknown)
}

/// Runs in virtual time, which each thread has for itself.
pub(crate) fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build();
    runtime.unwrap().block_on(work)
}

/// With `STATE_TEST_SEED=n`, runs one schedule only.
#[test]
fn fault_schedules_lose_and_repeat_no_acknowledged_write() {
    if let Ok(seed) = std::env::var("STATE_TEST_SEED") {
        let seed = seed.parse().unwrap();
        in_virtual_time(schedules(std::iter::once(seed)));
        return;
    }
    let schedules_in_all = scaled(SCHEDULES) as usize;
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let share = |thread| (thread..schedules_in_all).step_by(THREADS);
        let start = |thread| scope.spawn(move || in_virtual_time(schedules(share(thread))));
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        let end = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(end).collect()
    });
    let (mut run, mut acknowledged, mut unknown) = (0, 0, 0);
    for (these, acknowledgements, doubts) in outcomes {
        (run, acknowledged, unknown) = (run + these, acknowledged + acknowledgements, unknown + doubts);
    }
    println!("{run} schedules: {acknowledged} frames acknowledged, {unknown} unknown");
    assert_eq!(run, schedules_in_all);
    assert!(acknowledged > run && unknown > 0);
}

//! Three to five processes and a reader on one stack, in a world with its own time: they are suspended for up to ten
//! leases, die at any moment, break locks, collect and compact, on clocks that differ by up to an hour. Requests are slow,
//! fail, and take effect after their senders have given up. One seed gives one run.

mod network;

use super::model::{Actor, new_stack};
use super::oracle::{Oracle, write_outcome};
use super::*;
use futures_util::FutureExt;
use network::{Gate, Line, SkewedClock, World};
use state_core::testkit::run::scaled;
use state_core::{Error, Lineage, Result};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Mutex;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Number of runs; `STATE_TEST_SCALE` multiplies it.
const RUNS: u32 = 20_000;

/// Number of threads that share the runs.
const THREADS: usize = 2;

/// How long the processes of a run live, in virtual time: four leases.
const LIFE: Duration = Duration::from_secs(240);

/// Each of these must occur in one run of this number.
const EVERY: usize = 20;

/// How often something happened in one run.
#[derive(Debug, Default)]
pub(crate) struct Occurrences {
    counts: Mutex<BTreeMap<&'static str, usize>>,
}

impl Occurrences {
    const KINDS: [&'static str; 7] = [
        "takeover",
        // A write that took effect, and whose sender got no answer.
        "lost answer",
        "compaction",
        "crash",
        "suspension",
        "broken lock",
        "collection",
    ];

    fn add(&self, kind: &'static str) {
        *self.counts.lock().unwrap().entry(kind).or_default() += 1;
    }

    fn written(&self, path: &Path) {
        // The name of a compaction is two slots and a digest.
        let is_compaction = path.as_ref().contains("/journal/")
            && path.filename().is_some_and(|name| name.matches('-').count() == 2);
        if is_compaction {
            self.add("compaction");
        }
    }
}

/// What all processes of a run know about the stack.
#[derive(Clone)]
struct Run {
    world: Arc<World>,
    lineage: Lineage,
    oracle: Arc<Oracle>,
    entropy: Arc<SeededEntropy>,
    /// The process that holds the lock, as far as its last answers say.
    holder: Arc<Mutex<Option<String>>>,
}

/// A process with its connection. Its task is dropped when it dies.
struct Process {
    name: String,
    gate: Gate,
    task: JoinHandle<()>,
}

impl Process {
    /// Ends the process at once. What it has sent goes on.
    async fn die(self) {
        self.gate.hold();
        self.task.abort();
        // A process that panicked has found a defect.
        if let Err(error) = self.task.await
            && error.is_panic()
        {
            resume_unwind(error.into_panic());
        }
    }
}

impl Run {
    async fn start(seed: u64) -> Self {
        let world = World::new(seed);
        let entropy = Arc::new(SeededEntropy::new(!seed));
        let oracle = Arc::<Oracle>::default();
        let mut run = Self {
            world,
            lineage: Lineage::from_bits([1; 16]),
            oracle,
            entropy,
            holder: Arc::default(),
        };
        let founder = run.backend(&Gate::default());
        run.lineage = loop {
            if let Ok(lineage) = new_stack(&founder, &run.entropy).await {
                break lineage;
            }
        };
        run
    }

    fn backend(&self, gate: &Gate) -> ObjectBackend {
        let (world, gate) = (Arc::clone(&self.world), gate.clone());
        let mut options = Options::new("s3://bucket/a/prefix", Path::from("a/prefix"));
        options.proof = None;
        options.compaction = 4;
        options.entropy = Arc::new(SeededEntropy::new(self.world.draw(usize::MAX) as u64));
        options.clock = Arc::new(SkewedClock::new(&world, &gate));
        ObjectBackend::new(Arc::new(Line { world, gate }), options, Opening::Create)
    }

    /// Starts a process, which writes if it isn't a reader.
    fn process(&self, name: String, is_reader: bool) -> Process {
        let gate = Gate::default();
        let backend = self.backend(&gate);
        let actor = Actor::new(&name, backend, self.lineage, &self.entropy, &self.oracle);
        let run = self.clone();
        let task = tokio::spawn(async move {
            match is_reader {
                true => run.read(actor).await,
                false => run.write(actor).await,
            }
        });
        Process { name, gate, task }
    }

    async fn read(&self, actor: Actor) {
        loop {
            tokio::time::sleep(self.world.within(30_000)).await;
            let result = actor.check_current_view().await;
            self.noted(&actor, "read", &result);
        }
    }

    async fn write(&self, mut actor: Actor) {
        loop {
            let pause = if actor.held.is_some() { 4_000 } else { 30_000 };
            tokio::time::sleep(self.world.within(pause)).await;
            self.step(&mut actor).await;
        }
    }

    async fn step(&self, actor: &mut Actor) {
        if actor.held.is_none() {
            let breaks = self.world.draw(30) == 0;
            let result = match breaks {
                true => actor.break_lock().await,
                false => actor.acquire(None).await,
            };
            if result.is_ok() {
                let before = self.holder.lock().unwrap().replace(actor.who.clone());
                match before {
                    Some(_) if breaks => self.world.occurrences.add("broken lock"),
                    Some(_) => self.world.occurrences.add("takeover"),
                    None => {}
                }
            }
            return self.noted(actor, if breaks { "break" } else { "acquire" }, &result);
        }
        let (what, result) = match self.world.draw(24) {
            0 => ("freeze", actor.freeze().await),
            1 => ("checkpoint", actor.checkpoint().await),
            2 => {
                let result = actor.drop_before_base().await;
                if result.is_ok() {
                    self.world.occurrences.add("collection");
                }
                ("collect", result)
            }
            3 | 4 => {
                let result = actor.release().await;
                if result.is_ok() {
                    let mut holder = self.holder.lock().unwrap();
                    if holder.as_deref() == Some(&actor.who) {
                        *holder = None;
                    }
                }
                ("release", result)
            }
            5 => ("rename", actor.rename().await),
            6 => ("view", actor.check_current_view().await),
            _ => ("append", actor.append().await),
        };
        if matches!(result, Err(Error::Fenced { .. })) {
            actor.held = None;
        }
        self.noted(actor, what, &result);
    }

    fn noted(&self, actor: &Actor, what: &str, result: &Result<()>) {
        let outcome = write_outcome(result);
        self.world.note(&format!("{} {what}: {outcome:?}", actor.who));
    }

    /// Suspends and kills processes until their time is over. A killed one is followed by another.
    async fn disturb(&self, processes: &mut [Process]) {
        let end = tokio::time::Instant::now() + LIFE;
        let mut next = processes.len();
        while tokio::time::Instant::now() < end {
            tokio::time::sleep(self.world.within(40_000)).await;
            let at = self.world.draw(processes.len());
            let is_reader = at == 0;
            let process = &mut processes[at];
            if self.world.draw(2) == 0 {
                self.world.occurrences.add("crash");
                self.world.note(&format!("{} dies", process.name));
                let next_one = self.process(format!("p{next}"), is_reader);
                std::mem::replace(process, next_one).die().await;
                next += 1;
                continue;
            }
            self.world.occurrences.add("suspension");
            self.world.note(&format!("{} is suspended", process.name));
            process.gate.hold();
            let (gate, pause) = (process.gate.clone(), self.world.within(600_000));
            // A process that dies meanwhile has its own gate, which isn't released.
            let task = process.task.abort_handle();
            drop(tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                if !task.is_finished() {
                    gate.release();
                }
            }));
        }
    }

    /// Checks that a new process gets on once all faults have ended, and that nothing is lost.
    async fn judge(&self) {
        self.world.heal();
        let backend = self.backend(&Gate::default());
        let mut last = Actor::new("last", backend, self.lineage, &self.entropy, &self.oracle);
        let end = tokio::time::Instant::now() + Duration::from_secs(300);
        while let Err(error) = last.acquire(None).await {
            assert!(tokio::time::Instant::now() < end, "no progress: {error:?}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        last.append().await.expect("nothing disturbs the last process");
        self.oracle.judge_store(&last.backend, self.lineage).await;
        // Requests that were delayed take effect by then.
        tokio::time::sleep(Duration::from_secs(700)).await;
        last.append().await.expect("nothing disturbs the last process");
        self.oracle.judge_store(&last.backend, self.lineage).await;
        // The grace of a collection lasts longer than any pause, so what it dropped is deleted only now.
        last.delete_dropped()
            .await
            .expect("nothing disturbs the last process");
        self.oracle.judge_store(&last.backend, self.lineage).await;
        last.release().await.expect("nothing disturbs the last process");
        self.oracle.judge_order();
    }
}

/// Runs one seed; returns what happened.
async fn simulate(seed: u64) -> Arc<World> {
    let run = Run::start(seed).await;
    let writers = 3 + run.world.draw(3);
    let mut processes: Vec<Process> = (0..=writers)
        .map(|number| run.process(format!("p{number}"), number == 0))
        .collect();
    run.disturb(&mut processes).await;
    for process in processes {
        process.die().await;
    }
    run.judge().await;
    run.world
}

/// Runs in virtual time, which each run has for itself. Its end also ends what is left of the processes.
#[expect(clippy::print_stdout, reason = "a failing test prints how to replay it")]
fn simulated(seed: u64) -> Arc<World> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let done = runtime.block_on(AssertUnwindSafe(simulate(seed)).catch_unwind());
    done.unwrap_or_else(|panic| {
        println!("replay with STATE_TEST_SEED={seed}");
        resume_unwind(panic)
    })
}

/// Returns the first seed of this run of the test.
fn first_seed() -> u64 {
    let first = std::env::var("STATE_TESTS_SEED").ok();
    first.map_or(0, |first| first.parse().expect("STATE_TESTS_SEED is a number"))
}

/// With `STATE_TEST_SEED=n`, runs one seed only, and prints what happened.
#[test]
fn processes_on_one_stack_lose_nothing_and_get_on() {
    if let Ok(seed) = std::env::var("STATE_TEST_SEED") {
        let world = simulated(seed.parse().unwrap());
        println!("{:#?}", world.trace());
        return;
    }
    let runs = scaled(RUNS) as usize;
    let first = first_seed();
    let share = |thread: usize| {
        let mut seen = BTreeMap::<&str, usize>::new();
        for seed in (thread..runs).step_by(THREADS) {
            let world = simulated(first + seed as u64);
            for kind in world.occurrences.counts.lock().unwrap().keys() {
                *seen.entry(kind).or_default() += 1;
            }
        }
        seen
    };
    let mut seen = BTreeMap::<&str, usize>::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || share(thread)))
            .collect();
        for thread in threads {
            let shared = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            for (kind, count) in shared {
                *seen.entry(kind).or_default() += count;
            }
        }
    });
    println!("{runs} runs; in so many of them there was at least one: {seen:?}");
    for kind in Occurrences::KINDS {
        let count = seen.get(kind).copied().unwrap_or_default();
        assert!(count * EVERY >= runs, "{kind} in {count} of {runs} runs only");
    }
}

#[test]
fn one_seed_gives_one_run() {
    for seed in 0..20 {
        let (one, other) = (simulated(seed).trace(), simulated(seed).trace());
        assert!(one.len() > 20, "{one:?}");
        assert_eq!(one, other, "seed {seed}");
    }
}

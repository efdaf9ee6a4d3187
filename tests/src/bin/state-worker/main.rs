//! A process that tests start, suspend, kill and measure. It reports each event as a [`Line`].
//!
//! | command | effect |
//! |---|---|
//! | `commit DIR SEED` | eight tasks change the stack until the process is killed |
//! | `hold DIR SEED` | like `commit`, in one update that never ends |
//! | `script DIR PART` | one task runs a short fixed workload and closes its session |
//! | `count DIR TIMES` | adds one to a counter `TIMES` times, each time under the writer lock |
//! | `embed DIR TIMES` | adds one to a counter `TIMES` times in long sessions |
//! | `move DIR STEP` | moves entries to another stack and blocks at step `STEP` (see [`relocate::run`]) |
//! | `cost DIR ENTRIES` | prints the cost of mutations of a stack with `ENTRIES` entries, as JSON |
//! | `cli ARGUMENTS` | runs `statectl ARGUMENTS`, then prints its peak memory in KiB on stderr |
//!
//! `DIR` is a folder. `commit`, `hold`, `script` and `count` also accept the URL of a store.

mod commit;
mod cost;
mod count;
mod peak;
mod relocate;

use state_core::Result;
use state_core::head::SealingPolicy;
use state_manager::{Actor, Environment, Stack, Stacks};
use state_tests::line::Line;
use state_tests::workload::STACK;
use std::process::ExitCode;

/// Counts allocations for the command `cost`.
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match *words.as_slice() {
        ["commit", dir, seed] => runtime(2).block_on(commit::run(dir, number(seed), commit::Style::Endless)),
        ["hold", dir, seed] => runtime(2).block_on(commit::run(dir, number(seed), commit::Style::OneUpdate)),
        ["script", dir, part] => runtime(1).block_on(commit::script(dir, part)),
        ["count", dir, times] => runtime(1).block_on(count::run(dir, number(times))),
        ["embed", dir, times] => runtime(1).block_on(count::embed(dir, number(times))),
        ["move", dir, step] => runtime(2).block_on(relocate::run(dir, number(step))),
        ["cost", dir, entries] => runtime(1).block_on(cost::run(dir, number(entries))),
        ["cli", ..] => return peak::run(),
        _ => return ExitCode::from(2),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let reported = Line::failed(u64::MAX, &error).emit();
            ExitCode::from(if reported.is_ok() { 1 } else { 3 })
        }
    }
}

#[expect(
    clippy::expect_used,
    reason = "a worker without a runtime has nothing to report"
)]
fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

#[expect(clippy::expect_used, reason = "only tests call a worker")]
fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// Writes a line. Panics if the line can't be written, because the test would miss the events of a worker that
/// continues.
#[expect(
    clippy::expect_used,
    reason = "only tests call a worker, and they read its output"
)]
fn emit(line: &Line) {
    line.emit().expect("the test reads the output");
}

/// Opens the stack in a folder or at a URL, and creates it if it is missing.
async fn open(dir: &str) -> Result<Stack> {
    let actor = Actor {
        who: "worker".to_owned(),
        host: "here".to_owned(),
        pid: std::process::id(),
    };
    let stacks = Stacks::create(&state_tests::url(dir), Environment::system(actor))?;
    let name = STACK.parse()?;
    match stacks.get(&name).await? {
        Some(stack) => Ok(stack),
        None => stacks.new_stack_with(&name, SealingPolicy::Plaintext).await,
    }
}

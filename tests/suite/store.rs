//! Opens the store of a test in the test process, while workers use the same store in processes of their own.

use state_core::head::SealingPolicy;
use state_core::{Result, Snapshot, State};
use state_manager::{Actor, Environment, Stack, Stacks};
use state_tests::workload::STACK;
use std::path::Path;

/// Runs a future to its end.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
        .block_on(future)
}

/// Returns the environment of the test process, with the system's clock and randomness.
pub(crate) fn environment() -> Environment {
    Environment::system(Actor {
        who: "tester".to_owned(),
        host: "here".to_owned(),
        pid: std::process::id(),
    })
}

/// Opens the store, and creates it if it is missing. `dir` is a folder, or the text of a URL: see [`state_tests::url`].
pub(crate) fn create(dir: &Path) -> Result<Stacks> {
    Stacks::create(&url(dir), environment())
}

/// Opens the store. `dir` is a folder, or the text of a URL: see [`state_tests::url`].
pub(crate) fn open(dir: &Path) -> Result<Stacks> {
    Stacks::open(&url(dir), environment())
}

fn url(dir: &Path) -> String {
    state_tests::url(dir.to_str().expect("a path in UTF-8"))
}

/// Returns the stack that the workers use. Creates the store and the stack if they are missing.
pub(crate) async fn stack(dir: &Path) -> Result<Stack> {
    let stacks = create(dir)?;
    let name = STACK.parse()?;
    match stacks.get(&name).await? {
        Some(stack) => Ok(stack),
        None => stacks.new_stack_with(&name, SealingPolicy::Plaintext).await,
    }
}

/// Asserts that the stack has no violations and that none of its stored objects is corrupt.
pub(crate) async fn verify(stack: &Stack) {
    let found = stack.verify(true).await.expect("nothing is corrupt");
    assert!(
        found.report.violations.is_empty(),
        "violations: {:?}",
        found.report
    );
}

/// Returns the snapshot of a state without name and time, to compare states by content.
pub(crate) fn content(state: &State) -> Snapshot {
    state.snapshot("", state_core::Timestamp::new(""))
}

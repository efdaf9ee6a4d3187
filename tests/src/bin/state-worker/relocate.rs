//! The worker `move`: a move between two stacks that blocks at a step, so that the test can kill the process at that
//! step.

use crate::emit;
use state_core::backend::Opening;
use state_core::edits::{MovePlan, MoveRequest};
use state_core::testkit::fault::FaultyBackend;
use state_core::{Result, UpdateKind};
use state_manager::{Actor, BackendRegistry, Environment, Stack, Stacks, StoreRequest, UpdateRequest};
use state_tests::line::Line;
use state_tests::workload::{DESTINATION, MOVED, SOURCE};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Moves entries, and blocks at the step `stop`. A step is the moment before or after a call of the store that may
/// write. The first step has number 1.
pub(crate) async fn run(dir: &str, stop: u64) -> Result<()> {
    let store = StoreRequest::new(format!("file://{dir}"));
    let backend = FaultyBackend::new(BackendRegistry::default().open(&store, Opening::Existing)?);
    let steps = AtomicU64::new(0);
    backend.plan().watch(move |operation, _| {
        if operation.writes() && steps.fetch_add(1, Ordering::SeqCst) + 1 == stop {
            emit(&Line::Blocked(stop));
            loop {
                std::thread::park();
            }
        }
    });
    let actor = Actor {
        who: "worker".to_owned(),
        host: "here".to_owned(),
        pid: std::process::id(),
    };
    let stacks = Stacks::new(Arc::new(backend), Environment::system(actor));
    let find = async |name: &str| -> Result<Stack> {
        let found = stacks.get(&name.parse()?).await?;
        found.ok_or_else(|| state_core::Error::not_found(format!("stack {name}")))
    };
    let (source, destination) = (find(SOURCE).await?, find(DESTINATION).await?);
    let lock = async |stack: &Stack| stack.lock("move").await;
    let (source, destination) = Stacks::lock_both(&source, &destination, lock).await?;
    emit(&Line::Locked);
    let request = MoveRequest {
        addresses: MOVED
            .iter()
            .map(|name| Ok(name.parse()?))
            .collect::<Result<_>>()?,
        ..MoveRequest::default()
    };
    let plan = MovePlan::new(&source.state(), &destination.state(), &request)?;
    let moved = source
        .move_to(&destination, UpdateRequest::new(UpdateKind::Edit), &plan)
        .await?;
    emit(&Line::Finished(moved.source));
    source.close().await?;
    destination.close().await?;
    emit(&Line::Closed);
    Ok(())
}

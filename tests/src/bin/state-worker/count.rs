//! The worker `count`: a counter that several processes share. Its final value shows whether an update was lost.

use crate::{emit, open};
use state_core::{EntryKey, Error, Result, UpdateKind, UpdateResult};
use state_manager::{Intent, Stack, UpdateRequest};
use state_tests::line::Line;
use state_tests::workload;
use std::time::Duration;

/// The address of the counter.
const COUNTER: &str = "counter";

/// Adds one to the counter `times` times. Each addition takes the writer lock, and is retried while another process
/// holds the lock.
pub(crate) async fn run(dir: &str, times: u64) -> Result<()> {
    let stack = open(dir).await?;
    let mut done = 0;
    while done < times {
        match add_one(&stack).await {
            Ok(value) => {
                emit(&Line::Counted(value));
                done += 1;
            }
            Err(Error::Locked { holder, .. }) => {
                emit(&Line::LockedBy(holder.pid));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Adds one to the counter under the writer lock. Returns the new value.
async fn add_one(stack: &Stack) -> Result<u64> {
    let session = stack.lock("count").await?;
    let key = EntryKey::live(COUNTER.parse()?);
    let state = session.state();
    let known = state.entry(&key).and_then(|entry| entry.id.clone());
    let value = known.as_ref().and_then(|id| id.parse().ok()).unwrap_or(0) + 1;
    let entry = workload::made(key.address, &value.to_string())?;
    let intent = match known {
        Some(_) => Intent::update(entry.clone()),
        None => Intent::create(entry.clone()),
    };
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await?;
    let violations = update.begin(intent).await?.succeed(Some(entry)).await?;
    if let Some(violation) = violations.first() {
        return Err(Error::invalid("the counter", violation.to_string()));
    }
    update.finish(UpdateResult::Succeeded).await?;
    session.close().await?;
    Ok(value)
}

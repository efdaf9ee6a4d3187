//! The workers `count` and `embed`. `count` is one of several processes that share a counter, whose final value shows whether
//! an update was lost. `embed` is one process that counts for long, so that a test can watch what it keeps.

use crate::{emit, open};
use state_core::mutation::Resolution;
use state_core::{EntryKey, Error, Result, UpdateKind, UpdateResult};
use state_manager::{Intent, Retention, Session, Stack, UpdateRequest};
use state_tests::line::Line;
use state_tests::workload;
use std::time::Duration;

/// The address of the counter.
const COUNTER: &str = "counter";

/// Number of updates in a session of the worker `embed`.
const UPDATES: u64 = 50;

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

/// Adds one to the counter under the writer lock, in a session of its own. Returns the new value.
async fn add_one(stack: &Stack) -> Result<u64> {
    let session = stack.lock("count").await?;
    // A process that was killed may have left its addition pending. It has reported no value, so the addition is repeated.
    for operation in session.recovered() {
        let request = UpdateRequest::new(UpdateKind::Edit);
        session
            .resolve(request, operation.id, Resolution::NotDone)
            .await?;
    }
    let value = add(&session).await?;
    session.close().await?;
    Ok(value)
}

/// Adds one to the counter `times` times in one process, which keeps each session for [`UPDATES`] updates, and deletes old
/// revisions in every tenth session. Reports the value at the end of each session.
pub(crate) async fn embed(dir: &str, times: u64) -> Result<()> {
    let stack = open(dir).await?;
    let mut retention = Retention::default();
    retention.keep_for = Duration::ZERO;
    retention.grace = Duration::ZERO;
    for number in 1..=times.div_ceil(UPDATES) {
        let session = stack.lock("embed").await?;
        let mut value = 0;
        for _ in 0..UPDATES {
            value = add(&session).await?;
        }
        if number % 10 == 0 {
            session.collect(&retention).await?;
        }
        session.close().await?;
        emit(&Line::Counted(value));
    }
    Ok(())
}

/// Adds one to the counter in one update. Returns the new value.
async fn add(session: &Session) -> Result<u64> {
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
    Ok(value)
}

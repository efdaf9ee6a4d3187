//! Foresees settling for a preview: decides as settling does, and changes only the plan's copy of the state.

use super::verdict::Verdict;
use super::{Decisions, SettleBasis, settle_one};
use crate::call::Caller;
use crate::error::Result;
use crate::record::Recorder;
use state_core::mutation::Resolution;
use state_core::{Entry, Op, PendingOperation};

/// Settles the pending operations of a plan's copy of the state, as [`super::settle`] would settle the stored ones. Returns the
/// settled operations, each with a text that describes the result.
pub(crate) async fn foresee(
    caller: &Caller,
    recorder: &Recorder,
    decisions: &Decisions,
) -> Result<Vec<(PendingOperation, String)>> {
    let pending: Vec<PendingOperation> = recorder.state().pending().cloned().collect();
    let mut foreseen = Vec::new();
    for operation in pending {
        if caller.interrupt.is_stopping() {
            break;
        }
        let basis = SettleBasis {
            state: recorder.state(),
            session: None,
        };
        let id = operation.id;
        let (settled, how) = match settle_one(caller, &basis, decisions, &operation).await? {
            Verdict::Open(_) => continue,
            Verdict::Resolved(resolution, how) => match recorder.resolve(id, resolution) {
                // As in `settle`: a deleted object to which other entries still refer.
                Err(_) if operation.op == Op::Delete => {
                    (foresee_entry(recorder, &operation, None).await, how)
                }
                resolved => (resolved, how),
            },
            Verdict::Recorded(entry, how) => {
                let entry = entry.map(|entry| *entry);
                (foresee_entry(recorder, &operation, entry).await, how)
            }
        };
        // A resolution that breaks a rule leaves the operation pending.
        if settled.is_ok() {
            foreseen.push((operation, how.to_owned()));
        }
    }
    Ok(foreseen)
}

async fn foresee_entry(
    recorder: &Recorder,
    operation: &PendingOperation,
    entry: Option<Entry>,
) -> state_core::Result<()> {
    recorder.refresh(operation.target.clone(), entry).await?;
    recorder.resolve(operation.id, Resolution::NotDone)
}

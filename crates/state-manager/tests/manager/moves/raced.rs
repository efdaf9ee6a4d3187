//! Moves that are settled while their writer commits them.

use super::*;
use futures_util::FutureExt;
use state_core::backend::{Acquire, Holder};
use state_core::{Backend, Nonce};
use std::sync::atomic::{AtomicBool, Ordering};

/// The client that settles the move reads the source without a lock, and finds that the move isn't committed. Before it
/// locks the source, the commit takes effect, and the writer of the move releases the source.
#[tokio::test]
async fn move_committed_before_its_source_is_locked_is_kept() {
    let (pair, _source, there) = cut(&["a", "b"], false).await;
    drop(there);
    takeover(&pair.there).await;
    let session = pair.there.lock("settle").await.unwrap();
    let id = session.state().incoming().next().unwrap().id;

    let (backend, plan, lineage) = (pair.backend.clone(), pair.plan.clone(), pair.source.lineage());
    let seen = pair.source.lock_status().await.unwrap().epoch;
    let was_committed = AtomicBool::new(false);
    pair.plan.watch(move |operation, before| {
        if operation != Operation::Acquire || !before || was_committed.swap(true, Ordering::SeqCst) {
            return;
        }
        // No call of a store in memory waits.
        let done = async {
            assert_eq!(plan.deliver().await, 1);
            let request = Acquire {
                holder: Holder::new("ana", "ci", 42, "mv", None),
                break_epoch: Some(seen),
                head_nonce: Nonce::from_bytes([1; 16]),
                fence_nonce: Nonce::from_bytes([2; 16]),
            };
            let acquired = backend.acquire(lineage, &request).await.unwrap();
            acquired.writer.release().await.unwrap();
        };
        assert!(done.now_or_never().is_some());
    });
    let settled = session.settle_move(id).await.unwrap();
    assert!(matches!(settled, MoveSettlement::Arrived(_)), "{settled:?}");
    session.close().await.unwrap();
    assert_eq!([names(&pair.source).await, names(&pair.there).await], AFTER);
    for stack in [&pair.source, &pair.there] {
        assert_valid(stack).await;
    }
}

//! [`Writer`] of one stack: runs each operation to its end, renews the lease and compacts the journal in the
//! background.

use crate::compaction::Compactor;
use crate::error::RequestFailure;
use crate::objects::Objects;
use crate::options::Options;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join;
use state_backend_generic::protocol::{Owner, Renewal, Stack, delete};
use state_core::backend::{HeadChange, ObjectName, StoredItemName, Tail};
use state_core::head::{Compaction, Head};
use state_core::{Epoch, Error, Frame, Nonce, Result, Writer};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How often a head change is repeated because an earlier swap of this owner took effect late. A change by another
/// owner fences this one.
const ATTEMPTS: usize = 16;

pub(crate) struct ObjectWriter {
    owner: Arc<Owner>,
    objects: Objects,
    compactor: Arc<Compactor>,
    renewing: JoinHandle<()>,
}

impl ObjectWriter {
    /// Starts to renew the lease. Needs a tokio runtime.
    /// `frames` is the journal from the base on, and `compactions` are those from which its first frames were read.
    pub(crate) fn new(
        owner: Owner,
        objects: Objects,
        frames: &[Frame],
        compactions: Vec<Compaction>,
    ) -> Self {
        let owner = Arc::new(owner);
        let compactor = Arc::new(Compactor::new(objects.clone(), compactions));
        compactor.gather(&owner, frames.iter().cloned());
        Self {
            renewing: tokio::spawn(keep_renewing(
                Arc::downgrade(&owner),
                Arc::clone(&objects.options),
            )),
            compactor,
            objects,
            owner,
        }
    }

    async fn step<T, F>(&self, step: impl FnOnce(Arc<Owner>) -> F + Send) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let step = step(Arc::clone(&self.owner));
        to_its_end(&self.owner.stack, step).await
    }
}

/// Runs an operation in a task of its own, to its end even if the caller drops the future.
pub(crate) async fn to_its_end<T: Send + 'static>(
    stack: &Stack,
    step: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::spawn(step).await {
        Ok(result) => result,
        Err(_) => Err(lost(stack)),
    }
}

/// Returns the error for an operation that panicked, or whose runtime ended: it may have taken effect.
pub(crate) fn lost(stack: &Stack) -> Error {
    RequestFailure::TaskDied.indeterminate(&stack.shown())
}

/// Renews the lease until the owner is dropped or fenced.
async fn keep_renewing(owner: Weak<Owner>, options: Arc<Options>) {
    let mut renewal = Renewal::Confirmed;
    loop {
        if owner.strong_count() == 0 {
            return;
        }
        let usual = jittered(&options);
        // After a failed renewal, try again sooner: several attempts must fit into the rest of the lease.
        options
            .clock
            .sleep(if renewal == Renewal::Confirmed {
                usual
            } else {
                usual / 5
            })
            .await;
        renewal = match owner.upgrade() {
            Some(owner) => owner.renew().await,
            None => return,
        };
        if renewal == Renewal::Ended {
            return;
        }
    }
}

/// Returns the time to the next renewal, varied by a tenth, so that writers that started together spread out.
fn jittered(options: &Options) -> Duration {
    let [byte, ..] = *Nonce::random(&*options.entropy).as_bytes();
    let tenth = options.renewal / 10;
    options.renewal - tenth + tenth * 2 * u32::from(byte) / u32::from(u8::MAX)
}

/// Stops the renewal but keeps the lease, which then ends by itself: a write in progress may still take effect, and if
/// the lease were released, another process could take over before that write takes effect.
impl Drop for ObjectWriter {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

impl fmt::Debug for ObjectWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectWriter")
            .field("stack", &self.owner.stack.lineage)
            .field("epoch", &self.owner.epoch)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Writer for ObjectWriter {
    fn epoch(&self) -> Epoch {
        self.owner.epoch
    }

    async fn append(&self, frame: &Frame) -> Result<()> {
        let (frame, compactor) = (frame.clone(), Arc::clone(&self.compactor));
        self.step(|owner| async move {
            owner.append(&frame).await?;
            compactor.gather(&owner, [frame]);
            Ok(())
        })
        .await
    }

    /// Only checks that `tail` is the end of the journal: a journal of single frames has no segments.
    async fn rotate(&self, tail: Tail, _nonce: Nonce) -> Result<Tail> {
        self.owner.check_tail(tail).await
    }

    async fn swap_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head> {
        // The swap is conditional on the version of the head that was read. If an earlier swap of this owner took
        // effect late, the change is applied to the new head, so that neither change is lost. The guard moves into the
        // task: a dropped caller must not release the head during a swap.
        for _ in 0..ATTEMPTS {
            let (mut guard, mut head) = self.owner.head().await?;
            change(&mut head)?;
            let compactor = Arc::clone(&self.compactor);
            let swapped = self
                .step(|owner| async move {
                    if !head.closed {
                        return owner.swap_head(&mut guard, head, nonce, None).await;
                    }
                    let before = head.compactions.clone();
                    let plan = compactor.at_close(&head);
                    let compactions = plan.as_ref().map(|plan| plan.compactions.clone());
                    // Both at the same time, which saves a round trip: after a crash between the two, the head names a
                    // compaction that doesn't exist, and readers read its slots instead.
                    let store = async {
                        match &plan {
                            Some(plan) => compactor.store(&owner, plan).await.is_ok(),
                            None => true,
                        }
                    };
                    let swap = owner.swap_head(&mut guard, head, nonce, compactions);
                    let (swapped, is_stored) = join(swap, store).await;
                    let swapped = swapped?;
                    // If the new compaction is missing, the next lock holder still uses the earlier ones.
                    if let Some(head) = swapped.as_ref().filter(|_| is_stored) {
                        compactor.replaced(before, head);
                    }
                    Ok(swapped)
                })
                .await?;
            if let Some(head) = swapped {
                return Ok(head);
            }
        }
        Err(self.owner.head_keeps_changing())
    }

    async fn remove(&self, nonce: Nonce) -> Result<()> {
        self.step(|owner| async move { owner.remove(nonce).await }).await
    }

    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        let (name, objects) = (name.clone(), self.objects.clone());
        self.step(|owner| async move {
            owner.check_open()?;
            objects.create_object(&owner.stack, &name, &bytes).await
        })
        .await
    }

    async fn delete(&self, stored_items: &[StoredItemName]) -> Result<()> {
        let stored_items = stored_items.to_vec();
        self.step(|owner| async move { delete(&owner, &stored_items).await })
            .await
    }

    async fn check(&self) -> Result<()> {
        self.owner.check().await
    }

    async fn check_held(&self) -> Result<()> {
        self.owner.check_held().await
    }

    async fn release(&self) -> Result<()> {
        let compactor = Arc::clone(&self.compactor);
        self.step(|owner| async move {
            let (released, ()) = join(owner.release(), compactor.delete_replaced(&owner)).await;
            released
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::jittered;
    use crate::Options;
    use object_store::path::Path;
    use state_core::testkit::clock::SeededEntropy;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    #[test]
    fn renewals_are_spread_by_a_tenth() {
        let mut options = Options::new("s3://bucket", Path::default());
        options.entropy = Arc::new(SeededEntropy::new(1));
        let drawn: BTreeSet<_> = (0..200).map(|_| jittered(&options)).collect();
        let usual = options.renewal;
        assert!(
            drawn
                .iter()
                .all(|drawn| *drawn >= usual * 9 / 10 && *drawn <= usual * 11 / 10)
        );
        assert!(drawn.len() > 50, "{drawn:?}");
        assert!(drawn.first().unwrap() < &(usual * 19 / 20) && drawn.last().unwrap() > &(usual * 21 / 20));
    }
}

//! The writer lock of one stack, as the contract wants it: each step runs to its end, and in the background the lease
//! is renewed and the journal folded.

use crate::collection::delete;
use crate::fold::Folder;
use crate::options::Options;
use crate::owner::{Owner, Renewal};
use crate::upload::create_object;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{ObjectName, PieceName, Tail};
use state_core::head::Head;
use state_core::{Clock, Epoch, Error, Frame, Nonce, Result, Writer};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How often a head change is made anew because the head changed meanwhile.
const ATTEMPTS: usize = 16;

pub(crate) struct ObjectWriter {
    owner: Arc<Owner>,
    folder: Arc<Folder>,
    renewing: JoinHandle<()>,
}

impl ObjectWriter {
    /// Begins to renew the lease: needs a tokio runtime.
    pub(crate) fn new(owner: Owner, frames: &[Frame]) -> Self {
        let owner = Arc::new(owner);
        let clock = Arc::clone(&owner.stack.objects.options.clock);
        let folder = Arc::<Folder>::default();
        folder.gather(&owner, frames.iter().cloned());
        Self {
            renewing: tokio::spawn(keep_renewing(Arc::downgrade(&owner), clock)),
            folder,
            owner,
        }
    }

    async fn step<T, F>(&self, step: impl FnOnce(Arc<Owner>) -> F + Send) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let step = step(Arc::clone(&self.owner));
        self.owner.stack.to_its_end(step).await
    }
}

/// Renews the lease as long as its owner is there.
async fn keep_renewing(owner: Weak<Owner>, clock: Arc<dyn Clock>) {
    let mut renewal = Renewal::Done;
    loop {
        let Some(usual) = owner
            .upgrade()
            .map(|owner| jittered(&owner.stack.objects.options))
        else {
            return;
        };
        clock
            .sleep(if renewal == Renewal::Done {
                usual
            } else {
                usual / 5
            })
            .await;
        renewal = match owner.upgrade() {
            Some(owner) => owner.renew().await,
            None => return,
        };
        if renewal == Renewal::Over {
            return;
        }
    }
}

/// The time between two renewals, up to a tenth more or less: many writers that began at once don't stay in step.
fn jittered(options: &Options) -> Duration {
    let [byte, ..] = *Nonce::random(&*options.entropy).as_bytes();
    let tenth = options.renewal / 10;
    options.renewal - tenth + tenth * 2 * u32::from(byte) / u32::from(u8::MAX)
}

/// The lease stays and ends by itself: what is under way may still land.
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
        let (frame, folder) = (frame.clone(), Arc::clone(&self.folder));
        self.step(|owner| async move {
            owner.append(&frame).await?;
            folder.gather(&owner, [frame]);
            Ok(())
        })
        .await
    }

    /// A journal of single frames has no segments.
    async fn rotate(&self, tail: Tail, _nonce: Nonce) -> Result<Tail> {
        self.owner.check_tail(tail).await
    }

    async fn swap_head(
        &self,
        nonce: Nonce,
        change: &(dyn for<'h> Fn(&'h mut Head) + Send + Sync),
    ) -> Result<Head> {
        for _ in 0..ATTEMPTS {
            let (mut guard, mut head) = self.owner.head().await?;
            change(&mut head);
            let swapped = self
                .step(|owner| async move { owner.swap_head(&mut guard, head, nonce).await })
                .await?;
            if let Some(head) = swapped {
                return Ok(head);
            }
        }
        Err(Error::conflict(
            format!("the head of {}", self.owner.stack.shown()),
            "it keeps changing; try again",
        ))
    }

    async fn remove(&self, nonce: Nonce) -> Result<()> {
        self.step(|owner| async move { owner.remove(nonce).await }).await
    }

    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        let name = name.clone();
        self.step(|owner| async move {
            owner.check_open()?;
            create_object(&owner.stack, &name, &bytes).await
        })
        .await
    }

    async fn delete(&self, pieces: &[PieceName]) -> Result<()> {
        let pieces = pieces.to_vec();
        self.step(|owner| async move { delete(&owner, &pieces).await })
            .await
    }

    async fn check(&self) -> Result<()> {
        self.owner.check().await
    }

    async fn release(&self) -> Result<()> {
        self.step(|owner| async move { owner.release().await }).await
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
    fn renewals_are_spread_by_a_tenth_around_their_usual_distance() {
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

//! The writer of a [`FaultyBackend`](super::FaultyBackend): its calls fail as planned in the same [`FaultPlan`].

use super::{Fault, FaultPlan, Lend, Operation, after, before, call};
use crate::backend::{HeadChange, ObjectName, StoredItemName, Tail, Writer};
use crate::counter::Epoch;
use crate::error::Result;
use crate::head::Head;
use crate::id::Nonce;
use crate::journal::Frame;
use async_trait::async_trait;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct FaultyWriter {
    inner: Arc<dyn Writer>,
    plan: FaultPlan,
}

impl FaultyWriter {
    pub(super) const fn new(inner: Arc<dyn Writer>, plan: FaultPlan) -> Self {
        Self { inner, plan }
    }
}

#[async_trait]
impl Writer for FaultyWriter {
    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }

    async fn append(&self, frame: &Frame) -> Result<()> {
        call!(self.Append, inner.append(frame))
    }

    async fn rotate(&self, tail: Tail, nonce: Nonce) -> Result<Tail> {
        call!(self.Rotate, inner.rotate(tail, nonce))
    }

    async fn swap_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head> {
        let operation = Operation::SwapHead;
        match self.plan.next(operation) {
            None => {
                self.plan.notify(operation, true);
                let swapped = self.inner.swap_head(nonce, change).await;
                self.plan.notify(operation, false);
                swapped
            }
            Some(Fault::BeforeEffect) => Err(before(operation)),
            Some(Fault::AfterEffect | Fault::Late) => {
                drop(self.inner.swap_head(nonce, change).await);
                Err(after(operation))
            }
            Some(Fault::Twice) => {
                let first = self.inner.swap_head(nonce, change).await;
                drop(self.inner.swap_head(nonce, change).await);
                first
            }
        }
    }

    async fn remove(&self, nonce: Nonce) -> Result<()> {
        call!(self.Remove, inner.remove(nonce))
    }

    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        call!(self.Create, inner.create(name, bytes))
    }

    async fn delete(&self, stored_items: &[StoredItemName]) -> Result<()> {
        for item in stored_items {
            call!(self.Delete, inner.delete(item))?;
        }
        Ok(())
    }

    async fn check(&self) -> Result<()> {
        call!(self.Check, inner.check())
    }

    async fn check_held(&self) -> Result<()> {
        call!(self.Check, inner.check_held())
    }

    async fn release(&self) -> Result<()> {
        call!(self.Release, inner.release())
    }
}

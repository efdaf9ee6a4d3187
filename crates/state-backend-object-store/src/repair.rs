//! Access to single objects of a damaged store: the implementation of [`RepairableStore`].
//!
//! Reads don't need the object `format`, which may be damaged itself. The first write reads it, and probes the store if the
//! object doesn't record a probe.

use crate::store::ObjectBackend;
use async_trait::async_trait;
use bytes::Bytes;
use state_backend_generic::protocol::repair;
use state_core::backend::{Acquire, RepairLock, RepairableStore};
use state_core::{Epoch, Lineage, Result};

#[async_trait]
impl RepairableStore for ObjectBackend {
    async fn read_object(&self, key: &str) -> Result<Option<Bytes>> {
        repair::read(&self.damaged(), key).await
    }

    async fn list_objects(&self, folder: &str) -> Result<Vec<String>> {
        repair::list(&self.damaged(), folder).await
    }

    async fn list_entries(&self, folder: &str) -> Result<Vec<String>> {
        repair::entries(&self.damaged(), folder).await
    }

    async fn create_object(&self, key: &str, bytes: &Bytes) -> Result<()> {
        repair::create(&self.repaired().await?, key, bytes).await
    }

    async fn replace_object(&self, key: &str, before: &Bytes, bytes: &Bytes) -> Result<()> {
        repair::replace(&self.repaired().await?, key, before, bytes).await
    }

    async fn delete_object(&self, key: &str, before: &Bytes) -> Result<()> {
        repair::delete(&self.repaired().await?, key, before).await
    }

    async fn restore_format(&self) -> Result<()> {
        self.make_store().await.map(drop)
    }

    async fn lock_damage(&self, lineage: Lineage) -> Result<Option<(String, String)>> {
        repair::lock_damage(&self.damaged_stack(lineage)).await
    }

    async fn lock_for_repair(&self, lineage: Lineage, request: &Acquire, least: Epoch) -> Result<RepairLock> {
        repair::lock(&self.repaired_stack(lineage).await?, request, least).await
    }

    async fn renew_repair_lock(&self, lineage: Lineage, lock: &RepairLock) -> Result<RepairLock> {
        repair::renew(&self.repaired_stack(lineage).await?, lock).await
    }
}

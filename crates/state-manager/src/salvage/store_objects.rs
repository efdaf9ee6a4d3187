//! The objects of a store that isn't in a folder, read without the backend's checks.

use crate::salvage::damage::Damage;
use crate::salvage::damaged_store::{DamagedStore, SharedStore};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::RepairableStore;
use state_core::{Backend, Error, Lineage, Result};
use std::sync::Arc;

/// The number of objects that are read at the same time.
const CONCURRENCY: usize = 16;

/// The objects of a store, or those in one of its folders.
#[derive(Clone, Debug)]
pub(super) struct StoreObjects {
    backend: Arc<dyn Backend>,
    /// The folder with a `/` at its end; empty for the whole store.
    prefix: String,
}

impl StoreObjects {
    /// # Errors
    /// `Unsupported` if the store gives no access to its objects.
    pub(super) fn new(backend: Arc<dyn Backend>) -> Result<Self> {
        backend.repairable()?;
        Ok(Self {
            backend,
            prefix: String::new(),
        })
    }

    fn objects(&self) -> Result<&dyn RepairableStore> {
        self.backend.repairable()
    }
}

#[async_trait]
impl DamagedStore for StoreObjects {
    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        self.objects()?
            .read_object(&format!("{}{path}", self.prefix))
            .await
    }

    async fn read_all(&self, paths: &[String]) -> Result<Vec<Option<Bytes>>> {
        let reads = paths.iter().map(|path| self.read(path)).collect::<Vec<_>>();
        stream::iter(reads).buffered(CONCURRENCY).try_collect().await
    }

    async fn entries(&self, folder: &str) -> Result<Vec<String>> {
        self.objects()?
            .list_entries(&format!("{}{folder}", self.prefix))
            .await
    }

    fn below(&self, folder: &str) -> SharedStore {
        Arc::new(Self {
            backend: Arc::clone(&self.backend),
            prefix: format!("{}{folder}/", self.prefix),
        })
    }

    async fn part_damage(&self, lineage: Lineage) -> Result<Vec<Damage>> {
        // A copy that was kept aside is only read.
        if !self.prefix.is_empty() {
            return Ok(Vec::new());
        }
        let damage = self.objects()?.lock_damage(lineage).await?;
        let damage = damage.map(|(key, reason)| Damage::new(key, reason));
        Ok(damage.into_iter().collect())
    }

    async fn unfinished(&self) -> Result<Vec<(String, Lineage)>> {
        Ok(Vec::new())
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        match self.prefix.is_empty() {
            true => Ok(Arc::clone(&self.backend)),
            false => Err(Error::unsupported(
                &*self.prefix,
                "a backend for a part of a store",
            )),
        }
    }
}

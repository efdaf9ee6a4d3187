//! Changes a damaged store in a folder: moves files aside, and exchanges whole stacks ([`Exchange`]).

use crate::salvage::exchange::{Exchange, lock_stack};
use crate::salvage::head_template::Client;
use crate::salvage::rebuild::{self, RebuiltStack};
use crate::salvage::stack_files::StackFiles;
use crate::salvage::store_files::StoreFiles;
use crate::salvage::store_repair::StoreRepair;
use crate::stack::Stack;
use async_trait::async_trait;
use state_backend_fs::FsBackend;
use state_core::backend::ObjectKind;
use state_core::{Error, Lineage, Result};
use std::fs::File;
use std::sync::Arc;

/// A repair of a store in a folder.
#[derive(Debug)]
pub(super) struct FileRepair {
    store: StoreFiles,
    client: Client,
    exchange: Exchange,
    locks: Vec<File>,
}

impl FileRepair {
    pub(super) fn begin(store: &StoreFiles, client: &Client) -> Result<Self> {
        Ok(Self {
            store: store.clone(),
            client: client.clone(),
            exchange: Exchange::begin(store, &client.environment)?,
            locks: Vec::new(),
        })
    }
}

#[async_trait]
impl StoreRepair for FileRepair {
    fn aside(&self) -> String {
        self.exchange.aside()
    }

    fn has_moved(&self) -> bool {
        self.exchange.has_moved
    }

    fn finished(&self) -> &[Lineage] {
        &self.exchange.finished
    }

    async fn move_aside(&mut self, path: &str) -> Result<Option<String>> {
        if !self.exchange.exists(path) {
            return Ok(None);
        }
        self.exchange.move_aside(path).map(Some)
    }

    async fn make_format(&self) -> Result<()> {
        FsBackend::create_like(self.store.root(), self.store.root()).map(drop)
    }

    async fn lock(&mut self, files: &StackFiles) -> Result<()> {
        let clock = Arc::clone(&self.client.environment.clock);
        self.locks = lock_stack(&self.store, files.lineage, &*clock).await?;
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        self.locks.clear();
        Ok(())
    }

    /// Stores the rebuilt stack beside the damaged one, reads it back, and exchanges the two.
    async fn replace(&mut self, files: &StackFiles, rebuilt: &RebuiltStack) -> Result<()> {
        let lineage = files.lineage;
        let (building, backend) = self.exchange.build(&self.client.environment)?;
        let backend = Arc::new(backend);
        let mut objects = rebuilt.objects.clone();
        if objects.published() == files.objects.published() {
            // Published outputs aren't in the folder of the stack, and stay where they are.
            objects.retain(|name| name.kind() != ObjectKind::Outputs);
        } else {
            // Even without a document: the outputs of lost revisions must not stay.
            building.make_folder(&format!("outputs/{lineage}"))?;
        }
        rebuild::store_in(
            &*backend,
            &rebuilt.head,
            rebuilt.before,
            &rebuilt.frames,
            &objects,
        )
        .await?;
        let stored = self
            .client
            .store(backend)
            .stack(rebuilt.head.name.clone(), lineage);
        let read = Stack::of(stored).tip().await?;
        if read.state != rebuilt.view.state {
            let reason = "the rebuilt stack, read back, has another state";
            let object = format!("{}/stacks/{lineage}", building.root().display());
            return Err(Error::corrupt(object, 0, reason));
        }
        self.exchange.put_in_place(&building, lineage)
    }
}

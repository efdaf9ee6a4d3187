//! Implements the whole backend contract over a [`KeyValueStore`]: [`GenericBackend`].

use crate::collection::stored_items;
use crate::copies::update_stack;
use crate::lease::NoExpiry;
use crate::names;
use crate::owner::Owner;
use crate::prefetch::{FetchedObjects, SeenDocuments};
use crate::reader::{read_frames, read_journal};
use crate::settings::Settings;
use crate::settle::SettledStore;
use crate::stack::{Stack, adopt_stack};
use crate::store::KeyValueStore;
use crate::takeover::take_over;
use crate::writer::GenericWriter;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{
    Acquire, Acquired, Capabilities, CollectableStore, CopyTarget, CopyUpdate, Extensions, JournalView,
    LockStatus, NamePointer, ObjectKind, ObjectName, StoredItem, Tail,
};
use state_core::{Backend, Frame, Head, Lineage, Nonce, Result, Slot, StackName};
use std::sync::Arc;

/// A backend of stacks over a key-value store.
///
/// A lock lasts until it is released or broken: this backend doesn't detect that a lock holder crashed.
///
/// # Cancellation
/// A dropped future sends no further request. Dropping a takeover may leave the stack locked, as a crash does.
#[derive(Clone, Debug)]
pub struct GenericBackend {
    store: SettledStore,
    fetched: FetchedObjects,
    seen: SeenDocuments,
}

impl GenericBackend {
    /// Creates a backend over a store. Sends no request.
    pub fn new(store: Arc<dyn KeyValueStore>, settings: Settings) -> Self {
        Self {
            store: SettledStore::new(store, settings),
            fetched: FetchedObjects::default(),
            seen: SeenDocuments::default(),
        }
    }

    fn stack(&self, lineage: Lineage) -> Stack {
        Stack::new(self.store.clone(), lineage, Arc::new(NoExpiry))
    }
}

#[async_trait]
impl Backend for GenericBackend {
    fn url(&self) -> String {
        self.store.settings().url.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let settings = self.store.settings();
        Capabilities::new(settings.durable, settings.shared, false)
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        names::list(&self.store).await
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        names::read(&self.store, name).await
    }

    async fn swap_name(
        &self,
        name: &StackName,
        expected: Option<Nonce>,
        pointer: &NamePointer,
    ) -> Result<()> {
        names::swap(&self.store, name, expected, pointer).await
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        self.stack(head.lineage).create(head).await
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        let seen = self.stack(lineage).head().await?;
        self.seen.keep_head(&seen);
        Ok(seen.head)
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        let stack = self.stack(lineage);
        match self.fetched.take(&stack.paths.object(name)) {
            Some(bytes) => Ok(bytes),
            None => stack.read_object(name).await,
        }
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        self.stack(lineage).list(kind).await
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        read_journal(&self.stack(lineage), None, from, &self.fetched).await
    }

    async fn read_journal_of(&self, head: &Head, from: Option<Slot>) -> Result<JournalView> {
        read_journal(&self.stack(head.lineage), Some(head), from, &self.fetched).await
    }

    async fn read_frames(&self, head: &Head, from: Tail, until: Slot) -> Result<Vec<Frame>> {
        read_frames(&self.stack(head.lineage), head, from, until, &self.fetched).await
    }

    async fn prepare_acquire(&self, lineage: Lineage) {
        self.seen.fetch_lease(&self.stack(lineage)).await;
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        let stack = self.stack(lineage);
        let mut takeover = take_over(&stack, request, &self.seen, &self.fetched).await?;
        let head = takeover.seen.head.clone();
        let (frames, tail) = (std::mem::take(&mut takeover.frames), takeover.tail);
        let deletes = self.store.settings().deletes;
        Ok(Acquired {
            head,
            frames,
            tail,
            writer: Arc::new(GenericWriter::new(Owner::new(stack, takeover), deletes)),
        })
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        self.stack(lineage).lock_status().await
    }

    fn extensions(&self) -> Extensions<'_> {
        let extensions = Extensions::none().with_copies(self);
        if self.store.settings().deletes {
            extensions.with_collection(self)
        } else {
            extensions
        }
    }
}

#[async_trait]
impl CopyTarget for GenericBackend {
    async fn adopt_object(&self, lineage: Lineage, name: &ObjectName, bytes: Bytes) -> Result<()> {
        self.stack(lineage).create_object(name, &bytes).await
    }

    async fn adopt_stack(&self, head: &Head, before: Tail, frames: &[Frame]) -> Result<()> {
        adopt_stack(&self.stack(head.lineage), head, before, frames).await
    }

    async fn update_stack(&self, update: &CopyUpdate) -> Result<()> {
        update_stack(&self.stack(update.head.lineage), update).await
    }
}

#[async_trait]
impl CollectableStore for GenericBackend {
    async fn stored_items(&self, lineage: Lineage, before: Slot) -> Result<Vec<StoredItem>> {
        stored_items(&self.stack(lineage), before).await
    }
}

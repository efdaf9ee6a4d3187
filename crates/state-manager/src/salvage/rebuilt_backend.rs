//! The store of a stack that was rebuilt in memory. Its objects are read from the damaged store when they are needed.

use crate::salvage::intact_objects::IntactObjects;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{
    Acquire, Acquired, Capabilities, JournalView, LockStatus, NamePointer, ObjectKind, ObjectName, Tail,
};
use state_core::{Backend, Error, Frame, Head, Lineage, MemoryBackend, Nonce, Result, Slot, StackName};

/// A store with one stack: head, journal and new objects in memory, other objects in the damaged store. Nothing is written to
/// the damaged store.
#[derive(Debug)]
pub(super) struct RebuiltBackend {
    memory: MemoryBackend,
    objects: IntactObjects,
}

impl RebuiltBackend {
    /// # Errors
    /// `Corrupt` and `Invalid` if the frames don't follow one another, or don't fit the head.
    pub(super) async fn new(
        head: &Head,
        before: Tail,
        frames: &[Frame],
        objects: IntactObjects,
    ) -> Result<Self> {
        let memory = MemoryBackend::new();
        let backend: &dyn Backend = &memory;
        backend.copy_target()?.adopt_stack(head, before, frames).await?;
        Ok(Self { memory, objects })
    }

    /// The stack as its writer left it: the head, the frames from a slot on, and the objects.
    ///
    /// # Errors
    /// Any error of reading the memory.
    pub(super) async fn written(
        &self,
        lineage: Lineage,
        from: Slot,
    ) -> Result<(Head, Vec<Frame>, IntactObjects)> {
        let journal = self.memory.read_journal(lineage, Some(from)).await?;
        let mut objects = self.objects.clone();
        for kind in ObjectKind::ALL {
            for name in self.memory.list(lineage, kind).await? {
                let bytes = self.memory.read(lineage, &name).await?;
                objects.add_made(name, bytes);
            }
        }
        Ok((journal.head, journal.frames, objects))
    }

    fn refuse_write<T>(&self) -> Result<T> {
        Err(Error::unsupported(
            self.url(),
            "a change of the names in a rebuilt store",
        ))
    }
}

#[async_trait]
impl Backend for RebuiltBackend {
    fn url(&self) -> String {
        self.memory.url()
    }

    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        self.memory.names().await
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        self.memory.read_name(name).await
    }

    async fn swap_name(&self, _: &StackName, _: Option<Nonce>, _: &NamePointer) -> Result<()> {
        self.refuse_write()
    }

    async fn create_stack(&self, _: &Head) -> Result<()> {
        self.refuse_write()
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        self.memory.read_head(lineage).await
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        match self.objects.contains(name) {
            true => self.objects.read(name).await,
            false => self.memory.read(lineage, name).await,
        }
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        let mut names = self.memory.list(lineage, kind).await?;
        names.extend(self.objects.names().filter(|name| name.kind() == kind).cloned());
        names.sort();
        names.dedup();
        Ok(names)
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        self.memory.read_journal(lineage, from).await
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        self.memory.acquire(lineage, request).await
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        self.memory.lock_status(lineage).await
    }
}

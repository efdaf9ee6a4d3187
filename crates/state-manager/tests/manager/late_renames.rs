//! A rename whose last step comes late: after its commit point, another client renames the stack back.

use super::*;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{
    Acquire, Acquired, Capabilities, JournalView, LockStatus, NamePointer, ObjectKind, ObjectName,
};
use state_core::{Backend, Head, Lineage, Nonce, Result, Slot, StackName};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// A store that delays the first request for the old name after the head has another one.
#[derive(Debug)]
struct DelayedRelease {
    store: Arc<MemoryBackend>,
    lineage: Lineage,
    old: StackName,
    was_delayed: AtomicBool,
    reached: Notify,
    resumed: Notify,
}

impl DelayedRelease {
    async fn delay(&self, name: &StackName) -> Result<()> {
        let is_late = *name == self.old && self.store.read_head(self.lineage).await?.name != self.old;
        if is_late && !self.was_delayed.swap(true, Ordering::SeqCst) {
            self.reached.notify_one();
            self.resumed.notified().await;
        }
        Ok(())
    }
}

#[async_trait]
impl Backend for DelayedRelease {
    fn url(&self) -> String {
        self.store.url()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        self.store.names().await
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        self.delay(name).await?;
        self.store.read_name(name).await
    }

    async fn swap_name(&self, name: &StackName, before: Option<Nonce>, pointer: &NamePointer) -> Result<()> {
        self.delay(name).await?;
        self.store.swap_name(name, before, pointer).await
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        self.store.create_stack(head).await
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        self.store.read_head(lineage).await
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        self.store.read(lineage, name).await
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        self.store.list(lineage, kind).await
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        self.store.read_journal(lineage, from).await
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        self.store.acquire(lineage, request).await
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        self.store.lock_status(lineage).await
    }
}

#[tokio::test]
async fn late_release_of_an_old_name_hides_no_stack() {
    let store = Arc::new(MemoryBackend::default());
    let fast = Stacks::new(Arc::clone(&store) as Arc<dyn Backend>, environment(1));
    let (old, new): (StackName, StackName) = ("shop/old".parse().unwrap(), "shop/new".parse().unwrap());
    let lineage = fast.new_stack(&old).await.unwrap().lineage();
    let delayed = Arc::new(DelayedRelease {
        store,
        lineage,
        old: old.clone(),
        was_delayed: AtomicBool::new(false),
        reached: Notify::new(),
        resumed: Notify::new(),
    });
    let slow = Stacks::new(Arc::clone(&delayed) as Arc<dyn Backend>, environment(2));
    let rename = tokio::spawn({
        let (old, new) = (old.clone(), new.clone());
        async move { slow.rename(&old, &new).await }
    });
    delayed.reached.notified().await;

    let renamed = fast.get(&new).await.unwrap().unwrap();
    let epoch = renamed.lock_status().await.unwrap().epoch;
    let session = renamed.break_lock("rename back", epoch).await.unwrap();
    session.close().await.unwrap();
    fast.rename(&new, &old).await.unwrap();
    delayed.resumed.notify_one();
    // The first client lost its lock, so its rename may fail.
    let _late = rename.await.unwrap();

    let found = fast.get(&old).await.unwrap();
    assert_eq!(found.map(|stack| stack.lineage()), Some(lineage));
    assert!(fast.get(&new).await.unwrap().is_none());
}

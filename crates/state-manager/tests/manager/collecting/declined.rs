//! A store that can't delete objects: a collection returns an error, and the whole history stays.

use super::*;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{
    Acquire, Acquired, Capabilities, JournalView, LockStatus, NamePointer, ObjectName,
};
use state_core::{Head, Lineage, Nonce, Result, StackName};

/// The memory backend without its extensions, one of which is the deletion of objects.
#[derive(Debug)]
struct Archive(MemoryBackend);

#[async_trait]
impl Backend for Archive {
    fn url(&self) -> String {
        "archive:".to_owned()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(false, false, true)
    }
    async fn names(&self) -> Result<Vec<NamePointer>> {
        self.0.names().await
    }
    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        self.0.read_name(name).await
    }
    async fn swap_name(&self, name: &StackName, expected: Option<Nonce>, to: &NamePointer) -> Result<()> {
        self.0.swap_name(name, expected, to).await
    }
    async fn create_stack(&self, head: &Head) -> Result<()> {
        self.0.create_stack(head).await
    }
    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        self.0.read_head(lineage).await
    }
    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        self.0.read(lineage, name).await
    }
    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        self.0.list(lineage, kind).await
    }
    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        self.0.read_journal(lineage, from).await
    }
    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        self.0.acquire(lineage, request).await
    }
    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        self.0.lock_status(lineage).await
    }
}

#[tokio::test]
async fn store_without_deletion_keeps_history_and_reports_it() {
    let memory = MemoryBackend::default();
    let clock = Arc::new(ManualClock::default());
    let stacks = on(Arc::new(Archive(memory.clone())), &clock);
    let stack = stacks
        .new_stack_with(&"shop/production".parse().unwrap(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    let made = [deploy(&stack, &["a"]).await, deploy(&stack, &["b"]).await];
    clock.advance(DAY);
    let retention = keep(0, 1, Duration::ZERO);
    let session = stack.lock("gc").await.unwrap();
    for error in [
        stack.plan_collection(&retention).await.unwrap_err(),
        session.collect(&retention).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.to_string().contains("archive:: garbage collection"),
            "{error}"
        );
    }
    session.close().await.unwrap();
    let head = memory.read_head(stack.lineage()).await.unwrap();
    assert_eq!((head.floor, head.collection), (Slot::ZERO, None));
    assert_eq!(stack.list().await.unwrap(), made);
}

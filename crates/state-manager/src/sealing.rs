//! What a session seals with, and the writer that tags each head that it swaps.

use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{HeadChange, ObjectName, PieceName, Tail};
use state_core::head::Policy;
use state_core::journal::Frame;
use state_core::mutation::StackOutputs;
use state_core::sealing::StackKey;
use state_core::{Entry, Epoch, Error, Head, Nonce, Result, Snapshot, Writer, sensitive};
use std::sync::Arc;

/// How the values of a stack are stored. Cheap to clone; callers seal in their own tasks.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    policy: Policy,
    key: Option<Arc<dyn StackKey>>,
}

impl Seal {
    pub(crate) const fn new(policy: Policy, key: Option<Arc<dyn StackKey>>) -> Self {
        Self { policy, key }
    }

    pub(crate) fn key(&self) -> Option<&dyn StackKey> {
        self.key.as_deref()
    }

    pub(crate) fn shared_key(&self) -> Option<Arc<dyn StackKey>> {
        self.key.clone()
    }

    /// An entry as it is stored. It must have the uid under which it will be recorded.
    pub(crate) fn entry(&self, entry: Entry) -> Result<Entry> {
        match (self.policy, &self.key) {
            (Policy::Plaintext, _) => Ok(entry),
            (policy, Some(key)) => key.seal_entry(policy, &entry),
            (Policy::Sensitive, None) if !sensitive::entry_has_sensitive(&entry) => Ok(entry),
            (_, None) => Err(no_key(format!("entry {}", entry.key()))),
        }
    }

    /// The stack's outputs as they are stored.
    pub(crate) fn outputs(&self, outputs: StackOutputs) -> Result<StackOutputs> {
        match (self.policy, &self.key) {
            (Policy::Plaintext, _) => Ok(outputs),
            (policy, Some(key)) => key.seal_outputs(policy, &outputs),
            (Policy::Sensitive, None) if outputs.sensitive.is_empty() => Ok(outputs),
            (_, None) => Err(no_key("the stack's outputs".to_owned())),
        }
    }

    /// A snapshot as it is stored.
    pub(crate) fn snapshot(&self, snapshot: Snapshot) -> Result<Snapshot> {
        match (self.policy, &self.key) {
            (Policy::Plaintext, _) => Ok(snapshot),
            (policy, Some(key)) => key.seal_snapshot(policy, &snapshot),
            (Policy::Sensitive, None) if !sensitive::has_sensitive(&snapshot) => Ok(snapshot),
            (_, None) => Err(no_key("the snapshot".to_owned())),
        }
    }
}

fn no_key(object: String) -> Error {
    Error::sealed(
        object,
        "it holds sensitive values and the stack has no key to seal them with: give recipients or an identity, or make \
         the stack with the policy `plaintext`",
    )
}

/// Tags every head that it swaps, so that no change of an owner goes without.
#[derive(Debug)]
pub(crate) struct SigningWriter {
    pub(crate) inner: Arc<dyn Writer>,
    pub(crate) key: Arc<dyn StackKey>,
}

#[async_trait]
impl Writer for SigningWriter {
    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }

    async fn append(&self, frame: &Frame) -> Result<()> {
        self.inner.append(frame).await
    }

    async fn rotate(&self, tail: Tail, nonce: Nonce) -> Result<Tail> {
        self.inner.rotate(tail, nonce).await
    }

    async fn swap_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head> {
        let signed = |head: &mut Head| {
            change(head);
            head.sign(&*self.key);
        };
        self.inner.swap_head(nonce, &signed).await
    }

    async fn remove(&self, nonce: Nonce) -> Result<()> {
        self.inner.remove(nonce).await
    }

    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        self.inner.create(name, bytes).await
    }

    async fn delete(&self, pieces: &[PieceName]) -> Result<()> {
        self.inner.delete(pieces).await
    }

    async fn check(&self) -> Result<()> {
        self.inner.check().await
    }

    async fn release(&self) -> Result<()> {
        self.inner.release().await
    }
}

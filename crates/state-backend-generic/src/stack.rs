//! The keys of one stack, and its head with what a swap of it must name.

use crate::layout::{Lease, MAX_DOCUMENT, MAX_OBJECT, Meta, StackPaths};
use crate::lease::LeaseTerms;
use crate::settle::{Created, SettledStore, Swapped};
use crate::store::Value;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::{LockStatus, ObjectKind, ObjectName, Tail};
use state_core::{Base, Enveloped, Epoch, Error, Frame, Head, Lineage, Result};
use std::sync::Arc;

/// One stack in its store.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The store.
    pub store: SettledStore,
    /// The stack's keys.
    pub paths: StackPaths,
    /// Which one.
    pub lineage: Lineage,
    /// How long its lock lasts.
    pub terms: Arc<dyn LeaseTerms>,
}

/// A head as it was read or written.
#[derive(Clone, Debug)]
pub struct VersionedHead {
    /// The head.
    pub head: Head,
    /// The value that holds it.
    pub found: Value,
}

impl Stack {
    /// A stack, whether it exists or not.
    pub fn new(store: SettledStore, lineage: Lineage, terms: Arc<dyn LeaseTerms>) -> Self {
        Self {
            store,
            paths: StackPaths::new(lineage),
            lineage,
            terms,
        }
    }

    /// The stack as messages name it.
    pub fn shown(&self) -> String {
        format!("stack {} of {}", self.lineage, self.store.settings.url)
    }

    /// Makes the head last: a stack without one was never finished.
    pub async fn create(&self, head: &Head) -> Result<()> {
        if head.base != Base::empty(head.lineage) {
            return Err(Error::invalid(self.shown(), "a new stack has an empty base"));
        }
        let meta = Meta {
            lineage: self.lineage,
        };
        for (path, bytes) in [
            (self.paths.meta(), meta.encode()),
            (self.paths.head(), head.encode()),
        ] {
            if let Created::Taken(_) = self.store.create(&path, &bytes.into()).await? {
                return Err(Error::conflict(self.shown(), "it exists already"));
            }
        }
        Ok(())
    }

    /// Replaces the document at a path, if it is still the one that was found.
    pub(crate) async fn swap<D: Enveloped>(
        &self,
        path: &str,
        document: &D,
        found: &Value,
    ) -> Result<Swapped> {
        self.store.swap(path, &document.encode().into(), found).await
    }

    /// The head as it is now.
    pub async fn head(&self) -> Result<VersionedHead> {
        match self.store.read(&self.paths.head(), MAX_DOCUMENT).await? {
            Some(found) => self.seen(found),
            None => Err(self.without_head().await),
        }
    }

    pub(crate) fn seen(&self, found: Value) -> Result<VersionedHead> {
        let object = self.store.shown(&self.paths.head());
        let head = Head::decode(&object, &found.bytes)?;
        if head.lineage == self.lineage {
            return Ok(VersionedHead { head, found });
        }
        let reason = format!("it is the head of another stack, {}", head.lineage);
        Err(Error::corrupt(object, 0, reason))
    }

    async fn without_head(&self) -> Error {
        match self.store.read(&self.paths.meta(), MAX_DOCUMENT).await {
            Ok(None) => Error::not_found(self.shown()),
            Ok(Some(_)) => {
                let object = self.store.shown(&self.paths.head());
                Error::corrupt(object, 0, "the stack's head is missing")
            }
            Err(error) => error,
        }
    }

    /// The lease as it is now; none before the first owner.
    pub async fn lease(&self) -> Result<Option<(Lease, Value)>> {
        match self.store.read(&self.paths.lease(), MAX_DOCUMENT).await? {
            Some(found) => Ok(Some((self.parse_lease(&found)?, found))),
            None => Ok(None),
        }
    }

    pub(crate) fn parse_lease(&self, found: &Value) -> Result<Lease> {
        Lease::decode(&self.store.shown(&self.paths.lease()), &found.bytes)
    }

    /// Another owner's epoch is there.
    pub(crate) fn fenced(&self, mine: Epoch, theirs: Epoch, indeterminate: bool) -> Error {
        Error::Fenced {
            object: self.shown(),
            mine,
            theirs,
            indeterminate,
        }
    }

    /// The error for a stack that was removed.
    pub(crate) fn removed(&self) -> Error {
        Error::conflict(
            self.shown(),
            "the stack was removed; nobody can write to it again",
        )
    }

    /// Creates a key of the stack. The same bytes again are fine.
    ///
    /// # Errors
    /// `Conflict` when it holds other bytes.
    pub async fn create_at(&self, key: &str, bytes: &Bytes) -> Result<()> {
        match self.store.create(key, bytes).await? {
            Created::Ours(_) => Ok(()),
            Created::Taken(_) => Err(Error::conflict(
                self.store.shown(key),
                "it exists with other bytes",
            )),
        }
    }

    /// Creates an object. The same bytes again are fine.
    ///
    /// # Errors
    /// `Conflict` when it exists with other bytes; `Invalid` when it is too large.
    pub async fn create_object(&self, name: &ObjectName, bytes: &Bytes) -> Result<()> {
        self.check_size(name, bytes)?;
        self.create_at(&self.paths.object(name), bytes).await
    }

    /// Refuses an object that is too large.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check_size(&self, name: &ObjectName, bytes: &Bytes) -> Result<()> {
        if bytes.len() as u64 <= MAX_OBJECT {
            return Ok(());
        }
        let reason = format!(
            "its {} bytes are more than the {MAX_OBJECT} that an object may have",
            bytes.len()
        );
        Err(Error::invalid(self.store.shown(&self.paths.object(name)), reason))
    }

    /// The bytes of an object.
    ///
    /// # Errors
    /// `NotFound` when it doesn't exist.
    pub async fn read_object(&self, name: &ObjectName) -> Result<Bytes> {
        let key = self.paths.object(name);
        match self.store.read(&key, MAX_OBJECT).await? {
            Some(found) => Ok(found.bytes),
            None => Err(Error::not_found(self.store.shown(&key))),
        }
    }

    /// The objects of one kind, sorted by name.
    pub async fn list(&self, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        let listed = self.store.list(&self.paths.folder(kind), None).await?;
        let mut names: Vec<_> = listed
            .iter()
            .filter_map(|listed| ObjectName::from_file_name(kind, listed.file()))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Who holds the lock.
    pub async fn lock_status(&self) -> Result<LockStatus> {
        let head = self.head().await?.head;
        let lease = self.lease().await?.map(|(lease, _)| lease);
        Ok(LockStatus {
            epoch: newest(&head, lease.as_ref()),
            holder: lease
                .filter(|lease| !lease.released && lease.epoch >= head.epoch)
                .map(|lease| lease.holder),
            client_lock: head.client_lock,
        })
    }
}

/// The epoch of the last takeover, finished or not.
pub(crate) fn newest(head: &Head, lease: Option<&Lease>) -> Epoch {
    lease.map_or(head.epoch, |lease| lease.epoch.max(head.epoch))
}

/// Adds a stack of another store: its slots, then its head, each created once. Without a head the stack doesn't exist, so
/// an interrupted call can be repeated.
///
/// # Errors
/// `Conflict` when the stack exists already.
pub async fn adopt_stack(stack: &Stack, head: &Head, before: Tail, frames: &[Frame]) -> Result<()> {
    if frames.first().is_some_and(|frame| frame.slot() != before.next) {
        return Err(Error::invalid(
            stack.shown(),
            "its journal doesn't begin where it should",
        ));
    }
    let meta = Meta {
        lineage: stack.lineage,
    };
    stack
        .create_at(&stack.paths.meta(), &meta.encode().into())
        .await?;
    let slots: Vec<(String, Bytes)> = frames
        .iter()
        .map(|frame| (stack.paths.slot(frame.slot()), frame.bytes().clone()))
        .collect();
    let slots = slots
        .into_iter()
        .map(|(path, bytes)| async move { stack.create_at(&path, &bytes).await });
    stream::iter(slots)
        .buffer_unordered(stack.store.concurrency())
        .try_collect::<()>()
        .await?;
    stack.create_at(&stack.paths.head(), &head.encode().into()).await
}

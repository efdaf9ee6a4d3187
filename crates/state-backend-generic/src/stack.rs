//! Accesses one stack in its store: its head, lease and objects.

use crate::layout::{Lease, MAX_DOCUMENT, MAX_OBJECT, Meta, StackPaths};
use crate::lease::LeaseTerms;
use crate::settle::{CreateOutcome, SettledStore, SwapOutcome};
use crate::store::Value;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::{LockStatus, ObjectKind, ObjectName, Tail, require_epoch};
use state_core::{Base, Enveloped, Epoch, Error, Frame, Head, Lineage, Result};
use std::sync::Arc;

/// One stack in a store.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The store that contains the stack.
    pub store: SettledStore,
    /// The keys of the stack.
    pub paths: StackPaths,
    /// The lineage that identifies the stack.
    pub lineage: Lineage,
    /// The terms of the stack's lock.
    pub terms: Arc<dyn LeaseTerms>,
}

/// A head with the version of its value, which a swap must name.
#[derive(Clone, Debug)]
pub struct VersionedHead {
    /// The content of the head document.
    pub head: Head,
    /// The stored value and its version.
    pub found: Value,
}

impl Stack {
    /// Creates the access to a stack, which need not exist.
    pub fn new(store: SettledStore, lineage: Lineage, terms: Arc<dyn LeaseTerms>) -> Self {
        Self {
            store,
            paths: StackPaths::new(lineage),
            lineage,
            terms,
        }
    }

    /// Formats the stack for messages.
    pub fn shown(&self) -> String {
        format!("stack {} of {}", self.lineage, self.store.settings.url)
    }

    /// Creates a stack. The head is written last: a stack without a head was not created completely.
    pub async fn create(&self, head: &Head) -> Result<()> {
        if head.base != Base::empty(head.lineage) {
            return Err(Error::invalid(
                self.shown(),
                "the head of a new stack must have an empty base",
            ));
        }
        let meta = Meta {
            lineage: self.lineage,
        };
        for (path, bytes) in [
            // `meta.json` first: it proves that a stack was created here, so that a missing head is reported as
            // damage and not as a missing stack.
            (self.paths.meta(), meta.encode()),
            (self.paths.head(), head.encode()),
        ] {
            if let CreateOutcome::Taken(_) = self.store.create(&path, &bytes.into()).await? {
                return Err(Error::conflict(self.shown(), "it exists already"));
            }
        }
        Ok(())
    }

    /// Replaces the document at a path if its value is still the one that was read.
    pub(crate) async fn swap<D: Enveloped>(
        &self,
        path: &str,
        document: &D,
        found: &Value,
    ) -> Result<SwapOutcome> {
        self.store.swap(path, &document.encode().into(), found).await
    }

    /// Reads the current head.
    pub async fn head(&self) -> Result<VersionedHead> {
        match self.store.read(&self.paths.head(), MAX_DOCUMENT).await? {
            Some(found) => self.parse_head(found),
            None => Err(self.without_head().await),
        }
    }

    pub(crate) fn parse_head(&self, found: Value) -> Result<VersionedHead> {
        let object = self.store.shown(&self.paths.head());
        let head = Head::decode(&object, &found.bytes)?;
        if head.lineage == self.lineage {
            return Ok(VersionedHead { head, found });
        }
        let reason = format!("it is the head of another stack, lineage {}", head.lineage);
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

    /// Reads the current lease; returns `None` before the first takeover.
    pub async fn lease(&self) -> Result<Option<(Lease, Value)>> {
        match self.store.read(&self.paths.lease(), MAX_DOCUMENT).await? {
            Some(found) => Ok(Some((self.parse_lease(&found)?, found))),
            None => Ok(None),
        }
    }

    pub(crate) fn parse_lease(&self, found: &Value) -> Result<Lease> {
        Lease::decode(&self.store.shown(&self.paths.lease()), &found.bytes)
    }

    /// Returns the error for a stack that another owner took over.
    pub(crate) fn fenced(&self, mine: Epoch, theirs: Epoch, indeterminate: bool) -> Error {
        Error::Fenced {
            object: self.shown(),
            mine,
            theirs,
            indeterminate,
        }
    }

    /// Returns the error for a removed stack.
    pub(crate) fn removed(&self) -> Error {
        Error::conflict(
            self.shown(),
            "the stack was removed, and can't be changed any more",
        )
    }

    /// Creates a key of the stack. Creating the same bytes again succeeds, since the first answer may have been lost.
    ///
    /// # Errors
    /// `Conflict` when the key exists with other bytes.
    pub async fn create_at(&self, key: &str, bytes: &Bytes) -> Result<()> {
        match self.store.create(key, bytes).await? {
            CreateOutcome::Ours(_) => Ok(()),
            CreateOutcome::Taken(_) => Err(Error::conflict(
                self.store.shown(key),
                "it exists with other bytes",
            )),
        }
    }

    /// Creates an object. Creating the same bytes again succeeds.
    ///
    /// # Errors
    /// `Conflict` when the object exists with other bytes; `Invalid` when it is too large.
    pub async fn create_object(&self, name: &ObjectName, bytes: &Bytes) -> Result<()> {
        self.check_size(name, bytes)?;
        self.create_at(&self.paths.object(name), bytes).await
    }

    /// Checks the size of an object.
    ///
    /// # Errors
    /// `Invalid` for an object larger than [`MAX_OBJECT`].
    pub fn check_size(&self, name: &ObjectName, bytes: &Bytes) -> Result<()> {
        if bytes.len() as u64 <= MAX_OBJECT {
            return Ok(());
        }
        let reason = format!(
            "it has {} bytes, more than the limit of {MAX_OBJECT}",
            bytes.len()
        );
        Err(Error::invalid(self.store.shown(&self.paths.object(name)), reason))
    }

    /// Reads the bytes of an object.
    ///
    /// # Errors
    /// `NotFound` when the object doesn't exist.
    pub async fn read_object(&self, name: &ObjectName) -> Result<Bytes> {
        let key = self.paths.object(name);
        match self.store.read(&key, MAX_OBJECT).await? {
            Some(found) => Ok(found.bytes),
            None => Err(Error::not_found(self.store.shown(&key))),
        }
    }

    /// Lists the objects of one kind, sorted by name.
    pub async fn list(&self, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        let listed = self.store.list(&self.paths.folder(kind), None).await?;
        let mut names: Vec<_> = listed
            .iter()
            .filter_map(|listed| ObjectName::from_file_name(kind, listed.file()))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Reads the epoch, lock holder and client lock of the stack.
    pub async fn lock_status(&self) -> Result<LockStatus> {
        let head = self.head().await?.head;
        let lease = self.lease().await?.map(|(lease, _)| lease);
        Ok(LockStatus {
            epoch: newest(self, &head, lease.as_ref())?,
            holder: lease
                .filter(|lease| !lease.released && lease.epoch >= head.epoch)
                .map(|lease| lease.holder),
            client_lock: head.client_lock,
        })
    }
}

/// Returns the epoch of the last takeover, finished or not: a takeover writes the lease before the head.
///
/// # Errors
/// `Corrupt` when takeovers can't lead from one of the two epochs to the other.
pub(crate) fn newest(stack: &Stack, head: &Head, lease: Option<&Lease>) -> Result<Epoch> {
    let Some(lease) = lease else {
        return Ok(head.epoch);
    };
    let (before, after) = (lease.epoch.min(head.epoch), lease.epoch.max(head.epoch));
    require_epoch(stack.shown(), before, after)?;
    Ok(after)
}

/// Adds a stack from another store: its slots, then its head, each created once. A stack without a head doesn't exist,
/// so an interrupted call can be repeated.
///
/// # Errors
/// `Conflict` when the stack exists already.
pub async fn adopt_stack(stack: &Stack, head: &Head, before: Tail, frames: &[Frame]) -> Result<()> {
    if frames.first().is_some_and(|frame| frame.slot() != before.next) {
        return Err(Error::invalid(
            stack.shown(),
            "its first frame is not in the expected slot",
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
    // The slots may be created in any order: without a head, no reader and no owner reads them.
    stream::iter(slots)
        .buffer_unordered(stack.store.concurrency())
        .try_collect::<()>()
        .await?;
    stack.create_at(&stack.paths.head(), &head.encode().into()).await
}

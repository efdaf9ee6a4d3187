//! The backend: names, heads, objects, and who may write.

use crate::journal;
use crate::shelf::{Shelf, Version};
use crate::writer::ShelfWriter;
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::{
    Acquire, Acquired, Capabilities, Holder, JournalView, LockStatus, NamePointer, ObjectKind, ObjectName,
};
use state_core::journal::{Fence, Frame, FrameKind};
use state_core::{Backend, Base, Enveloped, Epoch, Error, Head, Lineage, Nonce, Result, Slot, StackName};
use std::sync::Arc;

/// Stacks on a [`Shelf`].
#[derive(Clone, Debug)]
pub(crate) struct ShelfBackend {
    pub(crate) shelf: Shelf,
}

/// The lock as it was seen: what a swap of it compares, and who holds it under which epoch.
type Lock = (Version, Option<(Epoch, Holder)>);

fn name_key(name: &StackName) -> String {
    let (project, stack) = name.folded();
    format!("names/{project}/{stack}")
}

fn head_key(lineage: Lineage) -> String {
    format!("stacks/{lineage}/head")
}

fn lock_key(lineage: Lineage) -> String {
    format!("stacks/{lineage}/lock")
}

pub(crate) fn object_key(lineage: Lineage, name: &ObjectName) -> String {
    format!("{}/{}", name.kind().path(lineage), name.file_name())
}

impl ShelfBackend {
    pub(crate) const fn new(shelf: Shelf) -> Self {
        Self { shelf }
    }

    /// The head, and what a swap of it compares.
    pub(crate) fn head(&self, lineage: Lineage) -> Result<(Version, Head)> {
        let key = head_key(lineage);
        let (version, bytes) = self
            .shelf
            .get(&key)
            .ok_or_else(|| Error::not_found(format!("stack {lineage}")))?;
        Ok((version, Head::decode(&key, &bytes)?))
    }

    /// Whether the head was replaced: false if somebody else was quicker.
    pub(crate) fn replace_head(&self, seen: Version, head: &Head) -> bool {
        self.shelf
            .replace(&head_key(head.lineage), seen, head.encode().into())
    }

    /// The lock; none when nobody ever held it.
    fn lock(&self, lineage: Lineage) -> Result<Option<Lock>> {
        let key = lock_key(lineage);
        let Some((version, bytes)) = self.shelf.get(&key) else {
            return Ok(None);
        };
        let held = serde_json::from_slice(&bytes).map_err(|_| Error::corrupt(&key, 0, "it isn't a lock"))?;
        Ok(Some((version, held)))
    }

    /// Says who holds the lock, if it is still as it was seen.
    fn set_lock(
        &self,
        lineage: Lineage,
        seen: Option<Version>,
        held: Option<(Epoch, &Holder)>,
    ) -> Result<bool> {
        let key = lock_key(lineage);
        let value = serde_json::to_vec(&held).map_err(|source| Error::NotApplied {
            object: key.clone(),
            source: source.into(),
        })?;
        Ok(match seen {
            None => self.shelf.create(&key, value.into()),
            Some(version) => self.shelf.replace(&key, version, value.into()),
        })
    }

    /// Frees the lock if it is of this epoch; another's stays.
    pub(crate) fn free(&self, lineage: Lineage, epoch: Epoch) -> Result<()> {
        if let Some((version, Some((held, _)))) = self.lock(lineage)?
            && held == epoch
        {
            // If this fails, somebody broke the lock meanwhile: then it isn't ours to free.
            let _freed = self.set_lock(lineage, Some(version), None)?;
        }
        Ok(())
    }

    /// The takeover: lock, then head, then fence. A stale writer can get frames in until the fence is there, not
    /// after: its next slot is taken.
    fn take_over(&self, lineage: Lineage, request: &Acquire) -> Result<JournalView> {
        let object = format!("stack {lineage}");
        let (version, mut head) = self.head(lineage)?;
        if head.removed {
            return Err(Error::conflict(object, "it was removed"));
        }
        if request.break_epoch.is_some_and(|seen| seen != head.epoch) {
            return Err(Error::conflict(object, "its lock is at another epoch"));
        }
        let lock = self.lock(lineage)?;
        if let (Some((_, Some((_, holder)))), None) = (&lock, request.break_epoch) {
            return Err(Error::Locked {
                object,
                holder: Box::new(holder.clone()),
            });
        }
        journal::read(&self.shelf, head.clone(), None)?;
        head.epoch = head.epoch.next();
        head.generation = head.generation.next();
        head.nonce = request.head_nonce;
        let seen = lock.map(|(version, _)| version);
        let ours = self.set_lock(lineage, seen, Some((head.epoch, &request.holder)))?;
        if !ours || !self.replace_head(version, &head) {
            self.free(lineage, head.epoch)?;
            return Err(Error::conflict(object, "somebody was quicker"));
        }
        loop {
            let mut view = journal::read(&self.shelf, head.clone(), None)?;
            let payload = Fence {
                previous: None,
                chain: view.tail.chain,
                holder: request.holder.clone(),
            };
            let (slot, chain) = (view.tail.next, view.tail.chain);
            let nonce = request.fence_nonce;
            let fence = Frame::new(
                FrameKind::Fence,
                head.epoch,
                slot,
                nonce,
                &payload.encode(),
                &chain,
            )?;
            if self
                .shelf
                .create(&journal::key(lineage, slot), fence.bytes().clone())
            {
                view.tail = journal::after(&fence);
                view.frames.push(fence);
                return Ok(view);
            }
        }
    }
}

#[async_trait]
impl Backend for ShelfBackend {
    fn url(&self) -> String {
        "shelf:".to_owned()
    }

    /// The shelf stands for a server, and nobody there notices that a holder died.
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(true, true, false)
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        let found = self.shelf.below("names/").into_iter();
        let mut names = found
            .map(|(key, bytes)| NamePointer::decode(&key, &bytes))
            .collect::<Result<Vec<_>>>()?;
        names.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(names)
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        let key = name_key(name);
        let found = self.shelf.get(&key);
        found
            .map(|(_, bytes)| NamePointer::decode(&key, &bytes))
            .transpose()
    }

    async fn swap_name(
        &self,
        name: &StackName,
        expected: Option<Nonce>,
        pointer: &NamePointer,
    ) -> Result<()> {
        let key = name_key(name);
        let there = self.shelf.get(&key);
        let nonce = match &there {
            Some((_, bytes)) => Some(NamePointer::decode(&key, bytes)?.nonce),
            None => None,
        };
        let bytes = Bytes::from(pointer.encode());
        let swapped = nonce == expected
            && match there {
                None => self.shelf.create(&key, bytes),
                Some((version, _)) => self.shelf.replace(&key, version, bytes),
            };
        if swapped {
            return Ok(());
        }
        Err(Error::conflict(
            format!("name {name}"),
            "another pointer stands there",
        ))
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        let object = format!("stack {}", head.lineage);
        if head.base != Base::empty(head.lineage) {
            return Err(Error::invalid(object, "a new stack has an empty base"));
        }
        if self.shelf.create(&head_key(head.lineage), head.encode().into()) {
            return Ok(());
        }
        Err(Error::conflict(object, "it exists already"))
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        Ok(self.head(lineage)?.1)
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        let key = object_key(lineage, name);
        let found = self.shelf.get(&key).map(|(_, bytes)| bytes);
        found.ok_or_else(|| Error::not_found(key))
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        self.head(lineage)?;
        let prefix = format!("{}/", kind.path(lineage));
        let found = self.shelf.below(&prefix).into_iter();
        let mut names: Vec<_> = found
            .filter_map(|(key, _)| ObjectName::from_file_name(kind, key.strip_prefix(&prefix)?))
            .collect();
        names.sort();
        Ok(names)
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        loop {
            let head = self.head(lineage)?.1;
            let view = journal::read(&self.shelf, head.clone(), from);
            // A head that changed meanwhile may go with another journal than the one that was read.
            if self.head(lineage)?.1 == head {
                return view;
            }
        }
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        let view = self.take_over(lineage, request)?;
        let writer = ShelfWriter::new(self.clone(), lineage, view.head.epoch, view.tail);
        Ok(Acquired {
            head: view.head,
            frames: view.frames,
            tail: view.tail,
            writer: Arc::new(writer),
        })
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        let head = self.head(lineage)?.1;
        let held = self.lock(lineage)?.and_then(|(_, held)| held);
        Ok(LockStatus {
            epoch: head.epoch,
            holder: held.map(|(_, holder)| holder),
            client_lock: head.client_lock,
        })
    }
}

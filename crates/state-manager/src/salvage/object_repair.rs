//! Changes a damaged store of objects: keeps objects aside, and changes a stack in place.
//!
//! Objects can't be renamed, so a stack is changed object by object. Each is first copied to the folder of what is kept aside,
//! and read back there.
//!
//! ```text
//!  1 stacks/<lineage>/…  ──copy──► damaged/<time>/stacks/<lineage>/…
//!  2 missing slots and snapshots of the rebuilt stack are created, damaged ones are replaced
//!  3 logs and outputs of lost revisions are deleted
//!  4 head.json ──► the rebuilt head
//!  5 objects that don't belong to the rebuilt stack are deleted, later slots first
//! ```
//! Until the last slot after the rebuilt end is deleted, readers refuse the journal: a crash never makes an older revision the
//! current one. The next salvage starts again, with the same intact objects.

use crate::salvage::damaged_store::ASIDE;
use crate::salvage::exchange::folder_name;
use crate::salvage::head_template::Client;
use crate::salvage::rebuild::RebuiltStack;
use crate::salvage::slot_objects::slot_name;
use crate::salvage::stack_files::{StackFiles, meta_document};
use crate::salvage::store_repair::StoreRepair;
use crate::stack::Stack;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use state_core::backend::{Acquire, ObjectKind, ObjectName, RepairLock, RepairableStore};
use state_core::{Backend, Clock, Digest, Enveloped, Error, Frame, Head, Lineage, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The number of objects that are copied at the same time.
const CONCURRENCY: usize = 16;

/// Documents of a stack that the holder of its lock replaces during a repair.
const LOCK_DOCUMENTS: [&str; 2] = ["lease.json", "clock.json"];

/// A repair of a store of objects.
#[derive(Debug)]
pub(super) struct ObjectRepair {
    backend: Arc<dyn Backend>,
    client: Client,
    /// The folder for what is kept aside.
    aside: String,
    has_moved: bool,
    lock: Option<HeldLock>,
}

/// The lock of a stack that is being repaired. It expires unless it is renewed.
#[derive(Debug)]
struct HeldLock {
    lineage: Lineage,
    lock: RepairLock,
    clock: Arc<dyn Clock>,
    /// When the last renewal was sent, on the clock.
    renewed: Duration,
}

impl HeldLock {
    /// Renews the lock. A writer that took it in between makes the repair stop before its next change.
    ///
    /// # Errors
    /// `Conflict` if another process took the lock.
    async fn renew(&mut self, objects: &dyn RepairableStore) -> Result<()> {
        let sent = self.clock.elapsed();
        self.lock = objects.renew_repair_lock(self.lineage, &self.lock).await?;
        self.renewed = sent;
        Ok(())
    }

    /// Renews the lock if a third of its time has passed.
    ///
    /// # Errors
    /// As [`Self::renew`].
    async fn keep(&mut self, objects: &dyn RepairableStore) -> Result<()> {
        let age = self.clock.elapsed().saturating_sub(self.renewed);
        match age < self.lock.lasts / 3 {
            true => Ok(()),
            false => self.renew(objects).await,
        }
    }
}

/// The change of one stack, whose lock is held.
struct Replacement<'a> {
    lineage: Lineage,
    rebuilt: &'a RebuiltStack,
    objects: &'a dyn RepairableStore,
    lock: &'a mut HeldLock,
    /// Digests of the objects that were kept aside, by key.
    kept: BTreeMap<String, Digest>,
}

impl ObjectRepair {
    pub(super) fn new(backend: &Arc<dyn Backend>, client: &Client) -> Self {
        Self {
            backend: Arc::clone(backend),
            aside: format!("{ASIDE}/{}", folder_name(&client.environment)),
            client: client.clone(),
            has_moved: false,
            lock: None,
        }
    }

    /// Copies an object aside, and reads the copy back.
    async fn keep(&mut self, key: &str, bytes: &Bytes) -> Result<String> {
        self.has_moved = true;
        self.keep_copy(key, bytes).await
    }

    async fn keep_copy(&self, key: &str, bytes: &Bytes) -> Result<String> {
        let objects = self.backend.repairable()?;
        let kept = format!("{}/{key}", self.aside);
        objects.create_object(&kept, bytes).await?;
        match objects.read_object(&kept).await? {
            Some(copy) if copy == *bytes => Ok(kept),
            _ => Err(Error::corrupt(
                kept,
                0,
                "the copy, read back, differs from the object",
            )),
        }
    }

    /// Copies all objects of a stack and its published outputs aside. Returns their digests, by key.
    async fn keep_stack(
        &mut self,
        lineage: Lineage,
        lock: &mut HeldLock,
    ) -> Result<BTreeMap<String, Digest>> {
        let backend = Arc::clone(&self.backend);
        let objects = backend.repairable()?;
        let folder = format!("stacks/{lineage}");
        let is_lock = |key: &String| {
            let file = key.strip_prefix(&*folder).and_then(|path| path.strip_prefix('/'));
            file.is_some_and(|file| LOCK_DOCUMENTS.contains(&file))
        };
        let mut kept = BTreeMap::new();
        let mut keys = objects.list_objects(&folder).await?;
        keys.extend(objects.list_objects(&format!("outputs/{lineage}")).await?);
        keys.retain(|key| !is_lock(key));
        self.has_moved |= !keys.is_empty();
        for keys in keys.chunks(CONCURRENCY) {
            lock.keep(objects).await?;
            let copied = keys.iter().map(|key| async {
                let Some(bytes) = objects.read_object(key).await? else {
                    return Ok(None);
                };
                self.keep_copy(key, &bytes).await?;
                Ok::<_, Error>(Some((key.clone(), Digest::of(&bytes))))
            });
            kept.extend(try_join_all(copied).await?.into_iter().flatten());
        }
        Ok(kept)
    }
}

#[async_trait]
impl StoreRepair for ObjectRepair {
    fn aside(&self) -> String {
        self.aside.clone()
    }

    fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// A stack is changed in place: an interrupted repair starts again.
    fn finished(&self) -> &[Lineage] {
        &[]
    }

    async fn move_aside(&mut self, path: &str) -> Result<Option<String>> {
        let backend = Arc::clone(&self.backend);
        let objects = backend.repairable()?;
        let Some(bytes) = objects.read_object(path).await? else {
            return Ok(None);
        };
        let kept = self.keep(path, &bytes).await?;
        objects.delete_object(path, &bytes).await?;
        Ok(Some(kept))
    }

    async fn make_format(&self) -> Result<()> {
        self.backend.repairable()?.restore_format().await
    }

    async fn lock(&mut self, files: &StackFiles) -> Result<()> {
        let backend = Arc::clone(&self.backend);
        let objects = backend.repairable()?;
        if let Some((key, _)) = objects.lock_damage(files.lineage).await?
            && let Some(bytes) = objects.read_object(&key).await?
        {
            self.keep(&key, &bytes).await?;
        }
        let request = Acquire {
            holder: self.client.environment.holder("salvage"),
            break_epoch: None,
            head_nonce: self.client.nonce(),
            fence_nonce: self.client.nonce(),
        };
        let clock = Arc::clone(&self.client.environment.clock);
        let renewed = clock.elapsed();
        let lock = objects.lock_for_repair(files.lineage, &request, files.newest_epoch());
        self.lock = Some(HeldLock {
            lineage: files.lineage,
            lock: lock.await?,
            clock,
            renewed,
        });
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        match self.lock.take() {
            Some(held) => held.lock.release(self.backend.repairable()?).await,
            None => Ok(()),
        }
    }

    async fn replace(&mut self, files: &StackFiles, rebuilt: &RebuiltStack) -> Result<()> {
        let Some(mut held) = self.lock.take() else {
            let object = format!("stacks/{}", files.lineage);
            return Err(Error::conflict(object, "its lock isn't held"));
        };
        let replaced = self.replace_held(files, rebuilt, &mut held).await;
        self.lock = Some(held);
        replaced?;
        let store = self.client.store(Arc::clone(&self.backend));
        let stack = Stack::of(store.stack(rebuilt.head.name.clone(), files.lineage));
        if stack.tip().await?.state != rebuilt.view.state {
            let reason = "the rebuilt stack, read back, has another state";
            return Err(Error::corrupt(format!("stacks/{}", files.lineage), 0, reason));
        }
        Ok(())
    }
}

impl ObjectRepair {
    async fn replace_held(
        &mut self,
        files: &StackFiles,
        rebuilt: &RebuiltStack,
        lock: &mut HeldLock,
    ) -> Result<()> {
        let kept = self.keep_stack(files.lineage, lock).await?;
        let mut replacement = Replacement {
            lineage: files.lineage,
            rebuilt,
            objects: self.backend.repairable()?,
            lock,
            kept,
        };
        // Before the first change and the first deletion, not only when the time is up: the clock may have stood still while the
        // machine slept.
        replacement.lock.renew(replacement.objects).await?;
        replacement.require_head(files).await?;
        replacement.complete(files).await?;
        replacement.lock.renew(replacement.objects).await?;
        replacement.delete_later().await?;
        replacement.swap_head(files).await?;
        replacement.delete_rest().await
    }
}

impl Replacement<'_> {
    fn key(&self, file: &str) -> String {
        format!("stacks/{}/{file}", self.lineage)
    }

    fn slot_key(&self, frame: &Frame) -> String {
        self.key(&format!("journal/{}", slot_name(frame.slot())))
    }

    fn object_key(&self, name: &ObjectName) -> String {
        format!("{}/{}", name.kind().path(self.lineage), name.file_name())
    }

    /// Stores what the rebuilt stack needs and the store doesn't have, without the head.
    async fn complete(&mut self, files: &StackFiles) -> Result<()> {
        let rebuilt = self.rebuilt;
        for frame in &rebuilt.frames {
            self.put(&self.slot_key(frame), frame.bytes()).await?;
        }
        let objects = &rebuilt.objects;
        let is_changed = |name: &&ObjectName| files.objects.identity(name) != objects.identity(name);
        for name in objects.names().filter(is_changed) {
            let bytes = objects.read(name).await?;
            self.put(&self.object_key(name), &bytes).await?;
        }
        self.put(&self.key("meta.json"), &meta_document(self.lineage))
            .await
    }

    /// Makes an object have this content. Other content is replaced if it was kept aside.
    async fn put(&mut self, key: &str, bytes: &Bytes) -> Result<()> {
        self.lock.keep(self.objects).await?;
        match self.objects.read_object(key).await? {
            Some(stored) if stored == *bytes => Ok(()),
            Some(stored) => {
                self.require_kept(key, &stored)?;
                self.objects.replace_object(key, &stored, bytes).await
            }
            None => self.objects.create_object(key, bytes).await,
        }
    }

    /// Requires that an object is the one that was kept aside.
    fn require_kept(&self, key: &str, stored: &Bytes) -> Result<()> {
        match self.kept.get(key) {
            Some(digest) if *digest == Digest::of(stored) => Ok(()),
            _ => {
                let reason = "another process changed it during the salvage; run `statectl salvage` again";
                Err(Error::conflict(key, reason))
            }
        }
    }

    /// Requires that the head is still the one from which the stack was rebuilt.
    async fn require_head(&self, files: &StackFiles) -> Result<()> {
        let key = self.key("head.json");
        let stored = self.objects.read_object(&key).await?;
        let now = stored.and_then(|bytes| Head::decode(&key, &bytes).ok());
        if now.filter(|head| head.lineage == self.lineage) != files.head {
            let reason = "another process changed it during the salvage; run `statectl salvage` again";
            return Err(Error::conflict(key, reason));
        }
        Ok(())
    }

    /// Replaces the head, if it is still the one from which the stack was rebuilt.
    async fn swap_head(&mut self, files: &StackFiles) -> Result<()> {
        self.require_head(files).await?;
        let (key, head) = (self.key("head.json"), self.rebuilt.head.encode());
        self.put(&key, &head.into()).await
    }

    /// Deletes the logs and outputs that don't belong to the rebuilt stack: those of lost revisions. Before the head is replaced,
    /// because a stack with the new head may count as intact, and no later salvage would delete them.
    async fn delete_later(&mut self) -> Result<()> {
        let folders =
            [ObjectKind::Log, ObjectKind::Outputs].map(|kind| format!("{}/", kind.path(self.lineage)));
        let is_in = |key: &str| folders.iter().any(|folder| key.starts_with(folder));
        self.delete(is_in).await
    }

    /// Deletes the kept objects that don't belong to the rebuilt stack.
    async fn delete_rest(&mut self) -> Result<()> {
        self.delete(|_| true).await
    }

    /// Deletes the chosen of the kept objects that don't belong to the rebuilt stack, in the reverse order of their keys: the
    /// later slots first.
    async fn delete(&mut self, is_chosen: impl Fn(&str) -> bool) -> Result<()> {
        let frames = self.rebuilt.frames.iter().map(|frame| self.slot_key(frame));
        let names = self.rebuilt.objects.names();
        let documents = ["meta.json", "head.json"].map(|file| self.key(file));
        let own: BTreeSet<String> = frames
            .chain(names.map(|name| self.object_key(name)))
            .chain(documents)
            .collect();
        let rest = self.kept.keys().rev().filter(|key| !own.contains(*key));
        for key in rest.filter(|key| is_chosen(key)) {
            self.lock.keep(self.objects).await?;
            if let Some(bytes) = self.objects.read_object(key).await? {
                self.require_kept(key, &bytes)?;
                self.objects.delete_object(key, &bytes).await?;
            }
        }
        Ok(())
    }
}

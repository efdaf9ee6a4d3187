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
use state_core::backend::{Acquire, ObjectKind, ObjectName, RepairLock, RepairableStore};
use state_core::{Backend, Digest, Enveloped, Error, Frame, Head, Lineage, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    lock: Option<RepairLock>,
}

/// The change of one stack.
struct Replacement<'a> {
    lineage: Lineage,
    rebuilt: &'a RebuiltStack,
    objects: &'a dyn RepairableStore,
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
        let objects = self.backend.repairable()?;
        let kept = format!("{}/{key}", self.aside);
        objects.create_object(&kept, bytes).await?;
        self.has_moved = true;
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
    async fn keep_stack(&mut self, lineage: Lineage) -> Result<BTreeMap<String, Digest>> {
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
        for key in keys {
            if is_lock(&key) {
                continue;
            }
            if let Some(bytes) = objects.read_object(&key).await? {
                self.keep(&key, &bytes).await?;
                kept.insert(key, Digest::of(&bytes));
            }
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
        let lock = objects.lock_for_repair(files.lineage, &request, files.newest_epoch());
        self.lock = Some(lock.await?);
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        match self.lock.take() {
            Some(lock) => lock.release(self.backend.repairable()?).await,
            None => Ok(()),
        }
    }

    async fn replace(&mut self, files: &StackFiles, rebuilt: &RebuiltStack) -> Result<()> {
        let kept = self.keep_stack(files.lineage).await?;
        let replacement = Replacement {
            lineage: files.lineage,
            rebuilt,
            objects: self.backend.repairable()?,
            kept,
        };
        replacement.complete(files).await?;
        replacement.delete_later().await?;
        replacement.swap_head(files).await?;
        replacement.delete_rest().await?;
        let store = self.client.store(Arc::clone(&self.backend));
        let stack = Stack::of(store.stack(rebuilt.head.name.clone(), files.lineage));
        if stack.tip().await?.state != rebuilt.view.state {
            let reason = "the rebuilt stack, read back, has another state";
            return Err(Error::corrupt(format!("stacks/{}", files.lineage), 0, reason));
        }
        Ok(())
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
    async fn complete(&self, files: &StackFiles) -> Result<()> {
        for frame in &self.rebuilt.frames {
            self.put(&self.slot_key(frame), frame.bytes()).await?;
        }
        let objects = &self.rebuilt.objects;
        let is_changed = |name: &&ObjectName| files.objects.identity(name) != objects.identity(name);
        for name in objects.names().filter(is_changed) {
            let bytes = objects.read(name).await?;
            self.put(&self.object_key(name), &bytes).await?;
        }
        self.put(&self.key("meta.json"), &meta_document(self.lineage))
            .await
    }

    /// Makes an object have this content. Other content is replaced if it was kept aside.
    async fn put(&self, key: &str, bytes: &Bytes) -> Result<()> {
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

    /// Replaces the head, if it is still the one from which the stack was rebuilt.
    async fn swap_head(&self, files: &StackFiles) -> Result<()> {
        let key = self.key("head.json");
        let stored = self.objects.read_object(&key).await?;
        let now = stored.and_then(|bytes| Head::decode(&key, &bytes).ok());
        if now.filter(|head| head.lineage == self.lineage) != files.head {
            let reason = "another process changed it during the salvage; run `statectl salvage` again";
            return Err(Error::conflict(key, reason));
        }
        self.put(&key, &self.rebuilt.head.encode().into()).await
    }

    /// Deletes the logs and outputs that don't belong to the rebuilt stack: those of lost revisions. Before the head is replaced,
    /// because a stack with the new head may count as intact, and no later salvage would delete them.
    async fn delete_later(&self) -> Result<()> {
        let folders =
            [ObjectKind::Log, ObjectKind::Outputs].map(|kind| format!("{}/", kind.path(self.lineage)));
        let is_in = |key: &str| folders.iter().any(|folder| key.starts_with(folder));
        self.delete(is_in).await
    }

    /// Deletes the kept objects that don't belong to the rebuilt stack.
    async fn delete_rest(&self) -> Result<()> {
        self.delete(|_| true).await
    }

    /// Deletes the chosen of the kept objects that don't belong to the rebuilt stack, in the reverse order of their keys: the
    /// later slots first.
    async fn delete(&self, is_chosen: impl Fn(&str) -> bool) -> Result<()> {
        let frames = self.rebuilt.frames.iter().map(|frame| self.slot_key(frame));
        let names = self.rebuilt.objects.names();
        let documents = ["meta.json", "head.json"].map(|file| self.key(file));
        let own: BTreeSet<String> = frames
            .chain(names.map(|name| self.object_key(name)))
            .chain(documents)
            .collect();
        let rest = self.kept.keys().rev().filter(|key| !own.contains(*key));
        for key in rest.filter(|key| is_chosen(key)) {
            if let Some(bytes) = self.objects.read_object(key).await? {
                self.require_kept(key, &bytes)?;
                self.objects.delete_object(key, &bytes).await?;
            }
        }
        Ok(())
    }
}

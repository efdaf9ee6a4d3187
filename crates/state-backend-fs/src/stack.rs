//! The folder of one stack, and its head, which is the only file that is replaced while the stack exists.

use crate::dir::Dir;
use crate::error::WriteError;
use crate::layout::{HEAD, HEAD_LOCK, JOURNAL, MAX_DOCUMENT, META, Meta, STACKS};
use crate::lock::LockFile;
use bytes::Bytes;
use state_core::backend::{Holder, ObjectKind};
use state_core::{Enveloped, Error, Head, Lineage, Result};
use std::time::Duration;

/// The folder of one stack in an opened store.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) dir: Dir,
    root: Dir,
    pub(crate) lineage: Lineage,
    /// How long to wait for `head.lock`.
    pub(crate) lock_timeout: Duration,
}

/// Whether objects of a kind are stored outside the stack's own folder: see [`ObjectKind::path`].
fn is_apart(kind: ObjectKind) -> bool {
    kind == ObjectKind::Outputs
}

/// A head as it was read. Its bytes are compared before the head is replaced, so that no change is overwritten.
#[derive(Clone, Debug)]
pub(crate) struct HeadVersion {
    pub(crate) head: Head,
    pub(crate) bytes: Bytes,
}

impl Stack {
    pub(crate) fn open(root: &Dir, lineage: Lineage, lock_timeout: Duration) -> Result<Self> {
        Ok(Self {
            dir: root.child(STACKS)?.child(&lineage.to_string())?,
            root: root.clone(),
            lineage,
            lock_timeout,
        })
    }

    /// Opens the folder of a stack, and creates it if it is missing.
    pub(crate) fn make(root: &Dir, lineage: Lineage, lock_timeout: Duration) -> Result<Self, WriteError> {
        Ok(Self {
            dir: root.make_child(STACKS)?.make_child(&lineage.to_string())?,
            root: root.clone(),
            lineage,
            lock_timeout,
        })
    }

    /// Creates the folders of the journal and the objects; returns the journal's folder.
    pub(crate) fn make_folders(&self) -> Result<Dir, WriteError> {
        for kind in ObjectKind::ALL.into_iter().filter(|kind| !is_apart(*kind)) {
            self.dir.make_child(kind.folder())?;
        }
        self.dir.make_child(JOURNAL)
    }

    /// Creates the folders, then the head. The head is written last: after a crash a stack without a head was never
    /// created, and no name pointer refers to it.
    pub(crate) fn create(root: &Dir, head: &Head) -> Result<(), WriteError> {
        let made = Self::make(root, head.lineage, Duration::ZERO)?;
        made.make_folders()?;
        made.make_meta()?;
        made.dir.create(HEAD, &head.encode())
    }

    pub(crate) fn make_meta(&self) -> Result<(), WriteError> {
        let meta = Meta {
            lineage: self.lineage,
        };
        self.dir.create(META, &meta.encode())
    }

    /// Opens the folder of a kind of objects; `None` if it doesn't exist.
    pub(crate) fn objects_if_any(&self, kind: ObjectKind) -> Result<Option<Dir>> {
        if !is_apart(kind) {
            return self.dir.child_if_any(kind.folder());
        }
        match self.root.child_if_any(kind.folder())? {
            Some(all) => all.child_if_any(&self.lineage.to_string()),
            None => Ok(None),
        }
    }

    /// Opens the folder of a kind of objects, and creates it if it is missing.
    pub(crate) fn make_objects(&self, kind: ObjectKind) -> Result<Dir, WriteError> {
        if !is_apart(kind) {
            return self.dir.make_child(kind.folder());
        }
        self.root
            .make_child(kind.folder())?
            .make_child(&self.lineage.to_string())
    }

    pub(crate) fn journal(&self) -> Result<Dir> {
        self.dir
            .child_if_any(JOURNAL)?
            .ok_or_else(|| Error::corrupt(self.dir.object(JOURNAL), 0, "the journal's folder is missing"))
    }

    /// Reads and checks the head. The file is opened by name each time, because a replaced head is another file.
    pub(crate) fn head(&self) -> Result<HeadVersion> {
        let bytes = self.head_bytes()?;
        let object = self.dir.object(HEAD);
        let head = Head::decode(&object, &bytes)?;
        if head.lineage != self.lineage {
            let reason = format!("it is the head of another stack, {}", head.lineage);
            return Err(Error::corrupt(object, 0, reason));
        }
        Ok(HeadVersion { head, bytes })
    }

    /// Reads the head again; parses it only if its bytes changed.
    pub(crate) fn head_after(&self, seen: &HeadVersion) -> Result<HeadVersion> {
        if self.head_bytes()? == seen.bytes {
            return Ok(seen.clone());
        }
        self.head()
    }

    /// Reads the head again; returns whether it has these bytes.
    pub(crate) fn is_head(&self, bytes: &Bytes) -> Result<bool> {
        Ok(self.head_bytes()? == *bytes)
    }

    fn head_bytes(&self) -> Result<Bytes> {
        match self.dir.read(HEAD, MAX_DOCUMENT)? {
            Some((bytes, _)) => Ok(bytes),
            None => Err(Error::corrupt(
                self.dir.object(HEAD),
                0,
                "the stack's head is missing",
            )),
        }
    }

    /// Checks that `meta.json` names this stack. In a folder that was copied by hand or damaged it doesn't.
    pub(crate) fn check_meta(&self) -> Result<()> {
        let object = self.dir.object(META);
        let Some((bytes, _)) = self.dir.read(META, MAX_DOCUMENT)? else {
            return Err(Error::corrupt(object, 0, "it is missing"));
        };
        if Meta::decode(&object, &bytes)?.lineage == self.lineage {
            return Ok(());
        }
        Err(Error::corrupt(object, 0, "it belongs to another stack"))
    }

    /// Whether this folder is still the one under the path of the stack. A salvage or a restore moves the folder away, together
    /// with its lock files.
    pub(crate) fn is_in_place(&self) -> Result<bool> {
        let stacks = self.root.child_if_any(STACKS)?;
        let named = match stacks {
            Some(stacks) => stacks.child_if_any(&self.lineage.to_string())?,
            None => None,
        };
        let Some(named) = named else { return Ok(false) };
        let id = |dir: &Dir| Ok::<_, Error>(dir.status(HEAD)?.map(|status| status.id));
        Ok(id(&named)? == id(&self.dir)?)
    }

    /// Takes the lock under which the head is replaced.
    pub(crate) fn lock_head(&self, holder: &Holder) -> Result<LockFile> {
        LockFile::wait(&self.dir, HEAD_LOCK, holder, self.lock_timeout)
    }

    /// Replaces the head. The lock as an argument proves that no other process replaces the head meanwhile.
    pub(crate) fn replace_head(&self, head: Head, _lock: &LockFile) -> Result<HeadVersion, WriteError> {
        let bytes = Bytes::from(head.encode());
        self.dir.replace(HEAD, &bytes)?;
        Ok(HeadVersion { head, bytes })
    }
}

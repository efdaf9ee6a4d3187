//! The folder of one stack, and its head: the only file in it that is ever replaced.
//!
//! A stack that comes from another store brings its journal as one segment:
//!
//! ```text
//! journal/<slot:020>-0.log      the chain before it, 32 bytes; then frames of any epochs, as they were there
//! ```
//!
//! No writer ever has epoch 0. The head is written last and under `head.lock`: before it the stack doesn't exist, so
//! no reader opens the segment, and a second attempt replaces it.

use crate::dir::Dir;
use crate::failure::Failure;
use crate::layout::{HEAD, HEAD_LOCK, JOURNAL, MAX_DOCUMENT, META, Meta, STACKS, SegmentName};
use crate::lock::LockFile;
use bytes::Bytes;
use state_core::backend::{Holder, ObjectKind, ObjectName, Tail};
use state_core::{Enveloped, Epoch, Error, Frame, Head, Lineage, Result};
use std::time::Duration;

/// The folder of a stack.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) dir: Dir,
    root: Dir,
    pub(crate) lineage: Lineage,
    /// How long to wait for `head.lock`.
    pub(crate) patience: Duration,
}

/// Whether objects of a kind aren't in the stack's own folder: see [`ObjectKind::path`].
fn is_apart(kind: ObjectKind) -> bool {
    kind == ObjectKind::Outputs
}

/// A head as it was read: compared as a whole before it is replaced.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: Head,
    pub(crate) bytes: Bytes,
}

impl Stack {
    pub(crate) fn open(root: &Dir, lineage: Lineage, patience: Duration) -> Result<Self> {
        Ok(Self {
            dir: root.child(STACKS)?.child(&lineage.to_string())?,
            root: root.clone(),
            lineage,
            patience,
        })
    }

    /// The folder of a stack that may not be there yet, made.
    pub(crate) fn make(root: &Dir, lineage: Lineage, patience: Duration) -> Result<Self, Failure> {
        Ok(Self {
            dir: root.make_child(STACKS)?.make_child(&lineage.to_string())?,
            root: root.clone(),
            lineage,
            patience,
        })
    }

    /// Makes the folders of its journal and objects.
    pub(crate) fn make_folders(&self) -> Result<Dir, Failure> {
        for kind in ObjectKind::ALL.into_iter().filter(|kind| !is_apart(*kind)) {
            self.dir.make_child(kind.folder())?;
        }
        self.dir.make_child(JOURNAL)
    }

    /// Makes the folders, then the head: a stack without a head was never finished.
    pub(crate) fn create(root: &Dir, head: &Head) -> Result<(), Failure> {
        let made = Self::make(root, head.lineage, Duration::ZERO)?;
        made.make_folders()?;
        made.make_meta()?;
        made.dir.create(HEAD, &head.encode())
    }

    fn make_meta(&self) -> Result<(), Failure> {
        let meta = Meta {
            lineage: self.lineage,
        };
        self.dir.create(META, &meta.encode())
    }

    /// Stores an object of a stack from another store, which has no head here yet.
    pub(crate) fn adopt_object(root: &Dir, lineage: Lineage, name: &ObjectName, bytes: &[u8]) -> Result<()> {
        let folder = Self::make(root, lineage, Duration::ZERO)?.make_objects(name.kind())?;
        Ok(folder.create(&name.file_name(), bytes)?)
    }

    /// Stores the journal and then the head of a stack from another store.
    pub(crate) fn adopt(
        root: &Dir,
        head: &Head,
        before: Tail,
        frames: &[Frame],
        patience: Duration,
    ) -> Result<()> {
        let stack = Self::make(root, head.lineage, patience)?;
        let journal = stack.make_folders()?;
        stack.make_meta()?;
        let holder = Holder::new("a copy", "", std::process::id(), "copy", None);
        let lock = stack.lock_head(&holder)?;
        if stack.dir.is_file(HEAD) {
            return Err(Error::conflict(stack.dir.path(), "the stack exists already"));
        }
        if !frames.is_empty() {
            let name = SegmentName {
                epoch: Epoch::ZERO,
                slot: before.next,
            };
            let mut bytes = before.chain.as_bytes().to_vec();
            for frame in frames {
                bytes.extend_from_slice(frame.bytes());
            }
            journal.replace(&name.to_string(), &bytes)?;
        }
        stack.dir.create(HEAD, &head.encode())?;
        drop(lock);
        Ok(())
    }

    /// The folder of a kind of objects, if there is one.
    pub(crate) fn objects_if_any(&self, kind: ObjectKind) -> Result<Option<Dir>> {
        if !is_apart(kind) {
            return self.dir.child_if_any(kind.folder());
        }
        match self.root.child_if_any(kind.folder())? {
            Some(all) => all.child_if_any(&self.lineage.to_string()),
            None => Ok(None),
        }
    }

    /// The same, made if there is none.
    pub(crate) fn make_objects(&self, kind: ObjectKind) -> Result<Dir, Failure> {
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

    /// Reads the head, by its path.
    pub(crate) fn head(&self) -> Result<Seen> {
        let bytes = self.head_bytes()?;
        let object = self.dir.object(HEAD);
        let head = Head::decode(&object, &bytes)?;
        if head.lineage != self.lineage {
            let reason = format!("it is the head of another stack, {}", head.lineage);
            return Err(Error::corrupt(object, 0, reason));
        }
        Ok(Seen { head, bytes })
    }

    /// Reads the head again. What has the same bytes isn't parsed again.
    pub(crate) fn head_after(&self, seen: &Seen) -> Result<Seen> {
        if self.head_bytes()? == seen.bytes {
            return Ok(seen.clone());
        }
        self.head()
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

    /// Whether the folder is the one of its name: not a copy, and not damaged.
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

    /// Takes the short lock under which heads are replaced.
    pub(crate) fn lock_head(&self, holder: &Holder) -> Result<LockFile> {
        LockFile::wait(&self.dir, HEAD_LOCK, holder, self.patience)
    }

    /// Replaces the head. The lock proves that nobody else does.
    pub(crate) fn replace_head(&self, head: Head, _lock: &LockFile) -> Result<Seen, Failure> {
        let bytes = Bytes::from(head.encode());
        self.dir.replace(HEAD, &bytes)?;
        Ok(Seen { head, bytes })
    }
}

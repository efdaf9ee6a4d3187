//! Progress of a script: the operations that were acknowledged up to a moment, and those in progress.

use bytes::Bytes;
use state_core::backend::{NamePointer, ObjectName, StoredItemName, Tail};
use state_core::{Frame, Head, Lineage, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// The kind of operation that a crash interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Creation,
    Takeover,
    Append,
    /// An append of a session that preallocates space after its frames.
    Preallocation,
    Object,
    Head,
    Name,
    Checkpoint,
    /// A clean close, which writes the compaction, and the release of the lock.
    Compaction,
    Collection,
    /// A copy of the stack to another store, or an update of that copy.
    Copy,
    /// A session after a crash.
    Recovery,
    /// The end of a read that made something durable.
    Read,
}

impl Phase {
    pub(crate) const ALL: [Self; 13] = [
        Self::Creation,
        Self::Takeover,
        Self::Append,
        Self::Preallocation,
        Self::Object,
        Self::Head,
        Self::Name,
        Self::Checkpoint,
        Self::Compaction,
        Self::Collection,
        Self::Copy,
        Self::Recovery,
        Self::Read,
    ];
}

/// A value that was acknowledged, and the values that an operation in progress may put in its place, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct InDoubt<T> {
    pub(crate) acknowledged: T,
    pub(crate) attempted: Vec<T>,
}

impl<T: PartialEq> InDoubt<T> {
    pub(crate) fn allows(&self, found: &T) -> bool {
        self.acknowledged == *found || self.attempted.contains(found)
    }

    pub(crate) fn attempt(&mut self, value: T) {
        self.attempted.push(value);
    }

    /// Ends the operation in progress: its last value counts.
    pub(crate) fn acknowledge(&mut self) {
        if let Some(last) = self.attempted.pop() {
            self.settle(last);
        }
    }

    pub(crate) fn settle(&mut self, value: T) {
        self.acknowledged = value;
        self.attempted.clear();
    }
}

/// What is known about one store and its only stack.
#[derive(Clone, Debug)]
pub(crate) struct StoreProgress {
    pub(crate) root: &'static str,
    pub(crate) lineage: Lineage,
    pub(crate) exists: InDoubt<bool>,
    pub(crate) pointer: InDoubt<Option<NamePointer>>,
    /// The head without its compactions, which the backend adds.
    pub(crate) head: InDoubt<Option<Head>>,
    /// The end of the journal before the first frame.
    pub(crate) before: Tail,
    /// The frames whose append was acknowledged. Fences among them aren't compared.
    pub(crate) frames: Vec<Frame>,
    /// The frames whose append has begun.
    pub(crate) appending: Vec<Frame>,
    pub(crate) objects: BTreeMap<ObjectName, Bytes>,
    /// Objects whose creation has begun.
    pub(crate) creating: BTreeMap<ObjectName, Bytes>,
    /// Items whose deletion has begun.
    pub(crate) deleting: BTreeSet<StoredItemName>,
    pub(crate) deleted: BTreeSet<StoredItemName>,
    /// Objects that an earlier crash may have left.
    pub(crate) left: BTreeMap<ObjectName, Bytes>,
    /// Items that were perhaps deleted before an earlier crash.
    pub(crate) perhaps_deleted: BTreeSet<StoredItemName>,
}

impl StoreProgress {
    pub(crate) fn new(root: &'static str, lineage: Lineage) -> Self {
        Self {
            root,
            lineage,
            exists: InDoubt::default(),
            pointer: InDoubt::default(),
            head: InDoubt::default(),
            before: Tail::genesis(lineage),
            frames: Vec::new(),
            appending: Vec::new(),
            objects: BTreeMap::new(),
            creating: BTreeMap::new(),
            deleting: BTreeSet::new(),
            deleted: BTreeSet::new(),
            left: BTreeMap::new(),
            perhaps_deleted: BTreeSet::new(),
        }
    }

    /// The acknowledged head; the first attempt while the stack is being created.
    pub(crate) fn head(&self) -> &Head {
        let head = self.head.acknowledged.as_ref();
        head.or_else(|| self.head.attempted.first()?.as_ref())
            .expect("the creation of the stack has begun")
    }

    /// Ends all operations in progress.
    pub(crate) fn acknowledge(&mut self) {
        self.exists.acknowledge();
        self.pointer.acknowledge();
        self.head.acknowledge();
        self.frames.append(&mut self.appending);
        self.objects.append(&mut self.creating);
        for item in std::mem::take(&mut self.deleting) {
            if let StoredItemName::Object(name) = &item {
                self.objects.remove(name);
            }
            self.deleted.insert(item);
        }
    }

    /// Ends what a crash interrupted, which may have had an effect.
    pub(crate) fn interrupt(&mut self) {
        self.left.append(&mut self.creating);
        self.perhaps_deleted.append(&mut self.deleting);
    }

    /// The bytes of an object that may exist.
    pub(crate) fn object(&self, name: &ObjectName) -> Option<&Bytes> {
        let known = self.objects.get(name);
        known
            .or_else(|| self.creating.get(name))
            .or_else(|| self.left.get(name))
    }

    /// Whether an item may be missing.
    pub(crate) fn may_be_deleted(&self, item: &StoredItemName) -> bool {
        self.deleting.contains(item) || self.perhaps_deleted.contains(item)
    }

    /// The acknowledged data frames from a slot on, and those in progress.
    pub(crate) fn expected(&self, from: Slot) -> (Vec<&Bytes>, Vec<&Bytes>) {
        (data(&self.frames, from), data(&self.appending, from))
    }
}

/// Removes what the backend adds to a head.
pub(crate) fn without_compactions(mut head: Head) -> Head {
    head.compactions.clear();
    head
}

/// The bytes of the data frames from a slot on.
pub(crate) fn data(frames: &[Frame], from: Slot) -> Vec<&Bytes> {
    let is_data = |frame: &&Frame| frame.kind() == state_core::journal::FrameKind::Data;
    let frames = frames.iter().filter(is_data);
    let frames = frames.filter(|frame| frame.slot() >= from);
    frames.map(Frame::bytes).collect()
}

/// Progress of a script in the store of its sessions and in the store with the copy.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) phase: Phase,
    /// Whether the crashes at this moment are examined. Other moments repeat the same operation.
    pub(crate) is_examined: bool,
    pub(crate) store: StoreProgress,
    pub(crate) copy: StoreProgress,
}

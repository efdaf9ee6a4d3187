//! A store with one stack in a temporary folder.

use crate::FsBackend;
use crate::layout::SegmentName;
use state_core::backend::{Acquire, Acquired, Holder, Tail};
use state_core::journal::FrameKind;
use state_core::{Backend, Epoch, Frame, Head, Lineage, Nonce, Slot};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) struct TestStore {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: FsBackend,
    pub(crate) lineage: Lineage,
}

pub(crate) fn nonce(number: u8) -> Nonce {
    Nonce::from_bits([number; 16])
}

pub(crate) fn head() -> Head {
    Head::new(Lineage::from_bits([7; 16]), "shop/web".parse().unwrap(), nonce(0))
}

pub(crate) fn request(who: &str, break_epoch: Option<Epoch>) -> Acquire {
    Acquire {
        holder: Holder::new(who, "host", 42, "update", None),
        break_epoch,
        head_nonce: nonce(1),
        fence_nonce: nonce(2),
    }
}

pub(crate) fn frame(epoch: Epoch, tail: Tail, payload: &str) -> Frame {
    Frame::new(
        FrameKind::Data,
        epoch,
        tail.next,
        nonce(3),
        payload.as_bytes(),
        &tail.chain,
    )
    .unwrap()
}

pub(crate) fn after(frame: &Frame) -> Tail {
    Tail {
        next: frame.slot().next(),
        chain: *frame.chain(),
    }
}

impl TestStore {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = FsBackend::create(folder.path().join("store")).unwrap();
        store.create_stack(&head()).await.unwrap();
        Self {
            folder,
            store,
            lineage: head().lineage,
        }
    }

    /// Another handle on the same store, as another process would have it.
    pub(crate) fn other(&self) -> FsBackend {
        FsBackend::open(self.root())
            .unwrap()
            .with_lock_timeout(Duration::from_millis(50))
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn stack(&self) -> PathBuf {
        self.root().join("stacks").join(self.lineage.to_string())
    }

    pub(crate) fn segment(&self, slot: u64, epoch: u64) -> PathBuf {
        let name = SegmentName {
            epoch: Epoch(epoch),
            slot: Slot(slot),
        };
        self.stack().join("journal").join(name.to_string())
    }

    pub(crate) async fn acquire(&self, who: &str) -> Acquired {
        self.store
            .acquire(self.lineage, &request(who, None))
            .await
            .unwrap()
    }

    pub(crate) async fn payloads(&self) -> Vec<String> {
        let view = self.store.read_journal(self.lineage, None).await.unwrap();
        data(&view.frames)
    }
}

/// Returns the payloads of all frames that aren't fences.
pub(crate) fn data(frames: &[Frame]) -> Vec<String> {
    frames
        .iter()
        .filter(|frame| frame.kind() == FrameKind::Data)
        .map(|frame| String::from_utf8(frame.payload().to_vec()).unwrap())
        .collect()
}

/// Appends a frame; returns the new end of the journal.
pub(crate) async fn append(owner: &Acquired, tail: Tail, payload: &str) -> Tail {
    let frame = frame(owner.writer.epoch(), tail, payload);
    owner.writer.append(&frame).await.unwrap();
    after(&frame)
}

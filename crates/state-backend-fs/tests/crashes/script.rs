//! Random scripts: sessions of several owners on one simulated machine, which log their progress.

use crate::draw::Draw;
use crate::progress::{Phase, Progress, StoreProgress};
use bytes::Bytes;
use state_backend_fs::FsBackend;
use state_backend_fs::testkit::{CrashPoint, SimulatedFs};
use state_core::backend::{Acquire, Acquired, Holder, NamePointer, NameTarget, ObjectName, Tail};
use state_core::head::{Base, SnapshotRef, Watermark};
use state_core::journal::FrameKind;
use state_core::{Backend, Digest, Epoch, ErrorKind, Frame, Head, Lineage, Nonce, Slot, StackName};

#[path = "script/collection.rs"]
mod collection;
#[path = "script/copies.rs"]
mod copies;
#[path = "script/recovery.rs"]
mod recovery;

/// Number of random steps after the creation of the stack.
const STEPS: usize = 12;

/// From this batch on, a session preallocates space.
const FIRST_PREALLOCATED: usize = 8;

/// A frame that is longer than the preallocated space.
const LONG: usize = 140_000;

pub(crate) fn name() -> StackName {
    "shop/web".parse().unwrap()
}

pub(crate) fn request(who: &str, break_epoch: Option<Epoch>, draw: &Draw) -> Acquire {
    Acquire {
        holder: Holder::new(who, "host", 42, "update", None),
        break_epoch,
        head_nonce: draw.nonce(),
        fence_nonce: draw.nonce(),
    }
}

pub(crate) fn frame(epoch: Epoch, tail: Tail, nonce: Nonce, payload: &[u8]) -> Frame {
    Frame::new(FrameKind::Data, epoch, tail.next, nonce, payload, &tail.chain).unwrap()
}

/// A held lock, and the end of the journal.
struct Session {
    owner: Acquired,
    tail: Tail,
    /// Length of the current segment in bytes.
    length: usize,
}

/// A script that runs on a machine, and its progress at each mark.
pub(crate) struct Script {
    machine: SimulatedFs,
    draw: Draw,
    progress: Progress,
    log: Vec<Progress>,
    session: Option<Session>,
}

/// What a script did: its progress at each mark, and all moments at which it may crash.
pub(crate) struct Recording {
    pub(crate) log: Vec<Progress>,
    pub(crate) points: Vec<CrashPoint>,
}

impl Recording {
    pub(crate) fn progress(&self, point: &CrashPoint) -> &Progress {
        &self.log[point.mark as usize]
    }
}

impl Script {
    fn on(machine: SimulatedFs, draw: Draw, progress: Progress) -> Self {
        Self {
            machine,
            draw,
            progress,
            log: Vec::new(),
            session: None,
        }
    }

    /// Runs the script of a seed. Syncs are ignored from a step on, and only crashes from that step on are recorded.
    pub(crate) async fn run(seed: u64, ignores_syncs_from: Option<usize>) -> Recording {
        let draw = Draw::new(seed);
        let lineage = Lineage::from_bits(draw.bits());
        let machine = SimulatedFs::new();
        machine.record();
        let progress = Progress {
            phase: Phase::Creation,
            is_examined: true,
            store: StoreProgress::new("/store", lineage),
            copy: StoreProgress::new("/copy", lineage),
        };
        let mut script = Self::on(machine, draw, progress);
        script.create().await;
        for step in 0..STEPS {
            if ignores_syncs_from == Some(step) {
                script.machine.record();
                script.machine.ignore_syncs();
            }
            script.step().await;
        }
        script.end()
    }

    fn end(mut self) -> Recording {
        drop(self.session.take());
        Recording {
            log: self.log,
            points: self.machine.crash_points(),
        }
    }

    /// Changes the progress; all later crash points refer to it.
    fn log(&mut self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress);
        self.machine.mark(self.log.len() as u64);
        self.log.push(self.progress.clone());
    }

    fn enter(&mut self, phase: Phase) {
        if self.progress.phase != Phase::Recovery {
            self.log(|progress| progress.phase = phase);
        }
    }

    fn attempt(&mut self, change: impl FnOnce(&mut StoreProgress)) {
        self.log(|progress| change(&mut progress.store));
    }

    fn acknowledge(&mut self) {
        self.log(|progress| progress.store.acknowledge());
    }

    fn lineage(&self) -> Lineage {
        self.progress.store.lineage
    }

    fn store(&self) -> FsBackend {
        self.machine.open(self.progress.store.root).unwrap()
    }

    async fn create(&mut self) {
        self.attempt(|store| store.exists.attempt(true));
        let store = self.machine.create(self.progress.store.root).unwrap();
        self.acknowledge();
        let head = Head::new(self.lineage(), name(), self.draw.nonce());
        self.attempt(|store| store.head.attempt(Some(head.clone())));
        store.create_stack(&head).await.unwrap();
        self.acknowledge();
        self.move_name().await;
    }

    /// Replaces the name pointer, as a rename does.
    async fn move_name(&mut self) {
        let pointer = NamePointer::new(name(), NameTarget::Lineage(self.lineage()), self.draw.nonce());
        let before = self.progress.store.pointer.acknowledged.clone();
        self.attempt(|store| store.pointer.attempt(Some(pointer.clone())));
        let expected = before.map(|before| before.nonce);
        let swapped = self.store().swap_name(&pointer.name, expected, &pointer).await;
        swapped.unwrap();
        self.acknowledge();
    }

    async fn step(&mut self) {
        if self.session.is_none() {
            let breaks = self.draw.one_in(4);
            return self.take_over(breaks).await;
        }
        match self.draw.below(20) {
            0..=3 => {
                self.enter(Phase::Append);
                self.append(self.draw.length()).await;
            }
            4 | 5 => self.append_to_space().await,
            6 => {
                self.enter(Phase::Object);
                let slot = self.session.as_ref().unwrap().tail.next;
                let (name, bytes) = self.draw.object(slot);
                self.create_object(name, bytes).await;
            }
            7 => {
                self.enter(Phase::Head);
                let message = format!("{:x}", self.draw.below(1 << 40));
                self.swap_head(&|head| head.copied_from = Some(message.clone()))
                    .await;
            }
            8 => {
                self.enter(Phase::Name);
                self.move_name().await;
            }
            9 | 10 => self.checkpoint().await,
            11 | 12 => self.collect().await,
            13 | 14 => self.copy().await,
            15..=17 => self.close().await,
            18 => self.lose_lock().await,
            // The process dies.
            _ => drop(self.session.take()),
        }
    }

    /// Takes the stack over, as `acquire` or, with another opened store, by breaking the lock.
    async fn take_over(&mut self, breaks: bool) {
        self.enter(Phase::Takeover);
        let head = self.progress.store.head().clone();
        let request = request("a session", breaks.then_some(head.epoch), &self.draw);
        let mut next = head;
        next.epoch = Epoch(next.epoch.get() + 1);
        if breaks {
            next.generation = next.generation.next();
        }
        next.closed = false;
        next.nonce = request.head_nonce;
        self.attempt(|store| store.head.attempt(Some(next)));
        let owner = self.store().acquire(self.lineage(), &request).await.unwrap();
        self.acknowledge();
        let fence = owner.frames.last().expect("the fence of this session");
        self.session = Some(Session {
            tail: owner.tail,
            length: fence.bytes().len(),
            owner,
        });
    }

    /// Another process breaks the lock. The former owner writes a frame and learns that it doesn't count.
    async fn lose_lock(&mut self) {
        let stale = self.session.take().unwrap();
        self.take_over(true).await;
        let payload = self.draw.bytes(self.draw.length());
        let late = frame(
            stale.owner.writer.epoch(),
            stale.tail,
            self.draw.nonce(),
            &payload,
        );
        let refused = stale.owner.writer.append(&late).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Fenced, "{refused}");
    }

    async fn append(&mut self, length: usize) {
        let payload = self.draw.bytes(length);
        let session = self.session.as_mut().unwrap();
        let epoch = session.owner.writer.epoch();
        let frame = frame(epoch, session.tail, self.draw.nonce(), &payload);
        session.tail = Tail::after(&frame);
        session.length += frame.bytes().len();
        self.attempt(|store| store.appending.push(frame.clone()));
        let session = self.session.as_ref().unwrap();
        session.owner.writer.append(&frame).await.unwrap();
        self.acknowledge();
    }

    /// Appends until space is preallocated, then frames that end around the edges of sectors there. Some of them have few bytes
    /// in their last sector, and some leave few bytes of it.
    async fn append_to_space(&mut self) {
        self.enter(Phase::Preallocation);
        self.progress.is_examined = false;
        for _ in 0..FIRST_PREALLOCATED {
            self.append(1 + self.draw.below(40)).await;
        }
        self.progress.is_examined = true;
        for _ in 0..2 + self.draw.below(4) {
            let end = match self.draw.below(3) {
                0 => 1 + self.draw.below(12),
                1 => 512 - self.draw.below(12),
                _ => self.draw.below(512),
            };
            // Header and chain.
            const OVERHEAD: usize = 64 + 32;
            let length = self.session.as_ref().unwrap().length;
            let shortest = length + OVERHEAD + 1 + self.draw.below(800);
            let whole = shortest.next_multiple_of(512) + end;
            self.append(whole - length - OVERHEAD).await;
        }
        if self.draw.one_in(20) {
            self.append(LONG).await;
        }
    }

    async fn create_object(&mut self, name: ObjectName, bytes: Bytes) {
        self.attempt(|store| drop(store.creating.insert(name.clone(), bytes.clone())));
        let session = self.session.as_ref().unwrap();
        session.owner.writer.create(&name, bytes).await.unwrap();
        self.acknowledge();
    }

    async fn swap_head(&mut self, change: &(dyn Fn(&mut Head) + Sync)) {
        let mut head = self.progress.store.head().clone();
        change(&mut head);
        head.nonce = self.draw.nonce();
        self.attempt(|store| store.head.attempt(Some(head.clone())));
        let session = self.session.as_ref().unwrap();
        let change = |head: &mut Head| {
            change(head);
            Ok(())
        };
        let swapped = session.owner.writer.swap_head(head.nonce, &change).await;
        swapped.unwrap();
        self.acknowledge();
    }

    /// Begins a segment, stores a snapshot, and moves the base to that segment.
    async fn checkpoint(&mut self) {
        self.enter(Phase::Checkpoint);
        let nonce = self.draw.nonce();
        let session = self.session.as_mut().unwrap();
        let before = session.tail;
        session.tail = session.owner.writer.rotate(before, nonce).await.unwrap();
        let view = self.store().read_journal(self.lineage(), Some(before.next)).await;
        let fence = view.unwrap().frames[0].bytes().len();
        self.session.as_mut().unwrap().length = fence;
        let content = Bytes::from(self.draw.bytes(self.draw.length()));
        let reference = SnapshotRef {
            slot: before.next,
            digest: Digest::of(&content),
            length: content.len() as u64,
        };
        self.create_object(reference.object(), content).await;
        let base = Base {
            snapshot: Some(reference),
            content: None,
            start: before.next,
            chain: before.chain,
        };
        self.swap_head(&|head| head.base = base.clone()).await;
    }

    /// Closes the journal, which extends the compaction, and releases the lock. Sometimes only releases it.
    async fn close(&mut self) {
        self.enter(Phase::Compaction);
        let session = self.session.as_ref().unwrap();
        let watermark = Watermark {
            slot: Slot(session.tail.next.get() - 1),
            chain: session.tail.chain,
        };
        if !self.draw.one_in(5) {
            let close = |head: &mut Head| {
                head.watermark = Some(watermark);
                head.closed = true;
            };
            self.swap_head(&close).await;
        }
        let session = self.session.take().unwrap();
        session.owner.writer.release().await.unwrap();
    }
}

//! A process that uses the stack, and what all processes of a run observed together.

use crate::history::{History, Moment, out_of_order};
use crate::turns::Turns;
use state_backend_fs::FsBackend;
use state_backend_fs::testkit::{HostileFs, SimulatedFs};
use state_core::backend::{Acquire, ClientLock, Holder, NamePointer, NameTarget, Tail};
use state_core::head::Watermark;
use state_core::journal::FrameKind;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::hostile::{Action, Attacker, Forgery, Intervention};
use state_core::{
    Backend, Entropy, Enveloped, Epoch, Error, Frame, Head, Lineage, Nonce, Result, Slot, StackName, Writer,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// More than the calls of the file system in one operation.
const CALLS: usize = 100;

/// How long a process waits for the lock of a head or of the names. Other processes run meanwhile.
const LOCK_TIMEOUT: Duration = Duration::from_millis(20);

/// The time of an operation, from its call to its return.
type Time = Range<Moment>;

/// What the processes observed. All moments are those of the history of heads.
#[derive(Debug)]
pub(crate) struct Observations {
    /// The heads, by their nonces.
    heads: History<Option<String>>,
    /// The name pointers, by their nonces.
    pointers: History<Option<String>>,
    /// The whole head with each nonce.
    whole_heads: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Nonces of heads and pointers of which the writer was told that they weren't written.
    refused: Mutex<BTreeSet<String>>,
    /// The nonces of all heads and pointers that were read.
    read: Mutex<BTreeSet<String>>,
    epochs: Mutex<Vec<(Epoch, Time)>>,
    appended: Mutex<Vec<(Slot, Time)>>,
    /// Payloads of frames that were acknowledged, or that a reader was shown. They stay.
    frames: Mutex<BTreeMap<Slot, Vec<u8>>>,
    /// Payloads of frames of which the writer was told that they weren't written.
    refused_frames: Mutex<BTreeSet<Vec<u8>>>,
}

impl Observations {
    pub(crate) fn new(founded: &Head, pointer: &NamePointer) -> Self {
        let observations = Self {
            heads: History::new(),
            pointers: History::new(),
            whole_heads: Mutex::default(),
            refused: Mutex::default(),
            read: Mutex::default(),
            epochs: Mutex::default(),
            appended: Mutex::default(),
            frames: Mutex::default(),
            refused_frames: Mutex::default(),
        };
        let write = observations.heads.write(Some(founded.nonce.to_string()));
        observations.heads.acknowledge(write);
        let write = observations.pointers.write(Some(pointer.nonce.to_string()));
        observations.pointers.acknowledge(write);
        observations
    }

    /// Checks that all operations took effect one after the other, each at a moment between its call and its return.
    pub(crate) fn judge(&self) {
        assert_eq!(self.heads.violation(), None, "heads");
        assert_eq!(self.pointers.violation(), None, "name pointers");
        assert_eq!(out_of_order(&self.epochs.lock().unwrap()), None, "epochs");
        assert_eq!(out_of_order(&self.appended.lock().unwrap()), None, "frames");
        let read = self.read.lock().unwrap();
        let refused = self.refused.lock().unwrap();
        let visible: Vec<_> = refused.intersection(&read).collect();
        assert!(visible.is_empty(), "refused writes were read: {visible:?}");
    }

    /// The number of acknowledged frames, and of taken locks.
    pub(crate) fn counts(&self) -> [usize; 2] {
        [
            self.appended.lock().unwrap().len(),
            self.epochs.lock().unwrap().len(),
        ]
    }

    fn read_head(&self, called: Moment, head: &Head) {
        self.note_head(head);
        self.heads.read(called, Some(head.nonce.to_string()));
    }

    /// A nonce belongs to one head only.
    fn note_head(&self, head: &Head) {
        let (nonce, bytes) = (head.nonce.to_string(), Enveloped::encode(head));
        self.read.lock().unwrap().insert(nonce.clone());
        let mut whole = self.whole_heads.lock().unwrap();
        let before = whole.entry(nonce).or_insert_with(|| bytes.clone());
        assert_eq!(*before, bytes, "two heads with one nonce");
    }

    /// Notes the result of a write that has been called.
    fn wrote<T>(&self, nonce: Nonce, result: &Result<T>, acknowledge: impl FnOnce()) {
        match result {
            Ok(_) => acknowledge(),
            Err(error) if is_refused(error) => drop(self.refused.lock().unwrap().insert(nonce.to_string())),
            Err(_) => {}
        }
    }

    /// Notes the frames of a reader. `known` are the frames that were acknowledged or shown before its call.
    fn show(&self, frames: &[Frame], known: &BTreeMap<Slot, Vec<u8>>) {
        let data = frames.iter().filter(|frame| frame.kind() == FrameKind::Data);
        let shown: BTreeMap<Slot, Vec<u8>> = data
            .map(|frame| (frame.slot(), frame.payload().to_vec()))
            .collect();
        for (slot, payload) in known {
            assert_eq!(
                shown.get(slot),
                Some(payload),
                "the frame of slot {slot} isn't shown"
            );
        }
        let refused = self.refused_frames.lock().unwrap();
        assert!(
            shown.values().all(|payload| !refused.contains(payload)),
            "a refused frame is shown"
        );
        let mut frames = self.frames.lock().unwrap();
        for (slot, payload) in shown {
            let before = frames.insert(slot, payload.clone());
            assert!(
                before.is_none_or(|before| before == payload),
                "the frame of slot {slot} was replaced"
            );
        }
    }

    fn known_frames(&self) -> BTreeMap<Slot, Vec<u8>> {
        self.frames.lock().unwrap().clone()
    }
}

/// Whether an error says that a write had no effect. A process must not find damage.
fn is_refused(error: &Error) -> bool {
    match error {
        Error::Indeterminate { .. } => false,
        Error::Fenced { indeterminate, .. } => !indeterminate,
        Error::Locked { .. } | Error::Conflict { .. } | Error::NotApplied { .. } | Error::Closed { .. } => {
            true
        }
        error => panic!("{error:?}"),
    }
}

/// A process with a store of its own on the machine of the run.
pub(crate) struct Process {
    number: usize,
    store: FsBackend,
    attacker: Attacker,
    turns: Arc<Turns>,
    observations: Arc<Observations>,
    lineage: Lineage,
    entropy: SeededEntropy,
    held: Option<(Arc<dyn Writer>, Tail)>,
    count: usize,
}

impl Process {
    pub(crate) fn new(
        number: usize,
        seed: u64,
        machine: &SimulatedFs,
        lineage: Lineage,
        turns: &Arc<Turns>,
        observations: &Arc<Observations>,
    ) -> Self {
        let attacker = Attacker::default();
        let store = HostileFs::simulated(machine, "/store", attacker.clone())
            .open()
            .unwrap();
        Self {
            number,
            store: store.with_lock_timeout(LOCK_TIMEOUT),
            attacker,
            turns: Arc::clone(turns),
            observations: Arc::clone(observations),
            lineage,
            entropy: SeededEntropy::new(seed),
            held: None,
            count: 0,
        }
    }

    /// Makes each call of the next operation a point at which other processes may run. No file is changed.
    fn schedule_calls(&self) {
        let (turns, number) = (Arc::clone(&self.turns), self.number);
        let pass = Forgery::new("turn", move |bytes| {
            turns.pass(number);
            bytes.to_vec()
        });
        let calls = (0..CALLS).map(|at| Intervention::new(at, "format", Action::Forge(pass.clone())));
        self.attacker.plan(calls);
    }

    /// Performs one random operation.
    pub(crate) async fn step(&mut self) {
        self.schedule_calls();
        self.count += 1;
        match (self.draw(20), &self.held) {
            (0..=2, _) => self.read_journal().await,
            (3, _) => self.read_head().await,
            (4, _) => self.rename().await,
            (5, None) => self.acquire(true).await,
            (_, None) => self.acquire(false).await,
            (5 | 6, Some(_)) => self.change_head().await,
            (7, Some(_)) => self.rotate().await,
            (8, Some(_)) => self.close().await,
            (9, Some(_)) => self.release().await,
            // A process that crashes loses its lock.
            (10, Some(_)) => self.held = None,
            _ => self.append().await,
        }
    }

    /// Reads head, name and journal, and appends a frame.
    pub(crate) async fn finish(&mut self) {
        self.held = None;
        self.read_head().await;
        self.read_journal().await;
        let status = self.store.lock_status(self.lineage).await.unwrap();
        self.acquire(status.holder.is_some()).await;
        assert!(self.held.is_some(), "a process that is alone gets the lock");
        self.append().await;
        assert!(self.held.is_some(), "a process that is alone appends");
        self.read_journal().await;
        self.rename().await;
    }

    fn draw(&self, below: u16) -> u16 {
        let bits: [u8; 16] = self.entropy.bits();
        u16::from_le_bytes([bits[0], bits[1]]) % below
    }

    fn nonce(&self) -> Nonce {
        Nonce::random(&self.entropy)
    }

    fn label(&self) -> String {
        format!("{} {}", self.number, self.count)
    }

    async fn read_head(&self) {
        let called = self.observations.heads.moment();
        let head = self.store.read_head(self.lineage).await.unwrap();
        self.observations.read_head(called, &head);
    }

    async fn read_journal(&self) {
        let known = self.observations.known_frames();
        let called = self.observations.heads.moment();
        match self.store.read_journal(self.lineage, None).await {
            Ok(view) => {
                self.observations.show(&view.frames, &known);
                self.observations.read_head(called, &view.head);
            }
            // A takeover is going on.
            Err(error) => assert!(matches!(error, Error::Locked { .. }), "{error:?}"),
        }
    }

    async fn acquire(&mut self, breaks: bool) {
        let break_epoch = match breaks {
            true => Some(self.store.lock_status(self.lineage).await.unwrap().epoch),
            false => None,
        };
        let request = Acquire {
            holder: Holder::new("ann", "host", 1, "test", None),
            break_epoch,
            head_nonce: self.nonce(),
            fence_nonce: self.nonce(),
        };
        let (heads, known) = (&self.observations.heads, self.observations.known_frames());
        let called = heads.moment();
        let write = heads.write(Some(request.head_nonce.to_string()));
        let acquired = self.store.acquire(self.lineage, &request).await;
        self.observations
            .wrote(request.head_nonce, &acquired, || heads.acknowledge(write));
        let Ok(acquired) = acquired else {
            return;
        };
        let epoch = (acquired.writer.epoch(), called..heads.moment());
        self.observations.epochs.lock().unwrap().push(epoch);
        self.observations.note_head(&acquired.head);
        self.observations.show(&acquired.frames, &known);
        self.held = Some((acquired.writer, acquired.tail));
    }

    async fn append(&mut self) {
        let Some((writer, tail)) = self.held.take() else {
            return;
        };
        let payload = format!("\"{}\"\n", self.label()).into_bytes();
        let (epoch, nonce) = (writer.epoch(), self.nonce());
        let frame = Frame::new(FrameKind::Data, epoch, tail.next, nonce, &payload, &tail.chain).unwrap();
        let called = self.observations.heads.moment();
        match writer.append(&frame).await {
            Ok(()) => {
                let time = called..self.observations.heads.moment();
                self.observations
                    .appended
                    .lock()
                    .unwrap()
                    .push((frame.slot(), time));
                let before = self
                    .observations
                    .frames
                    .lock()
                    .unwrap()
                    .insert(frame.slot(), payload.clone());
                assert!(
                    before.is_none_or(|before| before == payload),
                    "two frames in slot {}",
                    frame.slot()
                );
                self.held = Some((writer, Tail::after(&frame)));
            }
            Err(error) if is_refused(&error) => {
                self.observations.refused_frames.lock().unwrap().insert(payload);
            }
            Err(_) => {}
        }
    }

    async fn change_head(&mut self) {
        let id = self.label();
        let lock = ClientLock {
            id,
            holder: Holder::default(),
            message: String::new(),
            expires: None,
        };
        self.swap_head(&|head| {
            head.client_lock = Some(lock.clone());
            Ok(())
        })
        .await;
    }

    async fn swap_head(&mut self, change: &(dyn Fn(&mut Head) -> Result<()> + Send + Sync)) {
        let Some((writer, tail)) = self.held.take() else {
            return;
        };
        let nonce = self.nonce();
        let heads = &self.observations.heads;
        let write = heads.write(Some(nonce.to_string()));
        let swapped = writer.swap_head(nonce, change).await;
        self.observations
            .wrote(nonce, &swapped, || heads.acknowledge(write));
        if let Ok(head) = swapped {
            self.observations.note_head(&head);
            self.held = Some((writer, tail));
        }
    }

    async fn rotate(&mut self) {
        let Some((writer, tail)) = self.held.take() else {
            return;
        };
        match writer.rotate(tail, self.nonce()).await {
            Ok(tail) => self.held = Some((writer, tail)),
            Err(error) => _ = is_refused(&error),
        }
    }

    async fn close(&mut self) {
        let Some((_, tail)) = &self.held else {
            return;
        };
        let watermark = tail.next.get().checked_sub(1).map(|slot| Watermark {
            slot: Slot(slot),
            chain: tail.chain,
        });
        self.swap_head(&move |head| {
            (head.watermark, head.closed) = (watermark, true);
            Ok(())
        })
        .await;
        self.release().await;
    }

    async fn release(&mut self) {
        if let Some((writer, _)) = self.held.take()
            && let Err(error) = writer.release().await
        {
            is_refused(&error);
        }
    }

    /// Replaces the name pointer by an equal one with a new nonce.
    async fn rename(&self) {
        let name = name();
        let pointers = &self.observations.pointers;
        let called = pointers.moment();
        let before = self.store.read_name(&name).await.unwrap();
        let before = before.expect("the name of the stack").nonce;
        pointers.read(called, Some(before.to_string()));
        self.observations.read.lock().unwrap().insert(before.to_string());
        let pointer = NamePointer::new(name.clone(), NameTarget::Lineage(self.lineage), self.nonce());
        let write = pointers.write(Some(pointer.nonce.to_string()));
        let swapped = self.store.swap_name(&name, Some(before), &pointer).await;
        self.observations
            .wrote(pointer.nonce, &swapped, || pointers.acknowledge(write));
    }
}

/// The name of the stack.
pub(crate) fn name() -> StackName {
    StackName::new("shop", "production").unwrap()
}

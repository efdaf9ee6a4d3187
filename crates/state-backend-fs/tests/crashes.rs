//! Promise P1 (durable) on a simulated disk. A crash before any operation may lose any part of the unsynced changes,
//! but leaves every acknowledged frame, a valid head, no incomplete object, and a stack that a new owner can use.

#![expect(clippy::unwrap_used, reason = "a test that can't set up its case fails")]

use bytes::Bytes;
use state_backend_fs::FsBackend;
use state_backend_fs::testkit::{CrashImage, CrashPoint, SimulatedFs};
use state_core::backend::{
    Acquire, Acquired, Holder, JournalView, NamePointer, NameTarget, ObjectKind, ObjectName, Tail,
};
use state_core::head::Watermark;
use state_core::journal::FrameKind;
use state_core::{Backend, Epoch, Frame, Head, Lineage, Nonce, Slot};
use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;

#[path = "crashes/preallocation.rs"]
mod preallocation;

const ROOT: &str = "/store";

/// Disks lose writes in sectors of one of these sizes.
const SECTORS: [usize; 2] = [512, 4096];

const SEED: u64 = 13;

/// Payload lengths of a frame within one sector, over two small sectors, and over several large sectors.
const LENGTHS: [usize; 3] = [40, 700, 9_000];

fn nonce(number: u8) -> Nonce {
    Nonce::from_bits([number; 16])
}

fn head() -> Head {
    Head::new(Lineage::from_bits([7; 16]), "shop/web".parse().unwrap(), nonce(0))
}

fn pointer() -> NamePointer {
    NamePointer::new(
        "shop/web".parse().unwrap(),
        NameTarget::Lineage(head().lineage),
        nonce(1),
    )
}

fn object() -> ObjectName {
    ObjectName::Snapshot {
        slot: Slot(2),
        short: "0123456789abcdef".to_owned(),
    }
}

fn object_bytes() -> Bytes {
    Bytes::from(vec![b's'; 5_000])
}

fn request(who: &str, break_epoch: Option<Epoch>) -> Acquire {
    Acquire {
        holder: Holder::new(who, "host", 42, "update", None),
        break_epoch,
        head_nonce: nonce(1),
        fence_nonce: nonce(2),
    }
}

fn frame(epoch: Epoch, tail: Tail, payload: &[u8]) -> Frame {
    Frame::new(FrameKind::Data, epoch, tail.next, nonce(3), payload, &tail.chain).unwrap()
}

/// The operations that were acknowledged up to a moment, and the one in progress.
#[derive(Clone, Debug, Default)]
struct Progress {
    named: bool,
    epoch: u64,
    /// The frames whose append was acknowledged.
    frames: Vec<Bytes>,
    /// The frame whose append has begun.
    attempted: Option<Bytes>,
    object: bool,
    swapped: bool,
    /// The end of the journal at the last clean close.
    closed: Option<Slot>,
}

/// A script that runs on a machine, and its progress at each mark.
struct Script {
    machine: SimulatedFs,
    progress: Progress,
    log: Vec<Progress>,
}

impl Script {
    fn achieve(&mut self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress);
        self.machine.mark(self.log.len() as u64);
        self.log.push(self.progress.clone());
    }

    async fn append(&mut self, owner: &Acquired, tail: Tail, length: usize) -> Tail {
        let payload = [vec![b'a' + self.log.len() as u8; length], vec![b'\n']].concat();
        let frame = frame(owner.writer.epoch(), tail, &payload);
        self.achieve(|progress| progress.attempted = Some(frame.bytes().clone()));
        owner.writer.append(&frame).await.unwrap();
        self.achieve(|progress| {
            progress.attempted = None;
            progress.frames.push(frame.bytes().clone());
        });
        Tail {
            next: frame.slot().next(),
            chain: *frame.chain(),
        }
    }

    /// Closes the journal, which extends the compaction, and releases the lock.
    async fn close(&mut self, owner: &Acquired, tail: Tail) {
        let slot = Slot(tail.next.get() - 1);
        let chain = tail.chain;
        let change = |head: &mut Head| {
            head.watermark = Some(Watermark { slot, chain });
            head.closed = true;
            Ok(())
        };
        let number = u8::try_from(tail.next.get()).unwrap();
        owner
            .writer
            .swap_head(nonce(100 + number), &change)
            .await
            .unwrap();
        self.achieve(|progress| progress.closed = Some(slot));
        owner.writer.release().await.unwrap();
        self.achieve(|_| {});
    }

    /// Creates a stack, appends, makes a checkpoint; a second owner breaks the lock, appends and closes, and a third one
    /// extends the compaction of the second.
    async fn run(&mut self) {
        self.achieve(|_| {});
        let store = self.machine.open(ROOT).unwrap();
        store.create_stack(&head()).await.unwrap();
        store.swap_name(&pointer().name, None, &pointer()).await.unwrap();
        self.achieve(|progress| progress.named = true);
        let first = store
            .acquire(head().lineage, &request("first", None))
            .await
            .unwrap();
        self.achieve(|progress| progress.epoch = 1);
        let mut tail = first.tail;
        for length in LENGTHS {
            tail = self.append(&first, tail, length).await;
        }
        first.writer.create(&object(), object_bytes()).await.unwrap();
        self.achieve(|progress| progress.object = true);
        let change = |head: &mut Head| {
            head.floor = Slot(1);
            Ok(())
        };
        first.writer.swap_head(nonce(5), &change).await.unwrap();
        self.achieve(|progress| progress.swapped = true);
        tail = first.writer.rotate(tail, nonce(4)).await.unwrap();
        self.append(&first, tail, LENGTHS[1]).await;

        let other = self.machine.open(ROOT).unwrap();
        let breaking = request("second", Some(Epoch(1)));
        let second = other.acquire(head().lineage, &breaking).await.unwrap();
        self.achieve(|progress| progress.epoch = 2);
        let tail = self.append(&second, second.tail, LENGTHS[2]).await;
        let tail = self.append(&second, tail, LENGTHS[0]).await;
        self.close(&second, tail).await;

        let third = store
            .acquire(head().lineage, &request("third", None))
            .await
            .unwrap();
        self.achieve(|progress| progress.epoch = 3);
        let tail = self.append(&third, third.tail, LENGTHS[1]).await;
        self.close(&third, tail).await;
    }
}

/// Runs the script; returns its progress at each mark, and all moments at which it may crash.
async fn run(ignore_syncs: bool) -> (Vec<Progress>, Vec<CrashPoint>) {
    let machine = SimulatedFs::new();
    machine.create(ROOT).unwrap();
    machine.sync_all();
    if ignore_syncs {
        machine.ignore_syncs();
    }
    machine.record();
    let mut script = Script {
        machine: machine.clone(),
        progress: Progress::default(),
        log: Vec::new(),
    };
    script.run().await;
    (script.log, machine.crash_points())
}

/// Checks that the disk after a crash keeps every promise; returns the reason if it doesn't.
async fn check(machine: &SimulatedFs, progress: &Progress) -> Result<(), String> {
    let store = machine.open(ROOT).map_err(|e| e.to_string())?;
    let name = store
        .read_name(&pointer().name)
        .await
        .map_err(|e| e.to_string())?;
    if name.is_none() && !progress.named {
        // An unacknowledged creation can be repeated.
        store.create_stack(&head()).await.map_err(|e| e.to_string())?;
        let named = store.swap_name(&pointer().name, None, &pointer()).await;
        named.map_err(|e| e.to_string())?;
    } else {
        equal("name", &name, &Some(pointer()))?;
    }
    check_objects(&store, progress).await?;
    let head_before = store.read_head(head().lineage).await.map_err(|e| e.to_string())?;
    if head_before.epoch < Epoch(progress.epoch) || progress.swapped && head_before.floor != Slot(1) {
        return Err(format!("the head is older than acknowledged: {head_before:?}"));
    }
    let closed = head_before.watermark.map(|watermark| watermark.slot);
    if closed < progress.closed {
        return Err(format!("the head has lost its watermark: {head_before:?}"));
    }
    let view = store
        .read_journal(head().lineage, Some(Slot(0)))
        .await
        .map_err(|e| e.to_string())?;
    check_frames(&view.frames, progress)?;
    // From the base on, a reader takes the frames of the compaction, if that survived.
    let tip = store
        .read_journal(head().lineage, None)
        .await
        .map_err(|e| e.to_string())?;
    equal("frames from the base on", &data(&tip.frames), &data(&view.frames))?;
    let next = store
        .acquire(head().lineage, &request("next", None))
        .await
        .map_err(|e| e.to_string())?;
    equal("frames", &data(&next.frames), &data(&view.frames))?;
    let more = frame(next.writer.epoch(), next.tail, b"more\n");
    next.writer.append(&more).await.map_err(|e| e.to_string())?;
    next.writer.release().await.map_err(|e| e.to_string())?;
    let view = store
        .read_journal(head().lineage, None)
        .await
        .map_err(|e| e.to_string())?;
    equal(
        "the last frame",
        &data(&view.frames).last().copied(),
        &Some(more.bytes()),
    )
}

async fn check_objects(store: &FsBackend, progress: &Progress) -> Result<(), String> {
    let lineage = head().lineage;
    let listed = match store.list(lineage, ObjectKind::Snapshot).await {
        Ok(listed) => listed,
        Err(error) => return Err(error.to_string()),
    };
    if progress.object || !listed.is_empty() {
        equal("objects", &listed, &vec![object()])?;
        let bytes = store.read(lineage, &object()).await.map_err(|e| e.to_string())?;
        equal("the object", &bytes, &object_bytes())?;
    }
    Ok(())
}

/// Checks that all acknowledged frames exist unchanged, perhaps followed by the whole frame in progress.
fn check_frames(frames: &[Frame], progress: &Progress) -> Result<(), String> {
    let mut expected: Vec<&Bytes> = progress.frames.iter().collect();
    let found = data(frames);
    if found.len() > expected.len() {
        expected.extend(&progress.attempted);
    }
    equal("frames", &found, &expected)
}

fn data(frames: &[Frame]) -> Vec<&Bytes> {
    let data = frames.iter().filter(|frame| frame.kind() == FrameKind::Data);
    data.map(Frame::bytes).collect()
}

fn equal<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let mut shown = format!("{what}: {found:?} instead of {expected:?}");
    shown.truncate(500);
    Err(shown)
}

/// What a reader returned that made no sync: no crash may undo it.
async fn read_without_sync(point: &CrashPoint) -> Option<JournalView> {
    // Without a lost change, the disk is the one that a process sees at this moment.
    let images = point.images(SECTORS[0], SEED);
    let machine = images.into_iter().find(CrashImage::is_complete)?.mount();
    machine.record();
    let store = machine.open(ROOT).ok()?;
    let view = store.read_journal(head().lineage, None).await.ok()?;
    let operations = machine.crash_points();
    let syncs = operations.iter().any(|point| point.operation.starts_with("sync"));
    (!syncs).then_some(view)
}

async fn check_still_there(machine: &SimulatedFs, read: &JournalView) -> Result<(), String> {
    let store = machine.open(ROOT).map_err(|e| e.to_string())?;
    let view = store.read_journal(head().lineage, None).await;
    let view = view.map_err(|e| e.to_string())?;
    equal("the head that a reader returned", &view.head, &read.head)?;
    equal("the frames that a reader returned", &view.frames, &read.frames)
}

/// The distinct disks that were checked, up to the first failure.
#[derive(Default)]
struct Checked {
    images: HashSet<u64>,
    /// The same disk is another case if more operations were acknowledged.
    cases: HashSet<(u64, u64)>,
    /// How many moments had a reader that made no sync.
    unsynced_reads: u64,
}

impl Checked {
    /// Checks all disks that a crash at this point may leave.
    async fn check(&mut self, point: &CrashPoint, progress: &Progress, nested: bool) -> Result<(), String> {
        let read = read_without_sync(point).await;
        self.unsynced_reads += u64::from(read.is_some());
        for sector in SECTORS {
            for image in point.images(sector, SEED) {
                let digest = image.digest();
                if !self.cases.insert((digest, point.mark)) {
                    continue;
                }
                self.images.insert(digest);
                let context = format!("crash before {} {}, {image}", point.number, point.operation);
                let machine = image.mount();
                let recovering = machine.copy();
                let failed = |reason: String| format!("{context}: {reason}");
                if let Some(read) = &read {
                    check_still_there(&machine, read).await.map_err(failed)?;
                }
                check(&machine, progress).await.map_err(failed)?;
                if nested && self.cases.len().is_multiple_of(NESTED) {
                    Box::pin(self.check_recovery(&recovering, progress))
                        .await
                        .map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// Crashes again during the recovery by a new owner.
    async fn check_recovery(&mut self, machine: &SimulatedFs, progress: &Progress) -> Result<(), String> {
        if !progress.named {
            return Ok(());
        }
        machine.record();
        let store = machine.open(ROOT).map_err(|e| e.to_string())?;
        let next = store.acquire(head().lineage, &request("recovering", None)).await;
        drop(next.map_err(|e| e.to_string())?);
        for mut point in machine.crash_points() {
            // Marks of the recovery must not collide with those of the script.
            point.mark = u64::MAX - progress.frames.len() as u64;
            self.check(&point, progress, false).await?;
        }
        Ok(())
    }
}

/// One of this many states is crashed again during its recovery.
const NESTED: usize = 40;

#[tokio::test]
async fn no_crash_loses_acknowledged_operations() {
    let (log, points) = run(false).await;
    let mut checked = Checked::default();
    let mut marks = BTreeSet::new();
    for point in &points {
        marks.insert(point.mark);
        let progress = &log[point.mark as usize];
        checked.check(point, progress, true).await.unwrap();
    }
    let (points, states, cases) = (points.len(), checked.images.len(), checked.cases.len());
    eprintln!("crashes: {points} operations, {states} distinct states, {cases} cases");
    assert!(
        marks.len() > 8,
        "the crashes are spread over the script: {marks:?}"
    );
    assert!(states > 500, "only {states} distinct states");
    assert!(checked.unsynced_reads > 5, "readers always synced");
}

#[tokio::test]
async fn ignored_syncs_are_found_within_100_states() {
    let (log, points) = run(true).await;
    let mut checked = Checked::default();
    let mut found = None;
    for point in &points {
        let progress = &log[point.mark as usize];
        if let Err(reason) = checked.check(point, progress, false).await {
            found = Some(reason);
            break;
        }
    }
    let states = checked.images.len();
    let reason = found.expect("without syncs, a crash loses something");
    eprintln!("crashes: without syncs, state {states} fails: {reason}");
    assert!(states <= 100, "{states} states were checked before one failed");
}

//! Crashes of a session that preallocates the space after its frames: while zeros are written, in each append that replaces
//! them, while the space is extended for a long frame, and while it is cut off.

use super::*;

/// Up to this batch, a session writes no zeros.
const FIRST: usize = 8;

/// Where the frames in preallocated space end within a sector: around the edges, where a sector has few bytes of a frame.
const ENDS: [usize; 7] = [3, 509, 1, 511, 7, 505, 100];

/// A frame that is longer than the space after a few others.
const LONG: usize = 140_000;

impl Script {
    /// Appends a frame that ends at this offset within a sector; `length` is that of the segment before.
    async fn append_to(&mut self, owner: &Acquired, tail: Tail, length: &mut usize, end: usize) -> Tail {
        // Header, chain and the line's end.
        const OVERHEAD: usize = 64 + 32 + 1;
        // Every frame has bytes in two sectors at least.
        let shortest = *length + OVERHEAD + 512;
        let next = shortest.next_multiple_of(512) + end;
        let tail = self.append(owner, tail, next - *length - OVERHEAD).await;
        *length = next;
        tail
    }

    /// Appends so many frames that space is preallocated, uses it up, closes; a second session is killed in its space.
    async fn preallocate(&mut self) {
        self.achieve(|_| {});
        let store = self.machine.open(ROOT).unwrap();
        store.create_stack(&head()).await.unwrap();
        store.swap_name(&pointer().name, None, &pointer()).await.unwrap();
        let first = store
            .acquire(head().lineage, &request("first", None))
            .await
            .unwrap();
        self.achieve(|progress| (progress.named, progress.epoch) = (true, 1));
        let mut length = first.frames[0].bytes().len();
        let mut tail = first.tail;
        for batch in 0..FIRST {
            // The other test covers the appends to a growing file.
            self.machine.record();
            // The next frame has few bytes in the last sector before the zeros.
            let end = if batch + 1 == FIRST { 505 } else { 100 };
            tail = self.append_to(&first, tail, &mut length, end).await;
        }
        for end in ENDS {
            tail = self.append_to(&first, tail, &mut length, end).await;
        }
        tail = self.append(&first, tail, LONG).await;
        tail = self.append(&first, tail, LENGTHS[0]).await;
        self.close(&first, tail).await;

        let second = store
            .acquire(head().lineage, &request("second", None))
            .await
            .unwrap();
        self.achieve(|progress| progress.epoch = 2);
        tail = second.tail;
        for _ in 0..=FIRST {
            tail = self.append(&second, tail, LENGTHS[0]).await;
        }
        drop(second);
    }
}

#[tokio::test]
async fn no_crash_in_preallocated_space_loses_frames() {
    let machine = SimulatedFs::new();
    machine.create(ROOT).unwrap();
    machine.sync_all();
    let mut script = Script {
        machine: machine.clone(),
        progress: Progress::default(),
        log: Vec::new(),
    };
    script.preallocate().await;
    let points = machine.crash_points();
    let count = |operation: &str| points.iter().filter(|p| p.operation.contains(operation)).count();
    assert!(count("truncate") >= 2, "the space was extended and cut off");
    let mut checked = Checked::default();
    for point in &points {
        let progress = &script.log[point.mark as usize];
        checked.check(point, progress, true).await.unwrap();
    }
    let (points, states) = (points.len(), checked.images.len());
    eprintln!("crashes in preallocated space: {points} operations, {states} distinct states");
    assert!(states > 200, "only {states} distinct states");
}

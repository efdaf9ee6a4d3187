//! Explores all disks that the crashes of a script may leave, and counts the distinct ones that were checked.

use crate::check::check;
use crate::progress::{Phase, Progress};
use crate::script::{Recording, Script};
use state_backend_fs::testkit::{CrashImage, CrashPoint};
use state_core::Backend;
use state_core::backend::JournalView;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

/// Disks lose writes in sectors of one of these sizes.
const SECTORS: [usize; 2] = [512, 4096];

/// One of this many states is crashed again during its recovery.
const NESTED: usize = 1_000;

/// At one of this many moments, only the process is killed: a recovery begins on what isn't durable yet, and is crashed.
const KILLED: u64 = 200;

/// After one of this many reads that made a sync, the crashes right after the read are examined, too.
const SYNCED_READS: usize = 4;

/// The distinct disks that were checked, up to the first failure.
#[derive(Default)]
pub(crate) struct Explored {
    /// The digests of the disks, which several threads share.
    pub(crate) states: Arc<Mutex<HashSet<u64>>>,
    /// The same disk is another case if more operations were acknowledged.
    cases: HashSet<(u64, u64)>,
    /// How many of the states a crash in each phase left first.
    pub(crate) phases: BTreeMap<Phase, usize>,
    /// How many moments had a reader that made no sync.
    pub(crate) unsynced_reads: usize,
    synced_reads: usize,
    /// Numbers the scripts and recoveries.
    recordings: u64,
    /// The script or recovery whose crashes are examined.
    current: u64,
    seed: u64,
}

/// What a reader returned, and the moment right after the read.
struct Read {
    view: JournalView,
    after: CrashPoint,
    made_sync: bool,
}

impl Explored {
    /// Runs the script of a seed, and checks all disks that its crashes may leave.
    ///
    /// # Errors
    /// The first broken promise, and the crash that broke it.
    pub(crate) async fn script(
        &mut self,
        seed: u64,
        ignores_syncs_from: Option<usize>,
    ) -> Result<(), String> {
        self.seed = seed;
        // Two scripts have no moment in common.
        self.cases.clear();
        let recording = Script::run(seed, ignores_syncs_from).await;
        self.recording(&recording, true).await
    }

    /// Nothing so far, with the states of another one.
    pub(crate) fn sharing(other: &Self) -> Self {
        Self {
            states: Arc::clone(&other.states),
            ..Self::default()
        }
    }

    /// The number of distinct disks.
    pub(crate) fn count(&self) -> usize {
        self.states.lock().unwrap().len()
    }

    /// Adds what another thread explored.
    pub(crate) fn add(&mut self, other: Self) {
        for (phase, count) in other.phases {
            *self.phases.entry(phase).or_default() += count;
        }
        self.unsynced_reads += other.unsynced_reads;
    }

    async fn recording(&mut self, recording: &Recording, nests: bool) -> Result<(), String> {
        let outer = self.current;
        self.recordings += 1;
        self.current = self.recordings;
        let explored = self.points(recording, nests).await;
        self.current = outer;
        explored
    }

    async fn points(&mut self, recording: &Recording, nests: bool) -> Result<(), String> {
        for point in &recording.points {
            let progress = recording.progress(point);
            if progress.is_examined {
                self.point(point, progress, nests).await?;
            }
        }
        Ok(())
    }

    /// Checks all disks that a crash at this moment may leave.
    async fn point(&mut self, point: &CrashPoint, progress: &Progress, nests: bool) -> Result<(), String> {
        let read = if nests { read(point, progress).await } else { None };
        let unsynced = read.as_ref().filter(|read| !read.made_sync);
        for sector in SECTORS {
            for image in point.images(sector, self.seed) {
                let view = unsynced.map(|read| &read.view);
                self.image(point, image, progress, view, nests).await?;
            }
        }
        if nests && (point.number as u64 + self.seed + KILLED / 2).is_multiple_of(KILLED) {
            let failed = |reason| format!("killed before {} {}: {reason}", point.number, point.operation);
            let recovered = Script::recover(&point.present(), progress, self.seed).await;
            if let Some(recording) = recovered.map_err(|error| failed(error.to_string()))? {
                let explored = Box::pin(self.recording(&recording, false)).await;
                explored.map_err(failed)?;
            }
        }
        match read {
            Some(read) if read.made_sync => {
                self.synced_reads += 1;
                if self.synced_reads.is_multiple_of(SYNCED_READS) {
                    self.after_read(&read, progress).await?;
                }
            }
            read => self.unsynced_reads += usize::from(read.is_some()),
        }
        Ok(())
    }

    async fn image(
        &mut self,
        point: &CrashPoint,
        image: CrashImage,
        progress: &Progress,
        read: Option<&JournalView>,
        nests: bool,
    ) -> Result<(), String> {
        let digest = image.digest();
        // Each recovery has marks of its own.
        let mark = self.current << 32 | point.mark;
        if !self.cases.insert((digest, mark)) {
            return Ok(());
        }
        if self.states.lock().unwrap().insert(digest) {
            *self.phases.entry(progress.phase).or_default() += 1;
        }
        let machine = image.clone().mount();
        let failed = |reason: String| {
            let (number, operation) = (point.number, &point.operation);
            format!(
                "crash before {number} {operation} ({:?}), {image}: {reason}",
                progress.phase
            )
        };
        let recovering = machine.copy();
        check(&machine, progress, read)
            .await
            .map_err(|broken| failed(broken.to_string()))?;
        if nests && self.cases.len().is_multiple_of(NESTED) {
            let recovered = Script::recover(&recovering, progress, self.seed ^ digest).await;
            if let Some(recording) = recovered.map_err(|error| failed(error.to_string()))? {
                let explored = Box::pin(self.recording(&recording, false)).await;
                explored.map_err(|reason| failed(format!("recovery: {reason}")))?;
            }
        }
        Ok(())
    }

    /// Checks the disks that a crash right after a read may leave.
    async fn after_read(&mut self, read: &Read, progress: &Progress) -> Result<(), String> {
        let progress = Progress {
            phase: Phase::Read,
            ..progress.clone()
        };
        for sector in SECTORS {
            for image in read.after.images(sector, self.seed) {
                self.image(&read.after, image, &progress, Some(&read.view), false)
                    .await?;
            }
        }
        Ok(())
    }
}

/// Reads the stack as another process at this moment; `None` if it can't be read.
async fn read(point: &CrashPoint, progress: &Progress) -> Option<Read> {
    let machine = point.present();
    machine.record();
    let store = machine.open(progress.store.root).ok()?;
    let view = store.read_journal(progress.store.lineage, None).await.ok()?;
    let mut operations = machine.crash_points();
    let made_sync = operations.iter().any(|point| point.operation.starts_with("sync"));
    let mut after = operations.pop()?;
    after.mark = point.mark;
    Some(Read {
        view,
        after,
        made_sync,
    })
}

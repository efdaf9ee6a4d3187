//! A server in memory, and the lines on which processes reach it: requests take time, answers are lost, and a request may
//! take effect long after its sender has given up, or died.

use super::Occurrences;
use async_trait::async_trait;
use futures_util::future::{BoxFuture, pending};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use state_backend_object_store::object_store;
use state_backend_object_store::testkit::FaultyStore;
use state_core::testkit::clock::SeededEntropy;
use state_core::{Clock, Entropy, Timestamp};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Everything that the processes of one run share.
#[derive(Debug)]
pub(super) struct World {
    dice: SeededEntropy,
    start: Instant,
    /// The objects. Its own requests don't fail.
    objects: FaultyStore,
    /// The time of the last write of each object.
    written: Mutex<BTreeMap<Path, Duration>>,
    /// One request in this many has a fault; zero: none.
    rarity: Mutex<usize>,
    pub(super) occurrences: Occurrences,
    trace: Mutex<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let dice = SeededEntropy::new(seed);
        Arc::new(Self {
            start: Instant::now(),
            objects: FaultyStore::new(Arc::new(InMemory::new())),
            written: Mutex::default(),
            rarity: Mutex::new([8, 20, 60, 200][draw(&dice, 4)]),
            occurrences: Occurrences::default(),
            trace: Mutex::default(),
            dice,
        })
    }

    /// Draws a number below this one.
    pub(super) fn draw(&self, below: usize) -> usize {
        draw(&self.dice, below)
    }

    /// Draws a duration below this number of milliseconds.
    pub(super) fn within(&self, milliseconds: usize) -> Duration {
        Duration::from_millis(self.draw(milliseconds) as u64)
    }

    /// Ends all faults: from now on each request gets its answer, and soon.
    pub(super) fn heal(&self) {
        *self.rarity.lock().unwrap() = 0;
    }

    fn is_faulty(&self) -> bool {
        *self.rarity.lock().unwrap() > 0
    }

    pub(super) fn note(&self, event: &str) {
        let at = self.start.elapsed().as_millis();
        self.trace.lock().unwrap().push(format!("{at} {event}"));
    }

    pub(super) fn trace(&self) -> Vec<String> {
        self.trace.lock().unwrap().clone()
    }

    fn fault(&self) -> Option<Fault> {
        let rarity = *self.rarity.lock().unwrap();
        if rarity == 0 || self.draw(rarity) != 0 {
            return None;
        }
        Some([Fault::Refused, Fault::AnswerLost, Fault::Silent, Fault::Late][self.draw(4)])
    }

    /// Replaces the time of an object, which would be the machine's, by the time in this world, in whole seconds as on S3.
    fn dated(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let written = self.written.lock().unwrap();
        let seconds = written.get(&meta.location).map_or(0, Duration::as_secs);
        meta.last_modified = Default::default();
        meta.last_modified += Duration::from_secs(seconds);
        meta
    }
}

fn draw(dice: &SeededEntropy, below: usize) -> usize {
    let mut bytes = [0; 8];
    dice.fill(&mut bytes);
    (u64::from_le_bytes(bytes) % below.max(1) as u64) as usize
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It has no effect, and the answer says so.
    Refused,
    /// It takes effect, and the connection breaks.
    AnswerLost,
    /// It takes effect and never gets an answer.
    Silent,
    /// The connection breaks at once, and the request takes effect up to ten minutes later.
    Late,
}

/// Whether a request changes the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Read,
    Write,
}

/// Holds a process up. A process that is held for ever is dead.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    is_held: Arc<AtomicBool>,
    /// Wakes those who wait in the order in which they came, so that equal seeds give equal runs. A `watch` channel doesn't.
    released: Arc<Notify>,
}

impl Gate {
    pub(super) fn hold(&self) {
        self.is_held.store(true, Relaxed);
    }

    pub(super) fn release(&self) {
        self.is_held.store(false, Relaxed);
        self.released.notify_waiters();
    }

    async fn pass(&self) {
        while self.is_held.load(Relaxed) {
            self.released.notified().await;
        }
    }
}

/// The clock of one process: it began at another time, and is a little too fast or too slow.
#[derive(Debug)]
pub(super) struct SkewedClock {
    start: Instant,
    offset: Duration,
    /// Its speed, in thousandths of the right one.
    speed: u32,
    gate: Gate,
}

impl SkewedClock {
    pub(super) fn new(world: &World, gate: &Gate) -> Self {
        Self {
            start: world.start,
            offset: world.within(3_600_000),
            speed: 950 + world.draw(101) as u32,
            gate: gate.clone(),
        }
    }
}

#[async_trait]
impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp::new("2026-01-01T00:00:00Z")
    }

    fn elapsed(&self) -> Duration {
        self.offset + self.start.elapsed() * self.speed / 1000
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration * 1000 / self.speed).await;
        // The timer of a process that was suspended meanwhile fires when the process goes on.
        self.gate.pass().await;
    }
}

/// The connection of one process to the server.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) world: Arc<World>,
    pub(super) gate: Gate,
}

impl Line {
    /// Sends a request. What it does on the server goes on if its sender dies.
    async fn send<T: Send + 'static>(
        &self,
        effect: Effect,
        request: impl FnOnce(FaultyStore) -> BoxFuture<'static, Result<T>> + Send,
    ) -> Result<T> {
        self.gate.pass().await;
        let fault = self.world.fault();
        if fault == Some(Fault::Refused) {
            tokio::time::sleep(self.world.within(50)).await;
            return Err(broken("503 Service Unavailable"));
        }
        let limit = match fault {
            Some(Fault::Late) => 600_000,
            // One request in sixteen takes about as long as its sender waits for it.
            _ if self.world.is_faulty() && self.world.draw(16) == 0 => 12_000,
            _ => 40,
        };
        let (there, back) = (self.world.within(limit), self.world.within(40));
        let work = request(self.world.objects.clone());
        let world = Arc::clone(&self.world);
        let answer = tokio::spawn(async move {
            tokio::time::sleep(there).await;
            let answer = work.await;
            // An answer is lost only if there was an effect that it would have reported.
            if fault.is_some() && effect == Effect::Write && answer.is_ok() {
                world.occurrences.add("lost answer");
            }
            tokio::time::sleep(back).await;
            answer
        });
        match fault {
            Some(Fault::Silent) => pending().await,
            Some(Fault::Late) => return Err(broken("connection reset")),
            _ => {}
        }
        let answer = answer.await.map_err(|error| Error::Generic {
            store: "simulated",
            source: error.into(),
        })?;
        // A suspended process reads an answer later.
        self.gate.pass().await;
        match fault {
            None => answer,
            Some(_) => answer.and(Err(broken("502 Bad Gateway"))),
        }
    }
}

fn broken(what: &'static str) -> Error {
    Error::Generic {
        store: "simulated",
        source: format!("an injected fault: {what}").into(),
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

#[async_trait]
impl ObjectStore for Line {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (path, world) = (path.clone(), Arc::clone(&self.world));
        self.send(Effect::Write, move |objects| {
            async move {
                let result = objects.put_opts(&path, payload, options).await?;
                world.occurrences.written(&path);
                world.written.lock().unwrap().insert(path, world.start.elapsed());
                Ok(result)
            }
            .boxed()
        })
        .await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        panic!("an upload of {path} in parts, for which no faults are simulated")
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let path = path.clone();
        let get = move |objects: FaultyStore| async move { objects.get_opts(&path, options).await }.boxed();
        let mut result = self.send(Effect::Read, get).await?;
        result.meta = self.world.dated(result.meta);
        Ok(result)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let line = self.clone();
        let delete = move |path: Result<Path>| {
            let line = line.clone();
            async move {
                let path = path?;
                let target = stream::iter([Ok(path.clone())]).boxed();
                let delete = move |objects: FaultyStore| {
                    async move { objects.delete_stream(target).try_collect::<Vec<_>>().await }.boxed()
                };
                line.send(Effect::Write, delete).await?;
                Ok(path)
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned();
        self.listed(move |objects| objects.list(prefix.as_ref()))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (prefix, offset) = (prefix.cloned(), offset.clone());
        self.listed(move |objects| objects.list_with_offset(prefix.as_ref(), &offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned();
        let list = move |objects: FaultyStore| {
            async move { objects.list_with_delimiter(prefix.as_ref()).await }.boxed()
        };
        let mut listed = self.send(Effect::Read, list).await?;
        let objects = std::mem::take(&mut listed.objects);
        listed.objects = objects.into_iter().map(|meta| self.world.dated(meta)).collect();
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, _options: CopyOptions) -> Result<()> {
        panic!("a copy from {from} to {to}, for which no faults are simulated")
    }
}

impl Line {
    fn listed(
        &self,
        list: impl FnOnce(&FaultyStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let line = self.clone();
        let listing = async move {
            let all = line
                .send(Effect::Read, move |objects| {
                    async move { list(&objects).try_collect::<Vec<_>>().await }.boxed()
                })
                .await;
            match all {
                Ok(all) => stream::iter(all)
                    .map(move |meta| Ok(line.world.dated(meta)))
                    .boxed(),
                Err(error) => stream::once(async { Err(error) }).boxed(),
            }
        };
        stream::once(listing).flatten().boxed()
    }
}

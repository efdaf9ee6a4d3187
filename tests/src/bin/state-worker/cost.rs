//! The worker `cost`: measures the cost of mutations in writes, bytes, syncs and allocations.

use crate::ALLOCATOR;
use state_backend_fs::{FsBackend, IoCounts};
use state_core::head::SealingPolicy;
use state_core::testkit::clock::{ManualClock, SeededEntropy};
use state_core::testkit::encodings;
use state_core::{
    Address, Dependency, Entry, EntryKey, Error, FactoryInfo, Json, Properties, Result, Snapshot, Timestamp,
    UpdateKind, UpdateResult,
};
use state_manager::{Actor, Environment, Intent, Session, Stack, Stacks, Update, UpdateRequest};
use state_tests::workload;
use stats_alloc::Region;
use std::io::Write;
use std::sync::Arc;

/// Number of mutations before the measurement, so that one-time setup isn't counted.
const WARM_UP: usize = 6;

/// Number of measured mutations.
const COUNTED: usize = 50;

/// Number of large mutations after the measured mutations. They write enough for a checkpoint.
const LARGE: usize = 5;

/// Measures the mutations of a stack with this many entries, and prints the counts as one line of JSON.
pub(crate) async fn run(dir: &str, entries: u64) -> Result<()> {
    let backend = Arc::new(FsBackend::create(dir)?);
    let entropy = Arc::new(SeededEntropy::new(7));
    let environment = Environment {
        clock: Arc::new(ManualClock::new()),
        entropy: Arc::clone(&entropy) as _,
        actor: Actor::default(),
        writer_version: "1.0.0".to_owned(),
    };
    let stacks = Stacks::new(Arc::clone(&backend) as _, environment);
    let stack = stacks
        .new_stack_with(&workload::STACK.parse()?, SealingPolicy::Plaintext)
        .await?;
    let session = stack.lock("cost").await?;
    session
        .import(UpdateRequest::new(UpdateKind::Import), snapshot(entries)?, None)
        .await?;
    // From here on, draw the same random bits for every number of entries. Ids are keys of sorted maps, so only equal
    // ids lead to equal allocations.
    entropy.reseed(8);
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await?;
    let mut meter = Meter {
        backend,
        session: session.clone(),
        update: update.clone(),
        stack: stack.clone(),
        readers: Vec::with_capacity(WARM_UP + COUNTED + LARGE),
    };
    let view = stack.tip().await?;
    for step in 0..WARM_UP {
        meter.mutate(step, &format!("warm-{step:03}")).await?;
    }
    let mut mutations = Vec::with_capacity(COUNTED);
    for step in WARM_UP..WARM_UP + COUNTED {
        mutations.push(meter.mutate(step, &format!("tag-{step:03}")).await?);
    }
    let overheads = meter.overheads().await?;
    let before = meter.backend.io_counts();
    for step in 0..LARGE {
        meter
            .mutate(step * 3 + 1, &format!("{}-{step:03}", workload::LARGE))
            .await?;
    }
    update.finish(UpdateResult::Succeeded).await?;
    let backend = Arc::clone(&meter.backend);
    drop(meter);
    session.close().await?;
    let closing = since(before, backend.io_counts());
    let kept = view.state.len() as u64;
    let report = serde_json::json!({
        "entries": kept,
        "mutations": mutations,
        "overheads": overheads,
        "until-close": closing,
    });
    let mut out = std::io::stdout().lock();
    writeln!(out, "{report}").map_err(|error| Error::invalid("standard output", error.to_string()))
}

/// Performs mutations and counts what they cost.
struct Meter {
    backend: Arc<FsBackend>,
    session: Session,
    update: Update,
    stack: Stack,
    /// The states before each mutation. While readers keep these states, a mutation must copy the nodes of the
    /// persistent maps that it changes, so the measurement includes these copies.
    readers: Vec<Arc<state_core::State>>,
}

impl Meter {
    /// Performs one mutation and returns its counts. Three consecutive steps are a create, an update and a delete.
    async fn mutate(&mut self, step: usize, tag: &str) -> Result<serde_json::Value> {
        self.readers.push(self.session.state());
        let created = || Address::new(format!("s{:06}", step / 3));
        let (intent, made) = match step % 3 {
            0 => {
                let made = workload::made(created()?, tag)?;
                (Intent::create(made.clone()), Some(made))
            }
            1 => {
                let made = workload::made(address(step as u64)?, tag)?;
                (Intent::update(made.clone()), Some(made))
            }
            _ => (Intent::delete(EntryKey::live(created()?)), None),
        };
        let before = self.backend.io_counts();
        let encoded = encodings::count();
        let region = Region::new(ALLOCATOR);
        let violations = self.update.begin(intent).await?.succeed(made).await?;
        let stats = region.change();
        let mut counts = since(before, self.backend.io_counts());
        counts["encodings"] = (encodings::count() - encoded).into();
        if let Some(violation) = violations.first() {
            return Err(Error::invalid("a result", violation.to_string()));
        }
        counts["allocations"] = (stats.allocations + stats.reallocations).into();
        counts["allocated"] = stats.bytes_allocated.into();
        Ok(counts)
    }

    /// Returns the size of each frame of the journal and the size of its payload, both in bytes.
    async fn overheads(&self) -> Result<Vec<(usize, usize)>> {
        use state_core::Backend;
        let view = self.backend.read_journal(self.stack.lineage(), None).await?;
        let frames = view.frames.iter();
        Ok(frames
            .map(|frame| (frame.bytes().len(), frame.payload().len()))
            .collect())
    }
}

/// Returns the I/O between two readings of the counters.
fn since(before: IoCounts, after: IoCounts) -> serde_json::Value {
    serde_json::json!({
        "writes": after.writes - before.writes,
        "bytes": after.bytes - before.bytes,
        "fsyncs": after.fsyncs - before.fsyncs,
    })
}

fn address(number: u64) -> Result<Address> {
    Ok(Address::new(format!("r{number:06}"))?)
}

/// Returns outputs that contain a number with a fixed count of digits, so that all entries have the same size.
fn small(number: u64) -> Option<Properties> {
    Json::parse(&format!("{{\"number\":\"{number:06}\"}}"))
        .ok()
        .and_then(Properties::new)
}

/// Returns a snapshot with this many entries. Each entry after number 150 depends on an earlier entry.
fn snapshot(entries: u64) -> Result<Snapshot> {
    let mut snapshot = Snapshot::new(
        FactoryInfo::default(),
        workload::STACK,
        Timestamp::new("2026-01-01T00:00:00Z"),
    );
    for number in 0..entries {
        let after = number
            .checked_sub(1)
            .map(|last| address(100 + last / 10))
            .transpose()?;
        let depends_on = after.into_iter().filter(|_| number > 150).map(Dependency::Entry);
        let entry = Entry {
            depends_on: depends_on.collect(),
            outputs: small(number),
            ..Entry::leaf(address(number)?, "thing")
        };
        snapshot.entries.push(Arc::new(entry));
    }
    Ok(snapshot)
}

//! The order of resources in everything that is read back from an object store: each resource follows its dependencies.

use super::model::new_stack;
use super::schedules::in_virtual_time;
use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use state_core::backend::{JournalView, Tail};
use state_core::head::{Base, SnapshotRef};
use state_core::journal::{FrameKind, UpdateEnd, encode_records};
use state_core::mutation::{Edit, EditChange, Step, StepChange};
use state_core::state::LoadedSnapshots;
use state_core::testkit::conformance::Bench;
use state_core::testkit::oracle::is_topological;
use state_core::testkit::run::property_config;
use state_core::testkit::strategy::entries_in_order;
use state_core::{
    Backend, Digest, Error, ErrorKind, Frame, Head, Lineage, MutationId, Nonce, Record, SharedEntry,
    Snapshot, State, Timestamp, UpdateId, UpdateInfo, UpdateKind, Writer, codec, verify,
};
use std::time::Duration;

/// Number of slots that cause a compaction; low, so that compactions are frequent.
const COMPACTION: u64 = 6;

type Checked<T = ()> = Result<T, TestCaseError>;

/// A state and the journal in which its records are stored.
struct Session {
    store: Arc<InMemory>,
    writer: Arc<dyn Writer>,
    lineage: Lineage,
    tail: Tail,
    state: State,
    entropy: SeededEntropy,
    open: Option<UpdateInfo>,
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "`map_err` passes the error by value"
)]
fn failed(error: Error) -> TestCaseError {
    TestCaseError::fail(format!("{error:?}"))
}

fn moment() -> Timestamp {
    Timestamp::new("2026-01-01T00:00:00Z")
}

fn handle(store: &Arc<InMemory>) -> ObjectBackend {
    let mut options = options();
    options.compaction = COMPACTION;
    ObjectBackend::new(Arc::<InMemory>::clone(store), options, Opening::Create)
}

impl Session {
    async fn open() -> Checked<Self> {
        let store = Arc::new(InMemory::new());
        let backend = handle(&store);
        let entropy = SeededEntropy::new(1);
        let lineage = new_stack(&backend, &entropy).await.map_err(failed)?;
        let acquired = Bench::new(&backend, &entropy).acquire(lineage, "anna").await;
        let acquired = acquired.map_err(failed)?;
        Ok(Self {
            store,
            writer: acquired.writer,
            lineage,
            tail: acquired.tail,
            state: State::new(lineage),
            entropy,
            open: None,
        })
    }

    fn entries(&self) -> Vec<SharedEntry> {
        self.state.entries().cloned().collect()
    }

    /// Applies a record, and appends it if it is accepted. Returns whether it is.
    async fn record(&mut self, record: Record) -> Checked<bool> {
        let before = self.state.clone();
        if self.state.apply(&record, &LoadedSnapshots::new()).is_err() {
            prop_assert!(self.state == before, "a refused record changed the state");
            return Ok(false);
        }
        let frame = Frame::new(
            FrameKind::Data,
            self.writer.epoch(),
            self.tail.next,
            Nonce::random(&self.entropy),
            &encode_records([&record]),
            &self.tail.chain,
        );
        let frame = frame.map_err(failed)?;
        self.writer.append(&frame).await.map_err(failed)?;
        self.state.settle(frame.chain());
        self.tail = Tail::after(&frame);
        // A compaction runs in the background.
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(true)
    }

    async fn start(&mut self, kind: UpdateKind) -> Checked {
        let update = UpdateInfo::new(UpdateId::random(&self.entropy), kind, moment());
        prop_assert!(self.record(Record::UpdateStart(update.clone())).await?);
        self.open = Some(update);
        Ok(())
    }

    async fn finish(&mut self) -> Checked {
        let end = UpdateEnd {
            serial: self.state.serial().next(),
            update: self.open.take().unwrap(),
            base: Base::empty(self.lineage),
            entries: self.state.len() as u64,
            changed: None,
            log: None,
        };
        prop_assert!(self.record(Record::UpdateEnd(end)).await?);
        Ok(())
    }

    async fn edit(&mut self, change: EditChange) -> Checked<bool> {
        let id = MutationId::random(&self.entropy);
        let changes = vec![change];
        self.record(Record::Edit(Edit { id, changes })).await
    }

    async fn same(&mut self, entry: SharedEntry) -> Checked<bool> {
        let id = MutationId::random(&self.entropy);
        let change = StepChange::Same(entry);
        self.record(Record::Step(Step { id, change })).await
    }

    /// Stores the state as a snapshot, and begins the journal behind it.
    async fn checkpoint(&mut self) -> Checked {
        let tail = self.writer.rotate(self.tail, Nonce::random(&self.entropy));
        self.tail = tail.await.map_err(failed)?;
        let mut snapshot = self.state.snapshot("shop/production", moment());
        snapshot.continuation = Some(self.state.continuation());
        let reference = self.put(&snapshot).await?;
        let base = Base {
            snapshot: Some(reference),
            content: None,
            start: self.tail.next,
            chain: self.tail.chain,
        };
        let change = |head: &mut Head| {
            head.base = base.clone();
            Ok(())
        };
        let nonce = Nonce::random(&self.entropy);
        let swapped = self.writer.swap_head(nonce, &change).await;
        swapped.map(drop).map_err(failed)
    }

    async fn put(&self, snapshot: &Snapshot) -> Checked<SnapshotRef> {
        let bytes = Bytes::from(codec::encode_stored(snapshot));
        let reference = SnapshotRef {
            slot: self.tail.next,
            digest: Digest::of(&bytes),
            length: bytes.len() as u64,
        };
        let created = self.writer.create(&reference.object(), bytes).await;
        created.map(|()| reference).map_err(failed)
    }

    /// Reads the stack as another process does. Each state on the way, from the base to the last frame, lists
    /// dependencies first; the last one is the state of the session.
    async fn check(&self) -> Checked {
        let reader = handle(&self.store);
        let JournalView { head, frames, .. } =
            reader.read_journal(self.lineage, None).await.map_err(failed)?;
        let mut state = match &head.base.snapshot {
            None => State::new(self.lineage),
            Some(reference) => {
                let bytes = reader.read(self.lineage, &reference.object()).await;
                let snapshot = codec::decode("snapshot", &bytes.map_err(failed)?).map_err(failed)?;
                State::from_snapshot(self.lineage, &snapshot).map_err(failed)?
            }
        };
        for frame in &frames {
            let records = state.replay_frame(frame, &LoadedSnapshots::new());
            records.map_err(failed)?;
            let entries: Vec<_> = state.entries().cloned().collect();
            prop_assert!(is_topological(&entries), "after slot {}", frame.slot());
        }
        prop_assert!(
            state.entries().eq(self.state.entries()),
            "another list is read back"
        );
        Ok(())
    }

    /// Stores a snapshot with this list. It is read back in the same order, and the verifier refuses it unless each
    /// resource follows its dependencies.
    async fn check_snapshot(&self, entries: Vec<SharedEntry>) -> Checked {
        let is_in_order = is_topological(&entries);
        let mut snapshot = self.state.snapshot("shop/production", moment());
        snapshot.entries = entries;
        let reference = self.put(&snapshot).await?;
        let bytes = handle(&self.store).read(self.lineage, &reference.object()).await;
        let read = codec::decode("snapshot", &bytes.map_err(failed)?).map_err(failed)?;
        prop_assert!(read.entries == snapshot.entries);
        match verify::check("snapshot", &read) {
            Ok(()) => prop_assert!(is_in_order, "a list in another order is accepted"),
            // The session accepted its own list, so only another order of it can be refused.
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Integrity);
                prop_assert!(read.entries != self.entries(), "{error}");
            }
        }
        Ok(())
    }
}

/// Sorts a list by random ranks.
fn shuffled(entries: &[SharedEntry], ranks: &[u8]) -> Vec<SharedEntry> {
    let mut ranked: Vec<_> = entries.iter().zip(ranks.iter().cycle()).collect();
    ranked.sort_by_key(|(_, rank)| **rank);
    ranked.into_iter().map(|(entry, _)| entry.clone()).collect()
}

/// Whether the list stays in order with one more entry at its end.
fn may_follow(entries: &[SharedEntry], entry: &SharedEntry) -> bool {
    let mut longer = entries.to_vec();
    longer.push(entry.clone());
    is_topological(&longer)
}

async fn run(entries: &[SharedEntry], ranks: &[u8], removed: &[Index]) -> Checked {
    let mut session = Session::open().await?;
    session.start(UpdateKind::Edit).await?;
    // An entry before its dependencies is refused, and accepted once they are there. The second round adds what is left.
    for order in [shuffled(entries, ranks), entries.to_vec()] {
        for entry in order {
            let is_in_order = may_follow(&session.entries(), &entry);
            let is_accepted = session.edit(EditChange::Append(entry)).await?;
            prop_assert!(
                is_in_order || !is_accepted,
                "an entry before its dependencies is accepted"
            );
        }
        session.check().await?;
    }
    for index in removed.iter().filter(|_| !entries.is_empty()) {
        session.edit(EditChange::Remove(index.get(entries).key())).await?;
    }
    session.finish().await?;
    session.check().await?;
    session.checkpoint().await?;
    session.check().await?;
    // An update records the entries in another order; those that it doesn't record follow.
    session.start(UpdateKind::Update).await?;
    for entry in shuffled(&session.entries(), ranks) {
        session.same(entry).await?;
    }
    session.check().await?;
    session.check_snapshot(session.entries()).await?;
    session.check_snapshot(shuffled(&session.entries(), ranks)).await
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn states_read_from_objects_list_dependencies_first(
        entries in entries_in_order(8),
        ranks in proptest::collection::vec(any::<u8>(), 1..8),
        removed in proptest::collection::vec(any::<Index>(), 0..3),
    ) {
        in_virtual_time(run(&entries, &ranks, &removed))?;
    }
}

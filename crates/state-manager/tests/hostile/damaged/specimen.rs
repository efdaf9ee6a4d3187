//! Small but complete stores, and the clients that use them.

use super::answers::{Answers, ask, write};
use super::harm::Harm;
use crate::client::opened;
use crate::disk::{Disk, Kind};
use crate::keys::CachedKeys;
use crate::scenario::{Pins, entry, environment, keys, name, publish_to};
use crate::updates::{import_again, publish, update};
use bytes::Bytes;
use state_core::head::SealingPolicy;
use state_core::sealing::KeyProvider;
use state_core::testkit::clock::{ManualClock, SeededEntropy};
use state_core::testkit::hostile::{Attacker, StoreImage, StoredKind};
use state_core::{Backend, Lineage, Result, RevisionId, UpdateKind, UpdateResult};
use state_encrypt::generate_identity;
use state_manager::{
    Environment, Intent, KnownStacks, MemoryKnownStacks, Rekey, Session, Stack, Stacks, UpdateRequest,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many imports in one session move the base to the snapshot of the last one, and store a page of the history.
const IMPORTS: usize = 4;

/// A client of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Client {
    /// A client without known stacks.
    New,
    /// A client that read the intact store before.
    Remembering,
    /// A recipient of the published outputs, which can't open the data key of the stack. It knows no stack, and only
    /// reads.
    OutputsReader,
}

/// A small store with one stack: some revisions, snapshots, a page of the history, logs, and a pending operation. A
/// sealed stack also has two data keys and published outputs.
pub(super) struct Specimen {
    pub(super) kind: Kind,
    pub(super) is_sealed: bool,
    /// Whether the last writer crashed: its update is open, and the journal isn't closed.
    pub(super) is_crashed: bool,
    disk: Disk,
    pub(super) lineage: Lineage,
    own: Option<Arc<CachedKeys>>,
    reader: Option<Arc<CachedKeys>>,
    pins: Pins,
    /// The revisions of the intact store.
    revisions: Vec<RevisionId>,
    /// The objects to damage.
    pub(super) objects: Vec<(String, Bytes)>,
    /// The observations of each client on the intact store.
    pub(super) intact: BTreeMap<Client, Observations>,
}

/// The results of a client that reads the store, writes an update and reads again.
pub(super) struct Observations {
    pub(super) before: Answers,
    /// None for a client that only reads.
    pub(super) written: Option<Result<(), String>>,
    /// The answers after the update.
    pub(super) after: Answers,
}

impl Specimen {
    /// Builds a store with a closed journal, and a copy of it from the time before its last update ended. The copy damages
    /// only the objects that differ.
    pub(super) async fn build(kind: Kind, is_sealed: bool) -> Result<[Self; 2]> {
        let (own, reader) = (generate_identity(), generate_identity());
        let disk = Disk::new(kind);
        let mut closed = Self {
            kind,
            is_sealed,
            is_crashed: false,
            disk: disk.copy(),
            lineage: Lineage::from_bits([0; 16]),
            own: is_sealed.then(|| Arc::new(keys(&[&own, &reader]))),
            reader: is_sealed.then(|| Arc::new(keys(&[&reader]))),
            pins: Pins::new(),
            revisions: Vec::new(),
            objects: Vec::new(),
            intact: BTreeMap::new(),
        };
        let backend = disk.under(&Attacker::default()).await?;
        let stacks = closed.stacks_on(backend, Client::New, 1);
        let policy = match is_sealed {
            true => SealingPolicy::All,
            false => SealingPolicy::Plaintext,
        };
        let stack = stacks.new_stack_with(&name(), policy).await?;
        closed.lineage = stack.lineage();
        let session = stack.lock("build").await?;
        update(&session, "built-0").await?;
        session.close().await?;
        match is_sealed {
            true => {
                stack.rekey("rekey", Rekey::default()).await?;
                publish_to(&stack, &reader).await?;
            }
            false => imports_and_outputs(&stack).await?,
        }
        let session = stack.lock("build").await?;
        update(&session, "built-1").await?;
        let crashed = leave_pending(&session, &disk).await?;
        session.close().await?;
        let mut crashed = Self {
            is_crashed: true,
            disk: crashed,
            own: closed.own.clone(),
            reader: closed.reader.clone(),
            pins: Pins::new(),
            revisions: Vec::new(),
            objects: Vec::new(),
            intact: BTreeMap::new(),
            ..closed
        };
        closed.disk = disk;
        let image = closed.disk.image().await?;
        closed.learn(&StoreImage::default()).await?;
        crashed.learn(&image).await?;
        Ok([closed, crashed])
    }

    /// Learns the pins and the observations of honest clients, and the objects that aren't in another store.
    async fn learn(&mut self, other: &StoreImage) -> Result<()> {
        let image = self.disk.image().await?;
        let objects = image
            .iter()
            .filter(|(object, bytes)| other.get(object) != Some(*bytes));
        self.objects = objects
            .map(|(object, bytes)| (object.to_owned(), bytes.clone()))
            .collect();
        let memory: Arc<MemoryKnownStacks> = Arc::default();
        let known: Arc<dyn KnownStacks> = Arc::<MemoryKnownStacks>::clone(&memory);
        let stacks = self.stacks_on(self.disk.copy().open()?, Client::New, 2);
        let stacks = stacks.with_known_stacks(known);
        let stack = crate::commands::found(&stacks).await?;
        self.revisions = stack.list().await?;
        let view = stack.tip().await?;
        if self.is_sealed {
            opened(&stack, view.snapshot()).await?;
            stacks.published_outputs(&name()).await?;
        }
        let pin = memory.seen(self.lineage).await?.unwrap_or_default();
        self.pins = vec![(name(), self.lineage, pin)];
        for client in self.clients() {
            let observations = self.observe(client, None).await;
            self.intact.insert(client, observations);
        }
        Ok(())
    }

    /// The clients of the store.
    pub(super) fn clients(&self) -> Vec<Client> {
        let mut clients = vec![Client::New, Client::Remembering];
        clients.extend(self.is_sealed.then_some(Client::OutputsReader));
        clients
    }

    /// Lets a client read, write and read again on a copy of the store with a damaged object. `None` damages nothing.
    pub(super) async fn observe(&self, client: Client, damage: Option<(usize, Harm)>) -> Observations {
        let disk = self.disk.copy();
        if let Some((object, harm)) = damage {
            let (object, intact) = &self.objects[object];
            disk.put(object, harm.of(intact)).await;
        }
        let memory = self.memory(client).await;
        let open = |seed| {
            let stacks = disk.open().map(|backend| self.stacks_on(backend, client, seed));
            match &memory {
                Some(memory) => stacks
                    .map(|stacks| stacks.with_known_stacks(Arc::<MemoryKnownStacks>::clone(memory) as _)),
                None => stacks,
            }
        };
        let before = ask(open(3), &self.revisions, client != Client::OutputsReader).await;
        if client == Client::OutputsReader {
            return Observations {
                before,
                written: None,
                after: Answers::default(),
            };
        }
        let written = Some(write(open(4)).await);
        Observations {
            before,
            written,
            after: ask(open(5), &self.revisions, true)
                .await
                .without_new(&self.revisions),
        }
    }

    /// A client with the keys and the random bits that its commands use.
    fn stacks_on(&self, backend: Arc<dyn Backend>, client: Client, seed: u64) -> Stacks {
        let environment = Environment {
            clock: Arc::new(ManualClock::new()),
            entropy: Arc::new(SeededEntropy::new(seed)),
            ..environment()
        };
        let stacks = Stacks::new(backend, environment);
        let keys = match client {
            Client::OutputsReader => &self.reader,
            Client::New | Client::Remembering => &self.own,
        };
        match keys {
            Some(keys) => stacks.with_keys(Arc::<CachedKeys>::clone(keys) as Arc<dyn KeyProvider>),
            None => stacks,
        }
    }

    async fn memory(&self, client: Client) -> Option<Arc<MemoryKnownStacks>> {
        if client != Client::Remembering {
            return None;
        }
        let memory: Arc<MemoryKnownStacks> = Arc::default();
        for (name, lineage, pin) in &self.pins {
            memory.replace(*lineage, None, Some(pin)).await;
            memory.replace_name(name, None, Some(*lineage)).await;
        }
        Some(memory)
    }

    /// The kinds of the objects of the store.
    pub(super) fn kinds(&self) -> impl Iterator<Item = StoredKind> {
        self.objects
            .iter()
            .filter_map(|(object, _)| StoredKind::of(object))
    }
}

/// Makes revisions of a plain stack, by imports that move the base, and one that sets an output.
async fn imports_and_outputs(stack: &Stack) -> Result<()> {
    let session = stack.lock("build").await?;
    for _ in 0..IMPORTS {
        import_again(stack, &session).await?;
    }
    publish(&session).await?;
    session.close().await
}

/// Ends an update that leaves an operation pending. Returns a copy of the disk from the moment before the update ended.
async fn leave_pending(session: &Session, disk: &Disk) -> Result<Disk> {
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await?;
    drop(update.begin(Intent::create(entry("pending")?)).await?);
    let moment = disk.copy();
    update.finish(UpdateResult::Failed).await?;
    Ok(moment)
}

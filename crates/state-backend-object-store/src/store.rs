//! [`ObjectBackend`]: the implementation of [`Backend`] on an object store.

use crate::etags::UnquotedEtags;
use crate::layout::{FORMAT, LAYOUT, LONGEST_LEASE, Layout, ProbedFeatures};
use crate::objects::Objects;
use crate::options::Options;
use crate::probe::{ProbeDepth, ProbeReport, ProbeTarget, prove};
use crate::terms::{LeaseWatch, ObjectLeases, store_time};
use crate::writer::{ObjectWriter, lost};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{Either, select};
use object_store::ObjectStore;
use state_backend_generic::Value;
use state_backend_generic::protocol::{
    CreateOutcome, FetchedObjects, MAX_DOCUMENT, Owner, SeenDocuments, SettledStore, Stack, adopt_stack,
    names, read_frames, read_journal, stored_items, take_over, update_stack,
};
use state_core::backend::{
    Acquire, Acquired, Capabilities, CheckableStore, CollectableStore, CopyTarget, CopyUpdate, Extensions,
    JournalView, LockStatus, NamePointer, ObjectKind, ObjectName, Opening, RemoteStore, StoreCheck,
    StoredItem, Tail,
};
use state_core::{Backend, Enveloped, Error, Frame, Head, Lineage, Nonce, Result, Slot, StackName, Writer};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A store of stacks on an object store, such as S3.
///
/// Needs a tokio runtime: a writer renews its lease in the background.
///
/// # Cancellation
/// `acquire` and the operations of a writer run to their end in a task of their own, even if the future is dropped. A
/// lock whose `acquire` was dropped is released. The other writes, such as `create_stack` and `swap_name`, stop when
/// their future is dropped: a request that was sent may still take effect.
#[derive(Clone)]
pub struct ObjectBackend {
    /// The object store, without wrappers.
    objects: Objects,
    opening: Opening,
    /// The opened store, once `format` was read or created.
    found: Arc<OnceCell<OpenedStore>>,
    /// The store for writes, once it was probed.
    proven: Arc<OnceCell<Objects>>,
    watch: LeaseWatch,
    fetched: FetchedObjects,
    seen: SeenDocuments,
}

/// A store whose `format` was read or created.
#[derive(Debug)]
pub(crate) struct OpenedStore {
    /// The object store, with [`UnquotedEtags`] if the probe found that the endpoint needs it.
    objects: Objects,
    /// Whether this handle created the store.
    made: bool,
    /// The `format` object, if it doesn't record a probe.
    unproved: Option<Value>,
}

impl ObjectBackend {
    /// Returns a store under the prefix of the options, without any request. The first operation opens the store, or
    /// creates it if `opening` allows that. A store is probed before it is created, and refused if it can't keep the
    /// contract. A store that was created without a probe is probed before this handle's first write.
    pub fn new(store: Arc<dyn ObjectStore>, mut options: Options, opening: Opening) -> Self {
        options.lease = options.lease.min(LONGEST_LEASE);
        Self {
            objects: Objects::new(store, options),
            opening,
            found: Arc::default(),
            proven: Arc::default(),
            watch: LeaseWatch::default(),
            fetched: FetchedObjects::default(),
            seen: SeenDocuments::default(),
        }
    }

    /// Returns the object store, as it was passed to [`ObjectBackend::new`].
    pub const fn object_store(&self) -> &Arc<dyn ObjectStore> {
        self.objects.store()
    }

    /// Returns the options of this backend.
    pub fn options(&self) -> &Options {
        &self.objects.options
    }

    /// Opens or creates the store at the first call, and returns it at all calls.
    async fn find(&self) -> Result<&OpenedStore> {
        self.found.get_or_try_init(|| self.find_or_create()).await
    }

    async fn find_or_create(&self) -> Result<OpenedStore> {
        if let Some(found) = self.objects.read_first(FORMAT, MAX_DOCUMENT).await? {
            return self.opened_store(found);
        }
        if self.opening == Opening::Existing {
            return Err(Error::not_found(format!("state store {}", self.url())));
        }
        self.make_store().await
    }

    /// Creates `format`, or opens the store if `format` exists.
    pub(crate) async fn make_store(&self) -> Result<OpenedStore> {
        // Probe before `format` exists, so that no state is ever written to a store without the guarantees.
        let layout = Layout {
            layout: LAYOUT,
            proved: self.prove().await?,
        };
        let store = self.objects.settled();
        match store.create(FORMAT, &layout.encode().into()).await? {
            CreateOutcome::Ours(_) => Ok(OpenedStore {
                objects: self.wrapped_for(layout.proved),
                made: true,
                unproved: None,
            }),
            // Another process created the store at the same time; its `format` counts.
            CreateOutcome::Taken(found) => self.opened_store(found),
        }
    }

    fn opened_store(&self, found: Value) -> Result<OpenedStore> {
        let proved = self.layout(&found)?.proved;
        Ok(OpenedStore {
            objects: self.wrapped_for(proved),
            made: false,
            unproved: proved.is_none().then_some(found),
        })
    }

    /// Returns the object store, with [`UnquotedEtags`] if the probe found that the endpoint needs it.
    fn wrapped_for(&self, proved: Option<ProbedFeatures>) -> Objects {
        match proved {
            Some(ProbedFeatures { unquoted_etags: true }) => {
                self.objects.over(|store| Arc::new(UnquotedEtags::new(store)))
            }
            _ => self.objects.clone(),
        }
    }

    /// Returns the store for writes. A store that was created without a probe is probed first, and `format` records it.
    async fn writable(&self) -> Result<&Objects> {
        let known = self.find().await?;
        let Some(found) = &known.unproved else {
            return Ok(&known.objects);
        };
        self.proven.get_or_try_init(|| self.probe_existing(found)).await
    }

    async fn probe_existing(&self, found: &Value) -> Result<Objects> {
        let proved = self.prove().await?;
        let objects = self.wrapped_for(proved);
        if proved.is_some() {
            let layout = Layout {
                layout: LAYOUT,
                proved,
            };
            // A lost race is fine: another process changed `format`, and it did so after a probe as well.
            objects
                .settled()
                .swap(FORMAT, &layout.encode().into(), found)
                .await?;
        }
        Ok(objects)
    }

    /// Probes the store before the first write to it.
    async fn prove(&self) -> Result<Option<ProbedFeatures>> {
        let Some(depth) = self.options().proof else {
            return Ok(None);
        };
        let proof = self.run_probe(depth).await?;
        proof.examination.require(&self.url())?;
        Ok(Some(ProbedFeatures {
            unquoted_etags: proof.unquoted_etags,
        }))
    }

    async fn run_probe(&self, depth: ProbeDepth) -> Result<ProbeReport> {
        let options = self.options();
        let target = ProbeTarget {
            store: Arc::clone(self.objects.store()),
            url: self.url(),
            prefix: options.prefix.clone(),
        };
        prove(&target, Nonce::random(&*options.entropy), depth, &*options.clock).await
    }

    fn layout(&self, found: &Value) -> Result<Layout> {
        let object = self.objects.settled().shown(FORMAT);
        let layout = Layout::decode(&object, &found.bytes)?;
        if layout.layout == LAYOUT {
            return Ok(layout);
        }
        Err(Error::format(object, layout.layout, LAYOUT))
    }

    /// Reads from the store. The first read of an existing store is sent together with the request for its `format`, which
    /// saves a round trip; its result counts only if the store can be opened.
    async fn reading<T, F>(&self, read: impl FnOnce(Objects) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        if self.found.initialized() || self.opening != Opening::Existing {
            return read(self.find().await?.objects.clone()).await;
        }
        // Only writes differ between the two: see `wrapped_for`.
        let read = pin!(read(self.objects.clone()));
        let find = pin!(self.find());
        // A missing or unreachable store is reported at once, although the read may still be repeated.
        match select(find, read).await {
            Either::Left((found, read)) => {
                found?;
                read.await
            }
            Either::Right((read, find)) => {
                find.await?;
                read
            }
        }
    }

    async fn reading_stack<T, F>(&self, lineage: Lineage, read: impl FnOnce(Stack) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.reading(|objects| read(self.stack_in(&objects, lineage)))
            .await
    }

    /// Returns the store for reads that don't need `format`.
    pub(crate) fn damaged(&self) -> SettledStore {
        self.objects.settled()
    }

    /// Returns a stack for reads that don't need `format`.
    pub(crate) fn damaged_stack(&self, lineage: Lineage) -> Stack {
        self.stack_in(&self.objects, lineage)
    }

    /// Returns the store for the writes of a repair. If `format` is missing or damaged, only a probe can show what the store
    /// needs.
    async fn repairable(&self) -> Result<&Objects> {
        match self.writable().await {
            Err(Error::Corrupt { .. } | Error::NotFound { .. }) => {
                let probe = async || Ok(self.wrapped_for(self.prove().await?));
                self.proven.get_or_try_init(probe).await
            }
            found => found,
        }
    }

    pub(crate) async fn repaired(&self) -> Result<SettledStore> {
        Ok(self.repairable().await?.settled())
    }

    pub(crate) async fn repaired_stack(&self, lineage: Lineage) -> Result<Stack> {
        Ok(self.stack_in(self.repairable().await?, lineage))
    }

    async fn writable_stack(&self, lineage: Lineage) -> Result<Stack> {
        Ok(self.stack_in(self.writable().await?, lineage))
    }

    fn stack_in(&self, objects: &Objects, lineage: Lineage) -> Stack {
        let terms = ObjectLeases {
            objects: objects.clone(),
            watch: self.watch.clone(),
        };
        Stack::new(objects.settled(), lineage, Arc::new(terms))
    }
}

impl fmt::Debug for ObjectBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectBackend")
            .field("url", &self.options().url)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for ObjectBackend {
    fn url(&self) -> String {
        self.options().url.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(true, true, false)
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        self.reading(async |objects: Objects| names::list(&objects.settled()).await)
            .await
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        self.reading(async |objects: Objects| names::read(&objects.settled(), name).await)
            .await
    }

    async fn swap_name(
        &self,
        name: &StackName,
        expected: Option<Nonce>,
        pointer: &NamePointer,
    ) -> Result<()> {
        names::swap(&self.writable().await?.settled(), name, expected, pointer).await
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        self.writable_stack(head.lineage).await?.create(head).await
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        let seen = self
            .reading_stack(lineage, async |stack: Stack| stack.head().await)
            .await?;
        self.seen.keep_head(&seen);
        Ok(seen.head)
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        self.reading_stack(lineage, async |stack: Stack| {
            match self.fetched.take(&stack.paths.object(name)) {
                Some(bytes) => Ok(bytes),
                None => stack.read_object(name).await,
            }
        })
        .await
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        self.reading_stack(lineage, async |stack: Stack| stack.list(kind).await)
            .await
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        self.reading_stack(lineage, async |stack: Stack| {
            read_journal(&stack, None, from, &self.fetched).await
        })
        .await
    }

    async fn read_journal_of(&self, head: &Head, from: Option<Slot>) -> Result<JournalView> {
        self.reading_stack(head.lineage, async |stack: Stack| {
            read_journal(&stack, Some(head), from, &self.fetched).await
        })
        .await
    }

    async fn read_frames(&self, head: &Head, from: Tail, until: Slot) -> Result<Vec<Frame>> {
        self.reading_stack(head.lineage, async |stack: Stack| {
            read_frames(&stack, head, from, until, &self.fetched).await
        })
        .await
    }

    async fn prepare_acquire(&self, lineage: Lineage) {
        let fetch = async |stack: Stack| {
            self.seen.fetch_lease(&stack).await;
            Ok(())
        };
        // A store that can't be opened is reported by the caller's other requests.
        drop(self.reading_stack(lineage, fetch).await);
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        let stack = self.writable_stack(lineage).await?;
        let (seen, fetched) = (self.seen.clone(), self.fetched.clone());
        let (objects, request) = (self.writable().await?.clone(), request.clone());
        let (send, receive) = tokio::sync::oneshot::channel();
        let step = stack.clone();
        drop(tokio::spawn(async move {
            if let Err(Ok(acquired)) = send.send(acquire(step, objects, &request, &seen, &fetched).await) {
                let acquired: Acquired = acquired;
                // The caller dropped its future, so no one would release the lock.
                drop(acquired.writer.release().await);
            }
        }));
        receive.await.unwrap_or_else(|_| Err(lost(&stack)))
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        self.reading_stack(lineage, async |stack: Stack| stack.lock_status().await)
            .await
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions::none()
            .with_check(self)
            .with_copies(self)
            .with_collection(self)
            .with_remote(self)
            .with_repair(self)
    }
}

#[async_trait]
impl CollectableStore for ObjectBackend {
    async fn stored_items(&self, lineage: Lineage, before: Slot) -> Result<Vec<StoredItem>> {
        self.reading_stack(lineage, async |stack: Stack| stored_items(&stack, before).await)
            .await
    }
}

#[async_trait]
impl CopyTarget for ObjectBackend {
    async fn adopt_object(&self, lineage: Lineage, name: &ObjectName, bytes: Bytes) -> Result<()> {
        let objects = self.writable().await?;
        let stack = self.stack_in(objects, lineage);
        objects.create_object(&stack, name, &bytes).await
    }

    async fn adopt_stack(&self, head: &Head, before: Tail, frames: &[Frame]) -> Result<()> {
        adopt_stack(&self.writable_stack(head.lineage).await?, head, before, frames).await
    }

    async fn update_stack(&self, update: &CopyUpdate) -> Result<()> {
        update_stack(&self.writable_stack(update.head.lineage).await?, update).await
    }
}

#[async_trait]
impl CheckableStore for ObjectBackend {
    async fn examine(&self) -> Result<StoreCheck> {
        Ok(self.run_probe(ProbeDepth::FULL).await?.examination)
    }
}

#[async_trait]
impl RemoteStore for ObjectBackend {
    async fn ready(&self) -> Result<bool> {
        Ok(self.find().await?.made)
    }

    async fn time(&self, lineage: Lineage) -> Result<i64> {
        let mark = Nonce::random(&*self.options().entropy);
        store_time(self.writable().await?, lineage, mark).await
    }
}

async fn acquire(
    stack: Stack,
    objects: Objects,
    request: &Acquire,
    seen: &SeenDocuments,
    fetched: &FetchedObjects,
) -> Result<Acquired> {
    let mut taken = take_over(&stack, request, seen, fetched).await?;
    let head = taken.seen.head.clone();
    let (frames, tail) = (std::mem::take(&mut taken.frames), taken.tail);
    let compactions = std::mem::take(&mut taken.compactions);
    let writer = ObjectWriter::new(Owner::new(stack, taken), objects, &frames, compactions);
    let writer: Arc<dyn Writer> = Arc::new(writer);
    Ok(Acquired {
        head,
        frames,
        tail,
        writer,
    })
}

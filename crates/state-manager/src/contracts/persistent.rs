//! [`StateManager`]: keeps a snapshot of one stack in memory, refreshes it from the store and persists it there.

use crate::intent::UpdateRequest;
use crate::read::view::CurrentRevision;
use crate::session::Session;
use crate::stack::Stack;
use async_trait::async_trait;
use state_core::mutation::StackOutputs;
use state_core::persistent::{OutputReader, PersistentMeta, Persister, Refresher, SnapshotMeta, Transient};
use state_core::{Epoch, Error, Result, Snapshot, UpdateKind};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Manages the whole snapshot of one stack: for tools that read a snapshot, work on it in memory, and write it back
/// when they are done. (Tools that record each step use [`Session`] instead.)
///
/// Persisting needs the writer lock: either the one that [`StateManager::lock`] took, or one that is taken and released
/// for the call. A persist fails with `Conflict` if another client changed the stack after this manager last read or
/// wrote the current revision, and the two snapshots differ.
///
/// ```
/// use state_core::persistent::{Persister, Refresher, Transient};
/// use state_core::{FactoryInfo, MemoryBackend, Snapshot, Timestamp};
/// use state_manager::{Actor, Environment, StateManager, Stacks};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let stacks = Stacks::new(Arc::new(MemoryBackend::default()), Environment::system(Actor::default()));
/// let manager = StateManager::new(stacks.new_stack(&"shop".parse()?).await?);
/// manager.refresh().await?;
/// assert!(manager.read().is_none());
/// manager.write(Snapshot::new(FactoryInfo::default(), "shop", Timestamp::new("2026-05-30T12:00:00Z")));
/// manager.persist().await?;
/// assert_eq!(manager.stack().snapshot_meta().await?.serial, 1);
/// # Ok::<(), state_core::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct StateManager {
    stack: Stack,
    request: UpdateRequest,
    memory: Mutex<Memory>,
    /// The session that [`StateManager::lock`] opened; none while this manager doesn't hold the lock.
    held: tokio::sync::Mutex<Option<Session>>,
}

#[derive(Debug, Default)]
struct Memory {
    transient: Option<Snapshot>,
    /// The current revision of the stack when this manager last read or wrote the stack.
    known: Option<CurrentRevision>,
}

impl StateManager {
    /// A manager for this stack. Nothing is read yet.
    pub fn new(stack: Stack) -> Self {
        Self {
            stack,
            request: UpdateRequest::new(UpdateKind::Update),
            memory: Mutex::default(),
            held: tokio::sync::Mutex::default(),
        }
    }

    /// The same manager with this request, which the history shows for each persisted snapshot. Default: an update
    /// without a message.
    #[must_use]
    pub fn with_request(self, request: UpdateRequest) -> Self {
        Self { request, ..self }
    }

    /// The stack that is managed.
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Takes the stack's writer lock and keeps it. Doesn't wait. Pass the returned epoch to [`StateManager::unlock`].
    ///
    /// # Errors
    /// `Locked` if the lock is held. The error names the holder, which may be this manager.
    pub async fn lock(&self, operation: &str) -> Result<Epoch> {
        let mut held = self.held.lock().await;
        let session = self.stack.lock(operation).await?;
        let epoch = session.epoch();
        *held = Some(session);
        Ok(epoch)
    }

    /// Releases the writer lock.
    ///
    /// # Errors
    /// `Conflict` when this manager doesn't hold the lock, or holds it at another epoch: then nothing changes.
    pub async fn unlock(&self, epoch: Epoch) -> Result<()> {
        let mut held = self.held.lock().await;
        match held.take_if(|session| session.epoch() == epoch) {
            Some(session) => session.close().await,
            None => Err(Error::conflict(
                self.object(),
                format!("this manager doesn't hold its lock at epoch {epoch}"),
            )),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self) -> String {
        format!("stack {}", self.stack.name().short())
    }

    /// Persists under the lock of this session.
    async fn persist_with(
        &self,
        session: &Session,
        snapshot: Snapshot,
        known: Option<CurrentRevision>,
    ) -> Result<()> {
        let expected = known.as_ref().map(|known| known.revision.clone());
        if session.state().current() != expected.as_ref() {
            return self.adopt(&snapshot, known.as_ref()).await;
        }
        let request = self.request.clone();
        session
            .import_onto(request, snapshot.clone(), expected.as_ref())
            .await?;
        // The new revision is read back to learn its id. If this read fails, `known` is outdated. The next persist then
        // calls `adopt`, which compares the contents and recognizes this manager's own revision.
        let stored = self.stack.current_revision().await?;
        self.memory().known = stored;
        Ok(())
    }

    /// Handles a current revision other than the known one. If its content equals the snapshot, the revision becomes
    /// the known one: it may be this manager's own revision, whose reply was lost.
    ///
    /// # Errors
    /// `Conflict` if the contents differ.
    async fn adopt(&self, snapshot: &Snapshot, known: Option<&CurrentRevision>) -> Result<()> {
        let theirs = self.stack.current_revision().await?;
        if let Some(theirs) = theirs
            .as_ref()
            .filter(|theirs| is_same(snapshot, &theirs.snapshot))
        {
            self.memory().known = Some(theirs.clone());
            return Ok(());
        }
        let meta = |known: Option<&CurrentRevision>| match known {
            Some(known) => format!("serial {}", known.meta.serial),
            None => "nothing".to_owned(),
        };
        let reason = format!(
            "another client persisted since the snapshot was read: {} was known, {} is stored now; refresh and try again",
            meta(known),
            meta(theirs.as_ref())
        );
        Err(Error::conflict(self.object(), reason))
    }
}

impl Transient for StateManager {
    fn read(&self) -> Option<Snapshot> {
        self.memory().transient.clone()
    }

    fn write(&self, snapshot: Snapshot) {
        self.memory().transient = Some(snapshot);
    }
}

#[async_trait]
impl Refresher for StateManager {
    async fn refresh(&self) -> Result<()> {
        let known = self.stack.current_revision().await?;
        *self.memory() = Memory {
            transient: known.as_ref().map(|known| known.snapshot.clone()),
            known,
        };
        Ok(())
    }
}

#[async_trait]
impl Persister for StateManager {
    async fn persist(&self) -> Result<()> {
        let (snapshot, known) = {
            let memory = self.memory();
            let Some(snapshot) = memory.transient.clone() else {
                return Ok(());
            };
            (snapshot, memory.known.clone())
        };
        if let Some(lineage) = snapshot
            .lineage
            .filter(|lineage| *lineage != self.stack.lineage())
        {
            let reason = format!("the snapshot has lineage {lineage}, so it is unrelated to this stack");
            return Err(Error::conflict(self.object(), reason));
        }
        if known
            .as_ref()
            .is_some_and(|known| is_same(&snapshot, &known.snapshot))
        {
            return Ok(());
        }
        let held = self.held.lock().await;
        if let Some(session) = &*held {
            return self.persist_with(session, snapshot, known).await;
        }
        let session = self.stack.lock("persist").await?;
        let persisted = self.persist_with(&session, snapshot, known).await;
        let closed = session.close().await;
        persisted.and(closed)
    }
}

#[async_trait]
impl OutputReader for StateManager {
    async fn root_outputs(&self) -> Result<StackOutputs> {
        self.stack.root_outputs().await
    }
}

impl PersistentMeta for StateManager {
    fn snapshot_meta(&self) -> Option<SnapshotMeta> {
        Some(self.memory().known.as_ref()?.meta.clone())
    }
}

/// Whether a snapshot equals the stored one. An entry without a uid takes the uid of the stored entry.
fn is_same(snapshot: &Snapshot, stored: &Snapshot) -> bool {
    let mut content = snapshot.content();
    let known: BTreeMap<_, _> = stored.entries.iter().map(|entry| (entry.key(), entry)).collect();
    for entry in &mut content.entries {
        if entry.uid.is_none()
            && let Some(old) = known.get(&entry.key()).filter(|old| old.id == entry.id)
        {
            Arc::make_mut(entry).uid = old.uid;
        }
    }
    content == stored.content()
}

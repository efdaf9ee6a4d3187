//! One stack, read without a lock.

use crate::blame::{self, Blame};
use crate::client_lock;
use crate::document::Made;
use crate::environment::Environment;
use crate::history::{self, Revision};
use crate::horizon::reading;
use crate::keys;
use crate::keys::Keyring;
use crate::load::Replayed;
use crate::persistent::Known;
use crate::revisions::Revisions;
use crate::session::Session;
use crate::verify::{self, VerifyReport};
use crate::witness::Witness;
use state_core::backend::{Acquire, Acquired, LockStatus};
use state_core::mutation::StackOutputs;
use state_core::{
    Address, Backend, Epoch, Error, Head, Lineage, Nonce, Result, RevisionId, Snapshot, SnapshotMeta,
    StackName, State, Timestamp, sealing::StackKey,
};
use std::path::Path;
use std::sync::Arc;

/// A stack of a store. Cheap to clone. Reading takes no lock and never waits for a writer.
#[derive(Clone, Debug)]
pub struct Stack {
    backend: Arc<dyn Backend>,
    environment: Environment,
    name: StackName,
    lineage: Lineage,
    client_lock: Option<Arc<str>>,
    keyring: Keyring,
    witness: Option<Arc<dyn Witness>>,
    spool: Option<Arc<Path>>,
}

impl Stack {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        environment: Environment,
        name: StackName,
        lineage: Lineage,
    ) -> Self {
        Self {
            backend,
            environment,
            name,
            lineage,
            client_lock: None,
            keyring: Keyring::default(),
            witness: None,
            spool: None,
        }
    }

    pub(crate) fn set_spool(&mut self, folder: Option<Arc<Path>>) {
        self.spool = folder;
    }

    /// Where results go that can't be recorded.
    pub(crate) fn spool(&self) -> Option<Arc<Path>> {
        self.spool.clone()
    }

    pub(crate) fn set_keyring(&mut self, keyring: Keyring) {
        self.keyring = keyring;
    }

    pub(crate) const fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    pub(crate) fn set_witness(&mut self, witness: Option<Arc<dyn Witness>>) {
        self.witness = witness;
    }

    pub(crate) fn witness(&self) -> Option<&dyn Witness> {
        self.witness.as_deref()
    }

    pub(crate) fn set_client_lock_id(&mut self, id: Option<String>) {
        self.client_lock = id.map(Arc::from);
    }

    /// Works from now on as the holder of no client lock.
    #[must_use]
    pub fn without_client_lock(mut self) -> Self {
        self.client_lock = None;
        self
    }

    pub(crate) fn client_lock_id(&self) -> Option<&str> {
        self.client_lock.as_deref()
    }

    /// The name by which it was found.
    pub const fn name(&self) -> &StackName {
        &self.name
    }

    /// Its identity.
    pub const fn lineage(&self) -> Lineage {
        self.lineage
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub(crate) const fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The state after the last acknowledged mutation, whether or not an update is open.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn tip(&self) -> Result<View> {
        let tip = self.read_tip().await?;
        let Replayed { state, moment, .. } = tip.replayed;
        Ok(View {
            authenticity: Authenticity::of(&tip.head, tip.key.as_deref()),
            state: Arc::new(state),
            head: tip.head,
            name: self.name.clone(),
            regression: tip.regression,
            moment,
        })
    }

    /// The current revision's content.
    ///
    /// # Errors
    /// `NoCurrent` when nothing was committed yet; `Corrupt` when it can't be read.
    pub async fn current(&self) -> Result<Snapshot> {
        reading!(self, tip => {
            let revision = self.require_current(&tip)?;
            let snapshot = history::snapshot(self, &tip, &revision).await;
            snapshot.map_err(missing_of_current)
        })
    }

    /// The id of the current revision.
    ///
    /// # Errors
    /// `NoCurrent` when nothing was committed yet.
    pub async fn current_rev(&self) -> Result<RevisionId> {
        let tip = self.replay_tip().await?;
        self.require_current(&tip)
    }

    /// The outputs of the current revision (seed 002).
    ///
    /// # Errors
    /// As [`Stack::current`].
    pub async fn root_outputs(&self) -> Result<StackOutputs> {
        let snapshot = self.current().await?;
        Ok(StackOutputs {
            values: snapshot.outputs,
            sensitive: snapshot.sensitive_outputs,
        })
    }

    /// Which snapshot is current, without its content (seed 002).
    ///
    /// # Errors
    /// As [`Stack::current`].
    pub async fn snapshot_meta(&self) -> Result<SnapshotMeta> {
        reading!(self, tip => {
            let revision = self.require_current(&tip)?;
            self.meta(&tip, &revision).await
        })
    }

    /// The current revision with all that is known of it; none when nothing was committed yet.
    pub(crate) async fn known(&self) -> Result<Option<Known>> {
        reading!(self, tip => {
            let Some(revision) = tip.state.current().cloned() else {
                return Ok(None);
            };
            let snapshot = history::snapshot(self, &tip, &revision).await;
            Ok(Some(Known {
                meta: self.meta(&tip, &revision).await?,
                snapshot: snapshot.map_err(missing_of_current)?,
                revision,
            }))
        })
    }

    async fn meta(&self, tip: &Replayed, revision: &RevisionId) -> Result<SnapshotMeta> {
        let document = history::document(self, tip, revision).await;
        let version = match document.map_err(missing_of_current)?.made {
            Made::Mark(mark) => mark.update.version,
            Made::Stored(_) => String::new(),
        };
        Ok(SnapshotMeta {
            lineage: self.lineage.to_string(),
            serial: revision.serial().get(),
            version,
        })
    }

    /// A copy of a snapshot of this stack with all that is sealed in it open. What comes from [`Stack::get`] and the
    /// like stays sealed until it is asked for here.
    ///
    /// # Errors
    /// `Sealed` when there is no identity at hand that opens its key, or a value was changed or stood elsewhere.
    pub async fn reveal(&self, snapshot: Snapshot) -> Result<Snapshot> {
        keys::reveal(self, snapshot).await
    }

    /// A revision's content.
    ///
    /// # Errors
    /// `NotFound` when there is no such revision, or it was deleted; `Collected`, of the same kind, when history begins
    /// later.
    pub async fn get(&self, revision: &RevisionId) -> Result<Snapshot> {
        reading!(self, tip => history::snapshot(self, &tip, revision).await)
    }

    /// The revisions, oldest first.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn list(&self) -> Result<Vec<RevisionId>> {
        let documents: Result<_> = reading!(self, tip => history::documents(self, &tip).await);
        Ok(documents?.into_iter().map(|document| document.revision).collect())
    }

    /// The revisions with what made them, newest first.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn history(&self) -> Result<Vec<Revision>> {
        reading!(self, tip => {
            let documents = history::documents(self, &tip).await?;
            Ok(documents
                .into_iter()
                .rev()
                .map(|document| document.into_revision(tip.state.current()))
                .collect())
        })
    }

    /// The revisions with what made them, newest first, read one at a time.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn revisions(&self) -> Result<Revisions> {
        Revisions::of(self, self.replay_tip().await?).await
    }

    /// Which revision each property of an entry is from, in the tip or in a revision. Follows the object through
    /// moves. Reads as many revisions as it takes to settle all properties.
    ///
    /// # Errors
    /// `NotFound` when there is no such revision, or no such entry in it.
    pub async fn blame(&self, address: &Address, at: Option<&RevisionId>) -> Result<Blame> {
        reading!(self, tip => blame::blame(self, tip, address, at).await)
    }

    /// A page of the history: at most so many revisions, newest first, that are older than `before` (none: from the
    /// newest on). The last one of a page leads to the next.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn history_page(&self, before: Option<&RevisionId>, limit: usize) -> Result<Vec<Revision>> {
        reading!(self, tip => history::page(self, &tip, before, limit).await)
    }

    /// Reads everything and checks every rule. `deep` reads the whole history too, and compares each checkpoint
    /// with what the journal before it leads to.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged. Violations of integrity rules are in the report.
    pub async fn verify(&self, deep: bool) -> Result<VerifyReport> {
        verify::verify(self, deep).await
    }

    /// Who holds the writer lock.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged.
    pub async fn lock_status(&self) -> Result<LockStatus> {
        self.backend.lock_status(self.lineage).await
    }

    /// Takes the writer lock. Doesn't wait. Whatever the writer before left open is ended first; moves from and to
    /// other stacks that were cut short are settled, as far as those can be asked.
    ///
    /// # Errors
    /// `Locked` names the holder, of a client lock too; `Conflict` when the own client lock is gone.
    pub async fn lock(&self, operation: &str) -> Result<Session> {
        self.acquire(operation, None).await
    }

    /// Takes the writer lock from a holder that has it at the epoch that was seen, and fences that holder.
    ///
    /// # Errors
    /// `Conflict` when the epoch moved on: another holder is there now; `Locked` by a client lock of somebody else.
    pub async fn break_lock(&self, operation: &str, seen: Epoch) -> Result<Session> {
        self.acquire(operation, Some(seen)).await
    }

    /// Takes the writer lock whatever client lock stands there. The head at that moment comes with it.
    pub(crate) async fn lock_ungated(&self, operation: &str) -> Result<(Session, Head)> {
        let acquired = self.acquire_writer(operation, None).await?;
        let head = acquired.head.clone();
        Ok((Session::open(self.clone(), acquired).await?, head))
    }

    /// Takes the writer lock and leaves moves as they are: for who settles one with the other side held.
    pub(crate) async fn lock_unsettled(&self, operation: &str) -> Result<Session> {
        self.acquire_unsettled(operation, None).await
    }

    /// Another stack of the same store, by its identity; nobody's client lock.
    pub(crate) async fn sibling(&self, lineage: Lineage) -> Result<(Self, Head)> {
        let head = self.backend.read_head(lineage).await?;
        let (backend, environment) = (Arc::clone(&self.backend), self.environment.clone());
        let mut sibling = Self::new(backend, environment, head.name.clone(), lineage);
        sibling.set_keyring(self.keyring.for_another());
        sibling.set_witness(self.witness.clone());
        Ok((sibling, head))
    }

    async fn acquire(&self, operation: &str, break_epoch: Option<Epoch>) -> Result<Session> {
        let session = self.acquire_unsettled(operation, break_epoch).await?;
        session.settle_moves().await?;
        Ok(session)
    }

    async fn acquire_unsettled(&self, operation: &str, break_epoch: Option<Epoch>) -> Result<Session> {
        // Asked before, so that who may not write doesn't take a new epoch, let alone break a lock.
        client_lock::gate(self, &self.backend.read_head(self.lineage).await?)?;
        let acquired = self.acquire_writer(operation, break_epoch).await?;
        if let Err(refused) = client_lock::gate(self, &acquired.head) {
            acquired.writer.release().await?;
            return Err(refused);
        }
        Session::open(self.clone(), acquired).await
    }

    async fn acquire_writer(&self, operation: &str, break_epoch: Option<Epoch>) -> Result<Acquired> {
        let entropy = &*self.environment.entropy;
        let request = Acquire {
            holder: self.environment.holder(operation),
            break_epoch,
            head_nonce: Nonce::random(entropy),
            fence_nonce: Nonce::random(entropy),
        };
        self.backend.acquire(self.lineage, &request).await
    }

    fn require_current(&self, tip: &Replayed) -> Result<RevisionId> {
        let object = || format!("stack {}", self.name.short());
        tip.state
            .current()
            .cloned()
            .ok_or_else(|| Error::NoCurrent { object: object() })
    }
}

/// The journal names it as current, so something of it must be there.
fn missing_of_current(error: Error) -> Error {
    match error {
        Error::NotFound { object } => Error::corrupt(object, 0, "it is current and its document is missing"),
        other => other,
    }
}

/// A stack at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// The state.
    pub state: Arc<State>,
    /// The head.
    pub head: Head,
    /// The stack's name.
    pub name: StackName,
    /// Whether it is known to be from those who have the stack's key.
    pub authenticity: Authenticity,
    /// How the store went back in time since this client [saw](crate::Witness) the stack last. Writing to it is refused.
    pub regression: Option<String>,
    moment: Timestamp,
}

/// Whether what was read is from those who have the stack's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticity {
    /// The stack has no key: whoever can write to the store can write anything.
    None,
    /// There was no identity at hand to check it with. Damage would still have been seen.
    Unchecked,
    /// Head and journal were made with the key.
    Checked,
}

impl Authenticity {
    fn of(head: &Head, key: Option<&dyn StackKey>) -> Self {
        match (head.key_id, key) {
            (None, _) => Self::None,
            (Some(_), None) => Self::Unchecked,
            (Some(_), Some(_)) => Self::Checked,
        }
    }
}

impl View {
    /// The state as a snapshot, dated when the last thing in it was recorded.
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot(self.name.to_string(), self.moment.clone())
    }

    /// When the last thing in it was recorded; none for a stack that was never written to.
    pub fn moment(&self) -> Option<&Timestamp> {
        Some(&self.moment).filter(|moment| !moment.as_str().is_empty())
    }

    /// Whether somebody is in the middle of an update, or died there.
    pub fn update_open(&self) -> bool {
        self.state.update().is_some()
    }

    /// Whether the state is known to say what the world is.
    pub fn is_reliable(&self) -> bool {
        self.state.is_reliable()
    }
}

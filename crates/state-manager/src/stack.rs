//! One stack, read without a lock: façade over the modules that read, lock, collect and rekey it.
//!
//! | methods | module |
//! |---|---|
//! | `tip`, `current`, `get`, `list`, `history`, `blame`, `logs`, `verify`, … | [`read`](crate::read) |
//! | `lock`, `lock_within`, `break_lock`, `force_unlock`, client locks | [`lock`] |
//! | `reveal`, `crypter`, `policy`, `recipients`, `rekey` | [`keys`](crate::keys) |
//! | `plan_collection` | [`gc`](crate::gc) |
//!
//! The methods box the futures of these modules: an embedder's own futures, and the stacks of its threads, then stay small.

use crate::context::StackContext;
use crate::gc::collect::{self, CollectionReport};
use crate::gc::retention::Retention;
use crate::keys::authenticate::{Authenticated, OpenedHead};
use crate::keys::recipients::{self, Recipients};
use crate::keys::reveal;
use crate::keys::rotation::{self, Rekey, RekeyReport};
use crate::lock;
use crate::objects::document::Revision;
use crate::read::blame::Blame;
use crate::read::history::Revisions;
use crate::read::logs::{LogQuery, Logs, StoredLine};
use crate::read::open::{self, Extent};
use crate::read::revision_spec::{RevisionSpec, UnresolvedRevision};
use crate::read::verify::{self, VerifyReport};
use crate::read::view::{self, CurrentRevision, View};
use crate::session::Session;
use state_core::backend::{ClientLock, Holder, LockStatus};
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::{
    Address, Crypter, Epoch, Error, Head, Lineage, Result, RevisionId, Serial, Snapshot, SnapshotMeta,
    StackName,
};
use std::sync::Arc;
use std::time::Duration;

/// A stack of a store. Cheap to clone. Readers take no lock and never wait for a writer.
#[derive(Clone, Debug)]
pub struct Stack {
    context: StackContext,
    found: Option<FoundHead>,
}

/// The head with which a stack was found. The first lock checks the client lock in it, instead of reading the head
/// again. The check is repeated under the lock.
#[derive(Clone, Debug)]
struct FoundHead {
    head: Authenticated<Head>,
    /// The time of the client's clock when the head was read.
    at: Duration,
}

/// The head with which a stack was found isn't used after this time: another client may have set a client lock, and a
/// client that may not write must not take the lock even for a moment.
const RECENT: Duration = Duration::from_secs(5);

impl Stack {
    /// The name by which the stack was found.
    pub const fn name(&self) -> &StackName {
        self.context.name()
    }

    /// The identity of the stack, which a rename doesn't change.
    pub const fn lineage(&self) -> Lineage {
        self.context.lineage()
    }

    /// Acts from now on as the holder of the client lock with this id. [`Stack::lock`] then fails if that lock was
    /// released or has expired.
    #[must_use]
    pub fn with_client_lock(mut self, id: impl Into<String>) -> Self {
        self.context.set_client_lock_id(Some(id.into()));
        self
    }

    /// Acts from now on as the holder of no client lock.
    #[must_use]
    pub fn without_client_lock(mut self) -> Self {
        self.context.set_client_lock_id(None);
        self
    }

    /// The state after the last acknowledged mutation, whether or not an update is open. All queries of the [`View`] are
    /// answered from this moment. The methods of this type read the stack anew in each call.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged; `Sealed` when a tag doesn't match the data key; `Distrusted` when the
    /// stack contradicts this client's [known stacks](crate::KnownStacks); `Distrusted` or `Conflict` when the stack
    /// doesn't meet the caller's [expectations](crate::Expectations).
    pub async fn tip(&self) -> Result<View> {
        Box::pin(view::tip(&self.context)).await
    }

    /// The content of the current revision.
    ///
    /// # Errors
    /// `NoCurrent` when nothing was committed yet; `Corrupt` when the revision can't be read.
    pub async fn current(&self) -> Result<Snapshot> {
        self.tip().await?.current().await
    }

    /// The id of the current revision.
    ///
    /// # Errors
    /// `NoCurrent` when nothing was committed yet.
    pub async fn current_rev(&self) -> Result<RevisionId> {
        self.tip().await?.current_rev()
    }

    /// The outputs of the current revision.
    ///
    /// # Errors
    /// As [`Stack::current`].
    pub async fn root_outputs(&self) -> Result<StackOutputs> {
        self.tip().await?.root_outputs().await
    }

    /// Lineage and serial of the current snapshot, without its content.
    ///
    /// # Errors
    /// As [`Stack::current`].
    pub async fn snapshot_meta(&self) -> Result<SnapshotMeta> {
        self.tip().await?.snapshot_meta().await
    }

    /// A copy of a snapshot of this stack with all sealed values opened. [`Stack::get`] and the other readers return
    /// snapshots whose values are still sealed.
    ///
    /// # Errors
    /// `Sealed` when no available identity opens a key with which values are sealed, or when a sealed value was altered
    /// or copied from another entry.
    pub async fn reveal(&self, snapshot: Snapshot) -> Result<Snapshot> {
        // The caller has read the snapshot, so the stack was opened before; each value has its own seal.
        let head = Box::pin(open::head_alone(&self.context)).await?;
        reveal::reveal(&self.context, &head, snapshot).await
    }

    /// As [`Stack::reveal`]. If no available identity opens a key with which values are sealed, returns the snapshot
    /// unchanged, together with the error that [`Stack::reveal`] would return.
    ///
    /// # Errors
    /// `Sealed` when a value was altered or copied from another entry.
    pub async fn reveal_if_possible(&self, snapshot: Snapshot) -> Result<(Snapshot, Option<Error>)> {
        let head = Box::pin(open::head_alone(&self.context)).await?;
        reveal::reveal_if_possible(&self.context, &head, snapshot).await
    }

    /// The content of a revision.
    ///
    /// # Errors
    /// `NotFound` when the revision doesn't exist or was deleted; `Collected` (also of the kind `NotFound`) when it is
    /// older than the remaining history.
    pub async fn get(&self, revision: &RevisionId) -> Result<Snapshot> {
        self.tip().await?.get(revision).await
    }

    /// The ids of all revisions, oldest first.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn list(&self) -> Result<Vec<RevisionId>> {
        Ok(self
            .history()
            .await?
            .into_iter()
            .rev()
            .map(|revision| revision.id)
            .collect())
    }

    /// Each revision together with the update or write that made it, newest first.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn history(&self) -> Result<Vec<Revision>> {
        self.tip().await?.history().await
    }

    /// A page of the history: at most `limit` revisions older than `before`, newest first; without `before`, from the
    /// newest one on. Pass the last id of a page as `before` to get the next page.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn history_page(&self, before: Option<&RevisionId>, limit: usize) -> Result<Vec<Revision>> {
        self.tip().await?.history_page(before, limit).await
    }

    /// As [`Stack::history`], but reads the revisions one at a time.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn revisions(&self) -> Result<Revisions> {
        Ok(self.tip().await?.revisions())
    }

    /// The first serial of the history after the last collection; none if nothing was collected. Revisions with a lower
    /// serial were collected.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged.
    pub async fn collected_before(&self) -> Result<Option<Serial>> {
        let head = Box::pin(open::head(&self.context)).await?.into_value();
        Ok(head.collection.map(|collection| collection.serial))
    }

    /// The revision that a specification matches, such as `@-`, a serial or the beginning of an id. Reads only the part of
    /// the history that may match. The inner result has the reason why no revision, or not exactly one, matches.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged.
    pub async fn resolve(
        &self,
        spec: &RevisionSpec,
    ) -> Result<std::result::Result<RevisionId, UnresolvedRevision>> {
        self.tip().await?.resolve(spec).await
    }

    /// The revision that last set each property of a resource, in the tip or in a given revision. Follows the resource
    /// through renames. Reads only as many revisions as are needed to attribute all properties.
    ///
    /// # Errors
    /// `NotFound` when the revision doesn't exist, or the resource isn't in it.
    pub async fn blame(&self, address: &Address, at: Option<&RevisionId>) -> Result<Blame> {
        self.tip().await?.blame(address, at).await
    }

    /// The log lines of ended updates that match a query: oldest update first, each update's lines in the order in
    /// which they were logged.
    ///
    /// # Errors
    /// `Invalid` when `since` or `until` isn't a timestamp; `Corrupt` when a stored log is damaged.
    pub async fn logs(&self, query: &LogQuery) -> Result<Vec<StoredLine>> {
        self.tip().await?.logs(query).await
    }

    /// As [`Stack::logs`], but one update at a time, so that memory holds one log only. Ignores the query's limit.
    ///
    /// # Errors
    /// `Invalid` when `since` or `until` isn't a timestamp.
    pub async fn log_walk(&self, query: &LogQuery) -> Result<Logs> {
        self.tip().await?.log_walk(query).await
    }

    /// Reads the stack and checks every integrity rule. `deep` also reads the whole history, and checks that each
    /// checkpoint equals the replay of the journal up to it.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are damaged. Violations of integrity rules are in the report.
    pub async fn verify(&self, deep: bool) -> Result<VerifyReport> {
        Box::pin(verify::verify(&self.context, deep)).await
    }

    /// The report that [`Session::collect`] would return now. Takes no lock and changes nothing. Reads the whole
    /// history.
    ///
    /// # Errors
    /// `Unsupported` by a store that can't delete; `Corrupt` when stored bytes are damaged.
    pub async fn plan_collection(&self, retention: &Retention) -> Result<CollectionReport> {
        Box::pin(collect::plan(&self.context, retention)).await
    }

    /// Frees the space that the store keeps in reserve, so that a session can delete on a full disk. Call
    /// [`restore_reserve`](Self::restore_reserve) after the session. Has no effect on a store without a reserve.
    ///
    /// # Errors
    /// `Denied` by a store that this user can't change.
    pub async fn free_reserve(&self) -> Result<()> {
        match self.context.backend().extensions().reserve {
            Some(store) => store.free_reserve().await,
            None => Ok(()),
        }
    }

    /// Reserves space for deletions again, as much as there is. Returns whether all of it could be reserved.
    ///
    /// # Errors
    /// As [`free_reserve`](Self::free_reserve).
    pub async fn restore_reserve(&self) -> Result<bool> {
        match self.context.backend().extensions().reserve {
            Some(store) => store.restore_reserve().await,
            None => Ok(true),
        }
    }

    /// The holder of the writer lock, the epoch, and the client lock if one is set.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged.
    pub async fn lock_status(&self) -> Result<LockStatus> {
        Box::pin(lock::status(&self.context)).await
    }

    /// The holder of the writer lock; none if the lock is free. The holder is no part of the authenticated head: anyone
    /// who can write to the store can change it. Reads less than [`Stack::lock_status`].
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn lock_holder(&self) -> Result<Option<Holder>> {
        let status = self.context.backend().lock_status(self.context.lineage()).await?;
        Ok(status.holder)
    }

    /// Takes the writer lock. Doesn't wait. Ends the update that the previous writer left open, and settles interrupted
    /// moves from and to other stacks as far as those stacks can be read.
    ///
    /// # Errors
    /// `Locked` when another writer or another client's lock holds the stack: the error names the holder. `Conflict`
    /// when the caller's own client lock was released or has expired. `Distrusted` when the stack was rolled back since
    /// this client last saw it. `Sealed` when no available identity opens the stack's data key.
    pub async fn lock(&self, operation: &str) -> Result<Session> {
        let locked = match self.recent_head() {
            Some(head) => Box::pin(lock::lock_found(&self.context, operation, head)).await,
            None => Box::pin(lock::lock(&self.context, operation, None)).await,
        };
        locked.map(Session::of)
    }

    /// Takes the writer lock. Waits up to `limit` while another writer holds the lock: retries after 50 ms, then after
    /// twice the previous pause, up to one second. A limit of zero makes one attempt, as [`Stack::lock`] does.
    ///
    /// # Errors
    /// `Locked`, with the holder at the last attempt, when the limit has passed. Every other error is returned at once.
    ///
    /// # Cancellation
    /// Dropping the future leaves no lock that would block other clients.
    pub async fn lock_within(&self, operation: &str, limit: Duration) -> Result<Session> {
        let locked = Box::pin(lock::lock_within(&self.context, operation, limit)).await;
        locked.map(Session::of)
    }

    /// Takes the writer lock away from the holder at the epoch `seen`. From then on, every write of that holder fails.
    ///
    /// # Errors
    /// `Conflict` when the epoch has changed, because another holder has or had the lock; `Locked` when another
    /// client's lock holds.
    pub async fn break_lock(&self, operation: &str, seen: Epoch) -> Result<Session> {
        let locked = Box::pin(lock::lock(&self.context, operation, Some(seen))).await;
        locked.map(Session::of)
    }

    /// Releases the writer lock that is held at the epoch `seen`. From then on, every write of its holder fails.
    /// Succeeds without effect if the lock is free at that epoch.
    ///
    /// # Errors
    /// `Conflict` when the epoch has changed, because another holder has or had the lock; `Locked` when another
    /// client's lock holds.
    pub async fn force_unlock(&self, seen: Epoch) -> Result<()> {
        Box::pin(lock::force_unlock(&self.context, seen)).await
    }

    /// Takes the client lock, until it is released or `expires_in` has passed. Doesn't wait. The returned lock
    /// contains the id that [`Stack::with_client_lock`] and [`Stack::free_client_lock`] expect.
    ///
    /// # Errors
    /// `Locked` when another writer or another client lock holds the stack; `Invalid` when the expiry is out of range.
    ///
    /// # Cancellation
    /// After a dropped future the lock may be taken or not: call [`Stack::lock_status`].
    pub async fn acquire_client_lock(
        &self,
        operation: &str,
        message: &str,
        expires_in: Option<Duration>,
    ) -> Result<ClientLock> {
        Box::pin(lock::acquire_client_lock(
            &self.context,
            operation,
            message,
            expires_in,
        ))
        .await
    }

    /// As [`Stack::acquire_client_lock`], with an id and a holder of the caller's choice: a server locks the stack for its
    /// client, which chose the id.
    ///
    /// # Errors
    /// `Locked` when another writer or another client lock holds the stack.
    ///
    /// # Cancellation
    /// After a dropped future the lock may be taken or not: call [`Stack::lock_status`].
    pub async fn acquire_client_lock_as(&self, operation: &str, lock: ClientLock) -> Result<ClientLock> {
        Box::pin(lock::acquire_client_lock_as(&self.context, operation, lock)).await
    }

    /// Releases the client lock with this id, expired or not, and returns it. The id alone is sufficient, so an
    /// operator can break the client lock of a holder that crashed.
    ///
    /// # Errors
    /// `Conflict` when another client lock or none is set; `Locked` when another writer holds the stack.
    ///
    /// # Cancellation
    /// After a dropped future the lock may be released or not: call [`Stack::lock_status`].
    pub async fn free_client_lock(&self, operation: &str, id: &str) -> Result<ClientLock> {
        Box::pin(lock::free_client_lock(&self.context, operation, id)).await
    }

    /// The sealing policy: which values of the stack are stored encrypted.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged.
    pub async fn policy(&self) -> Result<SealingPolicy> {
        Ok(Box::pin(open::head(&self.context)).await?.policy)
    }

    /// The crypter for the stack's secrets: from the provider of [`Stacks::with_crypters`], else one that uses the
    /// stack's own data key. It also opens values that were sealed with an earlier data key: the first value that names
    /// such a key unwraps it.
    ///
    /// [`Stacks::with_crypters`]: crate::Stacks::with_crypters
    ///
    /// # Errors
    /// `Sealed` when the stack has no data key, or no available identity opens it; `Distrusted` when the stack was
    /// rolled back, because its key may have been replaced since.
    pub async fn crypter(&self) -> Result<Arc<dyn Crypter>> {
        match self.configured_crypter()? {
            Some(crypter) => Ok(crypter),
            None => Box::pin(reveal::crypter(&self.context, &self.current_head().await?)).await,
        }
    }

    /// As [`Stack::crypter`], to seal new values: a stack without a data key gets its first one, unless its policy is
    /// `plaintext`. Opens no value that was sealed with an earlier data key.
    ///
    /// # Errors
    /// Those of [`Stack::crypter`]; `Locked` while another writer or client lock holds a stack that needs its first
    /// key.
    pub async fn encrypter(&self, operation: &str) -> Result<Arc<dyn Crypter>> {
        if let Some(crypter) = self.configured_crypter()? {
            return Ok(crypter);
        }
        let opened = self.current_head().await?;
        let is_keyless = opened.head.key_id.is_none() && opened.head.policy != SealingPolicy::Plaintext;
        if !is_keyless || self.context.keyring().provider().is_none() {
            return reveal::encrypter(&self.context, &opened);
        }
        // A session gives the stack its first key when it takes the lock.
        let locked = Box::pin(lock::lock_patiently(&self.context, operation)).await?;
        Box::pin(locked.close()).await?;
        reveal::encrypter(&self.context, &self.current_head().await?)
    }

    /// The recipients of the stack, and their names.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged; `Sealed` when its tag is wrong.
    pub async fn recipients(&self) -> Result<Recipients> {
        let head = Box::pin(open::head(&self.context)).await?;
        Ok(Recipients::of(&head))
    }

    /// Wraps the stack's data key to more recipients, and makes a revision that records them. Sealed values are not
    /// sealed again. Returns all recipients after the change.
    ///
    /// # Errors
    /// `Sealed` when the data key can't be opened, or the stack has none; `Invalid` for a malformed recipient; `Locked`
    /// while another writer or client lock holds the stack.
    pub async fn add_recipients(&self, operation: &str, more: &[String]) -> Result<Recipients> {
        Box::pin(recipients::add_recipients(&self.context, operation, more, None)).await
    }

    /// Adds one recipient as [`Stack::add_recipients`] does, under a name. If the stack already has the recipient, the
    /// recipient gets this name. Returns all recipients after the change.
    ///
    /// # Errors
    /// As [`Stack::add_recipients`].
    pub async fn add_named_recipient(
        &self,
        operation: &str,
        recipient: &str,
        name: &str,
    ) -> Result<Recipients> {
        let recipient = [recipient.to_owned()];
        Box::pin(recipients::add_recipients(
            &self.context,
            operation,
            &recipient,
            Some(name),
        ))
        .await
    }

    /// Allows more recipients to read the stack's outputs, and nothing else of the stack: see
    /// [`Stacks::published_outputs`]. Makes a revision, and publishes its outputs to them. Returns all recipients
    /// after the change.
    ///
    /// [`Stacks::published_outputs`]: crate::Stacks::published_outputs
    ///
    /// # Errors
    /// As [`Stack::add_recipients`].
    pub async fn add_output_recipients(&self, operation: &str, more: &[String]) -> Result<Recipients> {
        Box::pin(recipients::add_output_recipients(&self.context, operation, more)).await
    }

    /// Gives the stack a new data key, and seals its current state with this key. A stack without a data key gets its
    /// first one.
    ///
    /// Earlier revisions are not changed: identities that could open them still can. [`RekeyReport::older`] lists
    /// these revisions.
    ///
    /// # Errors
    /// `Sealed` when the old key can't be opened, or there are no recipients for the new one; `Conflict` when the
    /// policy would be `plaintext`; `Unsupported` when the history is to be forgotten in a store that can't delete;
    /// `Locked` while another writer or client lock holds the stack. Then nothing has changed, with one exception: if
    /// another writer takes the lock right after the key was changed, `Locked` is returned, and only the revision that
    /// records the change is missing.
    ///
    /// # Cancellation
    /// A future that is dropped leaves the stack with the old key or the new one.
    pub async fn rekey(&self, operation: &str, request: Rekey) -> Result<RekeyReport> {
        Box::pin(rotation::rekey(&self.context, operation, request)).await
    }
}

impl View {
    /// The stack, for questions about its present, and to lock it.
    pub fn stack(&self) -> Stack {
        Stack::found(self.context().clone(), self.opened_head().clone(), self.read_at())
    }

    /// The recipients of the stack, and their names.
    pub fn recipients(&self) -> Recipients {
        Recipients::of(self.opened_head())
    }
}

impl Stack {
    pub(crate) const fn of(context: StackContext) -> Self {
        Self { context, found: None }
    }

    /// A stack that was found with this head, which was read at this time of the client's clock.
    pub(crate) const fn found(context: StackContext, head: Authenticated<Head>, at: Duration) -> Self {
        let found = Some(FoundHead { head, at });
        Self { context, found }
    }

    /// The head with which the stack was found, if that was a moment ago.
    fn recent_head(&self) -> Option<&Authenticated<Head>> {
        let now = self.context.environment().clock.elapsed();
        let found = self.found.as_ref()?;
        (now.saturating_sub(found.at) <= RECENT).then_some(&found.head)
    }

    /// The crypter of the configured provider of crypters; none if no provider is configured.
    pub(crate) fn configured_crypter(&self) -> Result<Option<Arc<dyn Crypter>>> {
        let crypters = self.context.store().crypters.as_ref();
        let crypter = crypters.map(|provider| provider.crypter(self.name(), self.lineage()));
        crypter.transpose()
    }

    /// Opens the stack for a caller that uses its key. A stack that was rolled back may have its former key, which
    /// removed recipients have.
    async fn current_head(&self) -> Result<OpenedHead> {
        let opened = Box::pin(open::journal(&self.context, Extent::Live)).await?;
        Ok(opened.require_current(&self.context)?.opened_head())
    }

    /// The current revision with its content; none before the first one.
    pub(crate) async fn current_revision(&self) -> Result<Option<CurrentRevision>> {
        self.tip().await?.current_revision().await
    }

    pub(crate) const fn context(&self) -> &StackContext {
        &self.context
    }
}

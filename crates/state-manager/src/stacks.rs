//! The stacks of a store, by name: façade over the modules that find, name, copy and import them.
//!
//! | methods | module |
//! |---|---|
//! | `open`, `create`, `open_with`, `create_with`, `begin_mutation_for` | [`contracts`](crate::contracts) |
//! | `get`, `list`, `names`, `present`, `trust`, `published_outputs` | [`read`](crate::read) |
//! | `new_stack`, `rename`, `remove`, `import_deployment` | [`write`](crate::write) |
//! | `lock_both`, `copy_from` | [`transfer`](crate::transfer) |
//! | `crypter` | [`keys`](crate::keys) |
//!
//! The methods box the futures of these modules: an embedder's own futures, and the stacks of its threads, then stay small.

use crate::context::{StackContext, StoreContext};
use crate::contracts::registry::{BackendRegistry, StoreRequest};
use crate::contracts::targets::WholeMutation;
use crate::environment::Environment;
use crate::expectations::Expectations;
use crate::intent::UpdateRequest;
use crate::keys::authenticate::UncheckedHead;
use crate::known_stacks::KnownStacks;
use crate::lock;
#[cfg(feature = "testkit")]
use crate::objects::history_page::PageLimits;
use crate::read::lookup::{self, Lookup, Wanted};
use crate::read::names::{self, PresentStack};
use crate::read::outputs::{self, PublishedOutputs};
use crate::read::stack_list::{self, StackSummary};
use crate::read::view::View;
use crate::session::Session;
use crate::stack::Stack;
use crate::standing::OpeningObserver;
use crate::transfer::copy::{self, CopyReport};
use crate::transfer::settling;
use crate::write::naming::{self, Removal};
use crate::write::renaming;
use crate::write::snapshots;
use state_core::backend::{Opening, StoreCheck};
use state_core::crypter::CrypterProvider;
use state_core::head::SealingPolicy;
use state_core::sealing::KeyProvider;
use state_core::target::SnapshotMutation;
use state_core::{Backend, Crypter, Error, Head, Result, RevisionId, StackName, UntypedDeployment};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A store of stacks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stacks {
    context: StoreContext,
}

impl Stacks {
    /// The stacks of a backend.
    pub fn new(backend: Arc<dyn Backend>, environment: Environment) -> Self {
        Self {
            context: StoreContext::new(backend, environment),
        }
    }

    /// The backend of the store.
    pub fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.context.backend)
    }

    /// Opens the store at a URL: `file://PATH`, where the path may be relative to the working directory, with
    /// parameters from the backend's schema: `file://PATH?lock-timeout=30`. A remote store is not contacted here:
    /// [`Stacks::ready`] checks whether it exists.
    ///
    /// # Errors
    /// `NotFound` when the store doesn't exist; `Unsupported` for a scheme that this build doesn't include; `Invalid`
    /// for parameters that don't match the schema.
    pub fn open(url: &str, environment: Environment) -> Result<Self> {
        Self::open_with(&BackendRegistry::default(), &StoreRequest::new(url), environment)
    }

    /// Opens the store at a URL, and creates it if it doesn't exist.
    ///
    /// # Errors
    /// `Denied` or `Unavailable` when it can't be created; else as [`Stacks::open`].
    pub fn create(url: &str, environment: Environment) -> Result<Self> {
        Self::create_with(&BackendRegistry::default(), &StoreRequest::new(url), environment)
    }

    /// As [`Stacks::open`], with a backend registry and configuration values of your own.
    ///
    /// # Errors
    /// As [`BackendRegistry::open`].
    pub fn open_with(
        registry: &BackendRegistry,
        store: &StoreRequest,
        environment: Environment,
    ) -> Result<Self> {
        let backend = registry.open(store, Opening::Existing)?;
        Ok(Self::new(backend, environment))
    }

    /// As [`Stacks::create`], with a backend registry and configuration values of your own.
    ///
    /// # Errors
    /// As [`BackendRegistry::open`].
    pub fn create_with(
        registry: &BackendRegistry,
        store: &StoreRequest,
        environment: Environment,
    ) -> Result<Self> {
        let backend = registry.open(store, Opening::Create)?;
        Ok(Self::new(backend, environment))
    }

    /// The same store with a provider of data keys: all of its stacks seal and open values with them.
    ///
    /// Each data key is unwrapped once and kept until the last clone of this value is dropped. A stack that was opened
    /// with a key is refused for as long if its head then names no key, or a key that was replaced.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<dyn KeyProvider>) -> Self {
        self.context.set_keys(keys);
        self
    }

    /// The same store with a memory of known stacks. A stack that was replaced or forged since this client last saw it
    /// is refused. A stack that was rolled back can be read, but neither locked nor copied.
    #[must_use]
    pub fn with_known_stacks(mut self, known_stacks: Arc<dyn KnownStacks>) -> Self {
        self.context.known_stacks = Some(known_stacks);
        self
    }

    /// The same store with a spool folder: provider results that can't be recorded because the store is unavailable
    /// are kept in files in that folder. See [`SpooledResult`](crate::SpooledResult).
    #[must_use]
    pub fn with_spool(mut self, folder: impl Into<PathBuf>) -> Self {
        self.context.spool = Some(folder.into().into());
        self
    }

    /// The same store with the id of a client lock: all of its stacks act as the holder of that lock. See
    /// [`Stack::with_client_lock`].
    #[must_use]
    pub fn with_client_lock(mut self, id: impl Into<String>) -> Self {
        self.context.client_lock = Some(id.into().into());
        self
    }

    /// The same store with a provider of crypters, one for each stack.
    #[must_use]
    pub fn with_crypters(mut self, provider: Arc<dyn CrypterProvider>) -> Self {
        self.context.crypters = Some(provider);
        self
    }

    /// The same store with a caller's expectations of its stacks. A stack that doesn't meet them is refused when it is
    /// looked up, read or locked, and no stack can be created while a key or a revision is expected.
    #[must_use]
    pub fn with_expectations(mut self, expectations: Expectations) -> Self {
        self.context.expectations = Arc::new(expectations);
        self
    }

    /// The caller's expectations of the stacks.
    pub fn expectations(&self) -> &Expectations {
        &self.context.expectations
    }

    /// The same store with a time limit for locks: an operation that takes the writer lock itself, such as
    /// [`Stack::rekey`], waits up to this limit while another writer holds the lock. Default: it doesn't wait.
    #[must_use]
    pub const fn with_lock_timeout(mut self, limit: Duration) -> Self {
        self.context.lock_timeout = Some(limit);
        self
    }

    /// The same store with an observer, which receives the [`Standing`](crate::Standing) of each stack that is opened.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn OpeningObserver>) -> Self {
        self.context.observer = Some(observer);
        self
    }

    /// The URL of the store, without secrets.
    pub fn url(&self) -> String {
        self.context.backend.url()
    }

    /// Checks whether a remote store exists, and creates it if it was opened to be created. Returns true if this call
    /// created the store. A local store was already checked and created when it was opened.
    ///
    /// # Errors
    /// As [`RemoteStore::ready`](state_core::backend::RemoteStore::ready).
    pub async fn ready(&self) -> Result<bool> {
        match self.context.backend.extensions().remote {
            Some(store) => store.ready().await,
            None => Ok(false),
        }
    }

    /// Tests on the live store whether it provides the guarantees that this crate relies on.
    ///
    /// # Errors
    /// `Unsupported` by a store that can't be tested; otherwise as
    /// [`CheckableStore::examine`](state_core::backend::CheckableStore::examine).
    pub async fn examine(&self) -> Result<StoreCheck> {
        self.context.backend.checkable()?.examine().await
    }

    /// Removes the credentials that the store has saved for its user. Does nothing if the store saves none, such as a
    /// store in files.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn logout(&self) -> Result<()> {
        match self.context.backend.extensions().credentials {
            Some(store) => store.logout().await,
            None => Ok(()),
        }
    }

    /// The names of all stacks, sorted. Cheaper than [`Stacks::list`] because it reads no state.
    ///
    /// # Errors
    /// `Corrupt` when a pointer or a head is damaged.
    pub async fn names(&self) -> Result<Vec<StackName>> {
        Box::pin(stack_list::names(&self.context)).await
    }

    /// The names of all stacks as the name pointers say, sorted: one request a stack, for the completion of a command
    /// line. During a rename the stack has two of them, and the name of a stack whose removal was interrupted may be among
    /// them.
    ///
    /// # Errors
    /// `Corrupt` when a pointer is damaged.
    pub async fn pointer_names(&self) -> Result<Vec<StackName>> {
        Box::pin(stack_list::pointer_names(&self.context)).await
    }

    /// All stacks, sorted by name.
    ///
    /// # Errors
    /// `Corrupt` when one of the stacks is damaged: the error names it.
    pub async fn list(&self) -> Result<Vec<StackSummary>> {
        Box::pin(stack_list::summaries(&self.context)).await
    }

    /// The summary of the stack with this name; none if it doesn't exist. Unlike [`Stacks::list`], it succeeds beside a
    /// damaged stack.
    ///
    /// # Errors
    /// As [`Stacks::get`] and [`Stack::tip`].
    pub async fn summary(&self, name: &StackName) -> Result<Option<StackSummary>> {
        Box::pin(stack_list::summary(&self.context, name)).await
    }

    /// The stack with this name; none if it doesn't exist.
    ///
    /// # Errors
    /// `Corrupt` when the name pointer or the head is damaged; `Distrusted` when this client knows another stack under
    /// this name, and can't verify that the known stack was removed or renamed.
    pub async fn get(&self, name: &StackName) -> Result<Option<Stack>> {
        let found = Box::pin(names::find(&self.context, name)).await?;
        Ok(found.map(Stack::of))
    }

    /// The state of the stack with this name, or of the only stack of the store. As [`Stacks::get`] followed by
    /// [`Stack::tip`], with fewer requests: it reads the stack beside the pointer of its name.
    ///
    /// # Errors
    /// As [`Stacks::names`], [`Stacks::get`] and [`Stack::tip`].
    pub async fn view(&self, name: Option<&StackName>) -> Result<Lookup<View>> {
        Box::pin(lookup::view(&self.context, wanted(name), false)).await
    }

    /// As [`Stacks::view`], for a caller that locks the stack next ([`View::stack`]) and restores an earlier revision: also
    /// reads what the lock needs, and the latest revisions.
    ///
    /// # Errors
    /// As [`Stacks::view`].
    pub async fn view_to_restore(&self, name: Option<&StackName>) -> Result<Lookup<View>> {
        Box::pin(lookup::view(&self.context, wanted(name), true)).await
    }

    /// The stack with this name, or the only stack of the store, for a caller that locks it next: it reads what the lock
    /// needs beside the pointer of the name.
    ///
    /// # Errors
    /// As [`Stacks::names`] and [`Stacks::get`].
    pub async fn find_to_lock(&self, name: Option<&StackName>) -> Result<Lookup<Stack>> {
        let found = Box::pin(lookup::stack(&self.context, wanted(name))).await?;
        Ok(found.map(|found| match found.head {
            Some((head, at)) => Stack::found(found.stack, head, at),
            None => Stack::of(found.stack),
        }))
    }

    /// The head of the stack with this name, without checking whether this client trusts it; none if the stack doesn't
    /// exist.
    ///
    /// # Errors
    /// `Corrupt` when the name pointer or the head is damaged.
    pub async fn bound_head(&self, name: &StackName) -> Result<Option<Head>> {
        let head = Box::pin(names::bound_head(&self.context, name)).await?;
        Ok(head.map(UncheckedHead::into_untrusted))
    }

    /// The stack with this name as a client without memory reads it, for a user who decides whether to
    /// [trust](Self::trust) it. Changes nothing.
    ///
    /// # Errors
    /// `NotFound` when the stack doesn't exist; any error of reading it.
    pub async fn present(&self, name: &StackName) -> Result<PresentStack> {
        Box::pin(names::present(&self.context, name)).await
    }

    /// Trusts the present state of the stack with this name, and replaces what this client remembers of the stack.
    /// `shown` is the stack that the user saw and accepted, if a user was asked.
    ///
    /// A client that can't open the data key any more remembers the key's id: it then reads the stack unauthenticated, as
    /// a client without an identity does, but refuses the stack under another key.
    ///
    /// # Errors
    /// `NotFound` when the stack doesn't exist; `Conflict` when the store contains anything else than what was shown; any
    /// error of reading it. After an error, this client remembers what it did before.
    pub async fn trust(&self, name: &StackName, shown: Option<&PresentStack>) -> Result<View> {
        Box::pin(names::trust(&self.context, name, shown)).await
    }

    /// The latest outputs that a stack published for recipients of outputs, who can read nothing else of the stack;
    /// none if it published none. Reads the name pointer and the outputs document only.
    ///
    /// # Errors
    /// `NotFound` when the stack doesn't exist; `Sealed` when no available identity opens the document; `Distrusted`
    /// when the document is sealed with another key than the document that this client last read, or is older, or when
    /// the name leads to another stack.
    pub async fn published_outputs(&self, name: &StackName) -> Result<Option<PublishedOutputs>> {
        Box::pin(outputs::published_outputs(&self.context, name)).await
    }

    /// The crypter for a stack's secrets: see [`Stack::crypter`].
    ///
    /// # Errors
    /// `NotFound` when the stack doesn't exist; those of [`Stack::crypter`].
    pub async fn crypter(&self, name: &StackName) -> Result<Arc<dyn Crypter>> {
        self.require(name).await?.crypter().await
    }

    /// Creates an empty stack whose sensitive values are sealed. The first session with a
    /// [key provider](Self::with_keys) creates the data key; until then sensitive values are refused.
    ///
    /// # Errors
    /// `Conflict` when a stack already has this name. Names that differ only in case count as equal.
    pub async fn new_stack(&self, name: &StackName) -> Result<Stack> {
        self.new_stack_with(name, SealingPolicy::Sensitive).await
    }

    /// Creates an empty stack with a given sealing policy.
    ///
    /// # Errors
    /// As [`Stacks::new_stack`].
    pub async fn new_stack_with(&self, name: &StackName, policy: SealingPolicy) -> Result<Stack> {
        let created = Box::pin(naming::create(&self.context, name, policy)).await;
        created.map(Stack::of)
    }

    /// Renames a stack. After a crash during the rename the stack has exactly one of the two names.
    ///
    /// # Errors
    /// `NotFound` when no stack is named `from`; `Locked` by another writer; `Conflict` when the new name is taken.
    pub async fn rename(&self, from: &StackName, to: &StackName) -> Result<()> {
        let stack = Box::pin(names::require(&self.context, from)).await?;
        let locked = Box::pin(lock::lock(&stack, "stack rename", None)).await?;
        Box::pin(renaming::rename(&self.context, locked, to)).await
    }

    /// As [`Stacks::rename`], for a caller that holds the stack's lock. The lock is released in any case.
    ///
    /// # Errors
    /// `Conflict` when the new name is taken.
    pub async fn rename_held(&self, session: Session, to: &StackName) -> Result<()> {
        Box::pin(renaming::rename(&self.context, session.into_locked(), to)).await
    }

    /// Removes a stack. Its stored data stays, but no writer can write to the stack again, not even one that was
    /// suspended during the removal. Without `force`, a stack with resources isn't removed, which is not an error: the
    /// result is [`Removal::HasResources`].
    ///
    /// # Errors
    /// `NotFound` when the stack doesn't exist; `Locked` by another writer; `Conflict` while a move from this stack
    /// isn't settled at the other stack, unless forced.
    pub async fn remove(&self, name: &StackName, force: bool) -> Result<Removal> {
        let stack = Box::pin(names::require(&self.context, name)).await?;
        let locked = Box::pin(lock::lock(&stack, "stack rm", None)).await?;
        Box::pin(naming::remove(&self.context, locked, force)).await
    }

    /// As [`Stacks::remove`], for a caller that holds the stack's lock. The lock is released in any case.
    ///
    /// # Errors
    /// `Conflict` while a move from this stack isn't settled at the other stack, unless forced; any error of the store.
    pub async fn remove_held(&self, session: Session, force: bool) -> Result<Removal> {
        Box::pin(naming::remove(&self.context, session.into_locked(), force)).await
    }

    /// Locks two stacks with `lock`, always in the order of their names, so that two callers with the same pair can't
    /// deadlock. Settles interrupted moves between the two. Returns the sessions in the order of the arguments.
    ///
    /// # Errors
    /// `Conflict` when both arguments are the same stack; any error of `lock`. After an error neither stack is locked.
    ///
    /// # Cancellation
    /// Dropping the future releases the locks that it took.
    pub async fn lock_both<E: From<Error>>(
        one: &Stack,
        other: &Stack,
        lock: impl AsyncFn(&Stack) -> Result<Session, E>,
    ) -> Result<(Session, Session), E> {
        let lock = async |stack: &StackContext| {
            let session = lock(&Stack::of(stack.clone())).await;
            session.map(Session::into_locked)
        };
        let (one, other) = Box::pin(settling::lock_both(one.context(), other.context(), lock)).await?;
        Ok((Session::of(one), Session::of(other)))
    }

    /// Copies a stack of another store to this one: its journal, its revisions and its keys, with the same name and
    /// lineage. Takes no lock: it copies the stack as it is at one moment. The copy records the URL of its source.
    /// Nothing keeps writers from updating both stacks afterwards: their users must agree which of the two to update.
    ///
    /// # Errors
    /// `Conflict` when another stack has this name here, when a copy of this stack exists here and either one was
    /// changed since, or when the source was removed or its rename is unfinished; `Unsupported` by a store that can't
    /// receive stacks; `Corrupt` when the comparison after copying finds a difference.
    ///
    /// # Cancellation
    /// A future that is dropped leaves an unfinished copy that readers don't see: copy again to finish it.
    pub async fn copy_from(&self, source: &Stack) -> Result<CopyReport> {
        Box::pin(copy::copy_from(&self.context, source.context())).await
    }

    /// The state of a stack as a versioned document: resources, outputs, and pending operations.
    ///
    /// # Errors
    /// `NotFound` when the stack doesn't exist.
    pub async fn export_deployment(&self, name: &StackName) -> Result<UntypedDeployment> {
        let stack = self.require(name).await?;
        UntypedDeployment::of(&stack.tip().await?.snapshot())
    }

    /// Replaces the state of a stack by an exported one, as a new revision.
    ///
    /// A document that was exported from this stack, edited or not, is accepted as long as no update ended since.
    /// If `request.forced` isn't set, these documents are refused: a document with a lower serial than the current
    /// revision, a document of another lineage or without one, and a document with pending operations that aren't
    /// pending in the stack. A forced import drops such operations. A stack without a current revision accepts any
    /// lineage and serial.
    ///
    /// # Errors
    /// `NotFound` when the stack doesn't exist; `Locked` by another writer; `Conflict` when the document doesn't match
    /// the stack; `Format` and `Malformed` when the document can't be read; `Integrity` with all violations. After
    /// these errors the stack is unchanged.
    pub async fn import_deployment(
        &self,
        name: &StackName,
        deployment: &UntypedDeployment,
        request: UpdateRequest,
    ) -> Result<RevisionId> {
        let stack = Box::pin(names::require(&self.context, name)).await?;
        let snapshot = deployment.snapshot()?;
        let locked = Box::pin(lock::lock(&stack, "import", None)).await?;
        let imported = snapshots::import_exported(&locked, request, snapshot).await;
        locked.close_after(imported).await
    }

    /// As [`begin_mutation`](state_core::target::SnapshotProvider::begin_mutation), with a request of the caller's own,
    /// which describes the update in the history.
    ///
    /// # Errors
    /// `NotFound` when the stack doesn't exist; `Locked` when another writer holds it.
    pub async fn begin_mutation_for(
        &self,
        name: &StackName,
        request: UpdateRequest,
    ) -> Result<Box<dyn SnapshotMutation>> {
        let stack = self.require(name).await?;
        Ok(Box::new(WholeMutation::begin(&stack, request).await?))
    }
}

/// What a lookup by name looks for.
fn wanted(name: Option<&StackName>) -> Wanted<'_> {
    name.map_or(Wanted::Only, Wanted::Named)
}

impl Stacks {
    /// The same store with other sizes of history pages.
    #[cfg(feature = "testkit")]
    pub(crate) const fn with_page_limits(mut self, limits: PageLimits) -> Self {
        self.context.page_limits = limits;
        self
    }

    /// The same store with checkpoints of journals that have more than this number of bytes.
    #[cfg(feature = "testkit")]
    pub(crate) const fn with_checkpoint_bytes(mut self, bytes: u64) -> Self {
        self.context.checkpoint_bytes = bytes;
        self
    }

    /// The stack with this name, or the error `NotFound`.
    pub(crate) async fn require(&self, name: &StackName) -> Result<Stack> {
        Box::pin(names::require(&self.context, name)).await.map(Stack::of)
    }
}

//! The stacks of a store, by name: façade over the rooms that find, name, copy and import them.
//!
//! | methods | room |
//! |---|---|
//! | `open`, `create`, `open_with`, `create_with`, `begin_mutation_for` | [`contracts`](crate::contracts) |
//! | `get`, `list`, `names`, `trust`, `published_outputs` | [`read`](crate::read) |
//! | `new_stack`, `rename`, `remove`, `import_deployment` | [`write`](crate::write) |
//! | `lock_both`, `copy_from` | [`transfer`](crate::transfer) |
//! | `crypter` | [`keys`](crate::keys) |

use crate::context::{StackContext, StoreContext};
use crate::contracts::registry::{BackendRegistry, StoreRequest};
use crate::contracts::targets::WholeMutation;
use crate::environment::Environment;
use crate::intent::UpdateRequest;
use crate::keys::trust;
use crate::known_stacks::KnownStacks;
use crate::lock;
use crate::read::names::{self, StackSummary};
use crate::read::outputs::{self, PublishedOutputs};
use crate::read::view::View;
use crate::session::Session;
use crate::stack::Stack;
use crate::transfer::copy::{self, Copied};
use crate::transfer::settling;
use crate::write::naming::{self, Removal};
use crate::write::snapshots;
use state_core::backend::{Opening, StoreCheck};
use state_core::crypter::CrypterProvider;
use state_core::head::SealingPolicy;
use state_core::sealing::KeyProvider;
use state_core::target::SnapshotMutation;
use state_core::{Backend, Crypter, Error, Head, Result, RevisionId, StackName, UntypedDeployment};
use std::path::PathBuf;
use std::sync::Arc;

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

    /// Opens the store at a URL: `file://PATH`, where the path may be relative to the working folder, with
    /// parameters as the backend's schema has them: `file://PATH?lock-timeout=30`. A store that is far away is asked
    /// nothing before it is used: [`Stacks::ready`] looks whether it is there.
    ///
    /// # Errors
    /// `NotFound` when there is no store; `Unsupported` for a scheme that this build lacks; `Invalid` for
    /// parameters that don't fit.
    pub fn open(url: &str, environment: Environment) -> Result<Self> {
        Self::open_with(&BackendRegistry::default(), &StoreRequest::new(url), environment)
    }

    /// Opens the store at a URL, and makes it first where there is none.
    ///
    /// # Errors
    /// `Denied` or `Unavailable` when it can't be made; else as [`Stacks::open`].
    pub fn create(url: &str, environment: Environment) -> Result<Self> {
        Self::create_with(&BackendRegistry::default(), &StoreRequest::new(url), environment)
    }

    /// As [`Stacks::open`], with backends and values of your own.
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

    /// As [`Stacks::create`], with backends and values of your own.
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

    /// Seals and opens values with data keys from here, on every stack that it gives out.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<dyn KeyProvider>) -> Self {
        self.context.keys = Some(keys);
        self
    }

    /// Remembers what it sees of each stack there, and refuses one that was exchanged, forged or put back since.
    #[must_use]
    pub fn with_known_stacks(mut self, known_stacks: Arc<dyn KnownStacks>) -> Self {
        self.context.known_stacks = Some(known_stacks);
        self
    }

    /// Keeps results that came back from the world and can't be recorded, because the store went away, in files of this
    /// folder: on every stack that it gives out. See [`Spooled`](crate::Spooled).
    #[must_use]
    pub fn with_spool(mut self, folder: impl Into<PathBuf>) -> Self {
        self.context.spool = Some(folder.into().into());
        self
    }

    /// Works from now on as the holder of the client lock with this id, on every stack that it gives out: see
    /// [`Stack::with_client_lock`].
    #[must_use]
    pub fn with_client_lock(mut self, id: impl Into<String>) -> Self {
        self.context.client_lock = Some(id.into().into());
        self
    }

    /// The same, with what gives each stack its crypter.
    #[must_use]
    pub fn with_crypters(mut self, provider: Arc<dyn CrypterProvider>) -> Self {
        self.context.crypters = Some(provider);
        self
    }

    /// The store's URL.
    pub fn url(&self) -> String {
        self.context.backend.url()
    }

    /// Asks a store that is far away whether it is there, and makes it if it was opened so. True if it was made just
    /// now. One that is near has done all that when it was opened.
    ///
    /// # Errors
    /// As [`RemoteStore::ready`](state_core::backend::RemoteStore::ready).
    pub async fn ready(&self) -> Result<bool> {
        match self.context.backend.extensions().remote {
            Some(store) => store.ready().await,
            None => Ok(false),
        }
    }

    /// Tries on the live store whether it keeps the promises that everything here rests on.
    ///
    /// # Errors
    /// `Unsupported` by a store that can't be tested; as
    /// [`CheckableStore::examine`](state_core::backend::CheckableStore::examine).
    pub async fn examine(&self) -> Result<StoreCheck> {
        self.context.backend.checkable()?.examine().await
    }

    /// Forgets the credentials that the store keeps for its user. Files keep none.
    ///
    /// # Errors
    /// What the store says.
    pub async fn logout(&self) -> Result<()> {
        match self.context.backend.extensions().credentials {
            Some(store) => store.logout().await,
            None => Ok(()),
        }
    }

    /// The names of all stacks, sorted: cheaper than [`Stacks::list`], for it reads no state.
    ///
    /// # Errors
    /// `Corrupt` when a pointer or a head is damaged.
    pub async fn names(&self) -> Result<Vec<StackName>> {
        names::names(&self.context).await
    }

    /// All stacks, sorted by name.
    ///
    /// # Errors
    /// `Corrupt` when one of them is damaged: the error names it.
    pub async fn list(&self) -> Result<Vec<StackSummary>> {
        names::summaries(&self.context).await
    }

    /// The stack with this name; none if there is none.
    ///
    /// # Errors
    /// `Corrupt` when its name pointer or its head is damaged; `Distrusted` when the name led to another, sealed one
    /// before.
    pub async fn get(&self, name: &StackName) -> Result<Option<Stack>> {
        Ok(names::find(&self.context, name).await?.map(Stack::of))
    }

    /// The head of the stack with this name, whether this client takes it for true or not.
    ///
    /// # Errors
    /// `Corrupt` when its name pointer or its head is damaged.
    pub async fn bound_head(&self, name: &StackName) -> Result<Option<Head>> {
        names::bound_head(&self.context, name).await
    }

    /// Forgets what this client saw of the stack with this name, and takes for true what is there now.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack, and what its reading says.
    pub async fn trust(&self, name: &StackName) -> Result<View> {
        names::trust(&self.context, name).await
    }

    /// The latest outputs that a stack published for those who may read nothing else; none when it published none. Reads
    /// the name and the document, and nothing of the stack itself.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Sealed` when no identity at hand opens the document; `Distrusted` when it
    /// is under another key than the one before, or older.
    pub async fn published_outputs(&self, name: &StackName) -> Result<Option<PublishedOutputs>> {
        outputs::published_outputs(&self.context, name).await
    }

    /// What seals and opens a stack's secrets: from the provider that was given, else with the stack's own data key.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Sealed` when it has no data key, or no identity at hand opens it.
    pub async fn crypter(&self, name: &StackName) -> Result<Arc<dyn Crypter>> {
        let stack = self.require(name).await?;
        match self.configured_crypter(&stack)? {
            Some(crypter) => Ok(crypter),
            None => trust::crypter(stack.context()).await,
        }
    }

    /// Makes an empty stack, whose sensitive values are sealed. Its key is made by the first session that has
    /// [keys](Self::with_keys) to make it from; until then a sensitive value is refused.
    ///
    /// # Errors
    /// `Conflict` when a stack has this name, in whatever case.
    pub async fn new_stack(&self, name: &StackName) -> Result<Stack> {
        self.new_stack_with(name, SealingPolicy::Sensitive).await
    }

    /// Makes an empty stack with a policy.
    ///
    /// # Errors
    /// As [`Stacks::new_stack`].
    pub async fn new_stack_with(&self, name: &StackName, policy: SealingPolicy) -> Result<Stack> {
        let created = naming::create(&self.context, name, policy).await;
        created.map(Stack::of)
    }

    /// Gives a stack another name. A crash in between leaves it under exactly one of the two.
    ///
    /// # Errors
    /// `NotFound`, `Locked`, or `Conflict` when the new name is taken.
    pub async fn rename(&self, from: &StackName, to: &StackName) -> Result<()> {
        let stack = names::require(&self.context, from).await?;
        let locked = lock::lock(&stack, "stack rename", None).await?;
        naming::rename(&self.context, locked, to).await
    }

    /// As [`Stacks::rename`], for who holds the stack's lock. It is free afterwards.
    ///
    /// # Errors
    /// `Conflict` when the new name is taken.
    pub async fn rename_held(&self, session: Session, to: &StackName) -> Result<()> {
        naming::rename(&self.context, session.into_locked(), to).await
    }

    /// Removes a stack. Its data stays until collection, but nobody can write to it again, not even a writer
    /// that was paused meanwhile.
    ///
    /// # Errors
    /// `NotFound`, or `Locked` by another writer; `Conflict` while a move from it waits at another stack, unless forced.
    pub async fn remove(&self, name: &StackName, force: bool) -> Result<Removal> {
        let stack = names::require(&self.context, name).await?;
        let locked = lock::lock(&stack, "stack rm", None).await?;
        naming::remove(&self.context, locked, force).await
    }

    /// As [`Stacks::remove`], for who holds the stack's lock. It is free afterwards.
    ///
    /// # Errors
    /// What the store says.
    pub async fn remove_held(&self, session: Session, force: bool) -> Result<Removal> {
        naming::remove(&self.context, session.into_locked(), force).await
    }

    /// Locks two stacks with `lock`, in the order of their names: so that two who want the same two can't wait for each
    /// other. Moves between them that were cut short are settled. The sessions come back in the order of the arguments.
    ///
    /// # Errors
    /// `Conflict` when it is one stack; whatever `lock` says. Then none of the two is held.
    ///
    /// # Cancellation
    /// A future that is dropped frees what it held.
    pub async fn lock_both<E: From<Error>>(
        one: &Stack,
        other: &Stack,
        lock: impl AsyncFn(&Stack) -> Result<Session, E>,
    ) -> Result<(Session, Session), E> {
        let lock = async |stack: &StackContext| {
            let session = lock(&Stack::of(stack.clone())).await;
            session.map(Session::into_locked)
        };
        let (one, other) = settling::lock_both(one.context(), other.context(), lock).await?;
        Ok((Session::of(one), Session::of(other)))
    }

    /// Copies a stack of another store to this one: its journal, its revisions, its keys, under the same name and with
    /// the same lineage. Takes no lock: it copies what the stack is at one moment. The copy tells where it came from;
    /// which of the two goes on from here is for people to agree.
    ///
    /// # Errors
    /// `Conflict` when another stack has the name here, when this one is here already and either has gone on
    /// since, or when it is in the middle of a rename; `Unsupported` by a store that takes in no stacks; `Corrupt` when the two don't
    /// compare afterwards.
    ///
    /// # Cancellation
    /// A future that is dropped leaves a copy that isn't there yet: make it again.
    pub async fn copy_from(&self, source: &Stack) -> Result<Copied> {
        copy::copy_from(&self.context, source.context()).await
    }

    /// A stack's state as a versioned document: entries, outputs, and what is pending.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack.
    pub async fn export_deployment(&self, name: &StackName) -> Result<UntypedDeployment> {
        let stack = self.require(name).await?;
        UntypedDeployment::of(&stack.tip().await?.snapshot())
    }

    /// Replaces a stack's state by an exported one, as a new revision.
    ///
    /// One that was exported from this stack, and edited or not, fits as long as nothing was committed since.
    /// Everything else needs `request.forced`: an older one, one of another lineage or of none, and one with pending
    /// operations that the stack doesn't know, for they would be forgotten.
    ///
    /// # Errors
    /// `NotFound`; `Locked`; `Conflict` when it doesn't fit; `Format` and `Malformed` when it can't be read;
    /// `Integrity` with all violations. Then nothing was written.
    pub async fn import_deployment(
        &self,
        name: &StackName,
        deployment: &UntypedDeployment,
        request: UpdateRequest,
    ) -> Result<RevisionId> {
        let stack = names::require(&self.context, name).await?;
        let snapshot = deployment.snapshot()?;
        let locked = lock::lock(&stack, "import", None).await?;
        let imported = snapshots::import_exported(&locked, request, snapshot).await;
        locked.close_after(imported).await
    }

    /// As [`begin_mutation`](state_core::target::SnapshotProvider::begin_mutation), with what history is told of it.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Locked` when another works on it.
    pub async fn begin_mutation_for(
        &self,
        name: &StackName,
        request: UpdateRequest,
    ) -> Result<Box<dyn SnapshotMutation>> {
        let stack = self.require(name).await?;
        Ok(Box::new(WholeMutation::begin(&stack, request).await?))
    }
}

impl Stacks {
    /// The stack with this name.
    pub(crate) async fn require(&self, name: &StackName) -> Result<Stack> {
        names::require(&self.context, name).await.map(Stack::of)
    }

    /// The crypter of [`Stacks::with_crypters`] for a stack, if there is one.
    pub(crate) fn configured_crypter(&self, stack: &Stack) -> Result<Option<Arc<dyn Crypter>>> {
        let crypters = self.context.crypters.as_ref();
        let crypter = crypters.map(|provider| provider.crypter(stack.name(), stack.lineage()));
        crypter.transpose()
    }
}

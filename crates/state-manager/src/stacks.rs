//! The stacks of a store, by name.

use crate::client_lock;
use crate::environment::Environment;
use crate::keys::Keyring;
use crate::recovery;
use crate::session::Session;
use crate::stack::{Stack, View};
use crate::witness::{self, Witness};
use state_core::backend::{ClientLock, Examination, Holder, LockStatus, NamePointer, NameTarget};
use state_core::crypter::CrypterProvider;
use state_core::head::{Moving, Policy};
use state_core::sealing::KeyProvider;
use state_core::{
    Backend, Error, Head, Invalidation, Lineage, Nonce, Result, RevisionId, StackName, Timestamp,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store of stacks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stacks {
    backend: Arc<dyn Backend>,
    environment: Environment,
    client_lock: Option<String>,
    keys: Option<Arc<dyn KeyProvider>>,
    witness: Option<Arc<dyn Witness>>,
    spool: Option<Arc<Path>>,
    pub(crate) crypters: Option<Arc<dyn CrypterProvider>>,
}

/// What a list of stacks says about one of them.
#[derive(Clone, Debug)]
pub struct StackSummary {
    /// Its name.
    pub name: StackName,
    /// Its identity.
    pub lineage: Lineage,
    /// How many entries it has.
    pub entries: usize,
    /// Its current revision; none when nothing was committed.
    pub current: Option<RevisionId>,
    /// When it was last changed.
    pub updated: Option<Timestamp>,
    /// Who holds its writer lock.
    pub holder: Option<Holder>,
    /// A lock that somebody holds across processes, as long as it holds.
    pub client_lock: Option<ClientLock>,
    /// Whether an update is open.
    pub update_open: bool,
    /// How many operations, and moves of entries to it, are pending.
    pub pending: usize,
    /// Whether the state is known to say what the world is.
    pub reliable: bool,
    /// Since when it isn't as a whole, whatever is pending.
    pub invalidated: Option<Invalidation>,
}

/// What became of a request to remove a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// It still has entries, and nobody forced it: nothing happened.
    HasResources {
        /// How many.
        count: usize,
    },
}

impl Stacks {
    /// The stacks of a backend.
    pub fn new(backend: Arc<dyn Backend>, environment: Environment) -> Self {
        Self {
            backend,
            environment,
            client_lock: None,
            keys: None,
            witness: None,
            spool: None,
            crypters: None,
        }
    }

    /// Seals and opens values with data keys from here, on every stack that it gives out.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<dyn KeyProvider>) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Remembers what it sees of each stack there, and refuses one that was exchanged, forged or put back since.
    #[must_use]
    pub fn with_witness(mut self, witness: Arc<dyn Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Keeps results that came back from the world and can't be recorded, because the store went away, in files of this
    /// folder: on every stack that it gives out. See [`Spooled`](crate::Spooled).
    #[must_use]
    pub fn with_spool(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spool = Some(folder.into().into());
        self
    }

    /// Works from now on as the holder of the client lock with this id, on every stack that it gives out: see
    /// [`Stack::with_client_lock`].
    #[must_use]
    pub fn with_client_lock(mut self, id: impl Into<String>) -> Self {
        self.client_lock = Some(id.into());
        self
    }

    /// Asks a store that is far away whether it is there, and makes it if it was opened so. True if it was made just
    /// now. One that is near has done all that when it was opened.
    ///
    /// # Errors
    /// As [`RemoteStore::ready`](state_core::backend::RemoteStore::ready).
    pub async fn ready(&self) -> Result<bool> {
        match self.backend.extensions().remote {
            Some(store) => store.ready().await,
            None => Ok(false),
        }
    }

    /// The store's URL.
    pub fn url(&self) -> String {
        self.backend.url()
    }

    /// Tries on the live store whether it keeps the promises that everything here rests on.
    ///
    /// # Errors
    /// `Unsupported` by a store that can't be tested; as
    /// [`CheckableStore::examine`](state_core::backend::CheckableStore::examine).
    pub async fn examine(&self) -> Result<Examination> {
        self.backend.checkable()?.examine().await
    }

    /// Makes an empty stack, whose sensitive values are sealed. Its key is made by the first session that has
    /// [keys](Self::with_keys) to make it from; until then a sensitive value is refused.
    ///
    /// # Errors
    /// `Conflict` when a stack has this name, in whatever case.
    pub async fn new_stack(&self, name: &StackName) -> Result<Stack> {
        self.new_stack_with(name, Policy::Sensitive).await
    }

    /// Makes an empty stack with a policy.
    ///
    /// # Errors
    /// As [`Stacks::new_stack`].
    pub async fn new_stack_with(&self, name: &StackName, policy: Policy) -> Result<Stack> {
        let known = self.backend.read_name(name).await?;
        if let Some(pointer) = &known
            && self.bound(pointer).await?.is_some()
        {
            return Err(taken(&pointer.name));
        }
        let entropy = &*self.environment.entropy;
        let lineage = Lineage::random(entropy);
        let mut head = Head::new(lineage, name.clone(), Nonce::random(entropy));
        head.policy = policy;
        self.backend.create_stack(&head).await?;
        let pointer = NamePointer {
            name: name.clone(),
            target: NameTarget::Lineage(lineage),
            nonce: Nonce::random(entropy),
        };
        self.backend
            .swap_name(name, known.map(|pointer| pointer.nonce), &pointer)
            .await?;
        self.remember_name(name, Some(lineage)).await;
        Ok(self.stack(name.clone(), lineage))
    }

    /// The stack with this name; none if there is none.
    ///
    /// # Errors
    /// `Corrupt` when its name pointer or its head is damaged; `Distrusted` when the name led to another, sealed one
    /// before.
    pub async fn get(&self, name: &StackName) -> Result<Option<Stack>> {
        let Some(head) = self.bound_head(name).await? else {
            return Ok(None);
        };
        if let Some(witness) = &self.witness {
            witness::require_name(&**witness, name, head.lineage).await?;
        }
        Ok(Some(self.stack(head.name, head.lineage)))
    }

    /// The head of the stack with this name, whether this client takes it for true or not.
    ///
    /// # Errors
    /// `Corrupt` when its name pointer or its head is damaged.
    pub async fn bound_head(&self, name: &StackName) -> Result<Option<Head>> {
        match self.backend.read_name(name).await? {
            Some(pointer) => self.bound(&pointer).await,
            None => Ok(None),
        }
    }

    /// Forgets what this client saw of the stack with this name, and takes for true what is there now.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack, and what its reading says.
    pub async fn trust(&self, name: &StackName) -> Result<View> {
        self.remember_name(name, None).await;
        let stack = self.require(name).await?;
        if let Some(witness) = &self.witness {
            witness.remember(stack.lineage(), None).await;
        }
        stack.tip().await
    }

    async fn remember_name(&self, name: &StackName, lineage: Option<Lineage>) {
        if let Some(witness) = &self.witness {
            witness.remember_name(name, lineage).await;
        }
    }

    /// All stacks, sorted by name.
    ///
    /// # Errors
    /// `Corrupt` when one of them is damaged: the error names it.
    pub async fn list(&self) -> Result<Vec<StackSummary>> {
        let mut summaries = Vec::new();
        for pointer in self.backend.names().await? {
            if let Some(head) = self.bound(&pointer).await?
                && head.name.folded() == pointer.name.folded()
            {
                summaries.push(self.summary(head).await?);
            }
        }
        Ok(summaries)
    }

    /// The names of all stacks, sorted: cheaper than [`Stacks::list`], for it reads no state.
    ///
    /// # Errors
    /// `Corrupt` when a pointer or a head is damaged.
    pub async fn names(&self) -> Result<Vec<StackName>> {
        let mut names = Vec::new();
        for pointer in self.backend.names().await? {
            if let Some(head) = self.bound(&pointer).await?
                && head.name.folded() == pointer.name.folded()
            {
                names.push(head.name);
            }
        }
        Ok(names)
    }

    /// Removes a stack. Its data stays until collection, but nobody can write to it again, not even a writer
    /// that was paused meanwhile.
    ///
    /// # Errors
    /// `NotFound`, or `Locked` by another writer; `Conflict` while a move from it waits at another stack, unless forced.
    pub async fn remove(&self, name: &StackName, force: bool) -> Result<Removal> {
        let session = self.require(name).await?.lock("stack rm").await?;
        self.remove_held(session, force).await
    }

    /// As [`Stacks::remove`], for who holds the stack's lock. It is free afterwards.
    ///
    /// # Errors
    /// What the store says.
    pub async fn remove_held(&self, session: Session, force: bool) -> Result<Removal> {
        let stack = session.stack().clone();
        let name = stack.name();
        let state = session.state();
        let awaited: usize = state.incoming().map(|incoming| incoming.entries.len()).sum();
        // Nobody knows whether what was to be made is there: only the record tells that somebody has to look.
        let unseen = state
            .pending()
            .filter(|pending| state.entry(&pending.target).is_none());
        let count = state.len() + awaited + unseen.count();
        if count > 0 && !force {
            session.close().await?;
            return Ok(Removal::HasResources { count });
        }
        if let Some(leaving) = state.departed().next().filter(|_| !force) {
            let reason = format!(
                "move {} to {} isn't settled, and only this stack knows of it",
                leaving.id, leaving.to
            );
            session.close().await?;
            return Err(Error::conflict(format!("stack {}", name.short()), reason));
        }
        let entropy = &*self.environment.entropy;
        session.writer().remove(Nonce::random(entropy)).await?;
        let pointer = self.backend.read_name(name).await?;
        if pointer
            .as_ref()
            .is_some_and(|pointer| pointer.lineage() == Some(stack.lineage()))
        {
            let tombstone = NamePointer {
                name: name.clone(),
                target: NameTarget::Removed,
                nonce: Nonce::random(entropy),
            };
            self.backend
                .swap_name(name, pointer.map(|pointer| pointer.nonce), &tombstone)
                .await?;
        }
        self.remember_name(name, None).await;
        Ok(Removal::Removed)
    }

    /// Gives a stack another name. A crash in between leaves it under exactly one of the two.
    ///
    /// # Errors
    /// `NotFound`, `Locked`, or `Conflict` when the new name is taken.
    pub async fn rename(&self, from: &StackName, to: &StackName) -> Result<()> {
        let session = self.require(from).await?.lock("stack rename").await?;
        self.rename_held(session, to).await
    }

    /// As [`Stacks::rename`], for who holds the stack's lock. It is free afterwards.
    ///
    /// # Errors
    /// `Conflict` when the new name is taken.
    pub async fn rename_held(&self, session: Session, to: &StackName) -> Result<()> {
        let stack = session.stack();
        let renamed = self
            .rename_locked(stack, session.writer(), stack.name(), to)
            .await;
        let closed = session.close().await;
        renamed.and(closed)
    }

    async fn rename_locked(
        &self,
        stack: &Stack,
        writer: &dyn state_core::Writer,
        from: &StackName,
        to: &StackName,
    ) -> Result<()> {
        let entropy = &*self.environment.entropy;
        let known = self.backend.read_name(to).await?;
        if let Some(pointer) = &known
            && let Some(head) = self.bound(pointer).await?
            && head.lineage != stack.lineage()
        {
            return Err(taken(&head.name));
        }
        let moving = Moving {
            name: to.clone(),
            nonce: Nonce::random(entropy),
        };
        writer
            .swap_head(Nonce::random(entropy), &|head| {
                head.moving_to = Some(moving.clone());
            })
            .await?;
        let pointer = NamePointer {
            name: to.clone(),
            target: NameTarget::Lineage(stack.lineage()),
            nonce: moving.nonce,
        };
        let swapped = self
            .backend
            .swap_name(to, known.map(|pointer| pointer.nonce), &pointer)
            .await;
        if let Err(error) = swapped {
            if matches!(error, Error::Conflict { .. }) {
                writer
                    .swap_head(Nonce::random(entropy), &|head| head.moving_to = None)
                    .await?;
            }
            return Err(error);
        }
        recovery::commit_rename(stack, writer, from, to).await?;
        self.remember_name(from, None).await;
        self.remember_name(to, Some(stack.lineage())).await;
        Ok(())
    }

    pub(crate) fn keys(&self) -> Option<&dyn KeyProvider> {
        self.keys.as_deref()
    }

    pub(crate) fn witness(&self) -> Option<&dyn Witness> {
        self.witness.as_deref()
    }

    pub(crate) const fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub(crate) async fn require(&self, name: &StackName) -> Result<Stack> {
        self.get(name)
            .await?
            .ok_or_else(|| Error::not_found(format!("stack {}", name.short())))
    }

    fn stack(&self, name: StackName, lineage: Lineage) -> Stack {
        let mut stack = Stack::new(Arc::clone(&self.backend), self.environment.clone(), name, lineage);
        stack.set_client_lock_id(self.client_lock.clone());
        stack.set_keyring(Keyring::new(self.keys.clone()));
        stack.set_witness(self.witness.clone());
        stack.set_spool(self.spool.clone());
        stack
    }

    /// The head that a pointer binds to: alive, and naming the pointer's name itself.
    async fn bound(&self, pointer: &NamePointer) -> Result<Option<Head>> {
        let Some(lineage) = pointer.lineage() else {
            return Ok(None);
        };
        let head = self
            .backend
            .read_head(lineage)
            .await
            .map_err(|error| match error {
                // A pointer is written after the head that it points to.
                Error::NotFound { object } => {
                    Error::corrupt(object, 0, "a name points to it, and it has no head")
                }
                other => other,
            })?;
        let goes_by_it = head.name.folded() == pointer.name.folded();
        let moves_to_it = head
            .moving_to
            .as_ref()
            .is_some_and(|moving| moving.nonce == pointer.nonce);
        Ok(Some(head).filter(|head| !head.removed && (goes_by_it || moves_to_it)))
    }

    async fn summary(&self, head: Head) -> Result<StackSummary> {
        let stack = self.stack(head.name, head.lineage);
        let tip = stack.tip().await?;
        let now = self.environment.clock.now();
        let LockStatus {
            holder, client_lock, ..
        } = stack.lock_status().await?;
        Ok(StackSummary {
            name: stack.name().clone(),
            lineage: stack.lineage(),
            entries: tip.state.len(),
            current: tip.state.current().cloned(),
            updated: tip.moment().cloned(),
            holder,
            client_lock: client_lock.filter(|lock| client_lock::holds(lock, &now)),
            update_open: tip.update_open(),
            pending: tip.state.pending().count() + tip.state.incoming().count(),
            reliable: tip.is_reliable(),
            invalidated: tip.state.invalidated().cloned(),
        })
    }
}

fn taken(name: &StackName) -> Error {
    Error::conflict(
        format!("stack {}", name.short()),
        "a stack with this name exists already",
    )
}

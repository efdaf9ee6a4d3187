//! The parameters that every function on a stack needs: the backend, the stack's identity, the environment, keys and
//! known stacks. Functions of inner modules take a context as an argument; the façades ([`Stacks`](crate::Stacks),
//! [`Stack`](crate::Stack)) wrap one.

use crate::environment::Environment;
use crate::expectations::Expectations;
use crate::known_stacks::KnownStacks;
use crate::objects::history_page::PageLimits;
use crate::objects::in_use::ObjectsInUse;
use crate::standing::OpeningObserver;
use state_core::crypter::CrypterProvider;
use state_core::sealing::{KeyProvider, StackKey};
use state_core::{Backend, Error, Head, KeyId, Lineage, Nonce, Result, StackName, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The default of [`StoreContext::checkpoint_bytes`]. Tests set less.
const CHECKPOINT_BYTES: u64 = 1 << 20;

/// A store as this client uses it: the backend and the settings with which all of its stacks are opened.
#[derive(Clone, Debug)]
pub(crate) struct StoreContext {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) environment: Environment,
    /// Id of a client lock that this client holds: the default for each stack that is opened from this context.
    pub(crate) client_lock: Option<Arc<str>>,
    /// Provider of the stacks' data keys. Without one, sealed values stay sealed.
    keys: Option<Arc<dyn KeyProvider>>,
    /// Memory of the stacks that this client has seen. Without one, this client doesn't detect that a stack was rolled
    /// back or replaced by another.
    pub(crate) known_stacks: Option<Arc<dyn KnownStacks>>,
    /// Folder for provider results that can't be recorded. Without one, they aren't saved.
    pub(crate) spool: Option<Arc<Path>>,
    /// Provider of crypters. Without one, a stack's crypter uses its data key.
    pub(crate) crypters: Option<Arc<dyn CrypterProvider>>,
    pub(crate) expectations: Arc<Expectations>,
    /// Whether expectations were removed, for a list that shows other stacks too.
    lists_unexpected: bool,
    /// Receives the [`Standing`](crate::standing::Standing) of each stack that is opened.
    pub(crate) observer: Option<Arc<dyn OpeningObserver>>,
    pub(crate) page_limits: PageLimits,
    /// The size of the frames since the last checkpoint from which the next one can be due.
    pub(crate) checkpoint_bytes: u64,
    /// How long an operation that takes the writer lock itself, such as a change of the data key, waits while another
    /// writer holds the lock. Without a timeout, the operation fails at once.
    pub(crate) lock_timeout: Option<Duration>,
    /// The keyrings of the stacks. Clones share them, so what one attempt to open a stack learned about its keys binds all
    /// later ones: an attacker may answer each attempt differently.
    keyrings: Arc<Mutex<BTreeMap<Lineage, Keyring>>>,
    pub(crate) in_use: ObjectsInUse,
}

impl StoreContext {
    pub(crate) fn new(backend: Arc<dyn Backend>, environment: Environment) -> Self {
        Self {
            backend,
            environment,
            client_lock: None,
            keys: None,
            known_stacks: None,
            spool: None,
            crypters: None,
            expectations: Arc::default(),
            lists_unexpected: false,
            observer: None,
            page_limits: PageLimits::default(),
            checkpoint_bytes: CHECKPOINT_BYTES,
            lock_timeout: None,
            keyrings: Arc::default(),
            in_use: ObjectsInUse::default(),
        }
    }

    /// Replaces the provider of data keys. The keys that the former provider opened are forgotten.
    pub(crate) fn set_keys(&mut self, keys: Arc<dyn KeyProvider>) {
        self.keys = Some(keys);
        self.keyrings = Arc::default();
    }

    /// The same store as a client without memory uses it: it knows no stack and no key, and remembers what it reads in
    /// `memory`.
    pub(crate) fn afresh(&self, memory: Arc<dyn KnownStacks>) -> Self {
        Self {
            known_stacks: Some(memory),
            keyrings: Arc::default(),
            in_use: ObjectsInUse::default(),
            ..self.clone()
        }
    }

    /// The same store without expectations, for a list: they apply to one stack.
    pub(crate) fn listing(&self) -> Self {
        Self {
            expectations: Arc::default(),
            lists_unexpected: !self.expectations.is_default(),
            ..self.clone()
        }
    }

    fn keyring(&self, lineage: Lineage) -> Keyring {
        let mut keyrings = self.keyrings.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Keyring::new(self.keys.clone());
        keyrings.entry(lineage).or_insert_with(new).clone()
    }

    /// The stacks whose data key this client opened.
    pub(crate) fn opened_stacks(&self) -> Vec<Lineage> {
        let keyrings = self.keyrings.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = keyrings.iter().filter(|(_, keyring)| keyring.has_named());
        opened.map(|(lineage, _)| *lineage).collect()
    }

    /// The data key of a stack that a head named last, and that this client opened.
    pub(crate) fn opened_key(&self, lineage: Lineage) -> Option<KeyId> {
        let keyrings = self.keyrings.lock().unwrap_or_else(PoisonError::into_inner);
        keyrings.get(&lineage).and_then(|keyring| *keyring.named())
    }

    /// The context of one of the store's stacks.
    pub(crate) fn stack(&self, name: StackName, lineage: Lineage) -> StackContext {
        StackContext {
            keyring: self.keyring(lineage),
            client_lock: self.client_lock.clone(),
            expectations: Arc::clone(&self.expectations),
            store: Arc::new(self.clone()),
            name,
            lineage,
            new_name: Arc::default(),
        }
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub(crate) fn known_stacks(&self) -> Option<&dyn KnownStacks> {
        self.known_stacks.as_deref()
    }

    /// Provider of the stacks' data keys; none if this client has no identity.
    pub(crate) fn keys(&self) -> Option<&dyn KeyProvider> {
        self.keys.as_deref()
    }

    pub(crate) fn nonce(&self) -> Nonce {
        Nonce::random(&*self.environment.entropy)
    }

    /// Remembers the stack that has a name. `before` is the stack that this client remembered under the name when it
    /// compared the name with the store.
    ///
    /// # Errors
    /// `Conflict` if another process of this client has remembered another stack under the name since.
    pub(crate) async fn remember_name(
        &self,
        name: &StackName,
        before: Option<Lineage>,
        now: Lineage,
    ) -> Result<()> {
        let Some(known_stacks) = self.known_stacks() else {
            return Ok(());
        };
        if before == Some(now) || known_stacks.replace_name(name, before, Some(now)).await {
            return Ok(());
        }
        if known_stacks.named(name).await? == Some(now) {
            return Ok(());
        }
        let reason =
            "another process of this client remembered another stack under this name meanwhile; try again";
        Err(Error::conflict(format!("stack {}", name.short()), reason))
    }

    /// Forgets that the stack has a name. Returns false if another process of this client remembers another stack under
    /// the name by now: that one stays.
    pub(crate) async fn forget_name(&self, name: &StackName, lineage: Lineage) -> bool {
        match self.known_stacks() {
            Some(known_stacks) => known_stacks.replace_name(name, Some(lineage), None).await,
            None => true,
        }
    }
}

/// A name under which this client must still remember a stack.
#[derive(Clone, Debug)]
struct NewName {
    name: StackName,
    /// The stack that this client remembered under the name when the name was checked.
    before: Option<Lineage>,
}

/// One stack as this client uses it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StackContext {
    store: Arc<StoreContext>,
    name: StackName,
    lineage: Lineage,
    client_lock: Option<Arc<str>>,
    expectations: Arc<Expectations>,
    keyring: Keyring,
    /// The name that this client must still remember for this stack. During a rename it differs from `name`.
    new_name: Arc<Mutex<Option<NewName>>>,
}

impl StackContext {
    /// Name by which the stack was found.
    pub(crate) const fn name(&self) -> &StackName {
        &self.name
    }

    pub(crate) const fn lineage(&self) -> Lineage {
        self.lineage
    }

    pub(crate) fn store(&self) -> &StoreContext {
        &self.store
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        self.store.backend()
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.store.environment
    }

    pub(crate) const fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    pub(crate) fn known_stacks(&self) -> Option<&dyn KnownStacks> {
        self.store.known_stacks()
    }

    pub(crate) fn observer(&self) -> Option<&dyn OpeningObserver> {
        self.store.observer.as_deref()
    }

    /// Folder for provider results that can't be recorded; none if none is configured.
    pub(crate) fn spool(&self) -> Option<Arc<Path>> {
        self.store.spool.clone()
    }

    /// Id of the client lock that this client holds; none if it holds none.
    pub(crate) fn client_lock_id(&self) -> Option<&str> {
        self.client_lock.as_deref()
    }

    pub(crate) fn set_client_lock_id(&mut self, id: Option<String>) {
        self.client_lock = id.map(Arc::from);
    }

    /// Name of the stack as error messages print it.
    pub(crate) fn object(&self) -> String {
        format!("stack {}", self.name.short())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.store.environment.clock.now()
    }

    pub(crate) fn nonce(&self) -> Nonce {
        self.store.nonce()
    }

    /// Lets this client remember the stack under this name as soon as the stack is opened and accepted. It is the name
    /// that was looked up and checked: the head may spell another one, whose memory must stay as it is. `before` is the
    /// stack that this client remembers under the name.
    pub(crate) fn note_new_name(&self, name: StackName, before: Option<Lineage>) {
        *self.new_name() = Some(NewName { name, before });
    }

    /// Remembers the stack under the name that was noted, if this client doesn't yet.
    ///
    /// # Errors
    /// As [`StoreContext::remember_name`].
    pub(crate) async fn remember_new_name(&self) -> Result<()> {
        let Some(NewName { name, before }) = self.new_name().clone() else {
            return Ok(());
        };
        // The note stays until the name is remembered: a caller that reads again after a conflict gets the conflict again.
        self.store.remember_name(&name, before, self.lineage).await?;
        *self.new_name() = None;
        Ok(())
    }

    fn new_name(&self) -> MutexGuard<'_, Option<NewName>> {
        self.new_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller's expectations of this stack.
    pub(crate) fn expectations(&self) -> &Expectations {
        &self.expectations
    }

    /// Whether a key of the stack counts as opened by this client. If the caller expects a key, only keys that were
    /// compared with it count.
    pub(crate) fn notes_keys(&self) -> bool {
        let is_exempt = self.expectations.is_default() && !self.store.expectations.is_default();
        !is_exempt && !self.store.lists_unexpected
    }

    /// The same stack for a caller that must read every object from the store.
    pub(crate) fn reading_anew(&self) -> Self {
        let store = StoreContext {
            in_use: ObjectsInUse::default(),
            ..StoreContext::clone(&self.store)
        };
        Self {
            store: Arc::new(store),
            ..self.clone()
        }
    }

    /// The same stack without expectations: these apply only to stacks that the caller named.
    pub(crate) fn without_expectations(mut self) -> Self {
        self.expectations = Arc::default();
        self
    }

    /// Another stack of the same store, without this stack's client lock and expectations.
    pub(crate) fn sibling(&self, name: StackName, lineage: Lineage) -> Self {
        let mut sibling = self.store.stack(name, lineage).without_expectations();
        // A client lock belongs to one stack. With the id of this stack's lock, `client_lock::gate` would report that
        // the lock of the other stack was lost.
        sibling.client_lock = None;
        sibling
    }
}

/// The provider of a stack's data keys, and the keys that were already unwrapped. Clones share these keys.
#[derive(Clone, Debug)]
pub(crate) struct Keyring {
    provider: Option<Arc<dyn KeyProvider>>,
    opened: Arc<Mutex<BTreeMap<KeyId, Arc<dyn StackKey>>>>,
    /// The data keys with which this client replaced the stack's key. [`Expectations`] accept them like the key that
    /// they replaced.
    made: Arc<Mutex<BTreeSet<KeyId>>>,
    /// The last data key that a head named, and that this client opened.
    named: Arc<Mutex<Option<KeyId>>>,
    /// The data keys that an authenticated head of the stack listed as replaced.
    replaced: Arc<Mutex<BTreeSet<KeyId>>>,
}

impl Keyring {
    fn new(provider: Option<Arc<dyn KeyProvider>>) -> Self {
        Self {
            provider,
            opened: Arc::default(),
            made: Arc::default(),
            named: Arc::default(),
            replaced: Arc::default(),
        }
    }

    /// Notes that a head named this data key, and that this client opened it.
    pub(crate) fn note_named(&self, id: KeyId) {
        *self.named() = Some(id);
    }

    /// Notes the keys that an authenticated head lists as replaced.
    pub(crate) fn note_replaced(&self, head: &Head) {
        let succession = head.keys.iter().flat_map(|keys| &keys.succession);
        self.replaced().extend(succession.map(|link| link.old));
    }

    /// Whether this client authenticated a head that lists the key as replaced. A replaced key is never used again, and
    /// former recipients still have it, so a head that names it is then refused as replayed or forged.
    pub(crate) fn has_seen_replaced(&self, id: KeyId) -> bool {
        self.replaced().contains(&id)
    }

    fn replaced(&self) -> MutexGuard<'_, BTreeSet<KeyId>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a head of the stack named a data key that this client opened, even if its tag was wrong. A sealed stack never
    /// becomes plain again, so a head that names no key is then refused as forged.
    pub(crate) fn has_named(&self) -> bool {
        self.named().is_some()
    }

    fn named(&self) -> MutexGuard<'_, Option<KeyId>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn provider(&self) -> Option<&dyn KeyProvider> {
        self.provider.as_deref()
    }

    /// A data key that was already unwrapped; none if it wasn't.
    pub(crate) fn known(&self, id: KeyId) -> Option<Arc<dyn StackKey>> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.get(&id).cloned()
    }

    /// Remembers an unwrapped data key.
    pub(crate) fn keep(&self, key: &Arc<dyn StackKey>) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.insert(key.id(), Arc::clone(key));
    }

    /// Remembers a data key with which this client replaced the stack's key.
    pub(crate) fn keep_made(&self, key: &Arc<dyn StackKey>) {
        self.keep(key);
        self.made().insert(key.id());
    }

    /// Whether this client replaced the stack's key with this one.
    pub(crate) fn has_made(&self, id: KeyId) -> bool {
        self.made().contains(&id)
    }

    fn made(&self) -> MutexGuard<'_, BTreeSet<KeyId>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

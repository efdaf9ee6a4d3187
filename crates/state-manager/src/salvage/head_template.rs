//! The head from which a rebuilt head takes its name, its policy and its keys: the stored one, if it is intact and this
//! client accepts it, else what this client remembers of the stack. A rebuilt head proves nothing about keys.

use crate::context::{StackContext, StoreContext};
use crate::environment::Environment;
use crate::keys::wrapped::{self, KeyFiles};
use crate::keys::{authenticate, pinned_key};
use crate::known_stacks::{KnownStacks, StackPin};
use crate::salvage::stack_files::StackFiles;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::head::{Keys, SealingPolicy};
use state_core::journal::FrameKind;
use state_core::sealing::{KeyProvider, StackKey};
use state_core::{Backend, Error, Frame, Head, KeyId, MemoryBackend, Nonce, Result, Slot, StackName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The environment, the identities and the memory of the client that salvages.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) environment: Environment,
    pub(super) keys: Option<Arc<dyn KeyProvider>>,
    pub(super) known_stacks: Option<Arc<dyn KnownStacks>>,
}

impl Client {
    /// A store as this client uses it, without its memory: a rebuilt stack is compared with the memory when it is
    /// stored, not while it is tried.
    pub(super) fn store(&self, backend: Arc<dyn Backend>) -> StoreContext {
        let mut store = StoreContext::new(backend, self.environment.clone());
        if let Some(keys) = &self.keys {
            store.set_keys(Arc::clone(keys));
        }
        store
    }

    /// As [`Self::store`], with the memory.
    pub(super) fn remembering_store(&self, backend: Arc<dyn Backend>) -> StoreContext {
        let mut store = self.store(backend);
        store.known_stacks.clone_from(&self.known_stacks);
        store
    }

    /// The same client without its memory.
    pub(super) fn without_memory(&self) -> Self {
        Self {
            known_stacks: None,
            ..self.clone()
        }
    }

    pub(super) fn nonce(&self) -> Nonce {
        Nonce::random(&*self.environment.entropy)
    }
}

/// Facts that a person supplies because neither the store nor this client's memory contains them.
#[derive(Clone, Debug, Default)]
pub(super) struct SuppliedFacts {
    pub(super) name: Option<StackName>,
    pub(super) policy: Option<SealingPolicy>,
    /// Data keys that a backup may have although this client remembers another one.
    pub(super) keys: Vec<KeyId>,
}

/// The head on which a rebuilt head is based.
#[derive(Clone, Debug)]
pub(super) struct HeadTemplate {
    pub(super) head: Head,
    /// The data key, if an identity opens it.
    pub(super) key: Option<Arc<dyn StackKey>>,
    /// Whether this is the stored head.
    pub(super) is_stored: bool,
    /// Whether the stack gets another name than the stored head has.
    pub(super) is_renamed: bool,
}

impl HeadTemplate {
    /// Requires the data key of a sealed stack: a session signs each frame. `action` says what is done with the stack.
    ///
    /// # Errors
    /// `Sealed` if no identity opens the key.
    pub(super) fn require_key(&self, action: &str) -> Result<()> {
        if self.head.key_id.is_none() || self.key.is_some() {
            return Ok(());
        }
        let object = format!("stack {}", self.head.name.short());
        let reason =
            format!("none of your identities opens its data key, which must sign the {action} stack");
        Err(Error::sealed(object, reason))
    }
}

/// The template for a stack.
///
/// # Errors
/// `Distrusted` and `Sealed` if this client doesn't accept the stored head; `Invalid`, with the facts that a person must
/// supply, if the head is damaged and this client doesn't remember the stack.
pub(super) async fn of(client: &Client, files: &StackFiles, facts: &SuppliedFacts) -> Result<HeadTemplate> {
    let store = client.remembering_store(Arc::new(MemoryBackend::new()));
    match &files.head {
        Some(head) => stored(&store, files, head).await,
        None => remembered(&store, files, facts).await,
    }
}

async fn stored(store: &StoreContext, files: &StackFiles, head: &Head) -> Result<HeadTemplate> {
    let stack = store.stack(head.name.clone(), files.lineage);
    let opened = open_keys(&stack, files);
    let key = head.key_id.and_then(|id| opened.get(&id).cloned());
    if head.key_id.is_some() && key.is_none() {
        // As a reader without an identity: the pin still applies, and nothing can be signed.
        let unopened = "none of your identities opens its data key";
        pinned_key::require(&stack, head, None, Some(unopened)).await?;
    } else {
        Box::pin(authenticate::open_head(&stack, head.clone())).await?;
    }
    Ok(HeadTemplate {
        head: head.clone(),
        key,
        is_stored: true,
        is_renamed: false,
    })
}

/// Unwraps all keys of which an intact file exists and that an identity opens.
fn open_keys(stack: &StackContext, files: &StackFiles) -> BTreeMap<KeyId, Arc<dyn StackKey>> {
    let mut wrapped = KeyFiles::new();
    for name in files.objects.names() {
        if let (ObjectName::Key { id, .. }, Some(bytes)) = (name, files.objects.in_memory(name)) {
            wrapped.entry(*id).or_default().push(bytes.to_vec());
        }
    }
    let ids: Vec<KeyId> = wrapped.keys().copied().collect();
    let opened = ids
        .into_iter()
        .map(|id| (id, wrapped::unwrap_from(stack, id, &wrapped)));
    opened.filter_map(|(id, key)| Some((id, key.ok()?))).collect()
}

async fn remembered(store: &StoreContext, files: &StackFiles, facts: &SuppliedFacts) -> Result<HeadTemplate> {
    let pin = match store.known_stacks() {
        Some(known) => known.seen(files.lineage).await?,
        None => None,
    };
    let pin = pin.unwrap_or_default();
    let object = format!("head of stack {}", files.lineage);
    let sealing = pin.sealing.as_ref();
    let pinned_name = sealing.and_then(|sealing| sealing.name.clone());
    let Some(name) = facts.name.clone().or(pinned_name) else {
        let reason = "it is damaged, no name leads to the stack, and this client doesn't remember its name";
        return Err(Error::invalid(object, reason));
    };
    let mut head = Head::new(files.lineage, name.clone(), store.nonce());
    head.generation = files.generation;
    let keyed = key_ids(files);
    // A person who names the policy says that the stack has no key, although a damaged memory may have held one.
    let is_unkeyed = !pin.is_sealed() || (pin.unreadable.is_some() && facts.policy.is_some());
    if is_unkeyed && keyed.is_empty() {
        let policy = sealing.map(|sealing| sealing.policy).or(facts.policy);
        let Some(policy) = policy else {
            let reason = "it is damaged, and this client doesn't remember the encryption policy of the stack: name it with \
                          `statectl salvage --policy POLICY`";
            return Err(Error::invalid(object, reason));
        };
        head.policy = policy;
        return Ok(HeadTemplate {
            head,
            key: None,
            is_stored: false,
            is_renamed: false,
        });
    }
    let key = pinned_key(store, files, &pin, &name)?;
    let Some(sealing) = sealing else {
        let reason = "it is damaged, and this client doesn't remember policy and recipients of the stack: salvage it on a \
                      client that has opened the stack, or restore the file from a backup";
        return Err(Error::distrusted(object, reason));
    };
    if keyed.iter().any(|id| *id != key.id()) {
        let reason = "it is damaged, and the stack had several data keys, whose succession only the head records: restore \
                      the file from a backup";
        return Err(Error::distrusted(object, reason));
    }
    head.policy = sealing.policy;
    head.key_id = Some(key.id());
    head.keys = Some(keys_of(
        files,
        &*key,
        sealing.recipients.clone(),
        sealing.outputs.clone(),
    ));
    Ok(HeadTemplate {
        head,
        key: Some(key),
        is_stored: false,
        is_renamed: false,
    })
}

/// The data key that this client remembers, opened.
fn pinned_key(
    store: &StoreContext,
    files: &StackFiles,
    pin: &StackPin,
    name: &StackName,
) -> Result<Arc<dyn StackKey>> {
    let object = format!("head of stack {}", files.lineage);
    if pin.unreadable.is_some() && pin.key.is_none() {
        let reason = "it is damaged, and so is what this client remembers of the stack: salvage it on another client that has \
                      opened the stack, restore the file from a backup, or if the stack never had a data key, name its \
                      encryption policy with `statectl salvage --policy POLICY`";
        return Err(Error::distrusted(object, reason));
    }
    let Some(id) = pin.key else {
        let reason = "it is damaged, and this client doesn't remember the data key of the stack: salvage it on a client that \
                      has opened the stack, or restore the file from a backup";
        return Err(Error::distrusted(object, reason));
    };
    let stack = store.stack(name.clone(), files.lineage);
    let opened = open_keys(&stack, files).remove(&id);
    opened.ok_or_else(|| {
        let reason = format!(
            "it is damaged, and none of your identities opens the data key {id}, which must sign a new one"
        );
        Error::sealed(object, reason)
    })
}

/// The data keys that the stack has had, as far as frames and names of key files show. A key without a frame counts too: the
/// frames after a rotation may be lost, and the key before it must not be used again.
fn key_ids(files: &StackFiles) -> BTreeSet<KeyId> {
    let frames = files.index.frames().filter_map(Frame::key_id);
    let damaged = files.damage.iter().filter_map(|damage| {
        let (folder, file) = damage.object.rsplit_once('/')?;
        let is_key = folder == ObjectKind::Key.path(files.lineage);
        ObjectName::from_file_name(ObjectKind::Key, file).filter(|_| is_key)
    });
    let names = files.objects.names().cloned().chain(damaged);
    let keys = names.filter_map(|name| match name {
        ObjectName::Key { id, .. } => Some(id),
        _ => None,
    });
    frames.chain(keys).collect()
}

/// The wrapping of the only key that the stack had.
fn keys_of(files: &StackFiles, key: &dyn StackKey, recipients: Vec<String>, outputs: Vec<String>) -> Keys {
    // Readers require a MAC of every data frame from this slot on. The chain in the first MAC covers the frames before it.
    let data = files
        .index
        .frames()
        .filter(|frame| frame.kind() == FrameKind::Data);
    let since = data
        .filter(|frame| frame.is_authentic(key))
        .map(Frame::slot)
        .min();
    let numbers = files.objects.names().filter_map(|name| match name {
        ObjectName::Key { number, id } if *id == key.id() => Some(*number),
        _ => None,
    });
    Keys {
        generation: 1,
        since: since.unwrap_or(Slot::ZERO),
        files: numbers.collect(),
        recipients,
        outputs,
        names: BTreeMap::new(),
        succession: Vec::new(),
    }
}

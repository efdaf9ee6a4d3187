//! The data keys of a stack: made with the first writer that has recipients, unwrapped once an opening.

use crate::document::RevisionDocument;
use crate::load::{self, Replayed};
use crate::sealing::{Seal, SigningWriter};
use crate::snapshots;
use crate::stack::Stack;
use crate::witness;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::head::{Keys, Policy};
use state_core::sealing::{KeyProvider, StackKey, WrappedKey};
use state_core::{Crypter, Error, Frame, Head, KeyId, Nonce, Result, Slot, Snapshot, Writer, codec, sealed};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a stack gets its keys from, and those that were unwrapped already.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyring {
    provider: Option<Arc<dyn KeyProvider>>,
    opened: Arc<Mutex<BTreeMap<KeyId, Arc<dyn StackKey>>>>,
}

impl Keyring {
    pub(crate) fn new(provider: Option<Arc<dyn KeyProvider>>) -> Self {
        Self {
            provider,
            opened: Arc::default(),
        }
    }

    /// For another stack: the same identities, none of the keys.
    pub(crate) fn for_another(&self) -> Self {
        Self::new(self.provider.clone())
    }

    pub(crate) fn provider(&self) -> Option<&dyn KeyProvider> {
        self.provider.as_deref()
    }

    fn known(&self, id: KeyId) -> Option<Arc<dyn StackKey>> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.get(&id).cloned()
    }

    pub(crate) fn keep(&self, key: &Arc<dyn StackKey>) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.insert(key.id(), Arc::clone(key));
    }
}

/// The key with this id, from the files that hold it.
pub(crate) async fn unwrap(stack: &Stack, id: KeyId) -> Result<Arc<dyn StackKey>> {
    if let Some(key) = stack.keyring().known(id) {
        return Ok(key);
    }
    let Some(provider) = stack.keyring().provider() else {
        let reason = format!("it is sealed with key {id}, and there is no identity at hand to open it with");
        return Err(Error::sealed(object(stack), reason));
    };
    let mut files = Vec::new();
    for name in stack.backend().list(stack.lineage(), ObjectKind::Key).await? {
        if matches!(&name, ObjectName::Key { id: found, .. } if *found == id) {
            files.push(stack.backend().read(stack.lineage(), &name).await?.to_vec());
        }
    }
    let key = provider.unwrap(stack.lineage(), id, &files)?;
    stack.keyring().keep(&key);
    Ok(key)
}

/// The key under which the head says that it is, if it can be had: reading needs none.
pub(crate) async fn for_reading(stack: &Stack, head: &Head) -> Result<Option<Arc<dyn StackKey>>> {
    let key = match head.key_id {
        None => None,
        Some(id) => match unwrap(stack, id).await {
            Err(Error::Sealed { .. }) => None,
            other => Some(other?),
        },
    };
    if let Some(key) = &key {
        head.authenticate(&format!("head of {}", object(stack)), &**key)?;
    }
    witness::require_key(stack, head, key.as_deref()).await?;
    Ok(key)
}

/// What a writer seals with, once head and frames are known to be authentic; the writer that comes back tags each head. A sealed stack without a key gets its first.
pub(crate) async fn for_writing(
    stack: &Stack,
    writer: Arc<dyn Writer>,
    head: &Head,
    frames: &[Frame],
    next: Slot,
) -> Result<(Seal, Arc<dyn Writer>)> {
    if head.key_id.is_none() {
        witness::require_key(stack, head, None).await?;
    }
    let key = match (head.policy, head.key_id, stack.keyring().provider()) {
        (Policy::Plaintext, None, _) | (_, None, None) => return Ok((Seal::new(head.policy, None), writer)),
        (_, Some(id), _) => {
            let key = unwrap(stack, id).await?;
            head.authenticate(&format!("head of {}", object(stack)), &*key)?;
            load::authenticate(head, frames, &*key)?;
            witness::require_key(stack, head, Some(&*key)).await?;
            key
        }
        (_, None, Some(provider)) => {
            let key = provider.generate(stack.lineage())?;
            let wrapped = provider.wrap(key.id(), None)?;
            let keys = Keys {
                generation: 1,
                since: next,
                files: store(stack, &*writer, key.id(), &wrapped).await?,
                recipients: wrapped.recipients,
                outputs: Vec::new(),
                succession: Vec::new(),
            };
            let nonce = Nonce::random(&*stack.environment().entropy);
            let change = |head: &mut Head| {
                head.key_id = Some(key.id());
                head.keys = Some(keys.clone());
                head.sign(&*key);
            };
            writer.swap_head(nonce, &change).await?;
            stack.keyring().keep(&key);
            key
        }
    };
    let signing = SigningWriter {
        inner: writer,
        key: Arc::clone(&key),
    };
    Ok((Seal::new(head.policy, Some(key)), Arc::new(signing)))
}

/// The key whose id begins with these digits, if there is one and it can be had.
pub(crate) async fn by_digits(stack: &Stack, digits: &str) -> Result<Option<Arc<dyn StackKey>>> {
    for name in stack.backend().list(stack.lineage(), ObjectKind::Key).await? {
        if let ObjectName::Key { id, .. } = name
            && id.to_string().starts_with(digits)
        {
            return match unwrap(stack, id).await {
                Err(Error::Sealed { .. }) => Ok(None),
                other => other.map(Some),
            };
        }
    }
    Ok(None)
}

/// What seals and opens single values with the key in use.
pub(crate) async fn crypter(stack: &Stack) -> Result<Arc<dyn Crypter>> {
    let head = stack.backend().read_head(stack.lineage()).await?;
    let missing = |reason: &str| Error::sealed(object(stack), reason);
    let Some(key) = for_reading(stack, &head).await? else {
        return Err(match head.key_id {
            None => missing("it has no data key: seal the stack first"),
            Some(id) => missing(&format!("no identity at hand opens its key {id}")),
        });
    };
    key.crypter(Arc::clone(&stack.environment().entropy))
}

/// A document below the live journal must be from those who had the key at its time. That of a key which can't be had
/// here any more stays unchecked: reading needs none.
pub(crate) async fn authenticate_document(
    stack: &Stack,
    tip: &Replayed,
    document: &RevisionDocument,
) -> Result<()> {
    let Some((head, keys)) = tip
        .head
        .as_ref()
        .and_then(|head| Some((head, head.keys.as_ref()?)))
    else {
        return Ok(());
    };
    let forged = |reason| {
        let name = ObjectName::Update(document.revision.clone());
        Err(Error::sealed(format!("{}: {name}", object(stack)), reason))
    };
    if document.slot < keys.since {
        return Ok(());
    }
    let known = |id| head.key_id == Some(id) || keys.succession.iter().any(|link| link.old == id);
    let Some(id) = document.key_id().filter(|id| known(*id)) else {
        return forged("it is under none of the stack's keys: somebody changed the store");
    };
    match unwrap(stack, id).await {
        Err(Error::Sealed { .. }) => Ok(()),
        Err(other) => Err(other),
        Ok(key) if document.is_authentic(&*key) => Ok(()),
        Ok(_) => forged("it wasn't written by anyone who has the data key: somebody changed the store"),
    }
}

/// A copy with all values open, whatever key of the stack they are sealed with.
pub(crate) async fn reveal(stack: &Stack, mut snapshot: Snapshot) -> Result<Snapshot> {
    if stack.backend().read_head(stack.lineage()).await?.keys.is_none() {
        // Nothing of this stack was ever sealed, whatever looks like it: no pass over all of it.
        return Ok(snapshot);
    }
    let (found, same) = snapshots::blocking(move || {
        let stored = codec::encode_stored(&snapshot);
        let text = String::from_utf8_lossy(&stored);
        let found: Vec<String> = sealed::keys_in(&text).into_iter().map(str::to_owned).collect();
        (found, snapshot)
    })
    .await?;
    snapshot = same;
    let mut ids: Vec<KeyId> = Vec::new();
    for name in stack.backend().list(stack.lineage(), ObjectKind::Key).await? {
        if let ObjectName::Key { id, .. } = name
            && found
                .iter()
                .any(|short| id.to_string().starts_with(short.as_str()))
            && !ids.contains(&id)
        {
            ids.push(id);
        }
    }
    if let (Some(short), true) = (found.first(), ids.is_empty()) {
        let reason = format!("it is sealed with key {short}…, of which the store holds no file");
        return Err(Error::sealed(object(stack), reason));
    }
    for id in ids {
        let key = unwrap(stack, id).await?;
        let sealed = snapshot;
        snapshot = snapshots::blocking(move || key.open_snapshot(&sealed)).await??;
    }
    Ok(snapshot)
}

/// Stores the files of a wrapped key. Their numbers come back.
pub(crate) async fn store(
    stack: &Stack,
    writer: &dyn Writer,
    id: KeyId,
    wrapped: &WrappedKey,
) -> Result<Vec<u64>> {
    let there = stack.backend().list(stack.lineage(), ObjectKind::Key).await?;
    let numbers = there.iter().filter_map(|name| match name {
        ObjectName::Key { number, .. } => Some(*number),
        _ => None,
    });
    let first = numbers.max().map_or(0, |last| last + 1);
    let mut stored = Vec::new();
    for (number, file) in (first..).zip(&wrapped.files) {
        let name = ObjectName::Key { number, id };
        writer.create(&name, file.clone().into()).await?;
        stored.push(number);
    }
    Ok(stored)
}

fn object(stack: &Stack) -> String {
    format!("stack {}", stack.name().short())
}

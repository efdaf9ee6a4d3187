//! Wrapped data keys of a stack: reads the stored files, unwraps each key once, and opens values with the keys.

use crate::context::StackContext;
use crate::objects::snapshots;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::head::{Keys, Succession};
use state_core::sealing::{StackKey, WrappedKey};
use state_core::{Error, Head, KeyId, Result, Slot, Snapshot, Writer, codec, sealed};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number and key id of each stored key file.
async fn files(stack: &StackContext) -> Result<Vec<(u64, KeyId)>> {
    let names = stack.backend().list(stack.lineage(), ObjectKind::Key).await?;
    let files = names.into_iter().filter_map(|name| match name {
        ObjectName::Key { number, id } => Some((number, id)),
        _ => None,
    });
    Ok(files.collect())
}

/// The key with this id, unwrapped from one of the files that contain it.
pub(crate) async fn unwrap(stack: &StackContext, id: KeyId) -> Result<Arc<dyn StackKey>> {
    if let Some(key) = stack.keyring().known(id) {
        return Ok(key);
    }
    let Some(provider) = stack.keyring().provider() else {
        let reason = format!("it is sealed with key {id}, and no identity is available to open it");
        return Err(Error::sealed(stack.object(), reason));
    };
    let mut copies = Vec::new();
    // All copies are tried: each file is wrapped to other recipients.
    for (number, _) in files(stack).await?.iter().filter(|(_, of)| *of == id) {
        let name = ObjectName::Key { number: *number, id };
        copies.push(stack.backend().read(stack.lineage(), &name).await?.to_vec());
    }
    let key = provider.unwrap(stack.lineage(), id, &copies)?;
    stack.keyring().keep(&key);
    Ok(key)
}

/// The key whose id begins with these hexadecimal digits; none if no such key exists or if it can't be opened.
pub(crate) async fn by_digits(stack: &StackContext, digits: &str) -> Result<Option<Arc<dyn StackKey>>> {
    let files = files(stack).await?;
    let mut ids = files.into_iter().map(|(_, id)| id);
    let Some(id) = ids.find(|id| id.to_string().starts_with(digits)) else {
        return Ok(None);
    };
    match unwrap(stack, id).await {
        Err(Error::Sealed { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// A copy of a snapshot with all values opened, whichever key of the stack they are sealed with.
pub(crate) async fn reveal(stack: &StackContext, mut snapshot: Snapshot) -> Result<Snapshot> {
    if stack.head().await?.keys.is_none() {
        // The stack never had a key, so no value is sealed even if it looks sealed. Returning here saves a pass over
        // the state.
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
    let is_found = |id: &KeyId| {
        let id = id.to_string();
        found.iter().any(|short| id.starts_with(short.as_str()))
    };
    let files = files(stack).await?;
    let ids: BTreeSet<KeyId> = files.into_iter().map(|(_, id)| id).filter(is_found).collect();
    if let (Some(short), true) = (found.first(), ids.is_empty()) {
        let reason = format!("it is sealed with key {short}…, and the store has no file of that key");
        return Err(Error::sealed(stack.object(), reason));
    }
    for id in ids {
        let key = unwrap(stack, id).await?;
        let sealed = snapshot;
        snapshot = snapshots::blocking(move || key.open_snapshot(&sealed)).await??;
    }
    Ok(snapshot)
}

/// Stores the files of a wrapped key. Returns their numbers.
pub(crate) async fn store(
    stack: &StackContext,
    writer: &dyn Writer,
    id: KeyId,
    wrapped: &WrappedKey,
) -> Result<Vec<u64>> {
    // New numbers only: the files that the head names must stay readable until the head is swapped.
    let last = files(stack).await?.into_iter().map(|(number, _)| number).max();
    let first = last.map_or(0, |last| last + 1);
    let mut stored = Vec::new();
    for (number, file) in (first..).zip(&wrapped.files) {
        let name = ObjectName::Key { number, id };
        writer.create(&name, file.clone().into()).await?;
        stored.push(number);
    }
    Ok(stored)
}

/// The key section of a head that names the new key. `old` is none for the first key of a stack.
pub(crate) fn successor(
    head: &Head,
    old: Option<&dyn StackKey>,
    new: &dyn StackKey,
    next: Slot,
    files: Vec<u64>,
    recipients: &[String],
) -> Keys {
    let before = head.keys.as_ref();
    let generation = before.map_or(1, |keys| keys.generation + 1);
    let mut succession = before.map(|keys| keys.succession.clone()).unwrap_or_default();
    succession.extend(old.map(|old| Succession {
        old: old.id(),
        new: new.id(),
        generation,
        endorsement: old.endorse(new.id(), generation),
    }));
    let outputs = before.map(|keys| keys.outputs.clone()).unwrap_or_default();
    // A removed recipient loses the name too.
    let mut names = before.map(|keys| keys.names.clone()).unwrap_or_default();
    names.retain(|named, _| recipients.contains(named) || outputs.contains(named));
    Keys {
        generation,
        since: before.map_or(next, |keys| keys.since),
        files,
        recipients: recipients.to_vec(),
        outputs,
        names,
        succession,
    }
}

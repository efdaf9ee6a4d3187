//! Wrapped data keys of a stack: reads and writes the stored files, and unwraps each key once.

use crate::context::StackContext;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::{ObjectKind, ObjectName};
use state_core::sealing::{StackKey, WrappedKey};
use state_core::{Error, ErrorKind, Head, KeyId, Result, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of key files that are read at a time.
const CONCURRENT_READS: usize = 8;

/// The stored files of several keys, by key. A key without an entry has no files.
pub(crate) type KeyFiles = BTreeMap<KeyId, Vec<Vec<u8>>>;

/// Number and key id of each stored key file.
async fn files(stack: &StackContext) -> Result<Vec<(u64, KeyId)>> {
    let names = stack.backend().list(stack.lineage(), ObjectKind::Key).await?;
    let files = names.into_iter().filter_map(|name| match name {
        ObjectName::Key { number, id } => Some((number, id)),
        _ => None,
    });
    Ok(files.collect())
}

/// Reads the files of these keys. Lists the files once, and reads no file of another key.
pub(crate) async fn read_files(stack: &StackContext, ids: &[KeyId]) -> Result<KeyFiles> {
    let listed = files(stack).await?;
    let wanted = listed.into_iter().filter(|(_, id)| ids.contains(id));
    let reads: Vec<_> = wanted.map(|(number, id)| read_file(stack, number, id)).collect();
    let reads = stream::iter(reads).buffered(CONCURRENT_READS);
    let mut files = KeyFiles::new();
    for (id, file) in reads.try_collect::<Vec<_>>().await? {
        files.entry(id).or_default().push(file);
    }
    Ok(files)
}

async fn read_file(stack: &StackContext, number: u64, id: KeyId) -> Result<(KeyId, Vec<u8>)> {
    let name = ObjectName::Key { number, id };
    let bytes = stack.backend().read(stack.lineage(), &name).await?;
    Ok((id, bytes.to_vec()))
}

/// The key that the head names, unwrapped from one of the files that the head lists. `head` need not be authenticated:
/// a head that lists other files only makes the key unreadable.
///
/// # Errors
/// As [`unwrap`].
pub(crate) async fn unwrap_current(
    stack: &StackContext,
    head: &Head,
    id: KeyId,
) -> Result<Arc<dyn StackKey>> {
    let numbers = head.keys.as_ref().map_or(&[][..], |keys| &keys.files);
    let keyring = stack.keyring();
    // A forged head may list any number of files.
    let is_listed = (1..=CONCURRENT_READS).contains(&numbers.len());
    if !is_listed || keyring.known(id).is_some() || keyring.provider().is_none() {
        return unwrap(stack, id).await;
    }
    let reads: Vec<_> = numbers
        .iter()
        .map(|number| read_file(stack, *number, id))
        .collect();
    match stream::iter(reads)
        .buffered(CONCURRENT_READS)
        .try_collect::<Vec<_>>()
        .await
    {
        Ok(read) => {
            let files = read.into_iter().map(|(_, file)| file).collect();
            unwrap_from(stack, id, &KeyFiles::from([(id, files)]))
        }
        // The recipients changed after the head was read, and a collection deleted the files that it lists.
        Err(error) if error.kind() == ErrorKind::NotFound => unwrap(stack, id).await,
        Err(error) => Err(error),
    }
}

/// The key with this id, unwrapped from one of the files that contain it. Lists the files of the stack: see
/// [`unwrap_current`] for the key in use.
///
/// # Errors
/// `Sealed` if this client has no identity, or if none of its identities opens one of these files.
pub(crate) async fn unwrap(stack: &StackContext, id: KeyId) -> Result<Arc<dyn StackKey>> {
    // Without an identity the files aren't read.
    let files = match (stack.keyring().known(id), stack.keyring().provider()) {
        (None, Some(_)) => read_files(stack, &[id]).await?,
        _ => KeyFiles::new(),
    };
    unwrap_from(stack, id, &files)
}

/// As [`unwrap`], from files that were read before.
pub(crate) fn unwrap_from(stack: &StackContext, id: KeyId, files: &KeyFiles) -> Result<Arc<dyn StackKey>> {
    if let Some(key) = stack.keyring().known(id) {
        return Ok(key);
    }
    let Some(provider) = stack.keyring().provider() else {
        let reason = format!("it is sealed with key {id}, and no identity is available to open it");
        return Err(Error::sealed(stack.object(), reason));
    };
    // All files of the key are tried, because they are wrapped to different recipients.
    let files = files.get(&id).map(Vec::as_slice).unwrap_or_default();
    let key = provider.unwrap(stack.lineage(), id, files);
    // The provider doesn't know the name of the stack.
    let key = key.map_err(|error| match error {
        Error::Sealed { reason, .. } => Error::sealed(stack.object(), reason),
        other => other,
    })?;
    stack.keyring().keep(&key);
    Ok(key)
}

/// All keys that a stack has had, as its head names them. A file of any other key is never opened.
pub(crate) fn keys_of(head: &Head) -> Vec<KeyId> {
    let earlier = head.keys.iter().flat_map(|keys| &keys.succession);
    earlier.map(|link| link.old).chain(head.key_id).collect()
}

/// The key in `ids` whose id begins with these hexadecimal digits, as a sealed value names its key.
pub(crate) fn find(ids: &[KeyId], digits: &str) -> Option<KeyId> {
    ids.iter().copied().find(|id| id.to_string().starts_with(digits))
}

/// The key in `ids` whose id begins with these hexadecimal digits, unwrapped; none if `ids` contains no such key, or if
/// no available identity opens it.
pub(crate) async fn by_digits(
    stack: &StackContext,
    ids: &[KeyId],
    digits: &str,
) -> Result<Option<Arc<dyn StackKey>>> {
    let Some(id) = find(ids, digits) else {
        return Ok(None);
    };
    match unwrap(stack, id).await {
        Err(Error::Sealed { .. }) => Ok(None),
        other => other.map(Some),
    }
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
    // The numbers are names in the store, so an attacker can have chosen the last one.
    let first = last.map_or(Some(0), |last| last.checked_add(1));
    let end = first.and_then(|first| first.checked_add(wrapped.files.len() as u64));
    let (Some(first), Some(end)) = (first, end) else {
        return Err(Error::corrupt(
            format!("key files of {}", stack.object()),
            0,
            "one of them has the highest possible number, so no other can follow it",
        ));
    };
    let mut stored = Vec::new();
    for (number, file) in (first..end).zip(&wrapped.files) {
        let name = ObjectName::Key { number, id };
        writer.create(&name, file.clone().into()).await?;
        stored.push(number);
    }
    Ok(stored)
}

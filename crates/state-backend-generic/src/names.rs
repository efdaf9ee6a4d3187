//! Lists, reads and swaps name pointers: `names/<project>/<stack>.json`, folded to lower case, each swapped on its
//! own.

use crate::layout::{MAX_DOCUMENT, NAMES, name_key};
use crate::settle::{CreateOutcome, SettledStore, SwapOutcome};
use crate::store::Value;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::NamePointer;
use state_core::{Enveloped, Error, Nonce, Result, StackName};

const EXTENSION: &str = ".json";

/// The number of pointers that are read in place of one journal object. Pointers are small.
const POINTERS_PER_OBJECT: usize = 4;

/// Lists all pointers, sorted by name. Keys that can't be pointers are skipped.
pub async fn list(store: &SettledStore) -> Result<Vec<NamePointer>> {
    let listed = store.list(NAMES, None).await?;
    let names: Vec<StackName> = listed.iter().filter_map(|listed| name_at(&listed.key)).collect();
    let pointers = stream::iter(names).map(|name| async move { read(store, &name).await });
    let pointers = pointers.buffered(POINTERS_PER_OBJECT * store.concurrency());
    let pointers: Vec<Option<NamePointer>> = pointers.try_collect().await?;
    let mut pointers: Vec<NamePointer> = pointers.into_iter().flatten().collect();
    pointers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pointers)
}

/// Parses the folded stack name in a key.
fn name_at(key: &str) -> Option<StackName> {
    let (project, file) = key.strip_prefix(NAMES)?.strip_prefix('/')?.split_once('/')?;
    let name = StackName::new(project, file.strip_suffix(EXTENSION)?).ok()?;
    (name_key(&name) == key).then_some(name)
}

/// Reads the pointer of a name.
pub async fn read(store: &SettledStore, name: &StackName) -> Result<Option<NamePointer>> {
    match find(store, name).await? {
        Some((pointer, _)) => Ok(Some(pointer)),
        None => Ok(None),
    }
}

async fn find(store: &SettledStore, name: &StackName) -> Result<Option<(NamePointer, Value)>> {
    let key = name_key(name);
    match store.read(&key, MAX_DOCUMENT).await? {
        Some(found) => Ok(Some((parse(store, &key, name, &found)?, found))),
        None => Ok(None),
    }
}

fn parse(store: &SettledStore, key: &str, name: &StackName, found: &Value) -> Result<NamePointer> {
    let object = store.shown(key);
    let pointer = NamePointer::decode(&object, &found.bytes)?;
    if pointer.name.folded() == name.folded() {
        return Ok(pointer);
    }
    let reason = format!("it points to another stack name, {}", pointer.name);
    Err(Error::corrupt(object, 0, reason))
}

/// Replaces a pointer if its nonce is the expected one. Without an expected nonce, the name must not exist yet.
pub async fn swap(
    store: &SettledStore,
    name: &StackName,
    expected: Option<Nonce>,
    pointer: &NamePointer,
) -> Result<()> {
    if pointer.name.folded() != name.folded() {
        let reason = format!("the pointer names another stack, {}", pointer.name);
        return Err(Error::invalid(format!("stack name {name}"), reason));
    }
    let key = name_key(name);
    let bytes = pointer.encode().into();
    // A new pointer is created without a read: the creation finds another pointer, and also one that an earlier attempt
    // wrote although its answer was lost.
    let Some(expected) = expected else {
        return match store.create(&key, &bytes).await? {
            CreateOutcome::Ours(_) => Ok(()),
            CreateOutcome::Taken(_) => Err(changed(store, &key)),
        };
    };
    let Some((current, found)) = find(store, name).await? else {
        return Err(changed(store, &key));
    };
    // As above: only an earlier attempt wrote this nonce, so an equal pointer means success, not a conflict.
    if current == *pointer {
        return Ok(());
    }
    if current.nonce != expected {
        return Err(changed(store, &key));
    }
    match store.swap(&key, &bytes, &found).await? {
        SwapOutcome::Ours(_) => Ok(()),
        SwapOutcome::Changed { certain: true, .. } => Err(changed(store, &key)),
        // Another process replaced the pointer after a request without an answer: this pointer may have been visible for
        // a while.
        SwapOutcome::Changed { .. } => Err(Error::indeterminate(
            store.shown(&key),
            "the key holds another pointer; this one may have been stored in between",
        )),
    }
}

fn changed(store: &SettledStore, key: &str) -> Error {
    let reason = "another process changed the pointer after it was read";
    Error::conflict(store.shown(key), reason)
}

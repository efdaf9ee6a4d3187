//! Name pointers: `names/<project>/<stack>.json`, folded to lower case, swapped one by one.

use crate::layout::{MAX_DOCUMENT, NAMES, name_key};
use crate::settle::{Created, SettledStore, Swapped};
use crate::store::Value;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::NamePointer;
use state_core::{Enveloped, Error, Nonce, Result, StackName};

const EXTENSION: &str = ".json";

/// All pointers, sorted by name. Keys that can't be pointers are skipped.
pub async fn list(store: &SettledStore) -> Result<Vec<NamePointer>> {
    let listed = store.list(NAMES, None).await?;
    let names: Vec<StackName> = listed.iter().filter_map(|listed| name_at(&listed.key)).collect();
    let pointers = stream::iter(names).map(|name| async move { read(store, &name).await });
    let pointers = pointers.buffered(store.concurrency());
    let pointers: Vec<Option<NamePointer>> = pointers.try_collect().await?;
    let mut pointers: Vec<NamePointer> = pointers.into_iter().flatten().collect();
    pointers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pointers)
}

/// The folded name that a key stands for.
fn name_at(key: &str) -> Option<StackName> {
    let (project, file) = key.strip_prefix(NAMES)?.strip_prefix('/')?.split_once('/')?;
    let name = StackName::new(project, file.strip_suffix(EXTENSION)?).ok()?;
    (name_key(&name) == key).then_some(name)
}

/// One pointer.
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
    let reason = format!("it is the pointer of another name, {}", pointer.name);
    Err(Error::corrupt(object, 0, reason))
}

/// Replaces a pointer if its nonce is the expected one.
pub async fn swap(
    store: &SettledStore,
    name: &StackName,
    expected: Option<Nonce>,
    pointer: &NamePointer,
) -> Result<()> {
    if pointer.name.folded() != name.folded() {
        let reason = format!("the pointer is one of {}", pointer.name);
        return Err(Error::invalid(format!("stack name {name}"), reason));
    }
    let key = name_key(name);
    let there = find(store, name).await?;
    // An earlier try may have taken effect although its answer was lost; only it has this nonce.
    if there.as_ref().is_some_and(|(there, _)| there == pointer) {
        return Ok(());
    }
    if there.as_ref().map(|(there, _)| there.nonce) != expected {
        return Err(changed(store, &key));
    }
    let bytes = pointer.encode().into();
    match there {
        None => match store.create(&key, &bytes).await? {
            Created::Ours(_) => Ok(()),
            Created::Taken(_) => Err(changed(store, &key)),
        },
        Some((_, found)) => match store.swap(&key, &bytes, &found).await? {
            Swapped::Ours(_) => Ok(()),
            Swapped::Changed { certain: true, .. } => Err(changed(store, &key)),
            Swapped::Changed { .. } => Err(Error::indeterminate(
                store.shown(&key),
                "another pointer stands there; ours may have stood there in between",
            )),
        },
    }
}

fn changed(store: &SettledStore, key: &str) -> Error {
    let reason = "its pointer isn't the one that was read before: somebody else changed it";
    Error::conflict(store.shown(key), reason)
}
